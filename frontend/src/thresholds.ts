// Where the top probability is over- or underconfident: tau_oc and tau_uc of gamma.

export function phi(p: number, gamma: number): number {
  if (p <= 0) return 1;
  if (p >= 1) return gamma > 0 ? 0 : 1;
  return Math.pow(1 - p, gamma) * (1 - (gamma * p * Math.log(p)) / (1 - p));
}

function bisect(f: (p: number) => number, low: number, high: number): number {
  const sign = Math.sign(f(low));
  for (let i = 0; i < 200 && high - low > 1e-15; i++) {
    const middle = 0.5 * (low + high);
    if (Math.sign(f(middle)) === sign) low = middle;
    else high = middle;
  }
  return 0.5 * (low + high);
}

/** argmax of phi: below it, max q is overconfident whatever the other classes are. */
export function tauOver(gamma: number): number {
  return bisect((p) => (2 * (1 - p)) / Math.log(p) + 1 - gamma * p, 1e-12, 0.5);
}

/** Root of phi = 1: above it, max q is underconfident whatever the other classes are. */
export function tauUnder(gamma: number): number {
  return bisect((p) => phi(p, gamma) - 1, tauOver(gamma), 0.5);
}
