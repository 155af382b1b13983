// Live gamma and temperature: sliders, the criterion as a heat map, and what follows from them.

import { confidenceHistogram, heatKey, heatMap, LIVE, reliability, type HeatMap, type HeatMapData } from '../charts';
import type { Binning, Criterion, Method, ReportDocument } from '../document';
import { formula, h, responsive, section, segmented } from '../dom';
import { fixed, metricStyle, percent, whole } from '../format';
import { binTable, histogram, s99 } from '../metrics';
import { evaluate, type Rows } from '../recovery';
import { Watched, type Parameters } from '../state';

export interface Range {
  gamma: [number, number];
  temperature: [number, number];
}

/** What the sliders reach: the grid and every fitted method. */
export function sliderRange(doc: ReportDocument): Range {
  const gammas = doc.methods.flatMap((m) => (m.gamma === null ? [] : [m.gamma])).concat(doc.criterion?.gammas ?? []);
  const temperatures = doc.methods.flatMap((m) => (m.temperature === null ? [] : [m.temperature])).concat(doc.criterion?.temperatures ?? []);
  const up = (x: number) => Math.ceil(x * 20) / 20;
  return {
    gamma: [Math.min(-0.5, ...gammas.map((g) => Math.max(-1, Math.floor(g * 20) / 20))), up(Math.max(5, ...gammas))],
    temperature: [0.05, up(Math.max(5, ...temperatures))],
  };
}

export function exploreSection(doc: ReportDocument, rows: Rows, parameters: Watched<Parameters>): HTMLElement {
  const range = sliderRange(doc);
  const buffer = new Float64Array(rows.n);
  const rawHistogram = histogram(evaluate(rows, 0, 1).confidence, 50);
  let binning: Binning = 'equal-width';
  const bins = doc.n_bins;
  const figures = Object.fromEntries(
    ['ece', 'adaptive_ece', 'nll', 's99'].map((name) => [name, h('output', { 'data-figure': `live-${name}`, for: 'gamma temperature' })]),
  );
  const right = h('output', { 'data-figure': 'live-s99-accuracy', for: 'gamma temperature' });
  const chart = h('div', { class: 'chart' });
  const bars = h('div', { class: 'chart' });
  let found = evaluate(rows, parameters.value.gamma, parameters.value.temperature, buffer);
  const draw = responsive(chart, (width) => {
    const table = binTable(found.confidence, rows.correct, binning, bins);
    chart.replaceChildren(reliability(table, LIVE, width, { name: 'at the sliders', x: 'confidence', y: 'accuracy' }));
    bars.replaceChildren(confidenceHistogram(histogram(found.confidence, 50), rawHistogram, width));
  });
  parameters.listen(({ gamma, temperature }) => {
    found = evaluate(rows, gamma, temperature, buffer);
    figures.ece.textContent = percent(binTable(found.confidence, rows.correct, 'equal-width', bins).ece, 2);
    figures.adaptive_ece.textContent = percent(binTable(found.confidence, rows.correct, 'equal-mass', bins).ece, 2);
    figures.nll.textContent = fixed(found.nll, 4);
    const sure = s99(found.confidence, rows.correct);
    figures.s99.textContent = percent(sure.fraction);
    right.textContent = sure.accuracy === null ? 'none' : `${percent(sure.accuracy)} of them right`;
    draw();
  });
  const sample =
    rows.n < doc.n_judged
      ? `Computed in this page from a random sample of ${whole(rows.n)} of the ${whole(doc.n_judged)} rows (seed ${doc.rows.seed}).`
      : `Computed in this page from all ${whole(rows.n)} rows.`;
  return section(
    'explore',
    'Try γ and T yourself',
    h('p', { class: 'muted' }, formula('Ψ_γ(softmax(z/T))'), `: T > 1 makes the model less sure, T < 1 more; γ > 0 undoes focal training. ${sample}`),
    h(
      'div',
      { class: 'console card' },
      h(
        'div',
        { class: 'sliders' },
        slider('gamma', 'γ, focal exponent', range.gamma, parameters),
        slider('temperature', 'T, temperature', range.temperature, parameters),
        presets(doc, parameters),
      ),
      h(
        'dl',
        { class: 'readout', 'aria-live': 'polite' },
        ['ece', 'adaptive_ece', 'nll'].map((name) => h('div', {}, h('dt', { title: metricStyle(name).hint }, metricStyle(name).title), h('dd', {}, figures[name]))),
        h('div', {}, h('dt', { title: 'share of rows with a confidence of at least 99 %' }, 'S99'), h('dd', {}, figures.s99, h('span', { class: 'small muted' }, right))),
      ),
    ),
    h(
      'div',
      { class: 'pair' },
      h(
        'figure',
        { class: 'card live' },
        h(
          'figcaption',
          {},
          h('h3', {}, 'At the sliders'),
          segmented<Binning>(
            'Live bins of',
            [
              { value: 'equal-width', text: 'equal width' },
              { value: 'equal-mass', text: 'equal mass' },
            ],
            binning,
            (value) => {
              binning = value;
              draw();
            },
          ),
        ),
        chart,
        bars,
        h('p', { class: 'small muted key' }, h('span', { class: 'swatch live' }), 'at the sliders ', h('span', { class: 'swatch before line' }), 'uncalibrated'),
      ),
      doc.criterion === null ? null : heatPanel(doc.criterion, range, parameters),
    ),
  );
}

