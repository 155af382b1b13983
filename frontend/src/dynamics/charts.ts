// The charts of the dynamics page, drawn with Observable Plot; see ../charts.ts.

import * as Plot from '@observablehq/plot';
import { AFTER, BEFORE, LABEL, labelled, LIVE, MARGINS } from '../charts';
import type { EpochCurve, Picture } from '../document';
import { h } from '../dom';
import { fixed, percent, whole } from '../format';
import { bins, epochEdges, median } from './histograms';

export interface Line {
  name: string;
  colour: string;
  dash: string;
  curve: EpochCurve;
}

export const STYLE = {
  train: { colour: LIVE, dash: '6 3' },
  validation: { colour: BEFORE, dash: '2 2' },
  test: { colour: AFTER, dash: '' },
  correct: { colour: AFTER, dash: '' },
  incorrect: { colour: BEFORE, dash: '6 3' },
  all: { colour: 'var(--muted)', dash: '2 2' },
} as const;

export interface LineWords {
  /** what is drawn, for those who do not see it */
  name: string;
  isPercent?: boolean;
  isLog?: boolean;
  isFromZero?: boolean;
  /** values marked at the side; those of a round scale when left out */
  ticks?: number[] | number;
  /** epochs at whose start the learning rate changes */
  changes?: number[];
  epochs: number;
}

const number = (x: number, isPercent: boolean): string => (isPercent ? percent(x, 2) : Math.abs(x) >= 0.001 || x === 0 ? fixed(x, 4) : x.toExponential(1));

/** Lines over the epochs, with the values under the pointer. */
export function lines(shown: Line[], width: number, words: LineWords): Element {
  const { isPercent = false, isLog = false, isFromZero = true, ticks = 5, changes = [], epochs } = words;
  const scale = isPercent ? 100 : 1;
  const points = shown.flatMap((line) =>
    line.curve.epoch.map((epoch, i) => ({ ...line, epoch, y: line.curve.value[i] * scale, tip: `${line.name}, epoch ${epoch}\n${number(line.curve.value[i], isPercent)}` })),
  );
  const few = points.filter((p) => p.curve.epoch.length <= 12);
  const plot = Plot.plot({
    ...MARGINS,
    marginLeft: 50,
    width,
    height: Math.round(Math.min(width * 0.62, 240)),
    marginTop: 12,
    marginBottom: 36,
    x: { domain: [epochs > 1 ? 1 : 0, epochs > 1 ? epochs : 2], label: 'epoch', ...LABEL, ticks: Math.max(2, Math.min(6, epochs, Math.round(width / 70))), tickFormat: (x: number) => (Number.isInteger(x) ? whole(x) : '') },
    y: { label: null, grid: true, nice: true, zero: isFromZero && !isLog, type: isLog ? 'log' : 'linear', ticks, tickFormat: isLog ? '~g' : isPercent ? (y: number) => `${Number(y.toPrecision(6))} %` : undefined },
    marks: [
      Plot.ruleX(changes, { stroke: 'var(--line)' }),
      ...shown.map((line) =>
        Plot.line(points.filter((p) => p.name === line.name), { x: 'epoch', y: 'y', stroke: line.colour, strokeDasharray: line.dash, strokeWidth: 1.8, curve: isLog ? 'step-after' : 'linear' }),
      ),
      Plot.dot(few, { x: 'epoch', y: 'y', r: 2.5, fill: 'colour' }),
      Plot.tip(points, Plot.pointer({ x: 'epoch', y: 'y', title: 'tip', fill: 'var(--surface)', stroke: 'var(--line)' })),
    ],
  });
  const ends = shown.map(({ name, curve }) => `${name} from ${number(curve.value[0], isPercent)} to ${number(curve.value[curve.value.length - 1], isPercent)}`);
  return labelled(plot, `${words.name} over the epochs: ${ends.join(', ')}.`);
}

/** What the lines of a chart stand for. */
export function key(names: (keyof typeof STYLE)[]): HTMLElement {
  return h('p', { class: 'small muted key' }, names.map((name) => h('span', { class: 'key-item' }, sample(STYLE[name]), ` ${name}`)));
}

function sample({ colour, dash }: { colour: string; dash: string }): Element {
  const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  const line = document.createElementNS('http://www.w3.org/2000/svg', 'line');
  for (const [name, value] of Object.entries({ width: '26', height: '8', 'aria-hidden': 'true' })) svg.setAttribute(name, value);
  for (const [name, value] of Object.entries({ x2: '26', y1: '4', y2: '4', stroke: colour, 'stroke-width': '2.2', 'stroke-dasharray': dash })) line.setAttribute(name, value);
  svg.append(line);
  return svg;
}

