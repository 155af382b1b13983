// Uses the page of a training run as a person would and returns what was seen. The judging is done in
// tests/browser/test_dynamics.py.

import { axe, frames, overflow } from './checks.mjs';

const figure = (page, name) => page.locator(`[data-figure="${name}"]`).innerText();

export async function dynamics(page, { isResized, isThorough }, seen) {
  Object.assign(seen, { overflow: {}, axe: {}, moved: [] });
  seen.title = await page.title();
  seen.text = await page.innerText('#app');
  seen.charts = await page.locator('svg[role="img"]').count();
  seen.labels = await page.locator('svg[role="img"]').evaluateAll((all) => all.map((e) => e.getAttribute('aria-label')));
  seen.scripts = await page.evaluate(() => document.querySelectorAll('script').length);
  for (const split of ['train', 'validation', 'test']) {
    await page.locator(`input[name="choice-examples"][value="${split}"]`).check();
    await page.focus('#epoch');
    for (const key of ['Home', 'ArrowRight', 'End']) {
      await page.keyboard.press(key);
      await frames(page);
      seen.moved.push({ split, key, epoch: await figure(page, 'epoch'), ece: await figure(page, 'epoch-ece') });
    }
    await page.locator(`input[name="choice-predictions-for"][value="${split}"]`).check();
    await frames(page);
  }
  if (!isResized) return;
  seen.overflow.light = await overflow(page);
  if (isThorough) {
    seen.axe.light = await axe(page);
    await page.emulateMedia({ colorScheme: 'dark' });
    seen.axe.dark = await axe(page);
    await page.emulateMedia({ colorScheme: 'light' });
  }
  for (const [name, width] of [['phone', 390], ['small', 320]]) {
    await page.setViewportSize({ width, height: 844 });
    await frames(page, 4);
    seen.overflow[name] = await overflow(page);
  }
  if (isThorough) seen.axe.phone = await axe(page);
  await page.setViewportSize({ width: 720, height: 1000 });
  await page.emulateMedia({ media: 'print' });
  await frames(page, 4);
  seen.overflow.print = await overflow(page);
}
