// The page's maths against numbers from Python (make_fixture.py).

import { describe, expect, test } from 'vitest';
import type { PackedEntries, PackedRows } from '../src/document';
import { bestThreshold, costCurve, matrixCost, statedCost } from '../src/costs';
import { curveOf } from '../src/curve';
import { unpackEntries } from '../src/entries';
import { binTable, bootstrapBand, histogram, mean, s99, widthBin } from '../src/metrics';
import { expansion } from '../src/packed';
import { evaluate, recover, unpackRows } from '../src/recovery';
import { mapCurve } from '../src/sections/map';
import { heatMapData, straightLine } from '../src/sections/heat';
import { phi, tauOver, tauUnder } from '../src/thresholds';
import fixture from './fixture.json';

const BINS = [10, 15, 25];

describe.each(fixture.cases.map((c) => [c.n_classes, c] as const))('%i classes', (k, found) => {
  // float32 gaps are exact but for their own rounding; 16 bits and atoms cost a little
  const isExact = found.rows.gaps.dtype === 'float32';
  const tolerance = isExact ? 1e-6 : 3e-4;
  // a row on the other side of an edge moves a bin: one row's worth is no error of the maths
  const edge = isExact ? 1e-6 : 1e-3;

  test.each(found.points.map((p) => [p.gamma, p.temperature, p] as const))('gamma %f, T %f', async (gamma, temperature, want) => {
    const rows = await unpackRows(found.rows as unknown as PackedRows);
    const got = evaluate(rows, gamma, temperature);
    want.confidence.forEach((confidence, i) => expect(Math.abs(got.confidence[i] - confidence)).toBeLessThan(tolerance));
    expect(Math.abs(got.nll - want.nll)).toBeLessThan(tolerance * Math.max(1, want.nll));
    if (found.has_ties) return; // the last digit decides, here and in Python
    BINS.forEach((bins, i) => {
      expect(Math.abs(binTable(got.confidence, rows.correct, 'equal-width', bins).ece - want.ece[i])).toBeLessThan(edge);
      expect(Math.abs(binTable(got.confidence, rows.correct, 'equal-mass', bins).ece - want.adaptive_ece[i])).toBeLessThan(edge);
    });
    expect(Math.abs(s99(got.confidence, rows.correct).fraction - want.s99)).toBeLessThan(isExact ? 1e-9 : 1e-2);
  });

  test('one class at a time', async () => {
    const entries = await unpackEntries(found.entries as unknown as PackedEntries, k);
    for (const one of found.classes) {
      BINS.forEach((bins, i) => {
        (['before', 'after'] as const).forEach((which, w) => {
          const width = entries.table(one.klass, which, 'equal-width', bins);
          expect(width.count.reduce((a, b) => a + b, 0)).toBeCloseTo(entries.n);
          // 16 bits may move a row over an edge
          expect(Math.abs(width.ece - one.equal_width[i][w])).toBeLessThan(1.5 / entries.n);
          // pooled rows count as ties, which hides what they differ by: at most 4 %
          const mass = entries.table(one.klass, which, 'equal-mass', bins);
          expect(Math.abs(mass.ece - one.equal_mass[i][w])).toBeLessThan(k <= 3 ? 5e-3 : 2e-2);
        });
      });
    }
  });
});

test.each(fixture.bands)('band of %i rows at %f', (n, p, low, high) => {
  const [a, b] = bootstrapBand(n, p);
  expect(a).toBeCloseTo(low, 9);
  expect(b).toBeCloseTo(high, 9);
});

test('bands of large bins are close to those of the formula for small ones', () => {
  const [small, large] = [bootstrapBand(20000, 0.9), bootstrapBand(20001, 0.9)];
  expect(large[0]).toBeCloseTo(small[0], 3);
  expect(large[1]).toBeCloseTo(small[1], 3);
});

test('bins that cannot vary have a band without width', () => {
  expect(bootstrapBand(5, 0)).toEqual([0, 0]);
  expect(bootstrapBand(5, 1)).toEqual([1, 1]);
});

test.each(fixture.curves.map((c, i) => [i, c] as const))('reliability curve %i', (_, want) => {
  const curve = curveOf(want.values, want.outcomes, want.values.map(() => 1));
  const corners = (a: number[], b: number[]) => a.flatMap((x, i) => [x, b[i]]);
  const close = (got: number[], expected: number[], digits: number) => {
    expect(got).toHaveLength(expected.length);
    got.forEach((x, i) => expect(x).toBeCloseTo(expected[i], digits));
  };
  close(corners(curve.low, curve.high), want.probability, 9);
  close(corners(curve.rate, curve.rate), want.frequency, 9);
  expect(curve.count.reduce((a, b) => a + b, 0)).toBe(want.values.length);
});

test('the band holds the diagonal, and narrows with the number of rows', () => {
  const width = (n: number) => {
    const values = Array.from({ length: n }, (_, i) => (i + 0.5) / n);
    const { band_at, band_low, band_high } = curveOf(values, values.map((v) => (v > 0.5 ? 1 : 0)), values.map(() => 1));
    band_at.forEach((x, i) => {
      expect(band_low[i]).toBeLessThan(x + 0.02);
      expect(band_high[i]).toBeGreaterThan(x - 0.02);
    });
    const middle = Math.floor(band_at.length / 2);
    return band_high[middle] - band_low[middle];
  };
  expect(width(300)).toBeGreaterThan(2 * width(10000));
  expect(width(10000)).toBeLessThan(0.15);
});

