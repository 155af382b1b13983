// Rows of the file, one class at a time or whole: src/focalibrate/report/rows.py read back.

import { curveOf } from './curve';
import type { Binning, BinTable, Curve, DenseEntries, PackedEntries, SparseEntries } from './document';
import { binTable } from './metrics';
import { unpack, type Numbers } from './packed';

export type Which = 'before' | 'after';

/** Probabilities of one class: each with its outcome and the rows that it stands for. */
export interface OneClass {
  values: Float64Array;
  /** share of those rows whose label is the class */
  outcomes: Float64Array;
  weights: Float64Array;
}

/** Whole rows: labels [n] and probabilities [n, K]. */
export interface WholeRows {
  labels: Numbers;
  before: Float64Array;
  after: Float64Array;
}

export interface Entries {
  n: number;
  pooledBelow: number;
  of(k: number, which: Which): OneClass;
  table(k: number, which: Which, binning: Binning, bins: number): BinTable;
  curve(k: number, which: Which): Curve;
  /** null where only the larger probabilities are known */
  whole: WholeRows | null;
}

export async function unpackEntries(packed: PackedEntries, classes: number): Promise<Entries> {
  const [of, whole] = 'labels' in packed ? await dense(packed, classes) : await sparse(packed);
  return {
    n: packed.n,
    pooledBelow: packed.pooled_below,
    of,
    table(k, which, binning, bins) {
      const { values, outcomes, weights } = of(k, which);
      return binTable(values, outcomes, binning, bins, weights);
    },
    curve(k, which) {
      const { values, outcomes, weights } = of(k, which);
      return curveOf(values, outcomes, weights);
    },
    whole,
  };
}

type Reader = (k: number, which: Which) => OneClass;

async function dense(packed: DenseEntries, classes: number): Promise<[Reader, WholeRows]> {
  const [labels, before, after] = await Promise.all([unpack(packed.labels), unpack(packed.before), unpack(packed.after)]);
  const n = packed.n;
  const probs = (codes: Numbers): Float64Array => {
    const columns = packed.before.shape[1];
    if (columns === classes) return Float64Array.from(codes, (code) => code / 65535);
    return Float64Array.from({ length: 2 * n }, (_, i) => (i % 2 === 1 ? codes[i >> 1] : 65535 - codes[i >> 1]) / 65535);
  };
  const whole: WholeRows = { labels, before: probs(before), after: probs(after) };
  const weights = new Float64Array(n).fill(1);
  const of: Reader = (k, which) => ({
    values: Float64Array.from({ length: n }, (_, i) => whole[which][i * classes + k]),
    outcomes: Float64Array.from({ length: n }, (_, i) => (labels[i] === k ? 1 : 0)),
    weights,
  });
  return [of, whole];
}

async function sparse(packed: SparseEntries): Promise<[Reader, null]> {
  const [counts, hits, before, after, restHits, restBefore, restAfter] = await Promise.all([
    unpack(packed.counts),
    unpack(packed.hits),
    packed.before.shape[0] ? unpack(packed.before) : new Uint16Array(0),
    packed.after.shape[0] ? unpack(packed.after) : new Uint16Array(0),
    unpack(packed.rest_hits),
    unpack(packed.rest_before),
    unpack(packed.rest_after),
  ]);
  const starts = new Uint32Array(counts.length + 1);
  for (let k = 0; k < counts.length; k++) starts[k + 1] = starts[k] + counts[k];
  const of: Reader = (k, which) => {
    const codes: Numbers = which === 'before' ? before : after;
    const size = counts[k];
    const rest = packed.n - size;
    const end = rest > 0 ? size + 1 : size;
    const values = new Float64Array(end);
    const outcomes = new Float64Array(end);
    const weights = new Float64Array(end).fill(1);
    for (let i = 0; i < size; i++) {
      values[i] = codes[starts[k] + i] / 65535;
      outcomes[i] = i < hits[k] ? 1 : 0;
    }
    if (rest > 0) {
      weights[size] = rest;
      values[size] = (which === 'before' ? restBefore : restAfter)[k] / rest;
      outcomes[size] = restHits[k] / rest;
    }
    return { values, outcomes, weights };
  };
  return [of, null];
}
