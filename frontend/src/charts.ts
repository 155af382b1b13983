// The charts. Colours are CSS variables, so that a change of theme needs no drawing.

import { s } from './dom';
import type { BinTable, Curve, Promised, Risk } from './document';
import { clipped, fixed, percent, whole } from './format';
import { bootstrapBand } from './metrics';
import { Plot, type Point } from './plot';
import { linear, ROOT, round, Scale, viridis, type Span } from './scale';

export const BEFORE = 'var(--before)';
export const AFTER = 'var(--after)';
export const LIVE = 'var(--live)';

const MUTED = 'var(--muted)';
const DASHED = { stroke: MUTED, 'stroke-width': 1.5, 'stroke-dasharray': '4 3' };
const compact = (n: number): string => (n < 1000 ? String(Math.round(n)) : `${Number((n / 1000).toFixed(n < 10000 ? 1 : 0))}k`);
const ticks = [0, 0.2, 0.4, 0.6, 0.8, 1];
const asPercent = (x: number): string => `${Math.round(x * 100)}`;
const UNIT = { ticks, text: asPercent };
const unit = (): Scale => new Scale([0, 1]);
/** The frame of a diagram that is about as high as wide. */
export const square = (width: number) => ({ width, height: Math.round(Math.min(width, 460) * 0.86), top: 22, bottom: 36 });

interface Bin {
  conf: number;
  acc: number;
  count: number;
  low: number;
  high: number;
  calibratedLow: number;
  calibratedHigh: number;
  tip: string;
}

function binsOf(table: BinTable): Bin[] {
  return table.count.map((count, b) => {
    const [conf, acc] = [table.confidence[b], table.accuracy[b]];
    const [low, high] = bootstrapBand(count, acc);
    const [calibratedLow, calibratedHigh] = bootstrapBand(count, conf);
    const tip =
      `confidence ${percent(conf)}\naccuracy ${percent(acc)} [${(low * 100).toFixed(1)}, ` +
      `${(high * 100).toFixed(1)}]\n${whole(count)} rows`;
    return { conf, acc, count, low, high, calibratedLow, calibratedHigh, tip };
  });
}

export interface DiagramWords {
  name: string;
  x: string;
  y: string;
}

/** Reliability diagram: accuracy against confidence of each bin, with bands. */
export function reliability(table: BinTable, colour: string, width: number, words: DiagramWords): Element {
  const bins = binsOf(table);
  const most = Math.max(...bins.map((b) => b.count), 1);
  const plot = new Plot({ ...square(width), x: unit(), y: unit() })
    .axisX({ ...UNIT, label: `${words.x} (%)` })
    .axisY({ ...UNIT, label: `${words.y} (%)`, hasGrid: true })
    .area(bins.map((b) => [b.conf, b.calibratedLow, b.calibratedHigh]), { fill: 'var(--band)' })
    .segment([0, 0], [1, 1], DASHED);
  for (const { conf, acc } of bins) plot.segment([conf, conf], [conf, acc], { stroke: colour, 'stroke-width': 5, 'stroke-opacity': 0.22 });
  plot.line(bins.map((b) => [b.conf, b.acc]), { stroke: colour, 'stroke-width': 1.5, 'stroke-opacity': 0.75 });
  for (const { conf, low, high } of bins) plot.segment([conf, low], [conf, high], { stroke: colour, 'stroke-width': 1.5 });
  const size = new Scale([0, most], ROOT).between(1.5, 7);
  for (const { conf, acc, count } of bins) plot.dot([conf, acc], size.at(count), { fill: colour, stroke: 'var(--surface)' });
  plot.tips(bins.map(({ conf, acc, tip }) => ({ at: [conf, acc], text: tip })));
  const worst = bins.reduce((a, b) => (Math.abs(b.acc - b.conf) * b.count > Math.abs(a.acc - a.conf) * a.count ? b : a), bins[0]);
  const detail = worst
    ? ` The bin that adds most to the error holds ${whole(worst.count)} rows: confidence ${percent(worst.conf)}, accuracy ${percent(worst.acc)}.`
    : '';
  return plot.labelled(`Reliability diagram, ${words.name}: calibration error ${percent(table.ece, 2)}.${detail}`);
}

/** Where probabilities stand along both axes of a diagram. */
export interface Axis {
  at(p: number): number;
  domain: Span;
  ticks: number[];
  text(at: number): string;
}

