// The page's posterior recovery against the table that every writing of it is tested by
// (tests/vectors/make.py).

import { describe, expect, test } from 'vitest';
import table from '../../tests/vectors/psi.json';
import { evaluate, minorLogPhi, recover, topLogPhi, type Rows } from '../src/recovery';

const IMPOSSIBLE = 1e30;

/** |got - want| within 1e-9 of the larger of 1 and |want|. */
function expectClose(got: number, want: number): void {
  expect(Math.abs(got - want)).toBeLessThan(1e-9 * Math.max(1, Math.abs(want)));
}

describe.each(table.rows.map((row) => [row.name, row] as const))('%s', (_, row) => {
  const top = Math.max(...row.logits.map((x) => x ?? -Infinity));
  const perClass = <T>(values: readonly T[]): T[] => values.flatMap((x, i) => Array<T>(row.counts[i]).fill(x));
  const gaps = perClass(row.logits).map((x) => (x === null ? IMPOSSIBLE : top - x));

  test.each(row.cases.map((c) => [c.gamma, c] as const))('gamma %f', (gamma, want) => {
    const psi = recover(gaps, gamma, 1);
    perClass(want.log_psi).forEach((logPsi, k) => expectClose(psi[k], logPsi === null ? 0 : Math.exp(logPsi)));

    // Top class first, rivals nearest first: what the packed rows hold.
    const rivals = gaps.slice().sort((a, b) => a - b).slice(1);
    want.log_psi.forEach((logPsi, i) => {
      if (logPsi === null) return;
      const trueGap = top - (row.logits[i] ?? 0);
      const rows: Rows = {
        n: 1,
        width: rivals.length,
        gaps: Float64Array.from(rivals),
        weights: null,
        trueGap: Float64Array.of(trueGap),
        correct: Uint8Array.of(trueGap === 0 ? 1 : 0),
        byClass: null,
      };
      const got = evaluate(rows, gamma, 1);
      expectClose(got.nll, -logPsi);
      expectClose(got.confidence[0], Math.max(...psi));
    });

    want.log_phi.forEach((logPhi, i) => {
      const [logV, logRest] = [want.log_v[i], want.log_rest[i]];
      if (logPhi === null || logV === null || logRest === null) return;
      if (logV <= Math.log(0.5)) expectClose(minorLogPhi(logV, gamma), logPhi);
      else expectClose(topLogPhi(logRest - logV, gamma), logPhi);
    });
  });
});
