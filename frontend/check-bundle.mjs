// Proves that the bundles committed inside the Python packages are what these sources build, and
// that the lock file names no host. Exit status 1 where not.

import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = fileURLToPath(new URL('.', import.meta.url));
const committed = {
  'report.js': join(here, '../src/focalibrate/report/static/report.js'),
  'report.css': join(here, '../src/focalibrate/report/static/report.css'),
  'dynamics.js': join(here, '../papers/src/focalibrate_papers/static/dynamics.js'),
};
const fresh = mkdtempSync(join(tmpdir(), 'focalibrate-bundle-'));
const problems = [];

try {
  for (const mode of ['production', 'dynamics']) {
    execFileSync(process.execPath, [join(here, 'node_modules/vite/bin/vite.js'), 'build', '--logLevel', 'warn', '--mode', mode], {
      cwd: here,
      env: { ...process.env, FOCALIBRATE_BUNDLE_DIR: fresh },
      stdio: ['ignore', 'inherit', 'inherit'],
    });
  }
  for (const [name, path] of Object.entries(committed)) {
    const [a, b] = [join(fresh, name), path].map((file) => readFileSync(file, 'utf8'));
    if (a !== b) problems.push(`${name} differs from a fresh build. Run \`npm run build\` and commit the result.`);
    // What would end the script element, or ask a network for something.
    if (name.endsWith('.js') && /<\/script|<!--/i.test(b)) problems.push(`${name} holds </script or <!--, which would end it inside a page.`);
  }
  const lock = JSON.parse(readFileSync(join(here, 'package-lock.json'), 'utf8'));
  const named = Object.entries(lock.packages).filter(([, entry]) => 'resolved' in entry);
  if (named.length > 0) problems.push(`package-lock.json names where ${named.length} packages came from. See .npmrc.`);
  const { devDependencies = {}, dependencies = {} } = JSON.parse(readFileSync(join(here, 'package.json'), 'utf8'));
  for (const [name, version] of Object.entries({ ...devDependencies, ...dependencies })) {
    if (!/^\d+\.\d+\.\d+$/.test(version)) problems.push(`package.json does not pin ${name} exactly: ${version}.`);
  }
} finally {
  rmSync(fresh, { recursive: true, force: true });
}

for (const problem of problems) console.error(problem);
if (problems.length > 0) process.exit(1);
console.log('The bundles equal a fresh build.');
