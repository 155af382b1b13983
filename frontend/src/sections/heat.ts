// The criterion over gamma and temperature as a heat map that sets the sliders.

import { heatKey, heatMap, type HeatMap, type HeatMapData } from '../charts';
import type { Criterion } from '../document';
import { h, responsive, s } from '../dom';
import { fixed, metricStyle, percent, whole } from '../format';
import type { Parameters, Range, Watched } from '../state';

function edges(values: number[]): number[] {
  const inner = values.slice(1).map((x, i) => 0.5 * (x + values[i]));
  const first = values.length > 1 ? values[0] - (inner[0] - values[0]) : values[0] - 0.5;
  const last = values.length > 1 ? 2 * values[values.length - 1] - inner[inner.length - 1] : values[0] + 0.5;
  return [first, ...inner, last];
}

/** Cells, optimum, the best temperature of each gamma and the line through them. */
export function heatMapData(grid: Criterion): HeatMapData {
  const style = metricStyle(grid.criterion);
  const [gs, ts] = [edges(grid.gammas), edges(grid.temperatures).map((t) => Math.max(0, t))];
  const cells: HeatMapData['cells'] = [];
  const ridge: HeatMapData['ridge'] = [];
  let best = { gamma: NaN, temperature: NaN, value: Infinity };
  grid.values.forEach((row, g) => {
    let low = Infinity;
    let at = -1;
    row.forEach((value, t) => {
      if (value === null) return;
      cells.push({ g1: gs[g], g2: gs[g + 1], t1: ts[t], t2: ts[t + 1], value });
      if (value < low) [low, at] = [value, t];
    });
    if (at >= 0) ridge.push({ gamma: grid.gammas[g], temperature: grid.temperatures[at] });
    if (low < best.value) best = { gamma: grid.gammas[g], temperature: grid.temperatures[at], value: low };
  });
  const { slope, intercept } = straightLine(ridge);
  const line = [grid.gammas[0], grid.gammas[grid.gammas.length - 1]].map((gamma) => ({ gamma, temperature: intercept + slope * gamma }));
  const value = style.percent ? percent(best.value, style.digits) : fixed(best.value, style.digits);
  const title =
    `${style.title} over γ and T. Lowest, ${value}, at γ = ${fixed(best.gamma, 2)}, T = ${fixed(best.temperature, 2)}. ` +
    `The best T of each γ is close to ${lineWords(slope, intercept)}.`;
  return { cells, best, ridge, line, title };
}

export function straightLine(points: { gamma: number; temperature: number }[]): { slope: number; intercept: number } {
  const n = points.length;
  const mx = points.reduce((s, p) => s + p.gamma, 0) / n;
  const my = points.reduce((s, p) => s + p.temperature, 0) / n;
  const sxx = points.reduce((s, p) => s + (p.gamma - mx) ** 2, 0);
  const slope = sxx > 0 ? points.reduce((s, p) => s + (p.gamma - mx) * (p.temperature - my), 0) / sxx : 0;
  return { slope, intercept: my - slope * mx };
}

const lineWords = (slope: number, intercept: number): string =>
  `T = ${intercept.toFixed(2)} ${slope < 0 ? '−' : '+'} ${Math.abs(slope).toFixed(2)} γ`;

/** The heat map, operable by pointer and by keys. */
export function heatPanel(grid: Criterion, range: Range, parameters: Watched<Parameters>): HTMLElement {
  const data = heatMapData(grid);
  const style = metricStyle(grid.criterion);
  const chart = h('div', {
    class: 'chart heat',
    id: 'heat-map',
    tabindex: 0,
    role: 'application',
    'aria-label': 'Criterion over γ and T. Arrow keys move γ (left, right) and T (up, down); Enter takes the optimum.',
  });
  const ring = (stroke: string, width: number) => s('circle', { r: 7, fill: 'none', stroke, 'stroke-width': width, class: 'marker' });
  const marker = [ring('black', 5), ring('white', 2.5)];
  let map: HeatMap | null = null;

  function place(): void {
    if (map === null) return;
    const [x, y] = map.toPixels(parameters.value.gamma, parameters.value.temperature);
    const shown = Number.isFinite(x) && Number.isFinite(y);
    for (const circle of marker) {
      circle.setAttribute('cx', String(x));
      circle.setAttribute('cy', String(y));
      circle.setAttribute('visibility', shown ? 'visible' : 'hidden');
    }
  }

  responsive(chart, (width) => {
    map = heatMap(data, width);
    map.element.append(...marker);
    chart.replaceChildren(map.element);
    place();
  });
  parameters.listen(place);

  const limit = (value: number, [low, high]: [number, number]) => Math.min(high, Math.max(low, value));
  function set(gamma: number, temperature: number): void {
    parameters.set({
      gamma: Number(limit(gamma, range.gamma).toFixed(3)),
      temperature: Number(limit(temperature, range.temperature).toFixed(3)),
    });
  }
  let pressed = false;
  function follow(event: PointerEvent): void {
    const svg = chart.querySelector('svg');
    if (map === null || svg === null) return;
    const box = svg.getBoundingClientRect();
    const [gamma, temperature] = map.fromPixels(event.clientX - box.left, event.clientY - box.top);
    const inside = (x: number, values: number[]) => Math.min(values[values.length - 1], Math.max(values[0], x));
    set(inside(gamma, grid.gammas), inside(temperature, grid.temperatures));
  }
  chart.addEventListener('pointerdown', (event) => {
    pressed = true;
    chart.setPointerCapture(event.pointerId);
    follow(event);
  });
  chart.addEventListener('pointermove', (event) => pressed && follow(event));
  chart.addEventListener('pointerup', () => (pressed = false));
  chart.addEventListener('pointercancel', () => (pressed = false));
  const step = (values: number[]) => (values[values.length - 1] - values[0]) / Math.max(1, values.length - 1);
  chart.addEventListener('keydown', (event) => {
    const moves: Record<string, [number, number]> = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
    const { gamma, temperature } = parameters.value;
    const move = moves[event.key];
    if (move !== undefined) set(gamma + move[0] * step(grid.gammas), temperature + move[1] * step(grid.temperatures));
    else if (event.key === 'Enter') set(data.best.gamma, data.best.temperature);
    else return;
    event.preventDefault();
  });

  const values = data.cells.map((c) => c.value).sort((a, b) => a - b);
  const text = (x: number) => (style.percent ? percent(x, 0) : fixed(x, 2));
  const { slope, intercept } = straightLine(data.ridge);
  return h(
    'figure',
    { class: 'card' },
    h(
      'figcaption',
      {},
      h('h3', {}, `${style.title} over γ and T`),
      h('span', { class: 'small muted' }, 'click, drag or use arrow keys to set the sliders'),
    ),
    chart,
    h('div', { class: 'heat-key' }, heatKey(values[0], values[Math.floor(values.length * 0.9)], style.title, text)),
    h(
      'p',
      { class: 'small muted' },
      `★ lowest: ${style.percent ? percent(data.best.value, 2) : fixed(data.best.value, 4)} at γ = ${fixed(data.best.gamma, 2)}, T = ${fixed(data.best.temperature, 2)}. `,
      `Dots: best T of each γ, close to the line ${lineWords(slope, intercept)}: γ and T trade off along it. `,
      grid.n_rows < grid.n_rows_given
        ? `On a sample of ${whole(grid.n_rows)} of the ${whole(grid.n_rows_given)} rows fitted on.`
        : `On the ${whole(grid.n_rows)} rows fitted on.`,
    ),
  );
}
