// Histograms of gradient norms. Norms are on a log10 scale throughout.

export interface NormBin {
  low: number;
  high: number;
  share: number;
}

/** The bins with their sides; the two open ones, below and above all edges, get a side as the others have. */
export function bins(counts: number[], edges: number[]): NormBin[] {
  const total = counts.reduce((a, b) => a + b, 0) || 1;
  const step = edges[1] - edges[0];
  const sides = [edges[0] - step, ...edges, edges[edges.length - 1] + step];
  return counts.map((count, i) => ({ low: sides[i], high: sides[i + 1], share: count / total }));
}

/** The median, from the bins alone: linear within a bin. */
export function median(counts: number[], edges: number[]): number {
  let below = 0;
  for (const { low, high, share } of bins(counts, edges)) {
    if (below + share >= 0.5) return low + ((high - low) * (0.5 - below)) / share;
    below += share;
  }
  return NaN;
}

/** Where the norms lie, over all histograms, with a little room; null where there are none. */
export function normRange(all: number[][], edges: number[]): [number, number] | null {
  let [low, high] = [Infinity, -Infinity];
  for (const counts of all) {
    for (const bin of bins(counts, edges)) {
      if (bin.share === 0) continue;
      low = Math.min(low, bin.low);
      high = Math.max(high, bin.high);
    }
  }
  return low < high ? [low, high] : null;
}

/** Sides of the columns of epochs, each halfway to the next. */
export function epochEdges(epochs: number[]): number[] {
  const inner = epochs.slice(1).map((epoch, i) => (epoch + epochs[i]) / 2);
  const first = epochs.length > 1 ? 2 * epochs[0] - inner[0] : epochs[0] - 0.5;
  const last = epochs.length > 1 ? 2 * epochs[epochs.length - 1] - inner[inner.length - 1] : epochs[0] + 0.5;
  return [first, ...inner, last];
}

/** The picture whose epoch is nearest. */
export function nearest(epochs: number[], wanted: number): number {
  let best = 0;
  epochs.forEach((epoch, i) => {
    if (Math.abs(epoch - wanted) < Math.abs(epochs[best] - wanted)) best = i;
  });
  return best;
}

/** At most `n` of the indices of a list, evenly, its first and last among them. */
export function spread(length: number, n: number): number[] {
  if (length <= n) return Array.from({ length }, (_, i) => i);
  return Array.from({ length: n }, (_, i) => Math.round((i * (length - 1)) / (n - 1)));
}
