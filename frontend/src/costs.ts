// Decisions by cost. A threshold t on the probability of a class costs, per row,
//
//   (FP · #{p >= t, other label} + FN · #{p < t, label is the class}) / n,
//
// and where probabilities are right, t = FP / (FP + FN) is the cheapest.

import type { OneClass, WholeRows } from './entries';

export interface Costs {
  falsePositive: number;
  falseNegative: number;
}

export const bestThreshold = ({ falsePositive, falseNegative }: Costs): number =>
  falsePositive + falseNegative > 0 ? falsePositive / (falsePositive + falseNegative) : 0.5;

/** Cost per row at each of `thresholds`, which rise. */
export function costCurve({ values, outcomes, weights }: OneClass, thresholds: number[], costs: Costs): number[] {
  const order = Uint32Array.from({ length: values.length }, (_, i) => i).sort((a, b) => values[a] - values[b]);
  let [total, positives, negatives] = [0, 0, 0];
  for (let i = 0; i < values.length; i++) {
    total += weights[i];
    negatives += weights[i] * (1 - outcomes[i]);
  }
  let next = 0;
  return thresholds.map((t) => {
    // Rows below the threshold: their positives are missed, their negatives are right.
    for (; next < order.length && values[order[next]] < t; next++) {
      positives += weights[order[next]] * outcomes[order[next]];
      negatives -= weights[order[next]] * (1 - outcomes[order[next]]);
    }
    return (costs.falsePositive * negatives + costs.falseNegative * positives) / total;
  });
}

/** Cost per row that the probabilities themselves promise at threshold t. */
export function statedCost({ values, weights }: OneClass, t: number, costs: Costs): number {
  let [sum, total] = [0, 0];
  for (let i = 0; i < values.length; i++) {
    total += weights[i];
    sum += weights[i] * (values[i] >= t ? costs.falsePositive * (1 - values[i]) : costs.falseNegative * values[i]);
  }
  return sum / total;
}

/** Cost per row of deciding for the class of least expected cost; matrix[label][decision]. */
export function matrixCost(rows: WholeRows, which: 'before' | 'after', matrix: number[][]): { cost: number; stated: number; topLabel: number } {
  const k = matrix.length;
  const n = rows.labels.length;
  const probs = rows[which];
  let [cost, stated, topLabel] = [0, 0, 0];
  for (let i = 0; i < n; i++) {
    let [best, least, top] = [0, Infinity, 0];
    for (let j = 0; j < k; j++) {
      let expected = 0;
      for (let c = 0; c < k; c++) expected += probs[i * k + c] * matrix[c][j];
      if (expected < least) [best, least] = [j, expected];
      if (probs[i * k + j] > probs[i * k + top]) top = j;
    }
    cost += matrix[rows.labels[i]][best];
    topLabel += matrix[rows.labels[i]][top];
    stated += least;
  }
  return { cost: cost / n, stated: stated / n, topLabel: topLabel / n };
}
