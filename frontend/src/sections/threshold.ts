// From costs to a decision: a threshold for one class, or the cheapest of all classes.

import { AFTER, BEFORE, costChart } from '../charts';
import { bestThreshold, costCurve, matrixCost, statedCost, type Costs } from '../costs';
import type { ReportDocument } from '../document';
import { classPicker, h, numberBox, responsive, section } from '../dom';
import type { Entries, Which } from '../entries';
import { clipped, fixed, percent, whole } from '../format';
import { Watched } from '../state';

const THRESHOLDS = Array.from({ length: 201 }, (_, i) => i / 200);
const MOST_CLASSES = 10;

interface State extends Costs {
  klass: number;
}

export function thresholdSection(doc: ReportDocument, entries: Entries, names: (k: number) => string): HTMLElement {
  const sides = (doc.chosen === 'identity' ? ['before'] : ['before', 'after']) as Which[];
  const state = new Watched<State>({ falsePositive: 1, falseNegative: 5, klass: doc.n_classes === 2 ? 1 : 0 });
  const chart = h('div', { class: 'chart' });
  const readout = h('dl', { class: 'readout', 'aria-live': 'polite' });
  const note = h('p', { class: 'small muted' });
  const draw = responsive(chart, (width) => {
    const { klass, ...costs } = state.value;
    const lines = sides.map((which) => ({ name: which, colour: which === 'before' ? BEFORE : AFTER, thresholds: THRESHOLDS, costs: costCurve(entries.of(klass, which), THRESHOLDS, costs) }));
    const trivial = Math.min(...costCurve(entries.of(klass, 'before'), [0, Infinity], costs));
    chart.replaceChildren(costChart(lines, bestThreshold(costs), trivial, width));
  });
  state.listen(({ klass, ...costs }) => {
    const t = bestThreshold(costs);
    const entry = (title: string, value: string, detail: string, figure: string) =>
      h('div', {}, h('dt', {}, title), h('dd', {}, h('output', { 'data-figure': figure }, value), h('span', { class: 'muted' }, detail)));
    readout.replaceChildren(
      entry('Threshold', percent(t), `predict “${clipped(names(klass), 24)}” at this probability or more`, 'threshold'),
      ...sides.map((which) => {
        const one = entries.of(klass, which);
        const [cost] = costCurve(one, [t], costs);
        return entry(`Cost per row, ${which}`, fixed(cost, 4), `expected from the probabilities: ${fixed(statedCost(one, t, costs), 4)}`, `cost-${which}`);
      }),
    );
    const sample = entries.n < doc.n_judged ? `Computed from a random sample of ${whole(entries.n)} of ${whole(doc.n_judged)} rows. ` : '';
    const pooled = t < entries.pooledBelow ? `Probabilities below ${percent(entries.pooledBelow)} are pooled: costs at this threshold are rough.` : '';
    note.textContent = (doc.is_weighted ? 'Rows are drawn in proportion to their weights. ' : '') + sample + pooled;
    draw();
  });
  return section(
    'threshold',
    'Choosing a threshold',
    h('p', { class: 'muted' }, 'What does a wrong decision cost? With calibrated probabilities the cheapest threshold follows from the costs alone: FP / (FP + FN). Costs can be in any unit; right decisions cost nothing.'),
    h(
      'div',
      { class: 'pair' },
      h(
        'div',
        { class: 'card' },
        h(
          'div',
          { class: 'controls' },
          classPicker('positive-class', 'Positive class', doc.n_classes, names, state.value.klass, (klass) => state.set({ klass: klass ?? 0 })),
          numberBox('cost-false-positive', 'Cost of a false positive', 1, 0, (falsePositive) => state.set({ falsePositive })),
          numberBox('cost-false-negative', 'Cost of a false negative', 5, 0, (falseNegative) => state.set({ falseNegative })),
        ),
        readout,
        note,
      ),
      h('figure', { class: 'card' }, h('figcaption', {}, h('h3', {}, 'Cost by threshold'), key(sides)), chart),
    ),
    doc.n_classes > 2 && doc.n_classes <= MOST_CLASSES && entries.whole !== null && matrixPanel(doc, entries, names, sides),
  );
}

const key = (sides: Which[]): HTMLElement =>
  h('span', { class: 'small muted key' }, sides.map((name) => h('span', { class: 'key-item' }, h('span', { class: `swatch ${name}` }), name)));

/** Costs of every confusion, and what the cheapest decisions cost. */
function matrixPanel(doc: ReportDocument, entries: Entries, names: (k: number) => string, sides: Which[]): HTMLElement {
  const k = doc.n_classes;
  const matrix: number[][] = Array.from({ length: k }, (_, i) => Array.from({ length: k }, (_, j) => (i === j ? 0 : 1)));
  const out = h('p', { class: 'small', role: 'status' });
  let isWaiting = false;
  function update(): void {
    isWaiting = false;
    const words = sides.map((which) => {
      const found = matrixCost(entries.whole!, which, matrix);
      return `${which} ${fixed(found.cost, 4)} (expected from the probabilities: ${fixed(found.stated, 4)}; always predicting the most probable class: ${fixed(found.topLabel, 4)})`;
    });
    out.textContent = `Cost per row of the cheapest decisions: ${words.join('; ')}.`;
  }
  const box = (i: number, j: number) => {
    const input = h('input', {
      type: 'number',
      min: 0,
      step: 'any',
      value: matrix[i][j],
      'aria-label': `Cost of deciding ${names(j)} if the label is ${names(i)}`,
      oninput: () => {
        const value = Number(input.value);
        if (input.value === '' || !Number.isFinite(value) || value < 0) return;
        matrix[i][j] = value;
        if (!isWaiting) requestAnimationFrame(update);
        isWaiting = true;
      },
    });
    return h('td', {}, input);
  };
  update();
  return h(
    'div',
    { class: 'card below' },
    h('h3', {}, 'Costs of every confusion'),
    h('p', { class: 'small muted' }, 'Rows: the label. Columns: the decision. Each row of the file is assigned to the class with the lowest expected cost.'),
    h(
      'div',
      { class: 'scroller matrix', tabindex: 0, role: 'region', 'aria-label': 'Table: costs' },
      h(
        'table',
        {},
        h('caption', { class: 'sr' }, 'Costs of every confusion'),
        h('thead', {}, h('tr', {}, h('th', { scope: 'col' }, 'label'), Array.from({ length: k }, (_, j) => h('th', { scope: 'col', title: names(j) }, clipped(names(j), 9))))),
        h('tbody', {}, Array.from({ length: k }, (_, i) => h('tr', {}, h('th', { scope: 'row', title: names(i) }, clipped(names(i), 14)), Array.from({ length: k }, (_, j) => box(i, j))))),
      ),
    ),
    out,
  );
}