export const LINEAR: Axis = { at: (p) => p, domain: [0, 1], ticks, text: asPercent };

const ODDS_TICKS = [0.0001, 0.001, 0.01, 0.03, 0.1, 0.25, 0.5, 0.75, 0.9, 0.97, 0.99, 0.999, 0.9999];

/** Log-odds, for probabilities that crowd near 0 or 1; wide enough for all `curves`. */
export function logOdds(curves: Curve[]): Axis {
  const inside = curves.flatMap((c) => [...c.low, ...c.high, ...c.rate]).filter((p) => p > 0 && p < 1);
  const first = ODDS_TICKS.findLast((t) => t <= Math.min(0.5, ...inside)) ?? ODDS_TICKS[0];
  const last = ODDS_TICKS.find((t) => t >= Math.max(0.5, ...inside)) ?? ODDS_TICKS[ODDS_TICKS.length - 1];
  const at = (p: number) => {
    const x = Math.min(last, Math.max(first, p));
    return Math.log(x / (1 - x));
  };
  const shown = ODDS_TICKS.filter((t) => t >= first && t <= last);
  const text = (x: number) => String(Number((100 / (1 + Math.exp(-x))).toPrecision(4)));
  return { at, domain: [at(first), at(last)], ticks: shown.map(at), text };
}

/** Whether more than half of the rows have a probability below 10 %, or above 90 %. */
export function isCrowded({ low, high, count }: Curve): boolean {
  const sum = (isIn: (b: number) => boolean) => count.reduce((total, n, b) => total + (isIn(b) ? n : 0), 0);
  const half = 0.5 * sum(() => true);
  return sum((b) => high[b] < 0.1) > half || sum((b) => low[b] > 0.9) > half;
}

/** Blocks at the ends of a curve with fewer rows than this, or this share of them on a linear axis, are dots: a line to them looks like an error. */
const FEW_ROWS = 10;
const FEW = 0.01;

/** Reliability diagram without bins: isotonic regression, and the band of a calibrated model. */
export function curveDiagram(curve: Curve, colour: string, width: number, words: DiagramWords, axis: Axis = LINEAR): Element {
  const band = curve.band_at.map((x, i) => [axis.at(x), axis.at(curve.band_low[i]), axis.at(curve.band_high[i])] as const);
  const blocks = curve.rate.map((y, b) => ({
    low: axis.at(curve.low[b]),
    high: axis.at(curve.high[b]),
    x: axis.at(0.5 * (curve.low[b] + curve.high[b])),
    y: axis.at(y),
    text: `${words.x} ${percent(curve.low[b])} to ${percent(curve.high[b])}\n${words.y} ${percent(y)}\n${rows(curve.count[b])}`,
  }));
  // Log-odds have no place for 0 and 1.
  const least = axis === LINEAR ? Math.max(FEW_ROWS, FEW * curve.count.reduce((a, b) => a + b, 0)) : FEW_ROWS;
  const isInLine = (n: number, b: number) => n >= least && (axis === LINEAR || (curve.rate[b] > 0 && curve.rate[b] < 1));
  const first = Math.max(0, curve.count.findIndex(isInLine));
  const last = curve.count.findLastIndex(isInLine);
  const line = last < first ? blocks : blocks.slice(first, last + 1);
  const corners = line.flatMap(({ low, high, y }): Point[] => [[low, y], [high, y]]);
  const marked = { ticks: axis.ticks, text: axis.text };
  const plot = new Plot({ ...square(width), x: new Scale(axis.domain), y: new Scale(axis.domain) })
    .axisX({ ...marked, label: `${words.x} (%)` })
    .axisY({ ...marked, label: `${words.y} (%)`, hasGrid: true })
    .area(band, { fill: 'var(--band)' })
    .segment([axis.domain[0], axis.domain[0]], [axis.domain[1], axis.domain[1]], DASHED)
    .line(corners, { stroke: colour, 'stroke-width': 2.2 });
  for (const end of line.length === 1 ? corners : [corners[0], corners[corners.length - 1]]) plot.dot(end, 3, { fill: colour });
  for (const { x, y } of blocks.filter((b) => !line.includes(b))) plot.dot([x, y], 2, { fill: 'none', stroke: colour, 'stroke-width': 1.5, 'stroke-opacity': 0.6 });
  plot.tips(blocks.map(({ x, y, text }) => ({ at: [x, y], text })));
  const ends = [0, curve.rate.length - 1];
  return plot.labelled(
    `Reliability curve, ${words.name}: ${words.y} rises from ${percent(curve.rate[ends[0]])} at ${words.x} ${percent(curve.low[ends[0]])} to ${percent(curve.rate[ends[1]])} at ${percent(curve.high[ends[1]])}.`,
  );
}

