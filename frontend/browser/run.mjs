// node browser/run.mjs < jobs.json > seen.json: opens the page of every job in one browser, uses it,
// and prints what was seen. A job is {kind, path, script}.

import { readFileSync } from 'node:fs';
import { axe, frames, listen, overflow } from './checks.mjs';
import { open, withBrowser } from './chromium.mjs';
import { dynamics } from './dynamics.mjs';
import { observe } from './observe.mjs';

/** Words only: enough to see that unusual data is drawn. */
async function read(page, script, seen) {
  if (script.gamma !== undefined) {
    await page.fill('#gamma-number', String(script.gamma));
    await page.press('#gamma-number', 'Tab');
    await frames(page);
    seen.live = await page.innerText('.readout');
  }
  seen.text = await page.innerText('#app');
}

/** Words, and whether everything is in its place in the light, in the dark and on a phone. */
async function glance(page, script, seen) {
  seen.title = await page.title();
  seen.text = await page.innerText('#app');
  seen.charts = await page.locator('svg[role="img"]').count();
  seen.axe = { light: await axe(page) };
  seen.overflow = { light: await overflow(page) };
  const table = () => page.locator('.scroller').first().evaluate((e) => [e.scrollWidth, e.clientWidth]);
  seen.table = { light: await table() };
  await page.emulateMedia({ colorScheme: 'dark' });
  seen.axe.dark = await axe(page);
  await page.emulateMedia({ colorScheme: 'light' });
  await page.setViewportSize({ width: 390, height: 844 });
  await frames(page, 4);
  seen.overflow.phone = await overflow(page);
  seen.table.phone = await table();
}

const KINDS = { glance, observe, dynamics, read };
const jobs = JSON.parse(readFileSync(0, 'utf8'));
const all = [];
await withBrowser({ viewport: { width: 1280, height: 900 }, colorScheme: 'light', acceptDownloads: true }, async (context) => {
  for (const { kind, path, script } of jobs) {
    const seen = { console: [], requests: [] };
    const page = await open(context, path, (tab) => listen(tab, seen));
    await frames(page);
    await KINDS[kind](page, script, seen);
    await page.close();
    all.push(seen);
  }
});
console.log(JSON.stringify(all));
