// node browser/open.mjs PAGE.html ... : opens each page and prints, as JSON, its words and complaints.

import { resolve } from 'node:path';
import { open, withBrowser } from './chromium.mjs';

const seen = {};
await withBrowser({ viewport: { width: 1000, height: 900 } }, async (context) => {
  for (const path of process.argv.slice(2)) {
    const complaints = [];
    const onConsole = (message) => complaints.push(`${message.type()}: ${message.text()}`);
    const onError = (error) => complaints.push(`error: ${error.error().message}`);
    context.on('console', onConsole);
    context.on('weberror', onError);
    const page = await open(context, resolve(path));
    await page.fill('#gamma-number', '1.5');
    await page.press('#gamma-number', 'Tab');
    await page.waitForTimeout(100);
    seen[path] = { complaints, text: await page.innerText('#app'), live: await page.innerText('.readout') };
    context.off('console', onConsole);
    context.off('weberror', onError);
    await page.close();
  }
});
console.log(JSON.stringify(seen));