/** Rows along a log-odds axis, under the diagram. */
export function rowCounts(values: ArrayLike<number>, weights: ArrayLike<number>, axis: Axis, colour: string, width: number, name: string): Element {
  const [low, high] = axis.domain;
  const bars = Array.from({ length: 40 }, (_, i) => ({ x: low + ((i + 0.5) * (high - low)) / 40, count: 0 }));
  for (let i = 0; i < values.length; i++) bars[Math.min(39, Math.floor((40 * (axis.at(values[i]) - low)) / (high - low)))].count += weights[i];
  return countBars(bars.filter((b) => b.count > 0), axis.domain, colour, width).labelled(`Rows along the log-odds axis, ${name}.`);
}

/** Rows of each bin, under the diagram. */
export function binCounts(table: BinTable, colour: string, width: number, name: string, isNumbered = true): Element {
  const bars = table.count.map((count, b) => ({ x: table.confidence[b], count }));
  const plot = countBars(bars, [0, 1], colour, width);
  const hasRoom = (i: number) => i === bars.length - 1 || bars[i + 1].x - bars[i].x > 24 / width;
  for (const { x, count } of bars.filter((_, i) => isNumbered && hasRoom(i))) plot.text([x, count], compact(count), { dy: -4, 'font-size': 10, fill: MUTED });
  const counts = table.count.map((n) => whole(n)).join(', ');
  return plot.labelled(`Rows in each bin, ${name}, from low to high confidence: ${counts}.`);
}

/** Bars on a scale of square roots, so that bins of ten rows can be seen beside one of thousands. */
function countBars(bars: { x: number; count: number }[], domain: Span, colour: string, width: number): Plot {
  const most = Math.max(...bars.map((b) => b.count), 1);
  const plot = new Plot({ width, height: 84, top: 26, bottom: 6, x: new Scale(domain), y: new Scale([0, most], ROOT) }).axisY({ ticks: [], label: 'rows (square-root scale)' });
  for (const { x, count } of bars) plot.segment([x, 0], [x, count], { stroke: colour, 'stroke-width': Math.max(3, (width - 60) / 60), 'stroke-opacity': 0.7 });
  return plot.ground();
}

const rows = (n: number): string => `${whole(n)} ${Math.round(n) === 1 ? 'row' : 'rows'}`;

/** Error among the most confident rows against their share, observed and stated. */
export function riskChart(lines: { name: string; colour: string; risk: Risk }[], width: number, promised: Promised[] = []): Element {
  const steps = promised.flatMap((p, i) => [i === 0 ? 0 : promised[i - 1].coverage, p.coverage].map((x) => [x, 0, 100 * p.error] as const));
  const errors = [...lines.flatMap(({ risk }) => [...risk.risk, ...risk.stated].map((x) => 100 * x)), ...steps.map(([, , error]) => error)];
  const plot = new Plot({ width, height: Math.round(Math.min(width * 0.6, 320)), top: 24, bottom: 36, x: unit(), y: round(errors, true) })
    .axisX({ ...UNIT, label: 'share of rows kept, most confident first (%)' })
    .axisY({ label: 'error among them (%)', hasGrid: true })
    .area(steps, { fill: MUTED, 'fill-opacity': 0.18 });
  const points = ({ coverage }: Risk, values: number[]) => coverage.map((x, i): Point => [x, 100 * values[i]]);
  for (const { colour, risk } of lines) plot.line(points(risk, risk.stated), { stroke: colour, 'stroke-width': 1.4, 'stroke-dasharray': '5 4' });
  for (const { colour, risk } of lines) plot.line(points(risk, risk.risk), { stroke: colour, 'stroke-width': 2 });
  const tips = lines.flatMap(({ name, risk }) =>
    points(risk, risk.risk).map((at, i) => ({ at, text: `${name}\nmost confident ${percent(at[0], 0)} of the rows\nerror ${percent(risk.risk[i], 2)}\nstated ${percent(risk.stated[i], 2)}` })),
  );
  plot.ground().tips(tips);
  const words = lines.map(({ name, risk }) => `${name}: error ${percent(at(risk, 0.5))} on the most confident half, ${percent(at(risk, 1))} on all rows`);
  return plot.labelled(`Error against the share of rows kept. ${words.join('; ')}.`);
}

