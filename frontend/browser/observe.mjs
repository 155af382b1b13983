// Uses the page of a comparison as a person would and returns what was seen. The judging is done in
// Python (tests/browser), which knows the right numbers.

import { readFileSync } from 'node:fs';
import { axe, frames, overflow } from './checks.mjs';

const figure = (page, name) => page.locator(`[data-figure="${name}"]`).innerText();
const parameters = async (page) => [
  Number(await page.inputValue('#gamma-number')),
  Number(await page.inputValue('#temperature-number')),
];
const live = async (page) => ({
  ece: await figure(page, 'live-ece'),
  adaptive_ece: await figure(page, 'live-adaptive_ece'),
  nll: await figure(page, 'live-nll'),
  s99: await figure(page, 'live-s99'),
});

async function type(page, id, value) {
  await page.fill(`#${id}-number`, String(value));
  await page.press(`#${id}-number`, 'Tab');
}

async function explore(page, script, seen) {
  for (const [gamma, temperature] of script.points) {
    await type(page, 'gamma', gamma);
    await type(page, 'temperature', temperature);
    await frames(page);
    seen.live.push(await live(page));
  }

  await page.click('[data-preset="reset"]');
  await frames(page);
  seen.reset = await parameters(page);
  seen.presets = {};
  for (const name of script.presets) {
    await page.click(`[data-preset="${name}"]`);
    await frames(page);
    seen.presets[name] = await parameters(page);
  }

  await page.click('[data-preset="reset"]');
  await page.focus('#gamma');
  await page.keyboard.press('ArrowRight');
  await page.focus('#temperature');
  await page.keyboard.press('ArrowRight');
  await frames(page);
  seen.keys = await parameters(page);

  const map = page.locator('#heat-map');
  await map.scrollIntoViewIfNeeded();
  const box = await map.boundingBox();
  await page.mouse.click(box.x + 0.6 * box.width, box.y + 0.4 * box.height);
  await frames(page);
  seen.clicked = { parameters: await parameters(page), ...(await live(page)) };
  seen.marker = await page.evaluate(() => {
    const frame = document.getElementById('heat-map').getBoundingClientRect();
    const circle = document.querySelector('#heat-map .marker').getBoundingClientRect();
    return [(circle.x + circle.width / 2 - frame.x) / frame.width, (circle.y + circle.height / 2 - frame.y) / frame.height];
  });
  await page.focus('#heat-map');
  await page.keyboard.press('ArrowRight');
  await page.keyboard.press('ArrowUp');
  await frames(page);
  seen.moved = await parameters(page);
  await page.keyboard.press('Enter');
  await frames(page);
  seen.optimum = await parameters(page);
}

/** Costs to a threshold. */
async function decide(page, script, seen) {
  seen.costs = [];
  for (const { klass, falsePositive, falseNegative } of script.costs) {
    await page.selectOption('#positive-class', String(klass));
    await page.fill('#cost-false-positive', String(falsePositive));
    await page.fill('#cost-false-negative', String(falseNegative));
    await frames(page);
    seen.costs.push({ threshold: await figure(page, 'threshold'), before: await figure(page, 'cost-before'), after: await figure(page, 'cost-after') });
  }
}

/** The words beside the pointer at the last dot of the first diagram, and whether they go with it. */
async function tips(page) {
  const dot = page.locator('#reliability .chart svg circle').last();
  await dot.scrollIntoViewIfNeeded();
  const box = await dot.boundingBox();
  const words = () => page.locator('.tip tspan').allTextContents();
  await page.mouse.move(box.x + box.width / 2 + 3, box.y + box.height / 2 + 3);
  const near = await words();
  await page.mouse.move(0, 0);
  return { near, away: await words() };
}

/** The first figure of the page as files. */
async function downloads(page) {
  const found = {};
  for (const kind of ['svg', 'png']) {
    const [file] = await Promise.all([page.waitForEvent('download'), page.locator(`#reliability [data-download="${kind}"]`).first().click()]);
    const bytes = readFileSync(await file.path());
    found[kind] = { name: file.suggestedFilename(), size: bytes.length, head: [...bytes.subarray(0, 8)], text: kind === 'svg' ? bytes.toString('utf8') : null };
  }
  return found;
}

