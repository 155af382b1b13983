// Debian's Chromium, started without any network of its own.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { chromium } from 'playwright-core';

const FLAGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  '--font-render-hinting=none',
];

/** Run `use(context)` in a browser with an empty profile; the profile is gone afterwards. */
export async function withBrowser(options, use) {
  const profile = mkdtempSync(join(tmpdir(), 'focalibrate-browser-'));
  const context = await chromium.launchPersistentContext(profile, {
    executablePath: process.env.FOCALIBRATE_CHROMIUM ?? '/usr/bin/chromium',
    headless: true,
    args: FLAGS,
    ...options,
  });
  context.setDefaultTimeout(300000); // a busy machine is slow, not broken
  try {
    return await use(context);
  } finally {
    await context.close();
    rmSync(profile, { recursive: true, force: true, maxRetries: 3 });
  }
}

/** Open a file and wait until it is drawn. */
export async function open(context, path, prepare = () => {}) {
  const page = await context.newPage();
  prepare(page);
  await page.goto(`file://${path}`);
  await page.waitForSelector('html[data-ready="true"], [role="alert"]');
  const alert = page.locator('[role="alert"]');
  if ((await alert.count()) > 0) throw new Error(`${path}: ${await alert.first().innerText()}`);
  return page;
}