/** Risk where `coverage` of the rows are kept. */
export function at(risk: Risk, coverage: number, values: number[] = risk.risk): number {
  const i = risk.coverage.findIndex((x) => x >= coverage - 1e-9);
  return values[i < 0 ? values.length - 1 : i];
}

export interface CostLine {
  name: string;
  colour: string;
  thresholds: number[];
  costs: number[];
}

/** Cost against the threshold, with the one that the costs ask for; `trivial` is the cost of always or never. */
export function costChart(lines: CostLine[], threshold: number, trivial: number, width: number): Element {
  // Above what it costs to decide always, or never, there is nothing to see.
  const most = Math.max(1.5 * trivial, ...lines.map(({ costs }) => 1.1 * Math.min(...costs))) || 1;
  const plot = new Plot({ width, height: Math.round(Math.min(width * 0.6, 300)), top: 24, bottom: 36, x: unit(), y: new Scale([0, most]) })
    .axisX({ ...UNIT, label: 'threshold (%)' })
    .axisY({ label: 'cost per row', hasGrid: true });
  const clip = plot.clip();
  const points = ({ thresholds, costs }: CostLine) => thresholds.map((x, i): Point => [x, costs[i]]);
  for (const line of lines) plot.line(points(line), { stroke: line.colour, 'stroke-width': 2, ...clip });
  const tips = lines.flatMap((line) => points(line).map((at) => ({ at, text: `${line.name}\nthreshold ${percent(at[0])}\ncost ${fixed(at[1], 3)} per row` })));
  plot
    .upright(threshold, { stroke: 'var(--ink)', 'stroke-dasharray': '3 3' })
    .ground()
    .tips(tips.filter(({ at }) => at[1] <= most));
  return plot.labelled(`Cost per row against the threshold, before and after calibration; the costs imply a threshold of ${percent(threshold)}.`);
}

/** Histogram of confidence, with another as an outline behind. */
export function confidenceHistogram(bars: number[], ghost: number[], width: number): Element {
  const side = (i: number) => i / bars.length;
  const plot = new Plot({ width, height: 130, top: 20, bottom: 34, x: unit(), y: round([...bars, ...ghost], true) })
    .axisX({ ...UNIT, label: 'confidence (%)' })
    .axisY({ ticks: 3, text: compact, label: 'rows' });
  bars.forEach((count, i) => plot.rect([side(i), 0], [side(i + 1), count], { fill: LIVE, 'fill-opacity': 0.75 }, [0.5, 0]));
  plot.line(ghost.flatMap((count, i): Point[] => [[side(i), count], [side(i + 1), count]]), { stroke: BEFORE, 'stroke-width': 1.2 }).ground();
  return plot.labelled('Histogram of confidence at the sliders, with the uncalibrated model as a line.');
}

export interface Forest {
  label: string;
  estimate: number;
  low: number;
  high: number;
  colour: string;
  tip: string;
}

