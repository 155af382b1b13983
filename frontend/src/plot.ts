// Pictures with two axes, as SVG: the few marks that the charts of the page are made of.

import { s, type Attributes } from './dom';
import type { Scale } from './scale';

export type Point = readonly [x: number, y: number];

export interface Frame {
  width: number;
  height: number;
  top: number;
  bottom: number;
  left?: number;
  right?: number;
  x: Scale;
  y: Scale;
}

export interface AxisWords {
  label?: string;
  /** values marked, or about how many of them */
  ticks?: number[] | number;
  text?: (value: number) => string;
  hasGrid?: boolean;
}

export interface Tip {
  at: Point;
  text: string;
}

const GAP = 3;
const TICK = 6;
const LINE_HEIGHT = 15;
const PAD = 8;
/** How near the pointer must be to a point to see its words, in pixels. */
const REACH = 40;
const isDrawn = (values: readonly number[]): boolean => values.every(Number.isFinite);
let clips = 0;

export class Plot {
  private readonly svg: SVGSVGElement;
  private readonly width: number;
  private readonly left: number;
  private readonly right: number;
  private readonly top: number;
  private readonly bottom: number;
  private readonly x: Scale;
  private readonly y: Scale;

  constructor({ width, height, top, bottom, left = 46, right = 14, x, y }: Frame) {
    [this.width, this.left, this.right, this.top, this.bottom] = [width, left, width - right, top, height - bottom];
    this.x = x.between(left, this.right);
    this.y = y.between(this.bottom, top);
    this.svg = s('svg', { width, height, viewBox: `0 0 ${width} ${height}`, fill: 'currentColor', 'text-anchor': 'middle' });
  }

  /** The picture, with what it shows in words for those who do not see it. */
  labelled(words: string): SVGSVGElement {
    this.svg.setAttribute('role', 'img');
    this.svg.setAttribute('aria-label', words);
    return this.svg;
  }

  axisX({ label, ticks, text, hasGrid = false }: AxisWords = {}): this {
    for (const [value, words] of marked(this.x, ticks, text)) {
      const x = this.x.at(value);
      if (hasGrid) this.pixels(x, this.top, x, this.bottom, { 'stroke-opacity': 0.1 });
      this.pixels(x, this.bottom, x, this.bottom + TICK);
      // No words beyond the edge of the picture.
      this.words(Math.min(x, this.width - 3.3 * words.length), this.bottom + TICK + GAP, words, { dy: '0.71em' });
    }
    if (label !== undefined) this.words(this.width, this.bottom + 31, `${label} →`, { 'text-anchor': 'end' });
    return this;
  }

  axisY({ label, ticks, text, hasGrid = false }: AxisWords = {}, size = TICK): this {
    for (const [value, words] of marked(this.y, ticks, text)) {
      const y = this.y.at(value);
      if (hasGrid) this.pixels(this.left, y, this.right, y, { 'stroke-opacity': 0.1 });
      if (size > 0) this.pixels(this.left - size, y, this.left, y);
      this.words(this.left - size - GAP, y, words, { dy: '0.32em', 'text-anchor': 'end' });
    }
    if (label !== undefined) this.words(GAP, 8, `↑ ${label}`, { dy: '0.32em', 'text-anchor': 'start' });
    return this;
  }

  line(points: readonly Point[], attributes: Attributes): this {
    return this.add('path', { d: this.path(points), fill: 'none', 'stroke-linejoin': 'round', ...attributes });
  }

  /** What is between two lines. */
  area(points: readonly (readonly [x: number, low: number, high: number])[], attributes: Attributes): this {
    const [low, high] = [points.map(([x, y]): Point => [x, y]), points.map(([x, , y]): Point => [x, y])];
    return this.add('path', { d: this.path([...high, ...low.reverse()]), ...attributes });
  }

  segment([x1, y1]: Point, [x2, y2]: Point, attributes: Attributes): this {
    return this.pixels(this.x.at(x1), this.y.at(y1), this.x.at(x2), this.y.at(y2), attributes);
  }

  /** An arrow with its head at `to`. */
  arrow(from: Point, to: Point, attributes: Attributes): this {
    const [x1, y1, x2, y2] = [this.x.at(from[0]), this.y.at(from[1]), this.x.at(to[0]), this.y.at(to[1])];
    const head = Math.min(7, Math.hypot(x2 - x1, y2 - y1) / 3);
    const angle = Math.atan2(y2 - y1, x2 - x1);
    const wing = (turn: number) => `${x2 - head * Math.cos(angle + turn)},${y2 - head * Math.sin(angle + turn)}`;
    return this.add('path', { d: `M${x1},${y1}L${x2},${y2}M${wing(0.5)}L${x2},${y2}L${wing(-0.5)}`, fill: 'none', ...attributes });
  }

  /** A line from bottom to top. */
  upright(x: number, attributes: Attributes): this {
    return this.pixels(this.x.at(x), this.bottom, this.x.at(x), this.top, attributes);
  }

  /** The line that bars stand on. */
  ground(): this {
    return this.pixels(this.left, this.y.at(0), this.right, this.y.at(0), { stroke: 'var(--muted)' });
  }

