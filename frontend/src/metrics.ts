// Binned calibration errors and the bands of their diagrams.

import type { Binning, BinTable } from './document';

/** Sum of bins: examples, confidence, correct. */
export interface Cells {
  count: ArrayLike<number>;
  confidence: ArrayLike<number>;
  correct: ArrayLike<number>;
}

function finish(count: number[], confidence: number[], correct: number[]): BinTable {
  const table: BinTable = { count: [], confidence: [], accuracy: [], ece: 0 };
  const total = count.reduce((a, b) => a + b, 0);
  for (let b = 0; b < count.length; b++) {
    if (count[b] <= 0) continue;
    table.count.push(count[b]);
    table.confidence.push(confidence[b] / count[b]);
    table.accuracy.push(correct[b] / count[b]);
    table.ece += Math.abs(confidence[b] - correct[b]) / total;
  }
  return table;
}

/** Index of the bin ((b-1)/B, b/B] that holds v; 0 lies in the first. */
export function widthBin(v: number, bins: number): number {
  const index = Math.min(Math.trunc(v * bins), bins - 1);
  return index > 0 && v <= index / bins ? index - 1 : index;
}

/**
 * Table of values in [0, 1] with their outcomes, each value with a weight (one row or several
 * pooled ones). Equal mass: sizes differ by at most one, larger ones first; equal values are
 * ties and share their outcomes.
 */
export function binTable(
  values: ArrayLike<number>,
  outcomes: ArrayLike<number>,
  binning: Binning,
  bins: number,
  weights: ArrayLike<number> | null = null,
): BinTable {
  const count = new Array<number>(bins).fill(0);
  const confidence = new Array<number>(bins).fill(0);
  const correct = new Array<number>(bins).fill(0);
  const n = values.length;
  if (binning === 'equal-width') {
    for (let i = 0; i < n; i++) {
      const b = widthBin(values[i], bins);
      const w = weights === null ? 1 : weights[i];
      count[b] += w;
      confidence[b] += w * values[i];
      correct[b] += outcomes[i] * (weights === null ? 1 : w);
    }
    return finish(count, confidence, correct);
  }
  const order = sorted(values);
  let total = 0;
  for (let i = 0; i < n; i++) total += weights === null ? 1 : weights[i];
  const size = Math.floor(total / bins);
  const larger = total - size * bins;
  let bin = 0;
  let room = size + (larger > 0 ? 1 : 0);
  for (let start = 0; start < n; ) {
    const value = values[order[start]];
    let mass = 0;
    let hits = 0;
    let stop = start;
    for (; stop < n && values[order[stop]] === value; stop++) {
      const w = weights === null ? 1 : weights[order[stop]];
      mass += w;
      hits += w * outcomes[order[stop]];
    }
    const share = hits / mass;
    while (mass > 0) {
      while (room <= 0 && bin < bins - 1) {
        bin += 1;
        room = size + (bin < larger ? 1 : 0);
      }
      const part = bin === bins - 1 ? mass : Math.min(mass, room);
      count[bin] += part;
      confidence[bin] += part * value;
      correct[bin] += part * share;
      room -= part;
      mass -= part;
    }
    start = stop;
  }
  return finish(count, confidence, correct);
}

function sorted(values: ArrayLike<number>): Uint32Array {
  const order = Uint32Array.from({ length: values.length }, (_, i) => i);
  return order.sort((a, b) => values[a] - values[b]);
}

export interface Confident {
  fraction: number;
  accuracy: number | null;
}

/** Share of rows with confidence of at least .99, and how many of them are right. */
export function s99(confidence: ArrayLike<number>, correct: ArrayLike<number>): Confident {
  let n = 0;
  let hits = 0;
  for (let i = 0; i < confidence.length; i++) {
    if (confidence[i] >= 0.99) {
      n += 1;
      hits += correct[i];
    }
  }
  return { fraction: n / confidence.length, accuracy: n > 0 ? hits / n : null };
}

export function histogram(confidence: ArrayLike<number>, bars: number): number[] {
  const out = new Array<number>(bars).fill(0);
  for (let i = 0; i < confidence.length; i++) {
    out[Math.min(bars - 1, Math.trunc(confidence[i] * bars))] += 1;
  }
  return out;
}

export function mean(values: ArrayLike<number>): number {
  let sum = 0;
  for (let i = 0; i < values.length; i++) sum += values[i];
  return sum / values.length;
}

/**
 * The 2.5 % and 97.5 % quantiles of a bin's accuracy when its rows are drawn again: hits are then
 * binomial, so the bootstrap has a formula and needs no random numbers.
 */
export function bootstrapBand(n: number, p: number, level = 0.95): [number, number] {
  const size = Math.round(n);
  if (size <= 0) return [0, 1];
  if (p <= 0 || p >= 1) return [p, p];
  const tail = (1 - level) / 2;
  if (size > 20000) {
    const half = 1.959963984540054 * Math.sqrt((p * (1 - p)) / size);
    return [Math.max(0, p - half), Math.min(1, p + half)];
  }
  // Terms relative to the one at the mode, so that none underflows where it matters.
  const odds = p / (1 - p);
  const mode = Math.min(size, Math.floor((size + 1) * p));
  const terms = new Float64Array(size + 1);
  terms[mode] = 1;
  for (let k = mode; k < size; k++) terms[k + 1] = terms[k] * odds * ((size - k) / (k + 1));
  for (let k = mode; k > 0; k--) terms[k - 1] = (terms[k] / odds) * (k / (size - k + 1));
  let total = 0;
  for (let k = 0; k <= size; k++) total += terms[k];
  let running = 0;
  let low = -1;
  for (let k = 0; k <= size; k++) {
    running += terms[k];
    if (low < 0 && running >= tail * total) low = k;
    if (running >= (1 - tail) * total) return [low / size, k / size];
  }
  return [low / size, 1];
}
