// node browser/screenshot.mjs PAGE.html OUT.png [--dark] [--phone] [--print] [--clip HEIGHT] [--section ID] [--until ID] [--sharp]

import { resolve } from 'node:path';
import { open, withBrowser } from './chromium.mjs';

const [page, out, ...flags] = process.argv.slice(2);
const clip = flags.includes('--clip') ? Number(flags[flags.indexOf('--clip') + 1]) : null;
const viewport = flags.includes('--phone') ? { width: 390, height: clip ?? 844 } : { width: flags.includes("--width") ? Number(flags[flags.indexOf("--width") + 1]) : 1280, height: clip ?? 900 };
const options = { viewport, colorScheme: flags.includes('--dark') ? 'dark' : 'light', deviceScaleFactor: flags.includes('--sharp') ? 2 : 1 };

await withBrowser(options, async (context) => {
  const tab = await open(context, resolve(page));
  tab.on('console', (message) => console.log(message.text()));
  await tab.waitForTimeout(300);
  if (flags.includes('--print')) await tab.pdf({ path: out, format: 'A4', margin: { top: '12mm', bottom: '12mm', left: '12mm', right: '12mm' } });
  else if (flags.includes('--section')) await tab.locator(`#${flags[flags.indexOf('--section') + 1]}`).screenshot({ path: out });
  else if (flags.includes('--until')) {
    const last = await tab.locator(`#${flags[flags.indexOf('--until') + 1]}`).boundingBox();
    await tab.screenshot({ path: out, fullPage: true, clip: { x: 0, y: 0, width: viewport.width, height: last.y + last.height + 24 } });
  } else await tab.screenshot({ path: out, fullPage: clip === null });
});