/** Estimates as dots with intervals, one below the other, and a line at the reference, if it is finite. */
export function forest(rows: Forest[], width: number, title: string, scale: number, reference: number | null, isCutOff = true): Element {
  // One absurd method must not press all others into a line: it is cut off, with an arrow.
  const highs = rows.map((row) => row.high).sort((a, b) => a - b);
  const most = Math.max(3 * highs[Math.floor((highs.length - 1) / 2)], reference ?? 0);
  const isCut = (x: number) => isCutOff && most > 0 && x > most;
  const end = (x: number) => (isCut(x) ? most : x) * scale;
  const data = rows.map((row) => ({ ...row, estimate: end(row.estimate), low: end(row.low), high: end(row.high), isCut: isCut(row.high), isLost: isCut(row.estimate) }));
  const room = Math.min(Math.max(...rows.map((row) => row.label.length)) * 6.6 + 14, width * 0.45);
  const name = (i: number) => clipped(rows[i].label, Math.floor((room - 12) / 6.2));
  const shown = round([...data.flatMap((row) => [row.estimate, row.low, row.high]), ...(reference === null ? [] : [reference * scale])]);
  const plot = new Plot({ width, height: 26 * rows.length + 48, top: 6, bottom: 38, left: room, right: 18, x: shown, y: new Scale([rows.length - 0.5, -0.5]) })
    .axisX({ label: title, hasGrid: true, ticks: Math.max(3, Math.round(width / 110)) })
    .axisY({ ticks: rows.map((_, i) => i), text: name }, 0);
  if (reference !== null) plot.upright(reference * scale, DASHED);
  data.forEach(({ estimate, low, high, colour, ...is }, i) => {
    plot.segment([low, i], [high, i], { stroke: colour, 'stroke-width': 2 });
    if (is.isCut) plot.text([high, i], '›', { dx: 7, dy: '0.32em', 'font-size': 16, fill: MUTED });
    if (!is.isLost) plot.dot([estimate, i], 4.5, { fill: colour, stroke: 'var(--surface)', 'stroke-width': 1.5 });
  });
  plot.tips(data.map(({ estimate, tip }, i) => ({ at: [estimate, i], text: tip })));
  const words = rows.map((row) => row.tip).join('; ');
  return plot.labelled(`${title} with 95 % intervals: ${words}.`);
}

export interface HeatMapData {
  cells: { g1: number; g2: number; t1: number; t2: number; value: number }[];
  best: { gamma: number; temperature: number; value: number };
  ridge: { gamma: number; temperature: number }[];
  line: { gamma: number; temperature: number }[];
  title: string;
}

export interface HeatMap {
  element: Element;
  toPixels(gamma: number, temperature: number): [number, number];
  fromPixels(x: number, y: number): [number, number];
}

/** Five points at 15 pixels from the middle. */
const STAR = `M${Array.from({ length: 10 }, (_, i) => [Math.sin((i * Math.PI) / 5), -Math.cos((i * Math.PI) / 5)].map((x) => (x * (i % 2 === 0 ? 15 : 6)).toFixed(2)).join()).join('L')}Z`;

/** The criterion over gamma and temperature. */
export function heatMap(data: HeatMapData, width: number): HeatMap {
  const values = data.cells.map((c) => c.value).sort((a, b) => a - b);
  // The worst corner would otherwise take all the colours.
  const high = values[Math.floor(values.length * 0.9)];
  const gammas = data.cells.flatMap((c) => [c.g1, c.g2]);
  const temperatures = data.cells.flatMap((c) => [c.t1, c.t2]);
  const [x, y] = [linear(gammas), linear(temperatures)];
  const plot = new Plot({ ...square(width), x, y }).axisX({ label: 'γ', ticks: 6 }).axisY({ label: 'T', ticks: 6 });
  const colour = viridis(high, values[0]);
  // A little larger than they are: no seams between them.
  for (const { g1, g2, t1, t2, value } of data.cells) plot.rect([g1, t1], [g2, t2], { fill: colour(value) }, [-0.3, -0.3]);
  const clip = plot.clip();
  const line = data.line.map(({ gamma, temperature }): Point => [gamma, temperature]);
  plot.line(line, { stroke: 'white', 'stroke-width': 4, 'stroke-opacity': 0.6, ...clip }).line(line, { stroke: 'black', 'stroke-width': 1.5, 'stroke-dasharray': '5 4', ...clip });
  for (const { gamma, temperature } of data.ridge) plot.dot([gamma, temperature], 2.6, { fill: 'white', stroke: 'black' });
  plot.shape([data.best.gamma, data.best.temperature], STAR, { fill: '#E69F00', stroke: 'black' });
  return {
    element: plot.labelled(data.title),
    toPixels: (gamma, temperature) => [x.at(gamma), y.at(temperature)],
    fromPixels: (px, py) => [x.value(px), y.value(py)],
  };
}

