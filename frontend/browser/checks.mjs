// What is looked for on every page.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const axePath = createRequire(import.meta.url).resolve('axe-core/axe.min.js');

/** Keep what the browser asks for and complains of in `seen.requests` and `seen.console`. */
export function listen(page, seen) {
  page.on('request', (request) => seen.requests.push(request.url()));
  page.on('console', (message) => {
    if (message.type() !== 'log') seen.console.push(`${message.type()}: ${message.text()}`);
  });
  page.on('pageerror', (error) => seen.console.push(`error: ${error.message}`));
}

export const frames = (page, n = 2) =>
  page.evaluate(async (count) => {
    for (let i = 0; i < count; i++) await new Promise((done) => requestAnimationFrame(done));
  }, n);

/** Elements that stick out of the window, other than inside a box that scrolls. */
export const overflow = (page) =>
  page.evaluate(() => {
    const width = document.documentElement.clientWidth;
    const out = [...document.querySelectorAll('body *')]
      .filter((e) => !e.closest('.scroller, pre') && !e.closest('svg') && !e.classList.contains('sr') && !e.classList.contains('skip'))
      .filter((e) => e.getBoundingClientRect().right > width + 1)
      .map((e) => `${e.tagName}.${e.className}`);
    return { scroll: document.documentElement.scrollWidth, width, out: out.slice(0, 5) };
  });

export async function axe(page) {
  // Run through the debugger, which the page's policy does not bind.
  await page.evaluate(readFileSync(axePath, 'utf8') + ';undefined');
  return page.evaluate(async () => {
    const { violations } = await globalThis.axe.run(document, { resultTypes: ['violations'] });
    return violations.map((v) => ({ id: v.id, impact: v.impact, nodes: v.nodes.slice(0, 3).map((n) => n.html.slice(0, 160)) }));
  });
}
