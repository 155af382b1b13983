import { expect, test } from 'vitest';
import { linear, LOG, logarithmic, nice, ROOT, round, Scale, ticks, viridis } from '../src/scale';

test.each([new Scale([2, 10]), new Scale([4, 100], ROOT), new Scale([0.01, 10], LOG)])('a pixel goes back to its value', (scale) => {
  scale.between(30, 230);
  expect(scale.span.map((x) => scale.at(x))).toEqual([30, 230]);
  expect(scale.value(scale.at(5))).toBeCloseTo(5, 9);
});

test('round values are marked with as many digits as they need', () => {
  const words = (scale: Scale, count: number) => scale.ticks(count).map((x) => scale.text(x, count));
  expect(words(new Scale([0, 1.3]), 5)).toEqual(['0.0', '0.2', '0.4', '0.6', '0.8', '1.0', '1.2']);
  expect(words(new Scale([-20, 20]), 4)).toEqual(['−20', '−10', '0', '10', '20']);
  expect(words(logarithmic([0.002, 0.3]), 5)).toEqual(['0.001', '0.01', '0.1', '1']);
  expect(new Scale([0, 1]).text(0.0125)).toBe('0.0125');
});

test('round values are those of d3-array', () => {
  expect(ticks([0, 1], 10)).toEqual([0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1]);
  expect(ticks([-0.3, 0.31], 3)).toEqual([-0.2, 0, 0.2]);
  expect(ticks([0.2, 0.9], 1)).toEqual([0.5]);
  expect(ticks([1e-7, 3.3e-7], 4)).toEqual([1e-7, 1.5e-7, 2e-7, 2.5e-7, 3e-7]);
  expect(ticks([3, 3], 5)).toEqual([3]);
  expect(ticks([0, 987], 4)).toEqual([0, 200, 400, 600, 800]);
  expect(ticks([0, 1], 0)).toEqual([]);
  expect(nice([0.13, 0.97], 10)).toEqual([0.1, 1]);
  expect(nice([-7.7, 123.4], 10)).toEqual([-10, 130]);
});

test('scales cover their values, and zero if asked', () => {
  expect(linear([3, NaN, 5]).span).toEqual([3, 5]);
  expect(linear([3, 5], true).span).toEqual([0, 5]);
  expect(round([0.13, 0.97]).span).toEqual([0.1, 1]);
  expect(linear([4, 4]).span).toEqual([4, 5]);
  expect(new Scale([4, 4]).between(0, 10).at(4)).toBe(0);
});

test('viridis goes from dark to yellow and stays there', () => {
  const colour = viridis(9, 1);
  expect([colour(20), colour(9), colour(1)]).toEqual(['rgb(68,1,84)', 'rgb(68,1,84)', 'rgb(253,231,37)']);
  // Halfway between the roots of 9 and 1: matplotlib's viridis(0.5) is (33, 145, 140).
  expect(colour(4)).toBe('rgb(33,145,140)');
});
