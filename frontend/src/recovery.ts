// Confidence and log loss of Psi_gamma(softmax(z/T)), row by row, on weighted atoms: the maths of
// src/focalibrate/calibrate/_engine/recovery.py in float64. Gaps d_k = z_max - z_k; the first atom of a
// row is its top class, the second its nearest rival.
//
//   (1 - Psi_1) / Psi_1 = phi(v_1) M,  M = sum_k w_k e_k / phi(v_k),  e_k = v_k / v_1
//   phi(v) = (1-v)^gamma (1 + gamma r(v)),  r(v) = -v log v / (1-v)

import type { PackedRows } from './document';
import { expansion, unpack } from './packed';

export interface Rows {
  n: number;
  /** rivals of a row: all atoms but the top one */
  width: number;
  /** gaps of the rivals, nearest first, [n, width] */
  gaps: Float64Array;
  /** classes that each rival stands for, [n, width]; null: one each */
  weights: Float64Array | null;
  /** top logit less the label's, [n] */
  trueGap: Float64Array;
  correct: Uint8Array;
  /** for rows that hold every class: gaps in order of class, [n, K] */
  byClass: Float64Array | null;
}

export interface Evaluated {
  confidence: Float64Array;
  nll: number;
}

const IMPOSSIBLE = 1e30;
const IMPOSSIBLE_CODE = 65535;

/** log phi of the top class from S = (1-v)/v given as log S: exact for every S and gamma >= -1. */
export function topLogPhi(logRivals: number, gamma: number): number {
  if (gamma === 0) return 0;
  const s = Math.exp(logRivals);
  const logTotal = logRivals > 30 ? logRivals : Math.log1p(s);
  // (1 - r) / S, r = log(1+S)/S, by its series where the difference would cancel
  const lack = s < 1e-4 ? 0.5 - s / 3 : (1 - logTotal / s) / s;
  // At gamma = -1 the pole of (1-v)^gamma meets the root of 1 + gamma r.
  if (gamma === -1) return Math.log(lack) + logTotal;
  return gamma * (logRivals - logTotal) + Math.log(1 + gamma - gamma * lack * s);
}

/** log phi of a class with log-probability logV <= log(1/2). */
export function minorLogPhi(logV: number, gamma: number): number {
  if (gamma === 0) return 0;
  const v = Math.exp(logV);
  return gamma * Math.log1p(-v) + Math.log1p((gamma * -v * logV) / (1 - v));
}

/** (1-v)^-gamma, without a logarithm where v is small. */
function inversePower(v: number, gamma: number): number {
  const x = v < 1e-3 ? gamma * v * (1 + v * (0.5 + v / 3)) : -gamma * Math.log1p(-v);
  return x < 5e-3 && x > -5e-3 ? 1 + x * (1 + x * (0.5 + x / 6)) : Math.exp(x);
}

/** Confidence of every row and their mean log loss. */
export function evaluate(rows: Rows, gamma: number, temperature: number, out?: Float64Array): Evaluated {
  const { n, width, gaps, weights, trueGap, correct } = rows;
  const confidence = out ?? new Float64Array(n);
  const beta = 1 / temperature;
  const e = new Float64Array(width);
  let loss = 0;
  for (let i = 0; i < n; i++) {
    const at = i * width;
    const nearest = gaps[at];
    let sum = 0;
    for (let k = 0; k < width; k++) {
      const x = (nearest - gaps[at + k]) * beta;
      const w = weights === null ? 1 : weights[at + k];
      // Far below the nearest rival nothing adds up to a digit.
      const value = x > -60 && w > 0 ? Math.exp(x) : 0;
      e[k] = value;
      sum += w * value;
    }
    const logRivals = -nearest * beta + Math.log(sum);
    const logTotal = logRivals > 30 ? logRivals : Math.log1p(Math.exp(logRivals));
    let minors = sum;
    if (gamma !== 0) {
      minors = 0;
      const shift = -nearest * beta - logTotal;
      const scale = Math.exp(shift);
      for (let k = 0; k < width; k++) {
        const value = e[k];
        if (value === 0) continue;
        const v = scale * value;
        const logV = (nearest - gaps[at + k]) * beta + shift;
        const r = (-v * logV) / (1 - v);
        const w = weights === null ? 1 : weights[at + k];
        minors += (w * value * inversePower(v, gamma)) / (1 + gamma * r);
      }
    }
    const phi = topLogPhi(logRivals, gamma);
    const logOdds = phi - nearest * beta + Math.log(minors);
    const against = Math.exp(logOdds);
    confidence[i] = 1 / (1 + against);
    let term = logOdds > 30 ? logOdds : Math.log1p(against);
    if (correct[i] === 0 && trueGap[i] > 0) {
      const toTop = -trueGap[i] * beta;
      term += -toTop + minorLogPhi(toTop - logTotal, gamma) - phi;
    }
    loss += term;
  }
  return { confidence, nll: loss / n };
}

