// The charts, drawn with Observable Plot. Colours are CSS variables, so that a change of theme
// needs no drawing.

import * as Plot from '@observablehq/plot';
import type { BinTable, Curve, Promised, Risk } from './document';
import { clipped, fixed, percent, whole } from './format';
import { bootstrapBand } from './metrics';

export const BEFORE = 'var(--before)';
export const AFTER = 'var(--after)';
export const LIVE = 'var(--live)';

export const MARGINS = { marginLeft: 46, marginRight: 14 };
/** Where the label of an axis at the bottom is: high enough for its g, p and y. */
export const LABEL = { labelAnchor: 'right', labelOffset: 31 } as const;
const compact = (n: number): string => (n < 1000 ? String(Math.round(n)) : `${Number((n / 1000).toFixed(n < 10000 ? 1 : 0))}k`);
const ticks = [0, 0.2, 0.4, 0.6, 0.8, 1];
const asPercent = (x: number): string => `${Math.round(x * 100)}`;

export function labelled(plot: Element, label: string): Element {
  const svg = plot.tagName === 'svg' ? plot : plot.querySelector('svg');
  svg?.setAttribute('role', 'img');
  svg?.setAttribute('aria-label', label);
  // Plot names its groups, those under the pointer each time anew; inside a picture with a label
  // those names are noise.
  const strip = () => {
    for (const group of svg?.querySelectorAll('[aria-label]') ?? []) group.removeAttribute('aria-label');
  };
  strip();
  if (svg) new MutationObserver(strip).observe(svg, { childList: true, subtree: true });
  return plot;
}

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
  const side = Math.min(width, 460);
  const plot = Plot.plot({
    ...MARGINS,
    width,
    height: Math.round(side * 0.86),
    marginTop: 22,
    marginBottom: 36,
    x: { domain: [0, 1], ticks, tickFormat: asPercent, label: `${words.x} (%)`, ...LABEL },
    y: { domain: [0, 1], ticks, tickFormat: asPercent, label: `${words.y} (%)`, grid: true },
    r: { domain: [0, most], range: [1.5, 7] },
    marks: [
      Plot.areaY(bins, { x: 'conf', y1: 'calibratedLow', y2: 'calibratedHigh', fill: 'var(--band)', curve: 'linear' }),
      Plot.line([[0, 0], [1, 1]], { stroke: 'var(--muted)', strokeDasharray: '4 3' }),
      Plot.ruleX(bins, { x: 'conf', y1: 'conf', y2: 'acc', stroke: colour, strokeWidth: 5, strokeOpacity: 0.22 }),
      Plot.line(bins, { x: 'conf', y: 'acc', stroke: colour, strokeWidth: 1.5, strokeOpacity: 0.75 }),
      Plot.ruleX(bins, { x: 'conf', y1: 'low', y2: 'high', stroke: colour, strokeWidth: 1.5 }),
      Plot.dot(bins, { x: 'conf', y: 'acc', r: 'count', fill: colour, stroke: 'var(--surface)', strokeWidth: 1 }),
      Plot.tip(bins, Plot.pointer({ x: 'conf', y: 'acc', title: 'tip', fill: 'var(--surface)', stroke: 'var(--line)' })),
    ],
  });
  const worst = bins.reduce((a, b) => (Math.abs(b.acc - b.conf) * b.count > Math.abs(a.acc - a.conf) * a.count ? b : a), bins[0]);
  const detail = worst
    ? ` The bin that adds most to the error holds ${whole(worst.count)} rows: confidence ${percent(worst.conf)}, accuracy ${percent(worst.acc)}.`
    : '';
  return labelled(plot, `Reliability diagram, ${words.name}: calibration error ${percent(table.ece, 2)}.${detail}`);
}

