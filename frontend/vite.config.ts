import { defineConfig } from 'vitest/config';

// One classic script and one style sheet, with names that do not change: focalibrate puts both
// inside the page that it writes.
export default defineConfig({
  build: {
    target: 'es2022',
    outDir: process.env.FOCALIBRATE_BUNDLE_DIR ?? '../src/focalibrate/report/static',
    emptyOutDir: false,
    cssCodeSplit: false,
    reportCompressedSize: false,
    lib: {
      entry: 'src/main.ts',
      formats: ['iife'],
      name: 'focalibrateReport',
      fileName: () => 'report.js',
      cssFileName: 'report',
    },
  },
  test: { include: ['test/**/*.test.ts'] },
});