/** Psi_gamma(softmax(-gaps/T)) of one row in order of class. */
export function recover(gaps: ArrayLike<number>, gamma: number, temperature: number): number[] {
  const logs = Array.from(gaps, (d) => -d / temperature);
  const top = logs.reduce((best, x, k) => (x > logs[best] ? k : best), 0);
  const nearest = logs.reduce((most, x, k) => (k === top ? most : Math.max(most, x)), -IMPOSSIBLE);
  const sum = logs.reduce((s, x, k) => (k === top ? s : s + Math.exp(x - nearest)), 0);
  const logRivals = nearest + Math.log(sum); // exp of it may be 0
  const logTotal = logRivals > 30 ? logRivals : Math.log1p(Math.exp(logRivals));
  const scores = logs.map((x, k) =>
    x - (k === top ? topLogPhi(logRivals, gamma) : minorLogPhi(x - logTotal, gamma)));
  const most = Math.max(...scores);
  const parts = scores.map((x) => Math.exp(x - most));
  const total = parts.reduce((a, b) => a + b, 0);
  return parts.map((x) => x / total);
}

export async function unpackRows(packed: PackedRows): Promise<Rows> {
  const n = packed.n;
  const atoms = packed.gaps.shape[1];
  const [codes, packedTrue, bits, tops, weightCodes] = await Promise.all([
    unpack(packed.gaps),
    unpack(packed.true_gap),
    unpack(packed.correct),
    packed.top === null ? null : unpack(packed.top),
    packed.weights === null ? null : unpack(packed.weights),
  ]);
  let all: Float64Array;
  if (packed.gaps.dtype === 'float32') {
    all = Float64Array.from(codes);
  } else {
    const values = expansion(packed.max_gap, IMPOSSIBLE_CODE);
    all = Float64Array.from(codes, (code) => (code === IMPOSSIBLE_CODE ? IMPOSSIBLE : values[code]));
  }
  const width = atoms - 1;
  const gaps = new Float64Array(n * width);
  for (let i = 0; i < n; i++) {
    const top = tops === null ? 0 : tops[i];
    for (let k = 0, to = i * width; k < atoms; k++) if (k !== top) gaps[to++] = all[i * atoms + k];
    if (tops !== null) nearestFirst(gaps, i * width, width);
  }
  let weights: Float64Array | null = null;
  if (packed.weights !== null && weightCodes !== null) {
    const values = expansion(packed.max_weight, packed.weight_codes);
    const weighted = packed.weights.shape[1];
    weights = new Float64Array(n * width).fill(1);
    for (let i = 0; i < n; i++) {
      for (let k = 0; k < weighted; k++) {
        weights[(i + 1) * width - weighted + k] = values[weightCodes[i * weighted + k]];
      }
    }
  }
  return {
    n,
    width,
    gaps,
    weights,
    trueGap: Float64Array.from(packedTrue),
    correct: Uint8Array.from({ length: n }, (_, i) => (bits[i >> 3] >> (i & 7)) & 1),
    byClass: tops === null ? null : all,
  };
}

function nearestFirst(gaps: Float64Array, at: number, width: number): void {
  let best = at;
  for (let k = at + 1; k < at + width; k++) if (gaps[k] < gaps[best]) best = k;
  const swap = gaps[at];
  gaps[at] = gaps[best];
  gaps[best] = swap;
}