/** Where probabilities stand along both axes of a diagram. */
export interface Axis {
  at(p: number): number;
  domain: [number, number];
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
  const band = curve.band_at.map((x, i) => ({ x: axis.at(x), low: axis.at(curve.band_low[i]), high: axis.at(curve.band_high[i]) }));
  const blocks = curve.rate.map((y, b) => ({
    low: axis.at(curve.low[b]),
    high: axis.at(curve.high[b]),
    x: axis.at(0.5 * (curve.low[b] + curve.high[b])),
    y: axis.at(y),
    tip: `${words.x} ${percent(curve.low[b])} to ${percent(curve.high[b])}\n${words.y} ${percent(y)}\n${rows(curve.count[b])}`,
  }));
  // Log-odds have no place for 0 and 1.
  const least = axis === LINEAR ? Math.max(FEW_ROWS, FEW * curve.count.reduce((a, b) => a + b, 0)) : FEW_ROWS;
  const isInLine = (n: number, b: number) => n >= least && (axis === LINEAR || (curve.rate[b] > 0 && curve.rate[b] < 1));
  const first = Math.max(0, curve.count.findIndex(isInLine));
  const last = curve.count.findLastIndex(isInLine);
  const line = last < first ? blocks : blocks.slice(first, last + 1);
  const corners = line.flatMap(({ low, high, y }) => [{ x: low, y }, { x: high, y }]);
  const scale = { domain: axis.domain, ticks: axis.ticks, tickFormat: axis.text };
  const plot = Plot.plot({
    ...MARGINS,
    width,
    height: Math.round(Math.min(width, 460) * 0.86),
    marginTop: 22,
    marginBottom: 36,
    x: { ...scale, label: `${words.x} (%)`, ...LABEL },
    y: { ...scale, label: `${words.y} (%)`, grid: true },
    marks: [
      Plot.areaY(band, { x: 'x', y1: 'low', y2: 'high', fill: 'var(--band)', curve: 'linear' }),
      Plot.line([[axis.domain[0], axis.domain[0]], [axis.domain[1], axis.domain[1]]], { stroke: 'var(--muted)', strokeDasharray: '4 3' }),
      Plot.line(corners, { x: 'x', y: 'y', stroke: colour, strokeWidth: 2.2, strokeLinejoin: 'round' }),
      Plot.dot(line.length === 1 ? corners : [corners[0], corners[corners.length - 1]], { x: 'x', y: 'y', r: 3, fill: colour }),
      Plot.dot(blocks.filter((b) => !line.includes(b)), { x: 'x', y: 'y', r: 2, stroke: colour, strokeOpacity: 0.6 }),
      Plot.tip(blocks, Plot.pointer({ x: 'x', y: 'y', title: 'tip', fill: 'var(--surface)', stroke: 'var(--line)' })),
    ],
  });
  const ends = [0, curve.rate.length - 1];
  return labelled(
    plot,
    `Reliability curve, ${words.name}: ${words.y} rises from ${percent(curve.rate[ends[0]])} at ${words.x} ${percent(curve.low[ends[0]])} to ${percent(curve.rate[ends[1]])} at ${percent(curve.high[ends[1]])}.`,
  );
}

/** Rows along a log-odds axis, under the diagram. */
export function rowCounts(values: ArrayLike<number>, weights: ArrayLike<number>, axis: Axis, colour: string, width: number, name: string): Element {
  const [low, high] = axis.domain;
  const bars = Array.from({ length: 40 }, (_, i) => ({ x: low + ((i + 0.5) * (high - low)) / 40, count: 0 }));
  for (let i = 0; i < values.length; i++) bars[Math.min(39, Math.floor((40 * (axis.at(values[i]) - low)) / (high - low)))].count += weights[i];
  const plot = Plot.plot({
    ...MARGINS,
    width,
    height: 84,
    marginTop: 26,
    marginBottom: 6,
    x: { domain: axis.domain, axis: null },
    y: { type: 'sqrt', domain: [0, Math.max(...bars.map((b) => b.count), 1)], label: 'rows (square-root scale)', ticks: [], tickSize: 0 },
    marks: [
      Plot.ruleX(bars.filter((b) => b.count > 0), { x: 'x', y1: 0, y2: 'count', stroke: colour, strokeWidth: Math.max(3, (width - 60) / 60), strokeOpacity: 0.7 }),
      Plot.ruleY([0], { stroke: 'var(--muted)' }),
    ],
  });
  return labelled(plot, `Rows along the log-odds axis, ${name}.`);
}

const rows = (n: number): string => `${whole(n)} ${Math.round(n) === 1 ? 'row' : 'rows'}`;