export async function observe(page, script, seen) {
  Object.assign(seen, { live: [], diagrams: [], overflow: {}, axe: {} });
  seen.title = await page.title();
  seen.text = await page.innerText('#app');
  seen.headline = await page.locator('#verdict-title').innerText();
  seen.start = { klass: await page.inputValue('#class-picker'), x: await page.locator('#reliability svg text', { hasText: '(%) →' }).first().textContent() };
  seen.names = await page.locator('#classes .class-name').allTextContents();
  seen.scripts = await page.evaluate(() => document.querySelectorAll('script').length);
  seen.charts = await page.locator('svg[role="img"]').count();
  seen.rows = await page.locator('#methods tbody tr').count();

  if (script.points !== undefined) await explore(page, script, seen);

  for (const view of script.views) {
    await page.locator('input[name="choice-diagram"][value="bins"]').check();
    await page.locator(`input[name="choice-bins-of"][value="${view.binning}"]`).check();
    await page.locator(`input[name="choice-number-of-bins"][value="${view.bins}"]`).check();
    await page.selectOption('#class-picker', view.klass === null ? '' : String(view.klass));
    await frames(page);
    seen.diagrams.push({ before: await figure(page, 'ece-before'), after: await figure(page, 'ece-after') });
  }

  seen.tips = await tips(page);
  await page.locator('input[name="choice-diagram"][value="curve"]').check();
  await decide(page, script, seen);
  seen.downloads = await downloads(page);

  seen.snippets = {};
  for (const title of await page.locator('#deploy .segments span').allInnerTexts()) {
    await page.locator(`input[name="choice-code-for"][value="${title}"]`).check();
    seen.snippets[title] = await page.locator('#snippet').textContent();
  }
  await page.click('#deploy .copy');
  await page.waitForFunction(() => document.querySelector('#deploy .copy').textContent !== 'Copy');
  seen.copied = await page.locator('#deploy .copy').textContent();

  const column = page.locator('#methods thead button', { hasText: 'Log loss' });
  const names = () => page.locator('#methods tbody th .method-name').allInnerTexts();
  await column.click();
  seen.sorted = await names();
  await column.click();
  seen.sorted_down = await names();

  seen.axe.light = await axe(page);
  seen.overflow.light = await overflow(page);
  seen.table = await page.locator('#methods .scroller').evaluate((e) => [e.scrollWidth, e.clientWidth]);
  const background = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  seen.background = { light: await background() };
  await page.emulateMedia({ colorScheme: 'dark' });
  seen.background.dark = await background();
  if (script.isThorough) seen.axe.dark = await axe(page);
  await page.click('button.theme');
  seen.background.forced_light = await background();
  await page.click('button.theme');
  await page.emulateMedia({ colorScheme: 'light' });
  seen.background.forced_dark = await background();
  await page.click('button.theme');
  for (const [name, width] of [['phone', 390], ['small', 320]]) {
    await page.setViewportSize({ width, height: 844 });
    await frames(page, 4);
    seen.overflow[name] = await overflow(page);
  }
  if (script.isThorough) seen.axe.phone = await axe(page);
  await page.setViewportSize({ width: 720, height: 1000 });
  await page.emulateMedia({ media: 'print' });
  await frames(page, 4);
  seen.overflow.print = await overflow(page);

  const complaints = seen.console.length;
  seen.fetch = await page.evaluate(async () => {
    const blocked = new Promise((done) => document.addEventListener('securitypolicyviolation', (e) => done(e.effectiveDirective)));
    await fetch('https://example.invalid/').catch(() => null);
    return Promise.race([blocked, new Promise((done) => setTimeout(() => done('went out'), 60000))]);
  });
  seen.console.length = complaints; // what came since is the browser's word on the fetch
}
