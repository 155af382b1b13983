// The arithmetic of the dynamics page.

import { describe, expect, it } from 'vitest';
import { bins, epochEdges, median, nearest, normRange, spread } from '../src/dynamics/histograms';
import { duration } from '../src/dynamics/summary';

const EDGES = [-2, -1, 0, 1]; // log10, so five bins with the open ones

describe('histograms of norms', () => {
  it('give the open bins a side and shares that add up', () => {
    const found = bins([1, 2, 3, 4, 0], EDGES);
    expect(found.map((b) => [b.low, b.high])).toEqual([[-3, -2], [-2, -1], [-1, 0], [0, 1], [1, 2]]);
    expect(found.reduce((s, b) => s + b.share, 0)).toBeCloseTo(1, 12);
  });

  it('have the median inside the bin that holds the middle example', () => {
    expect(median([0, 4, 0, 0, 0], EDGES)).toBeCloseTo(-1.5, 12);
    expect(median([0, 1, 2, 1, 0], EDGES)).toBeCloseTo(-0.5, 12);
    expect(median([3, 0, 0, 1, 0], EDGES)).toBeCloseTo(-3 + 2 / 3, 12);
    expect(median([0, 0, 0, 0, 0], EDGES)).toBeNaN();
  });

  it('reach from the first example to the last, and nowhere without examples', () => {
    expect(normRange([[0, 1, 0, 0, 0], [0, 0, 0, 2, 0]], EDGES)).toEqual([-2, 1]);
    expect(normRange([[0, 0, 0, 0, 0]], EDGES)).toBeNull();
    expect(normRange([], EDGES)).toBeNull();
  });
});

describe('epochs', () => {
  it('have sides halfway to the next', () => {
    expect(epochEdges([1, 3, 4])).toEqual([0, 2, 3.5, 4.5]);
    expect(epochEdges([7])).toEqual([6.5, 7.5]);
  });

  it('are found by the nearest one looked at', () => {
    expect(nearest([4, 8, 12], 9)).toBe(1);
    expect(nearest([4, 8, 12], 1)).toBe(0);
    expect(nearest([5], 90)).toBe(0);
  });

  it('are spread with the first and the last', () => {
    expect(spread(2, 4)).toEqual([0, 1]);
    expect(spread(10, 4)).toEqual([0, 3, 6, 9]);
    expect(spread(1, 4)).toEqual([0]);
  });
});

describe('durations', () => {
  it('are in the unit one would say', () => {
    expect(duration(9.04)).toBe('9.0 s');
    expect(duration(600)).toBe('10 min');
    expect(duration(7500)).toBe('2 h 5 min');
  });
});
