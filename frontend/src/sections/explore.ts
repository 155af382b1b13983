// Live gamma and temperature: sliders, and what follows from them.

import { confidenceHistogram, LIVE, reliability } from '../charts';
import type { Binning, Method, ReportDocument } from '../document';
import { formula, h, responsive, section, segmented } from '../dom';
import { fixed, metricStyle, percent, whole } from '../format';
import { binTable, histogram, s99 } from '../metrics';
import { evaluate, type Rows } from '../recovery';
import { Watched, type Parameters, type Range } from '../state';
import { heatPanel } from './heat';

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
      ? `Computed in this page from a random sample of ${whole(rows.n)} of the ${whole(doc.n_judged)} rows (seed ${doc.rows!.seed}).`
      : `Computed in this page from all ${whole(rows.n)} rows.`;
  return section(
    'explore',
    'Try γ and T yourself',
    h('p', { class: 'muted' }, formula('Ψ_γ(softmax(z/T))'), `: T > 1 makes the model less confident, T < 1 more; γ > 0 undoes focal training. ${sample}`),
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
        h('div', {}, h('dt', { title: 'share of predictions made with a confidence of at least 99 %' }, 'Confidence ≥ 99 %'), h('dd', {}, figures.s99, h('span', { class: 'small muted' }, right))),
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
        title: method.parameters,
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