const power = (x: number): string => `1e${x}`;
const powers = ([low, high]: [number, number]): number[] => {
  const all = Array.from({ length: Math.floor(high) - Math.ceil(low) + 1 }, (_, i) => Math.ceil(low) + i);
  return all.length > 7 ? all.filter((x) => x % 2 === 0) : all;
};

export interface GradientMap {
  element: Element;
  /** where an epoch lies, from left; top and bottom of the frame */
  toPixels(epoch: number): { x: number; top: number; bottom: number };
}

/** Share of the examples by the norm of their gradient, epoch by epoch. */
export function gradientMap(pictures: Picture[], edges: number[], range: [number, number], width: number): GradientMap {
  const sides = epochEdges(pictures.map((p) => p.epoch));
  const cells = pictures.flatMap((picture, i) =>
    bins(picture.gradients, edges).filter((bin) => bin.share > 0).map((bin) => ({ x1: sides[i], x2: sides[i + 1], ...bin })),
  );
  const middle = pictures.map((picture) => ({ epoch: picture.epoch, y: median(picture.gradients, edges) }));
  const height = Math.round(Math.min(width * 0.55, 250));
  const [top, bottom] = [22, 36];
  const plot = Plot.plot({
    ...MARGINS,
    width,
    height,
    marginTop: top,
    marginBottom: bottom,
    x: { domain: [sides[0], sides[sides.length - 1]], label: 'epoch', ...LABEL, ticks: Math.max(2, Math.round(width / 90)), tickFormat: (x: number) => (Number.isInteger(x) && x > 0 ? whole(x) : '') },
    y: { domain: range, label: 'norm of the gradient', ticks: powers(range), tickFormat: power },
    color: { scheme: 'viridis', type: 'sqrt', domain: [0, Math.max(...cells.map((c) => c.share))] },
    marks: [
      Plot.rect(cells, { x1: 'x1', x2: 'x2', y1: 'low', y2: 'high', fill: 'share', inset: -0.3, clip: true }),
      Plot.line(middle, { x: 'epoch', y: 'y', stroke: 'black', strokeWidth: 4, strokeOpacity: 0.6 }),
      Plot.line(middle, { x: 'epoch', y: 'y', stroke: 'white', strokeWidth: 2 }),
      pictures.length === 1 ? Plot.dot(middle, { x: 'epoch', y: 'y', r: 4, fill: 'white', stroke: 'black' }) : null,
    ],
  });
  const x = plot.scale('x')!;
  const [first, last] = [middle[0].y, middle[middle.length - 1].y].map((y) => (10 ** y).toExponential(1));
  labelled(plot, `Norms of the examples' gradients over the epochs: the median goes from ${first} to ${last}.`);
  return { element: plot, toPixels: (epoch) => ({ x: x.apply(epoch), top, bottom: height - bottom }) };
}

/** The norms of one epoch as bars, of the last one as an outline. */
export function gradientBars(picture: Picture, last: Picture, edges: number[], range: [number, number], most: number, width: number): Element {
  const outline = bins(last.gradients, edges).flatMap((bin) => [[bin.low, 100 * bin.share], [bin.high, 100 * bin.share]]);
  const plot = Plot.plot({
    ...MARGINS,
    width,
    height: Math.round(Math.min(width * 0.42, 190)),
    marginTop: 22,
    marginBottom: 36,
    x: { domain: range, label: 'norm of the gradient', ...LABEL, ticks: powers(range), tickFormat: power },
    y: { domain: [0, 100 * most], label: 'examples (%)', grid: true, ticks: 4 },
    marks: [
      Plot.rectY(bins(picture.gradients, edges), { x1: 'low', x2: 'high', y: (bin: { share: number }) => 100 * bin.share, fill: LIVE, fillOpacity: 0.75, insetLeft: 0.5, insetRight: 0.5, clip: true }),
      Plot.line(outline, { stroke: BEFORE, strokeWidth: 1.3, clip: true }),
      Plot.ruleY([0], { stroke: 'var(--muted)' }),
    ],
  });
  const middle = median(picture.gradients, edges);
  return labelled(plot, `Norms of the gradients after epoch ${picture.epoch}: the median is ${(10 ** middle).toExponential(1)}.`);
}
