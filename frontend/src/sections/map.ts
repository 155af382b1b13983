// What Psi does to the largest probability, and on the simplex of three classes.

import { confidenceMap, simplex, type MapData, type SimplexArrow } from '../charts';
import type { ReportDocument } from '../document';
import { h, responsive, section } from '../dom';
import { clipped, fixed, percent } from '../format';
import { evaluate, recover, type Rows } from '../recovery';
import type { Parameters, Watched } from '../state';
import { tauOver, tauUnder } from '../thresholds';

const N_DOTS = 500;

/** max Psi where the top class has q and the rest is spread evenly, or held by as few as can be. */
export function mapCurve(k: number, gamma: number): MapData['curve'] {
  const steps = 120;
  const least = 1 / k;
  return Array.from({ length: steps + 1 }, (_, i) => {
    const q = least + ((1 - least) * i) / steps;
    return { q, even: spread(q, k - 1, gamma), concentrated: concentrated(q, k, gamma) };
  });
}

function spread(q: number, rivals: number, gamma: number): number {
  const rest = (1 - q) / rivals;
  if (rest <= 0) return 1;
  return gather([[q, 1], [rest, rivals]], gamma);
}

function concentrated(q: number, k: number, gamma: number): number {
  const equals = Math.min(k, Math.floor(1 / q + 1e-9));
  const rest = Math.max(0, 1 - equals * q);
  return gather(rest > 1e-12 && equals < k ? [[q, equals], [rest, 1]] : [[q, equals]], gamma);
}

/** Psi of the first of groups of [probability, classes]. */
function gather(groups: [number, number][], gamma: number): number {
  const score = (v: number) => {
    if (v >= 1) return gamma > 0 ? Infinity : 0;
    const r = (-v * Math.log(v)) / (1 - v);
    return Math.log(v) - gamma * Math.log1p(-v) - Math.log(Math.max(1 + gamma * r, 1e-300));
  };
  const top = score(groups[0][0]);
  if (top === Infinity) return 1;
  return 1 / groups.reduce((sum, [v, n]) => sum + n * Math.exp(score(v) - top), 0);
}

function subset(rows: Rows, n: number): Rows {
  const size = Math.min(n, rows.n);
  const step = rows.n / size;
  const picked = Array.from({ length: size }, (_, i) => Math.floor(i * step));
  const pick = (from: Float64Array, width: number) => {
    const out = new Float64Array(size * width);
    picked.forEach((row, i) => out.set(from.subarray(row * width, (row + 1) * width), i * width));
    return out;
  };
  return {
    n: size,
    width: rows.width,
    gaps: pick(rows.gaps, rows.width),
    weights: rows.weights === null ? null : pick(rows.weights, rows.width),
    trueGap: pick(rows.trueGap, 1),
    correct: Uint8Array.from(picked, (row) => rows.correct[row]),
    byClass: rows.byClass === null ? null : pick(rows.byClass, rows.width + 1),
  };
}

export function mapSection(doc: ReportDocument, rows: Rows, parameters: Watched<Parameters>, names: (k: number) => string): HTMLElement {
  const few = subset(rows, N_DOTS);
  const chart = h('div', { class: 'chart' });
  const words = h('p', { class: 'small muted' });
  // At gamma = 0 there is nothing to see: an example stands in.
  const example = doc.methods.find((m) => m.method.startsWith('posterior'))?.gamma || 2;
  const draw = responsive(chart, (width) => {
    const { temperature } = parameters.value;
    const gamma = parameters.value.gamma === 0 ? example : parameters.value.gamma;
    const q = evaluate(few, 0, temperature).confidence;
    const psi = evaluate(few, gamma, temperature).confidence;
    const dots = Array.from(q, (x, i) => ({ q: x, psi: psi[i] }));
    const over = gamma > 0 ? tauOver(gamma) : null;
    const under = gamma > 0 ? tauUnder(gamma) : null;
    chart.replaceChildren(confidenceMap({ n: doc.n_classes, curve: mapCurve(doc.n_classes, gamma), dots, over, under }, width));
  });
  parameters.listen((now) => {
    const gamma = now.gamma === 0 ? example : now.gamma;
    const opening = now.gamma === 0 ? `At γ = 0 Ψ changes nothing; drawn for γ = ${example} as an example. ` : '';
    words.textContent =
      gamma > 0
        ? `${opening}Solid: the rest is spread evenly over the other classes; dashed: it is on as few classes as possible. Up to τ_oc = ${percent(tauOver(gamma))} focal scores are overconfident, from τ_uc = ${percent(tauUnder(gamma))} on they are underconfident, whatever the other probabilities are` +
          (doc.n_classes === 2 ? '; with two classes they are always underconfident.' : '.')
        : `At γ = ${fixed(gamma, 2)} Ψ lowers large probabilities; the thresholds τ_oc and τ_uc exist for γ > 0 only.`;
    draw();
  });
  return section(
    'map',
    'What Ψ does to a probability',
    h(
      'div',
      { class: 'pair' },
      h(
        'figure',
        { class: 'card' },
        h('figcaption', {}, h('h3', {}, 'max q → max Ψ'), h('span', { class: 'small muted' }, 'follows the γ slider; dots are rows of the file')),
        chart,
        words,
      ),
      doc.n_classes === 3 && rows.byClass !== null ? simplexPanel(few, parameters, names) : null,
    ),
  );
}

const HEIGHT = Math.sqrt(3) / 2;
const place = (p: number[]): [number, number] => [p[1] + 0.5 * p[2], HEIGHT * p[2]];

function simplexPanel(rows: Rows, parameters: Watched<Parameters>, names: (k: number) => string): HTMLElement {
  const chart = h('div', { class: 'chart' });
  const lattice: number[][] = [];
  const steps = 12;
  for (let a = 1; a < steps; a++) for (let b = 1; a + b < steps; b++) lattice.push([a / steps, b / steps, (steps - a - b) / steps]);
  const byClass = rows.byClass!;
  const dots = Array.from({ length: rows.n }, (_, i) => {
    const [x, y] = place(recover(byClass.subarray(3 * i, 3 * i + 3), 0, 1));
    return { x, y };
  });
  const draw = responsive(chart, (width) => {
    const { gamma, temperature } = parameters.value;
    const arrows: SimplexArrow[] = lattice.map((p) => {
      const most = Math.max(...p);
      const [x1, y1] = place(p);
      const [x2, y2] = place(recover(p.map((x) => Math.log(most / x)), gamma, temperature));
      return { x1, y1, x2, y2 };
    });
    chart.replaceChildren(simplex(arrows.filter((a) => Math.hypot(a.x2 - a.x1, a.y2 - a.y1) > 1e-4), dots, [0, 1, 2].map((k) => clipped(names(k), 18)), width));
  });
  parameters.listen(() => draw());
  return h(
    'figure',
    { class: 'card' },
    h('figcaption', {}, h('h3', {}, 'On the simplex'), h('span', { class: 'small muted' }, 'from raw to the sliders’ γ and T')),
    chart,
    h('p', { class: 'small muted key' }, h('span', { class: 'swatch before' }), 'rows, raw ', h('span', { class: 'swatch live' }), 'after γ and T of the sliders'),
  );
}