/** Error among the most confident rows against their share, observed and stated. */
export function riskChart(lines: { name: string; colour: string; risk: Risk }[], width: number, promised: Promised[] = []): Element {
  const steps = promised.flatMap((p, i) => [i === 0 ? 0 : promised[i - 1].coverage, p.coverage].map((x) => ({ x, y: 100 * p.error })));
  const points = lines.flatMap(({ name, colour, risk }) =>
    risk.coverage.map((x, i) => ({
      x, y: 100 * risk.risk[i], stated: 100 * risk.stated[i], colour, name,
      tip: `${name}\nmost confident ${percent(x, 0)} of the rows\nerror ${percent(risk.risk[i], 2)}\nstated ${percent(risk.stated[i], 2)}`,
    })),
  );
  const plot = Plot.plot({
    ...MARGINS,
    width,
    height: Math.round(Math.min(width * 0.6, 320)),
    marginTop: 24,
    marginBottom: 36,
    x: { domain: [0, 1], ticks, tickFormat: asPercent, label: 'share of rows kept, most confident first (%)', ...LABEL },
    y: { label: 'error among them (%)', grid: true, zero: true, nice: true, ticks: 5 },
    marks: [
      Plot.areaY(steps, { x: 'x', y1: 0, y2: 'y', fill: 'var(--muted)', fillOpacity: 0.18 }),
      Plot.line(points, { x: 'x', y: 'stated', z: 'name', stroke: 'colour', strokeWidth: 1.4, strokeDasharray: '5 4' }),
      Plot.line(points, { x: 'x', y: 'y', z: 'name', stroke: 'colour', strokeWidth: 2 }),
      Plot.ruleY([0], { stroke: 'var(--muted)' }),
      Plot.tip(points, Plot.pointer({ x: 'x', y: 'y', title: 'tip', fill: 'var(--surface)', stroke: 'var(--line)' })),
    ],
  });
  const words = lines.map(({ name, risk }) => `${name}: error ${percent(at(risk, 0.5))} on the most confident half, ${percent(at(risk, 1))} on all rows`);
  return labelled(plot, `Error against the share of rows kept. ${words.join('; ')}.`);
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
  const points = lines.flatMap((line) =>
    line.thresholds.map((x, i) => ({ x, y: line.costs[i], name: line.name, colour: line.colour, tip: `${line.name}\nthreshold ${percent(x)}\ncost ${fixed(line.costs[i], 3)} per row` })),
  );
  const plot = Plot.plot({
    ...MARGINS,
    width,
    height: Math.round(Math.min(width * 0.6, 300)),
    marginTop: 24,
    marginBottom: 36,
    x: { domain: [0, 1], ticks, tickFormat: asPercent, label: 'threshold (%)', ...LABEL },
    y: { label: 'cost per row', grid: true, domain: [0, most], ticks: 5 },
    marks: [
      Plot.line(points, { x: 'x', y: 'y', z: 'name', stroke: 'colour', strokeWidth: 2, clip: true }),
      Plot.ruleX([threshold], { stroke: 'var(--ink)', strokeDasharray: '3 3' }),
      Plot.ruleY([0], { stroke: 'var(--muted)' }),
      Plot.tip(points.filter((p) => p.y <= most), Plot.pointer({ x: 'x', y: 'y', title: 'tip', fill: 'var(--surface)', stroke: 'var(--line)' })),
    ],
  });
  return labelled(plot, `Cost per row against the threshold, before and after calibration; the costs imply a threshold of ${percent(threshold)}.`);
}

/** Rows of each bin, under the diagram. */
export function binCounts(table: BinTable, colour: string, width: number, name: string, isNumbered = true): Element {
  const bins = binsOf(table);
  const plot = Plot.plot({
    ...MARGINS,
    width,
    height: 84,
    marginTop: 26,
    marginBottom: 6,
    x: { domain: [0, 1], axis: null },
    // Square roots, so that bins of ten rows can be seen beside one of thousands.
    y: { type: 'sqrt', domain: [0, Math.max(...table.count, 1)], label: 'rows (square-root scale)', ticks: [], tickSize: 0 },
    marks: [
      Plot.ruleX(bins, { x: 'conf', y1: 0, y2: 'count', stroke: colour, strokeWidth: Math.max(3, (width - 60) / 60), strokeOpacity: 0.7 }),
      Plot.text(bins.filter((b, i) => isNumbered && (i === bins.length - 1 || bins[i + 1].conf - b.conf > 24 / width)), {
        x: 'conf', y: 'count', dy: -6, fontSize: 10, fill: 'var(--muted)', text: (b: Bin) => compact(b.count),
      }),
      Plot.ruleY([0], { stroke: 'var(--muted)' }),
    ],
  });
  const counts = table.count.map((n) => whole(n)).join(', ');
  return labelled(plot, `Rows in each bin, ${name}, from low to high confidence: ${counts}.`);
}