function slider(id: 'gamma' | 'temperature', label: string, [low, high]: [number, number], parameters: Watched<Parameters>): HTMLElement {
  // Temperatures are felt as ratios: the slider moves along log T, the number beside it is T.
  const isLog = id === 'temperature';
  const toSlider = (x: number) => (isLog ? Math.log(x) : x);
  const fromSlider = (x: number) => (isLog ? Math.exp(x) : x);
  const set = (value: number) => {
    if (Number.isFinite(value)) parameters.set({ [id]: Math.min(high, Math.max(low, value)) });
  };
  const shown = (value: number) => String(Number(value.toFixed(isLog ? 3 : 3)));
  const range = h('input', {
    id,
    type: 'range',
    min: toSlider(low),
    max: toSlider(high),
    step: isLog ? 'any' : 0.01,
    oninput: () => set(Number(fromSlider(Number(range.value)).toFixed(isLog ? 3 : 2))),
    onkeydown: (event) => {
      // step="any" leaves the size of a key's step to the browser, which takes a big one
      const step = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: 10, PageDown: -10 }[(event as KeyboardEvent).key];
      if (!isLog || step === undefined) return;
      event.preventDefault();
      set(Number((parameters.value.temperature * Math.exp(0.01 * step)).toFixed(4)));
    },
  });
  const number = h('input', {
    type: 'number',
    id: `${id}-number`,
    min: low,
    max: high,
    step: 0.01,
    'aria-label': `${label}, as a number`,
    onchange: () => set(Number(number.value)),
  });
  parameters.listenAtOnce((now) => {
    range.value = String(toSlider(now[id]));
    range.setAttribute('aria-valuetext', shown(now[id]));
    if (document.activeElement !== number) number.value = shown(now[id]);
    else if (Number(number.value) !== now[id]) number.value = shown(now[id]);
  });
  return h('div', { class: 'slider' }, h('label', { for: id }, label), range, number);
}

function presets(doc: ReportDocument, parameters: Watched<Parameters>): HTMLElement {
  const parametric = doc.methods.filter((m) => m.gamma !== null && m.temperature !== null && m.method !== 'identity');
  const button = (method: Method) => {
    const element = h(
      'button',
      {
        type: 'button',
        'data-preset': method.method,
        title: method.describe,
        onclick: () => parameters.set({ gamma: method.gamma!, temperature: method.temperature! }),
      },
      method.label,
    );
    parameters.listenAtOnce((now) => {
      element.setAttribute('aria-pressed', String(now.gamma === method.gamma && now.temperature === method.temperature));
    });
    return element;
  };
  return h(
    'div',
    { class: 'presets', role: 'group', 'aria-label': 'Presets' },
    h('button', { type: 'button', 'data-preset': 'reset', class: 'reset', onclick: () => parameters.set({ gamma: 0, temperature: 1 }) }, 'Reset'),
    parametric.map(button),
  );
}

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

function heatPanel(grid: Criterion, range: Range, parameters: Watched<Parameters>): HTMLElement {
  const data = heatMapData(grid);
  const style = metricStyle(grid.criterion);
  const chart = h('div', {
    class: 'chart heat',
    id: 'heat-map',
    tabindex: 0,
    role: 'application',
    'aria-label': 'Criterion over γ and T. Arrow keys move γ (left, right) and T (up, down); Enter takes the optimum.',
  });
  const marker = document.createElementNS('http://www.w3.org/2000/svg', 'circle');
  for (const [name, value] of Object.entries({ r: '7', fill: 'none', stroke: 'black', 'stroke-width': '5' })) marker.setAttribute(name, value);
  const inner = marker.cloneNode() as SVGCircleElement;
  for (const [name, value] of Object.entries({ stroke: 'white', 'stroke-width': '2.5' })) inner.setAttribute(name, value);
  let map: HeatMap | null = null;

  function place(): void {
    if (map === null) return;
    const [x, y] = map.toPixels(parameters.value.gamma, parameters.value.temperature);
    const shown = Number.isFinite(x) && Number.isFinite(y);
    for (const circle of [marker, inner]) {
      circle.setAttribute('cx', String(x));
      circle.setAttribute('cy', String(y));
      circle.setAttribute('visibility', shown ? 'visible' : 'hidden');
    }
  }

  responsive(chart, (width) => {
    map = heatMap(data, width);
    const svg = map.element.tagName === 'svg' ? map.element : map.element.querySelector('svg')!;
    svg.append(marker, inner);
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
