// One class at a time: probabilities of a class above a threshold, the rest pooled.

import type { Binning, BinTable, PackedEntries } from './document';
import { binTable } from './metrics';
import { unpack, type Numbers } from './packed';

export interface Entries {
  n: number;
  table(k: number, which: 'before' | 'after', binning: Binning, bins: number): BinTable;
}

export async function unpackEntries(packed: PackedEntries): Promise<Entries> {
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

  function table(k: number, which: 'before' | 'after', binning: Binning, bins: number): BinTable {
    const codes: Numbers = which === 'before' ? before : after;
    const size = counts[k];
    const values = new Float64Array(size + 1);
    const outcomes = new Float64Array(size + 1);
    const weights = new Float64Array(size + 1).fill(1);
    for (let i = 0; i < size; i++) {
      values[i] = codes[starts[k] + i] / 65535;
      outcomes[i] = i < hits[k] ? 1 : 0;
    }
    const rest = packed.n - size;
    const sum = which === 'before' ? restBefore[k] : restAfter[k];
    weights[size] = rest;
    values[size] = rest > 0 ? sum / rest : 0;
    outcomes[size] = rest > 0 ? restHits[k] / rest : 0;
    const end = rest > 0 ? size + 1 : size;
    return binTable(
      values.subarray(0, end),
      outcomes.subarray(0, end),
      binning,
      bins,
      weights.subarray(0, end),
    );
  }
  return { n: packed.n, table };
}
