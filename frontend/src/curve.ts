// The CORP reliability curve of one class, as src/focalibrate/metrics/corp.py computes it for all
// rows: isotonic regression, and the band of a calibrated model with the same predictions.

import type { Curve } from './document';

const CELLS = 200;
const DRAWS = 100;

/** Pool adjacent violators: the rising sequence nearest to `y`, as blocks [first, last, height]. */
export function isotonic(y: ArrayLike<number>, weights: ArrayLike<number>): [number, number, number][] {
  const first: number[] = [];
  const mass: number[] = [];
  const height: number[] = [];
  for (let i = 0; i < y.length; i++) {
    first.push(i);
    mass.push(weights[i]);
    height.push(y[i]);
    while (height.length > 1 && height[height.length - 2] >= height[height.length - 1]) {
      const [w, h] = [mass.pop()!, height.pop()!];
      first.pop();
      const top = height.length - 1;
      height[top] = (height[top] * mass[top] + h * w) / (mass[top] + w);
      mass[top] += w;
    }
  }
  return first.map((start, b) => [start, (first[b + 1] ?? y.length) - 1, height[b]]);
}

/** Random numbers in [0, 1) that are the same each time. */
function random(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

/** Share of `n` coin tosses that succeed; normal from 60 on. */
function share(n: number, p: number, next: () => number): number {
  if (n * Math.min(p, 1 - p) > 15 && n > 60) {
    const z = Math.sqrt(-2 * Math.log(1 - next())) * Math.cos(2 * Math.PI * next());
    return Math.min(1, Math.max(0, Math.round(n * p + z * Math.sqrt(n * p * (1 - p))) / n));
  }
  if (n > 60) {
    // Few successes, or few failures: count them by the gaps between them.
    const rare = Math.min(p, 1 - p);
    if (rare <= 0) return p < 0.5 ? 0 : 1;
    let hits = 0;
    for (let at = 0; ; hits++) {
      at += 1 + Math.floor(Math.log(1 - next()) / Math.log1p(-rare));
      if (at > n) break;
    }
    return p < 0.5 ? hits / n : 1 - hits / n;
  }
  let hits = 0;
  for (let i = 0; i < n; i++) if (next() < p) hits += 1;
  return hits / n;
}

/** Curve and band of values with outcomes, each value standing for `weights` rows. */
export function curveOf(values: ArrayLike<number>, outcomes: ArrayLike<number>, weights: ArrayLike<number>): Curve {
  const order = Uint32Array.from({ length: values.length }, (_, i) => i).sort((a, b) => values[a] - values[b]);
  const x: number[] = [];
  const mass: number[] = [];
  const hits: number[] = [];
  for (const i of order) {
    if (x.length === 0 || values[i] !== x[x.length - 1]) {
      x.push(values[i]);
      mass.push(0);
      hits.push(0);
    }
    mass[mass.length - 1] += weights[i];
    hits[hits.length - 1] += weights[i] * outcomes[i];
  }
  const curve: Curve = { low: [], high: [], rate: [], count: [], band_at: [], band_low: [], band_high: [] };
  for (const [start, end, rate] of isotonic(hits.map((h, i) => h / mass[i]), mass)) {
    curve.low.push(x[start]);
    curve.high.push(x[end]);
    curve.rate.push(rate);
    let count = 0;
    for (let i = start; i <= end; i++) count += mass[i];
    curve.count.push(count);
  }
  band(curve, x, mass);
  return curve;
}

function band(curve: Curve, x: number[], mass: number[]): void {
  const total = mass.reduce((a, b) => a + b, 0);
  const rows: number[] = [];
  let cell = -1;
  let seen = 0;
  for (let i = 0; i < x.length; i++) {
    const now = Math.min(CELLS - 1, Math.floor(((seen + 0.5 * mass[i]) / total) * CELLS));
    seen += mass[i];
    if (now !== cell) {
      cell = now;
      rows.push(0);
      curve.band_at.push(0);
    }
    const c = rows.length - 1;
    curve.band_at[c] = (curve.band_at[c] * rows[c] + x[i] * mass[i]) / (rows[c] + mass[i]);
    rows[c] += mass[i];
  }
  const next = random(1);
  const drawn = rows.map(() => new Float64Array(DRAWS));
  const y = new Float64Array(rows.length);
  for (let d = 0; d < DRAWS; d++) {
    for (let c = 0; c < rows.length; c++) y[c] = share(Math.max(1, Math.round(rows[c])), curve.band_at[c], next);
    for (const [start, end, height] of isotonic(y, rows)) for (let c = start; c <= end; c++) drawn[c][d] = height;
  }
  for (const column of drawn) {
    column.sort();
    curve.band_low.push(column[Math.floor(0.025 * DRAWS)]);
    curve.band_high.push(column[Math.ceil(0.975 * DRAWS) - 1]);
  }
}
