// The charts of the dynamics page; see ../charts.ts.

import { AFTER, BEFORE, LIVE } from '../charts';
import type { EpochCurve, Picture } from '../document';
import { h, s } from '../dom';
import { fixed, percent, whole } from '../format';
import { Plot, type Point } from '../plot';
import { logarithmic, round, Scale, viridis } from '../scale';
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
  const points = ({ curve }: Line) => curve.epoch.map((epoch, i): Point => [epoch, curve.value[i] * scale]);
  const values = shown.flatMap(({ curve }) => curve.value.map((y) => y * scale));
  const x = new Scale(epochs > 1 ? [1, epochs] : [0, 2]);
  const y = isLog ? logarithmic(values) : round(values, isFromZero);
  const isWhole = (epoch: number): string => (Number.isInteger(epoch) ? whole(epoch) : '');
  const plot = new Plot({ width, height: Math.round(Math.min(width * 0.62, 240)), top: 12, bottom: 36, left: 50, x, y })
    .axisX({ label: 'epoch', ticks: Math.max(2, Math.min(6, epochs, Math.round(width / 70))), text: isWhole })
    .axisY({ ticks, hasGrid: true, text: isPercent ? (value) => `${Number(value.toPrecision(6))} %` : undefined });
  for (const change of changes) plot.upright(change, { stroke: 'var(--line)' });
  // Rates, on a log scale, hold until the next.
  const steps = (all: Point[]) => all.flatMap(([epoch, y], i): Point[] => (i === 0 ? [[epoch, y]] : [[epoch, all[i - 1][1]], [epoch, y]]));
  for (const line of shown) plot.line(isLog ? steps(points(line)) : points(line), { stroke: line.colour, 'stroke-dasharray': line.dash, 'stroke-width': 1.8 });
  for (const line of shown.filter(({ curve }) => curve.epoch.length <= 12)) for (const at of points(line)) plot.dot(at, 2.5, { fill: line.colour });
  plot.tips(shown.flatMap((line) => points(line).map((at, i) => ({ at, text: `${line.name}, epoch ${at[0]}\n${number(line.curve.value[i], isPercent)}` }))));
  const ends = shown.map(({ name, curve }) => `${name} from ${number(curve.value[0], isPercent)} to ${number(curve.value[curve.value.length - 1], isPercent)}`);
  return plot.labelled(`${words.name} over the epochs: ${ends.join(', ')}.`);
}

/** What the lines of a chart stand for. */
export function key(names: (keyof typeof STYLE)[]): HTMLElement {
  return h('p', { class: 'small muted key' }, names.map((name) => h('span', { class: 'key-item' }, sample(STYLE[name]), ` ${name}`)));
}

const sample = ({ colour, dash }: { colour: string; dash: string }): Element =>
  s('svg', { width: 26, height: 8, 'aria-hidden': 'true' }, s('line', { x2: 26, y1: 4, y2: 4, stroke: colour, 'stroke-width': 2.2, 'stroke-dasharray': dash }));

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
  const middle = pictures.map((picture): Point => [picture.epoch, median(picture.gradients, edges)]);
  const height = Math.round(Math.min(width * 0.55, 250));
  const [top, bottom] = [22, 36];
  const x = new Scale([sides[0], sides[sides.length - 1]]);
  const isEpoch = (epoch: number): string => (Number.isInteger(epoch) && epoch > 0 ? whole(epoch) : '');
  const plot = new Plot({ width, height, top, bottom, x, y: new Scale(range) })
    .axisX({ label: 'epoch', ticks: Math.max(2, Math.round(width / 90)), text: isEpoch })
    .axisY({ label: 'norm of the gradient', ticks: powers(range), text: power });
  const colour = viridis(0, Math.max(...cells.map((c) => c.share)));
  const clip = plot.clip();
  for (const { x1, x2, low, high, share } of cells) plot.rect([x1, low], [x2, high], { fill: colour(share), ...clip }, [-0.3, -0.3]);
  plot.line(middle, { stroke: 'black', 'stroke-width': 4, 'stroke-opacity': 0.6 }).line(middle, { stroke: 'white', 'stroke-width': 2 });
  if (middle.length === 1) plot.dot(middle[0], 4, { fill: 'white', stroke: 'black' });
  const [first, last] = [middle[0], middle[middle.length - 1]].map(([, y]) => (10 ** y).toExponential(1));
  const element = plot.labelled(`Norms of the examples' gradients over the epochs: the median goes from ${first} to ${last}.`);
  return { element, toPixels: (epoch) => ({ x: x.at(epoch), top, bottom: height - bottom }) };
}

/** The norms of one epoch as bars, of the last one as an outline. */
export function gradientBars(picture: Picture, last: Picture, edges: number[], range: [number, number], most: number, width: number): Element {
  const plot = new Plot({ width, height: Math.round(Math.min(width * 0.42, 190)), top: 22, bottom: 36, x: new Scale(range), y: new Scale([0, 100 * most]) })
    .axisX({ label: 'norm of the gradient', ticks: powers(range), text: power })
    .axisY({ label: 'examples (%)', ticks: 4, hasGrid: true });
  const clip = plot.clip();
  for (const { low, high, share } of bins(picture.gradients, edges)) plot.rect([low, 0], [high, 100 * share], { fill: LIVE, 'fill-opacity': 0.75, ...clip }, [0.5, 0]);
  const outline = bins(last.gradients, edges).flatMap(({ low, high, share }): Point[] => [[low, 100 * share], [high, 100 * share]]);
  plot.line(outline, { stroke: BEFORE, 'stroke-width': 1.3, ...clip }).ground();
  const middle = median(picture.gradients, edges);
  return plot.labelled(`Norms of the gradients after epoch ${picture.epoch}: the median is ${(10 ** middle).toExponential(1)}.`);
}
