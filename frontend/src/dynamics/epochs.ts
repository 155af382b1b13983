// One epoch at a time: reliability and gradient norms under a slider.

import { AFTER, binCounts, reliability } from '../charts';
import type { DynamicsDocument, Picture, Split } from '../document';
import { h, responsive, s, section, segmented } from '../dom';
import { percent } from '../format';
import { Watched } from '../state';
import { gradientBars, gradientMap, type GradientMap } from './charts';
import { bins, nearest, normRange, spread } from './histograms';

interface Shown {
  split: Split;
  /** index among the pictures of the split */
  index: number;
}

const WORDS = { x: 'confidence', y: 'accuracy' };
const N_SMALL = 4;

export function epochsSection(doc: DynamicsDocument): HTMLElement {
  const shown = new Watched<Shown>({ split: 'test', index: doc.pictures.test.length - 1 });
  const pictures = (): Picture[] => doc.pictures[shown.value.split];
  const picture = (): Picture => pictures()[shown.value.index];
  const output = h('output', { for: 'epoch', class: 'figure-number', 'data-figure': 'epoch' });
  const slider = h('input', { id: 'epoch', type: 'range', min: 0, step: 1, oninput: () => shown.set({ index: Number(slider.value) }) });
  shown.listenAtOnce(({ index }) => {
    slider.max = String(pictures().length - 1);
    slider.value = String(index);
    slider.setAttribute('aria-valuetext', `epoch ${picture().epoch}`);
    output.textContent = `${picture().epoch} of ${doc.epochs}`;
  });
  const choose = (split: Split) => {
    const epochs = doc.pictures[split].map((p) => p.epoch);
    shown.set({ split, index: nearest(epochs, picture().epoch) });
  };
  return section(
    'epochs',
    'Epoch by epoch',
    h(
      'p',
      { class: 'muted' },
      'Move the slider to see confidence and the gradients of the last layer change. Of a calibrated network the dots lie on the dashed line; below it the network is overconfident.',
    ),
    h(
      'div',
      { class: 'controls' },
      segmented<Split>('Examples', (['train', 'validation', 'test'] as const).map((value) => ({ value, text: value })), 'test', choose),
    ),
    h('div', { class: 'card slider' }, h('label', { for: 'epoch' }, 'Epoch'), slider, output),
    h('div', { class: 'pair' }, diagram(shown, picture), ...gradients(doc, shown, pictures, picture)),
    h('h3', { class: 'above' }, 'At a few epochs'),
    few(shown, pictures),
  );
}

function diagram(shown: Watched<Shown>, picture: () => Picture): HTMLElement {
  const chart = h('div', { class: 'chart' });
  const counts = h('div', { class: 'chart' });
  const figure = h('span', { class: 'figure-number', 'data-figure': 'epoch-ece' });
  const draw = responsive(chart, (width) => {
    const { table, epoch } = picture();
    const name = `${shown.value.split} examples after epoch ${epoch}`;
    chart.replaceChildren(reliability(table, AFTER, width, { name, ...WORDS }));
    counts.replaceChildren(binCounts(table, AFTER, width, name));
  });
  shown.listen(() => {
    figure.textContent = `ECE ${percent(picture().table.ece, 2)}`;
    draw();
  });
  return h('figure', { class: 'card after' }, h('figcaption', {}, h('h3', {}, 'Reliability'), figure), chart, counts);
}

function gradients(doc: DynamicsDocument, shown: Watched<Shown>, pictures: () => Picture[], picture: () => Picture): HTMLElement[] {
  const edges = doc.gradient_edges;
  const all = Object.values(doc.pictures).flat();
  const range = normRange(all.map((p) => p.gradients), edges);
  if (range === null) {
    return [h('figure', { class: 'card' }, h('figcaption', {}, h('h3', {}, 'Gradients of the last layer')), h('p', {}, 'This network has no last linear layer whose gradients could be seen.'))];
  }
  const most = Math.max(...all.flatMap((p) => bins(p.gradients, edges).map((bin) => bin.share)));
  const bars = h('div', { class: 'chart' });
  const drawBars = responsive(bars, (width) => {
    const last = pictures()[pictures().length - 1];
    bars.replaceChildren(gradientBars(picture(), last, edges, range, most, width));
  });
  shown.listen(drawBars);
  return [
    h(
      'figure',
      { class: 'card live' },
      h('figcaption', {}, h('h3', {}, 'Gradients of the last layer'), h('span', { class: 'small muted' }, 'norm of each example’s own')),
      bars,
      h('p', { class: 'small muted key' }, h('span', { class: 'swatch live' }), 'this epoch ', h('span', { class: 'swatch before line' }), 'last epoch'),
      mapPanel(shown, pictures, picture, edges, range),
    ),
  ];
}

function mapPanel(shown: Watched<Shown>, pictures: () => Picture[], picture: () => Picture, edges: number[], range: [number, number]): HTMLElement {
  const chart = h('div', { class: 'chart' });
  const marker = s('line', { stroke: 'var(--before)', 'stroke-width': 2 });
  let map: GradientMap | null = null;
  let drawn: Split | null = null;
  const place = () => {
    if (map === null) return;
    const { x, top, bottom } = map.toPixels(picture().epoch);
    for (const [name, value] of Object.entries({ x1: x, x2: x, y1: top, y2: bottom })) marker.setAttribute(name, String(value));
  };
  const draw = responsive(chart, (width) => {
    drawn = shown.value.split;
    map = gradientMap(pictures(), edges, range, width);
    map.element.append(marker);
    chart.replaceChildren(map.element);
    place();
  });
  shown.listen(({ split }) => {
    if (split === drawn) place();
    else draw();
  });
  return h('div', {}, chart, h('p', { class: 'small muted' }, 'All epochs: the lighter, the more examples (square-root scale). White line: the median.'));
}

/** Diagrams that need no hand on a slider, as on paper. */
function few(shown: Watched<Shown>, pictures: () => Picture[]): HTMLElement {
  const box = h('div', { class: 'few' });
  let drawn: Split | null = null;
  shown.listen(({ split }) => {
    if (split === drawn) return;
    drawn = split;
    const chosen = spread(pictures().length, N_SMALL).map((i) => pictures()[i]);
    box.replaceChildren(
      ...chosen.map(({ epoch, table }) => {
        const chart = h('div', { class: 'chart' });
        responsive(chart, (width) => chart.replaceChildren(reliability(table, AFTER, width, { name: `${split} examples after epoch ${epoch}`, ...WORDS })));
        return h('figure', { class: 'card' }, h('figcaption', {}, h('h4', {}, `Epoch ${epoch}`), h('span', { class: 'figure-number small' }, `ECE ${percent(table.ece, 2)}`)), chart);
      }),
    );
  });
  return box;
}