/** Histogram of confidence, with another as an outline behind. */
export function confidenceHistogram(bars: number[], ghost: number[], width: number): Element {
  const step = 1 / bars.length;
  const data = bars.map((count, i) => ({ x1: i * step, x2: (i + 1) * step, count, ghost: ghost[i] }));
  const plot = Plot.plot({
    ...MARGINS,
    width,
    height: 130,
    marginTop: 20,
    marginBottom: 34,
    x: { domain: [0, 1], ticks, tickFormat: asPercent, label: 'confidence (%)', ...LABEL },
    y: { label: 'rows', ticks: 3, tickFormat: 's', nice: true },
    marks: [
      Plot.rectY(data, { x1: 'x1', x2: 'x2', y: 'count', fill: LIVE, fillOpacity: 0.75, insetLeft: 0.5, insetRight: 0.5 }),
      Plot.line(data.flatMap((d) => [[d.x1, d.ghost], [d.x2, d.ghost]]), { stroke: BEFORE, strokeWidth: 1.2 }),
      Plot.ruleY([0], { stroke: 'var(--muted)' }),
    ],
  });
  return labelled(plot, 'Histogram of confidence at the sliders, with the uncalibrated model as a line.');
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
  const data = rows.map((row, at) => ({ ...row, at, estimate: end(row.estimate), low: end(row.low), high: end(row.high) }));
  const cut = data.filter((_, i) => isCut(rows[i].high));
  const room = Math.min(Math.max(...rows.map((row) => row.label.length)) * 6.6 + 14, width * 0.45);
  const name = (i: number) => clipped(rows[i].label, Math.floor((room - 12) / 6.2));
  const plot = Plot.plot({
    width,
    height: 26 * rows.length + 48,
    marginLeft: room,
    marginRight: 18,
    marginTop: 6,
    marginBottom: 38,
    x: { label: title, ...LABEL, grid: true, nice: true, ticks: Math.max(3, Math.round(width / 110)) },
    y: { type: 'band', domain: rows.map((_, i) => i), tickFormat: name, label: null, tickSize: 0 },
    marks: [
      Plot.ruleX(reference === null ? [] : [reference * scale], { stroke: 'var(--muted)', strokeDasharray: '4 3' }),
      Plot.ruleY(data, { x1: 'low', x2: 'high', y: 'at', stroke: 'colour', strokeWidth: 2 }),
      Plot.text(cut, { x: 'high', y: 'at', text: () => '›', dx: 7, fontSize: 16, fill: 'var(--muted)' }),
      Plot.dot(data.filter((_, i) => !isCut(rows[i].estimate)), { x: 'estimate', y: 'at', r: 4.5, fill: 'colour', stroke: 'var(--surface)' }),
      Plot.tip(data, Plot.pointer({ x: 'estimate', y: 'at', title: 'tip', fill: 'var(--surface)', stroke: 'var(--line)' })),
    ],
  });
  const words = rows.map((row) => row.tip).join('; ');
  return labelled(plot, `${title} with 95 % intervals: ${words}.`);
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

/** The criterion over gamma and temperature. */
export function heatMap(data: HeatMapData, width: number): HeatMap {
  const values = data.cells.map((c) => c.value).sort((a, b) => a - b);
  // The worst corner would otherwise take all the colours.
  const high = values[Math.floor(values.length * 0.9)];
  const gammas = data.cells.flatMap((c) => [c.g1, c.g2]);
  const temperatures = data.cells.flatMap((c) => [c.t1, c.t2]);
  const plot = Plot.plot({
    ...MARGINS,
    width,
    height: Math.round(Math.min(width, 460) * 0.86),
    marginTop: 22,
    marginBottom: 36,
    x: { domain: [Math.min(...gammas), Math.max(...gammas)], label: 'γ', ...LABEL, ticks: 6 },
    y: { domain: [Math.min(...temperatures), Math.max(...temperatures)], label: 'T', ticks: 6 },
    color: { scheme: 'viridis', reverse: true, type: 'sqrt', domain: [values[0], high], clamp: true },
    marks: [
      Plot.rect(data.cells, { x1: 'g1', x2: 'g2', y1: 't1', y2: 't2', fill: 'value', inset: -0.3 }),
      Plot.line(data.line, { x: 'gamma', y: 'temperature', stroke: 'white', strokeWidth: 4, strokeOpacity: 0.6, clip: true }),
      Plot.line(data.line, { x: 'gamma', y: 'temperature', stroke: 'black', strokeWidth: 1.5, strokeDasharray: '5 4', clip: true }),
      Plot.dot(data.ridge, { x: 'gamma', y: 'temperature', r: 2.6, fill: 'white', stroke: 'black', strokeWidth: 1 }),
      Plot.dot([data.best], { x: 'gamma', y: 'temperature', r: 9, symbol: 'star', fill: '#E69F00', stroke: 'black', strokeWidth: 1 }),
    ],
  });
  const x = plot.scale('x')!;
  const y = plot.scale('y')!;
  labelled(plot, data.title);
  return {
    element: plot,
    toPixels: (gamma, temperature) => [x.apply(gamma), y.apply(temperature)],
    fromPixels: (px, py) => [x.invert!(px), y.invert!(py)],
  };
}

/** Colour key of the heat map. */
export function heatKey(low: number, high: number, title: string, tickFormat: (x: number) => string): Element {
  const key = Plot.legend({
    color: { scheme: 'viridis', reverse: true, type: 'sqrt', domain: [low, high], label: title, tickFormat, ticks: 4 },
    width: 240,
  } as Parameters<typeof Plot.legend>[0]) as Element;
  return labelled(key, `Colours from ${tickFormat(low)} (dark is worse, light is better) to ${tickFormat(high)} or more.`);
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
  const marks: Plot.Markish[] = [
    Plot.areaY(data.curve, { x: 'q', y1: 'even', y2: 'concentrated', fill: LIVE, fillOpacity: 0.13 }),
    Plot.line([[0, 0], [1, 1]], { stroke: 'var(--muted)', strokeDasharray: '4 3' }),
    Plot.dot(data.dots, { x: 'q', y: 'psi', r: 1.6, fill: LIVE, fillOpacity: 0.45 }),
    Plot.line(data.curve, { x: 'q', y: 'even', stroke: LIVE, strokeWidth: 1.8 }),
    Plot.line(data.curve, { x: 'q', y: 'concentrated', stroke: LIVE, strokeWidth: 1.2, strokeDasharray: '6 3' }),
  ];
  const limits = [
    { x: data.over, text: 'τ_oc', anchor: 'end', dx: -4 },
    { x: data.under, text: 'τ_uc', anchor: 'start', dx: 4 },
  ] as const;
  for (const limit of limits) {
    if (limit.x === null) continue;
    marks.push(
      Plot.ruleX([limit.x], { stroke: 'var(--ink)', strokeWidth: 1 }),
      Plot.text([limit.text], { x: limit.x, y: 1, dy: 8, dx: limit.dx, textAnchor: limit.anchor, fill: 'var(--ink)', stroke: 'var(--surface)', strokeWidth: 4, fontWeight: 600 }),
    );
  }
  const plot = Plot.plot({
    ...MARGINS,
    width,
    height: Math.round(Math.min(width, 460) * 0.86),
    marginTop: 22,
    marginBottom: 36,
    x: { domain: [0, 1], ticks, tickFormat: asPercent, label: 'max q = max softmax(z/T) (%)', ...LABEL },
    y: { domain: [0, 1], ticks, tickFormat: asPercent, label: 'max Ψ (%)', grid: true },
    marks,
  });
  return labelled(plot, 'Largest probability after Ψ against the largest before it, for the gamma of the slider.');
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
  const size = Math.min(width, 460);
  const plot = Plot.plot({
    width,
    height: Math.round(size * 0.9),
    margin: 30,
    aspectRatio: 1,
    x: { domain: [0, 1], axis: null },
    y: { domain: [0, h], axis: null },
    marks: [
      Plot.line([[0, 0], [1, 0], [0.5, h], [0, 0]], { stroke: 'var(--muted)' }),
      Plot.dot(dots, { x: 'x', y: 'y', r: 1.4, fill: BEFORE, fillOpacity: 0.5 }),
      Plot.arrow(arrows, { x1: 'x1', y1: 'y1', x2: 'x2', y2: 'y2', stroke: LIVE, strokeWidth: 1.4, headLength: 5, insetEnd: 0 }),
      Plot.text(
        [{ x: 0, y: 0, t: corners[0] }],
        { x: 'x', y: 'y', text: 't', dy: 16, dx: -16, textAnchor: 'start', fill: 'var(--ink)', fontSize: 12 },
      ),
      Plot.text([{ x: 1, y: 0, t: corners[1] }], { x: 'x', y: 'y', text: 't', dy: 16, dx: 16, textAnchor: 'end', fill: 'var(--ink)', fontSize: 12 }),
      Plot.text([{ x: 0.5, y: h, t: corners[2] }], { x: 'x', y: 'y', text: 't', dy: -12, fill: 'var(--ink)', fontSize: 12 }),
    ],
  });
  return labelled(plot, 'Simplex of three classes: arrows from the raw probabilities to those at the sliders.');
}