test('weights stand for repeated rows', () => {
  const weighted = curveOf([0.2, 0.5, 0.9], [0.5, 0, 1], [4, 1, 2]);
  const repeated = curveOf([0.2, 0.2, 0.2, 0.2, 0.5, 0.9, 0.9], [1, 1, 0, 0, 0, 1, 1], new Array(7).fill(1));
  expect(weighted).toEqual(repeated);
});

test('the cheapest decisions, and what they are said to cost', () => {
  const { probs, labels, matrix, ...want } = fixture.costs;
  const rows = { labels: Uint8Array.from(labels), before: Float64Array.from(probs), after: Float64Array.from(probs) };
  const got = matrixCost(rows, 'after', matrix);
  for (const name of ['cost', 'stated', 'topLabel'] as const) expect(got[name]).toBeCloseTo(want[name], 9);
});

test('a threshold by costs', () => {
  const one = { values: Float64Array.of(0.1, 0.3, 0.7), outcomes: Float64Array.of(0, 1, 1), weights: Float64Array.of(1, 1, 2) };
  const costs = { falsePositive: 1, falseNegative: 3 };
  expect(bestThreshold(costs)).toBe(0.25);
  expect(costCurve(one, [0, 0.25, 0.5, 1], costs)).toEqual([0.25, 0, 0.75, 2.25]);
  // A probability of 1 reaches every threshold: only an infinite one means never.
  const sure = { ...one, values: Float64Array.of(0.1, 0.3, 1) };
  expect(costCurve(sure, [0, 1, Infinity], costs)).toEqual([0.25, 0.75, 2.25]);
  expect(statedCost(one, 0.25, costs)).toBeCloseTo((3 * 0.1 + 0.7 + 2 * 0.3) / 4, 12);
  expect(bestThreshold({ falsePositive: 0, falseNegative: 0 })).toBe(0.5);
});

test.each(fixture.thresholds)('thresholds of gamma %f', (gamma, over, under) => {
  expect(tauOver(gamma)).toBeCloseTo(over, 8);
  expect(tauUnder(gamma)).toBeCloseTo(under, 8);
  expect(phi(under, gamma)).toBeCloseTo(1, 8);
});

test.each(fixture.posteriors)('posterior of %j at gamma %f', (v, gamma, want) => {
  const probs = v as number[];
  const top = Math.max(...probs);
  const got = recover(probs.map((p) => Math.log(top / p)), gamma as number, 1);
  (want as number[]).forEach((p, i) => expect(got[i]).toBeCloseTo(p, 8));
});

test('the map holds the posteriors of its two extremes', () => {
  const at = (k: number, gamma: number, q: number) => mapCurve(k, gamma).reduce((a, b) => (Math.abs(b.q - q) < Math.abs(a.q - q) ? b : a));
  // A counterexample to "Ψ never lowers the top probability": 1000 classes, top .05, the rest equal, gamma 1
  const curve = mapCurve(1000, 1);
  const below = curve.filter((c) => c.q <= 0.05).at(-1)!;
  expect(below.even).toBeLessThan(below.q);
  // two classes: both extremes are the same, and always underconfident
  const binary = at(2, 2, 0.75);
  expect(binary.even).toBeCloseTo(binary.concentrated, 12);
  expect(binary.even).toBeGreaterThan(binary.q);
  expect(mapCurve(5, 0).every((c) => Math.abs(c.even - c.q) < 1e-9)).toBe(true);
});

test('edges of bins', () => {
  expect([0, 0.1, 0.1000001, 0.3, 1].map((v) => widthBin(v, 10))).toEqual([0, 0, 1, 2, 9]);
  expect(widthBin(0.07, 100)).toBe(6);
});

test('equal mass: sizes differ by one, ties share, no row is dropped', () => {
  const table = binTable([0.5, 0.5, 0.5, 0.5, 0.5], [1, 0, 1, 0, 0], 'equal-mass', 3);
  expect(table.count).toEqual([2, 2, 1]);
  table.accuracy.forEach((a) => expect(a).toBeCloseTo(0.4, 12));
  expect(table.ece).toBeCloseTo(0.1, 12);
  expect(binTable([0.2, 0.9], [0, 1], 'equal-mass', 5).count).toEqual([1, 1]);
});

test('histogram and mean', () => {
  expect(histogram([0, 0.49, 0.5, 1], 2)).toEqual([2, 2]);
  expect(mean([1, 2, 3])).toBe(2);
});

test('codes expand to their values', () => {
  const values = expansion(30, 65535);
  expect(values[0]).toBe(0);
  expect(values[65534]).toBeCloseTo(30, 9);
});

test('the ridge is the best temperature of each gamma, and a line through them', () => {
  const data = heatMapData({
    criterion: 'ece',
    gammas: [0, 1, 2],
    temperatures: [1, 2, 3],
    values: [[0.1, 0.2, 0.3], [0.3, 0.05, 0.3], [0.4, null, 0.2]],
    n_rows: 1,
    n_rows_given: 1,
  });
  expect(data.best).toEqual({ gamma: 1, temperature: 2, value: 0.05 });
  expect(data.ridge.map((p) => p.temperature)).toEqual([1, 2, 3]);
  expect(straightLine(data.ridge).slope).toBeCloseTo(1, 12);
  expect(data.cells).toHaveLength(8);
});
