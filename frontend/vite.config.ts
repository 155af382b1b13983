import { defineConfig } from 'vitest/config';

// One classic script per package and one style sheet, with names that do not change: focalibrate
// puts them inside the pages that it writes. `--mode dynamics` builds the script of the papers.
export default defineConfig(({ mode }) => {
  const ofPapers = mode === 'dynamics';
  const folder = ofPapers ? '../papers/src/focalibrate_papers/static' : '../src/focalibrate/report/static';
  return {
    build: {
      target: 'es2022',
      outDir: process.env.FOCALIBRATE_BUNDLE_DIR ?? folder,
      emptyOutDir: false,
      cssCodeSplit: false,
      reportCompressedSize: false,
      lib: {
        entry: ofPapers ? 'src/dynamics/main.ts' : 'src/main.ts',
        formats: ['iife'],
        name: 'focalibrateReport',
        fileName: () => (ofPapers ? 'dynamics.js' : 'report.js'),
        cssFileName: 'report',
      },
    },
    test: { include: ['test/**/*.test.ts'] },
  };
});