/** Colour key of the heat map. */
export function heatKey(low: number, high: number, title: string, text: (x: number) => string): Element {
  const [width, top, bottom] = [240, 18, 28];
  const x = new Scale([low, high], ROOT).between(0, width);
  const colour = viridis(high, low);
  const strips = Array.from({ length: 60 }, (_, i) => s('rect', { x: i * 4, y: top, width: 4.3, height: bottom - top, fill: colour(x.value(i * 4 + 2)) }));
  const marks = x.ticks(4).flatMap((value) => [
    s('line', { x1: x.at(value), x2: x.at(value), y1: top, y2: bottom + 6, stroke: 'currentColor' }),
    s('text', { x: x.at(value), y: bottom + 18, 'text-anchor': 'middle' }, text(value)),
  ]);
  const name = s('text', { y: 11, 'font-weight': 700 }, title);
  const words = `Colours from ${text(low)} (dark is worse, light is better) to ${text(high)} or more.`;
  return s('svg', { width: width + 20, height: 50, viewBox: `0 0 ${width + 20} 50`, fill: 'currentColor', 'font-size': 10, role: 'img', 'aria-label': words }, name, strips, marks);
}

export interface MapData {
  n: number;
  curve: { q: number; even: number; concentrated: number }[];
  dots: { q: number; psi: number }[];
  over: number | null;
  under: number | null;
}

/** max q against max Psi. */
export function confidenceMap(data: MapData, width: number): Element {
  const side = (name: 'even' | 'concentrated') => data.curve.map((at): Point => [at.q, at[name]]);
  const plot = new Plot({ ...square(width), x: unit(), y: unit() })
    .axisX({ ...UNIT, label: 'max q = max softmax(z/T) (%)' })
    .axisY({ ...UNIT, label: 'max Ψ (%)', hasGrid: true })
    .area(data.curve.map((at) => [at.q, at.even, at.concentrated]), { fill: LIVE, 'fill-opacity': 0.13 })
    .segment([0, 0], [1, 1], DASHED);
  for (const { q, psi } of data.dots) plot.dot([q, psi], 1.6, { fill: LIVE, 'fill-opacity': 0.45 });
  plot.line(side('even'), { stroke: LIVE, 'stroke-width': 1.8 }).line(side('concentrated'), { stroke: LIVE, 'stroke-width': 1.2, 'stroke-dasharray': '6 3' });
  const halo = { fill: 'var(--ink)', stroke: 'var(--surface)', 'stroke-width': 4, 'paint-order': 'stroke', 'font-weight': 600, dy: 12 };
  for (const [x, name, anchor, dx] of [[data.over, 'τ_oc', 'end', -4], [data.under, 'τ_uc', 'start', 4]] as const) {
    if (x !== null) plot.upright(x, { stroke: 'var(--ink)' }).text([x, 1], name, { ...halo, 'text-anchor': anchor, dx });
  }
  return plot.labelled('Largest probability after Ψ against the largest before it, for the gamma of the slider.');
}

export interface SimplexArrow {
  x1: number;
  y1: number;
  x2: number;
  y2: number;
}

/** Three classes: arrows from raw to calibrated probabilities. */
export function simplex(
  arrows: SimplexArrow[],
  dots: { x: number; y: number }[],
  corners: string[],
  width: number,
): Element {
  const h = Math.sqrt(3) / 2;
  const height = Math.round(Math.min(width, 460) * 0.9);
  // All sides equally long, with room for the names of the corners.
  const side = Math.min(width - 60, (height - 60) / h);
  const [across, along] = [(width - side) / 2, (height - side * h) / 2];
  const plot = new Plot({ width, height, left: across, right: across, top: along, bottom: along, x: unit(), y: new Scale([0, h]) });
  plot.line([[0, 0], [1, 0], [0.5, h], [0, 0]], { stroke: MUTED, 'stroke-width': 1.5 });
  for (const { x, y } of dots) plot.dot([x, y], 1.4, { fill: BEFORE, 'fill-opacity': 0.5 });
  for (const { x1, y1, x2, y2 } of arrows) plot.arrow([x1, y1], [x2, y2], { stroke: LIVE, 'stroke-width': 1.4 });
  const name = { fill: 'var(--ink)', 'font-size': 12 };
  plot
    .text([0, 0], corners[0], { ...name, dy: 20, dx: -Math.min(across, 40), 'text-anchor': 'start' })
    .text([1, 0], corners[1], { ...name, dy: 20, dx: Math.min(across, 40), 'text-anchor': 'end' })
    .text([0.5, h], corners[2], { ...name, dy: -10 });
  return plot.labelled('Simplex of three classes: arrows from the raw probabilities to those at the sliders.');
}