  /** A rectangle between two corners, its sides moved in by `inset` pixels. */
  rect(low: Point, high: Point, attributes: Attributes, [across, along]: Point = [0, 0]): this {
    const [left, right, bottom, top] = [this.x.at(low[0]) + across, this.x.at(high[0]) - across, this.y.at(low[1]) - along, this.y.at(high[1]) + along];
    return this.add('rect', { x: left, y: top, width: Math.max(0, right - left), height: Math.max(0, bottom - top), ...attributes });
  }

  dot([x, y]: Point, r: number, attributes: Attributes): this {
    return this.add('circle', { cx: this.x.at(x), cy: this.y.at(y), r, ...attributes });
  }

  /** A path in pixels around a point. */
  shape([x, y]: Point, d: string, attributes: Attributes): this {
    return this.add('path', { d, transform: `translate(${this.x.at(x)},${this.y.at(y)})`, ...attributes });
  }

  text([x, y]: Point, words: string, attributes: Attributes): this {
    return this.words(this.x.at(x), this.y.at(y), words, attributes);
  }

  /** Attributes of marks that end at the frame. */
  clip(): Attributes {
    const id = `frame-${++clips}`;
    const { left: x, top: y } = this;
    this.svg.append(s('clipPath', { id }, s('rect', { x, y, width: this.right - x, height: this.bottom - y })));
    return { 'clip-path': `url(#${id})` };
  }

  /** Show the words of the point nearest to the pointer, or to the finger. */
  tips(all: readonly Tip[]): this {
    const points = all.map(({ at, text }) => ({ x: this.x.at(at[0]), y: this.y.at(at[1]), text })).filter(({ x, y }) => isDrawn([x, y]));
    let [near, shown]: [(typeof points)[number] | null, Element | null] = [null, null];
    const choose = (next: typeof near) => {
      if (next === near) return;
      shown?.remove();
      [near, shown] = [next, next === null ? null : this.bubble(next.x, next.y, next.text)];
    };
    const follow = (event: PointerEvent) => {
      const box = this.svg.getBoundingClientRect();
      const scale = this.svg.viewBox.baseVal.width / box.width;
      const far = ({ x, y }: { x: number; y: number }) => Math.hypot(x - (event.clientX - box.left) * scale, y - (event.clientY - box.top) * scale);
      choose(points.reduce<typeof near>((best, point) => (far(point) < (best === null ? REACH : far(best)) ? point : best), null));
    };
    this.svg.addEventListener('pointermove', follow);
    this.svg.addEventListener('pointerdown', follow);
    // A finger that is lifted leaves, too, but what it asked for stays to be read.
    this.svg.addEventListener('pointerleave', (event) => event.pointerType === 'mouse' && choose(null));
    return this;
  }

  /** Draw words in a frame beside a point, on the side where there is room for them. */
  private bubble(x: number, y: number, text: string): Element {
    const lines = text.split('\n');
    const words = s('text', {}, ...lines.map((each, i) => s('tspan', { x: PAD, y: PAD + 11 + i * LINE_HEIGHT }, each)));
    const frame = s('rect', { rx: 4, fill: 'var(--surface)', stroke: 'var(--line)' });
    const box = s('g', { 'text-anchor': 'start' }, frame, words);
    const bubble = s('g', { class: 'tip' }, s('circle', { cx: x, cy: y, r: 6, fill: 'none', stroke: 'var(--ink)' }), box);
    this.svg.append(bubble);
    const size = { width: words.getBBox().width + 2 * PAD, height: lines.length * LINE_HEIGHT + 2 * PAD - 3 };
    for (const [name, value] of Object.entries(size)) frame.setAttribute(name, String(value));
    const { width, height } = this.svg.viewBox.baseVal;
    const beside = x + 12 + size.width <= width ? x + 12 : Math.max(0, x - 12 - size.width);
    box.setAttribute('transform', `translate(${beside},${Math.max(0, Math.min(height - size.height, y - size.height / 2))})`);
    return bubble;
  }

  private path(points: readonly Point[]): string | null {
    const places = points.map(([x, y]) => [this.x.at(x), this.y.at(y)]).filter(isDrawn);
    return places.length === 0 ? null : `M${places.map((place) => place.map((pixel) => pixel.toFixed(2)).join()).join('L')}`;
  }

  private add(tag: 'path' | 'rect' | 'circle', attributes: Attributes): this {
    this.svg.append(s(tag, attributes));
    return this;
  }

  private pixels(x1: number, y1: number, x2: number, y2: number, attributes: Attributes = {}): this {
    if (isDrawn([x1, y1, x2, y2])) this.svg.append(s('line', { x1, y1, x2, y2, stroke: 'currentColor', ...attributes }));
    return this;
  }

  private words(x: number, y: number, words: string, attributes: Attributes): this {
    this.svg.append(s('text', { x, y, ...attributes }, words));
    return this;
  }
}

/** The values marked on a scale, with their words. */
function marked(scale: Scale, ticks: number[] | number = 5, text?: (value: number) => string): [number, string][] {
  const [values, count] = typeof ticks === 'number' ? [scale.ticks(ticks), ticks] : [ticks];
  return values.map((value) => [value, text?.(value) ?? scale.text(value, count)]);
}
