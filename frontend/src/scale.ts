// From values to pixels and back, with the round values to mark; and from values to colours.

export type Span = readonly [low: number, high: number];

interface Kind {
  to: (value: number) => number;
  from: (place: number) => number;
}

const LINEAR: Kind = { to: (x) => x, from: (x) => x };
export const ROOT: Kind = { to: Math.sqrt, from: (x) => x * x };
export const LOG: Kind = { to: Math.log10, from: (x) => 10 ** x };

/**
 * The step of about `count` round values: 1, 2 or 5 times a power of ten. As [step, 1], or below 1
 * as [1, steps per unit], so that no value has the rounding error of a step such as 0.1.
 */
function step([low, high]: Span, count: number): [times: number, per: number] {
  const size = (high - low) / count;
  const power = Math.floor(Math.log10(size));
  const rest = size / 10 ** power;
  const factor = rest >= Math.sqrt(50) ? 10 : rest >= Math.sqrt(10) ? 5 : rest >= Math.SQRT2 ? 2 : 1;
  return power < 0 ? [1, 10 ** -power / factor] : [10 ** power * factor, 1];
}

/** The round values between two others, about `count` of them. */
export function ticks(span: Span, count: number): number[] {
  const [low, high] = span;
  if (!(count > 0)) return [];
  if (low === high) return [low];
  const [times, per] = step(span, count);
  let [first, last] = [low, high].map((x) => Math.round((x * per) / times));
  if ((first * times) / per < low) first++;
  if ((last * times) / per > high) last--;
  if (last < first && count >= 0.5 && count < 2) return ticks(span, 2 * count);
  return Array.from({ length: Math.max(0, last - first + 1) }, (_, i) => ((first + i) * times) / per);
}

/** A span that begins and ends at one of its round values. */
export function nice([low, high]: Span, count: number): Span {
  for (let before = ''; ; ) {
    const [times, per] = step([low, high], count);
    if (before === `${times}/${per}`) return [low, high];
    before = `${times}/${per}`;
    low = (Math.floor((low * per) / times) * times) / per;
    high = (Math.ceil((high * per) / times) * times) / per;
  }
}

export class Scale {
  private start = 0;
  private length = 1;

  constructor(
    readonly span: Span,
    private readonly kind: Kind = LINEAR,
  ) {}

  /** Put the ends of the scale at two pixels. */
  between(start: number, end: number): this {
    [this.start, this.length] = [start, end - start];
    return this;
  }

  at(value: number): number {
    const [low, high, x] = [...this.span, value].map(this.kind.to);
    return this.start + (this.length * (x - low)) / (high - low || 1); // a scale of one value puts it first
  }

  value(pixel: number): number {
    const [low, high] = this.span.map(this.kind.to);
    return this.kind.from(low + ((high - low) * (pixel - this.start)) / this.length);
  }

  /** Round values, about `count` of them; on a log scale the powers of ten. */
  ticks(count: number): number[] {
    if (this.kind !== LOG) return ticks(this.span, count);
    const [low, high] = this.span.map(Math.log10);
    return ticks([low, high], high - low).filter(Number.isInteger).map((x) => 10 ** x);
  }

  /** A value with as many digits as tell apart `count` round values, or with those that it needs. */
  text(value: number, count?: number): string {
    if (this.kind === LOG || count === undefined) return String(Number(value.toPrecision(3)));
    const [times, per] = step(this.span, count);
    const digits = Math.max(0, -Math.floor(Math.log10(times / per) + 1e-9));
    return value.toFixed(digits).replace('-', '\u2212');
  }
}

/** A scale over `values`, and over 0 where it `isFromZero`; over one value alone, one unit long. */
export function linear(values: readonly number[], isFromZero = false): Scale {
  const [low, high] = spanOf(isFromZero ? [0, ...values] : values);
  return new Scale([low, low < high ? high : low + 1]);
}

/** `linear`, from a round value to a round value. */
export function round(values: readonly number[], isFromZero = false): Scale {
  return new Scale(nice(linear(values, isFromZero).span, 10));
}

/** Over the powers of ten around `values`. */
export function logarithmic(values: readonly number[]): Scale {
  const [low, high] = spanOf(values).map(Math.log10);
  return new Scale([10 ** Math.floor(low), 10 ** Math.ceil(high)], LOG);
}

function spanOf(values: readonly number[]): Span {
  const all = values.filter(Number.isFinite);
  return [Math.min(...all), Math.max(...all)];
}

// Viridis of matplotlib, at equal steps.
const STOPS = '440154471063481f70472d7b4439834046883b528b365d8d31688e2c728e287c8e24868e21918c1f9a8a20a48628ae8035b77948c16e5ec96275d05490d743addc30c8e020e5e419fde725'
  .match(/.{6}/g)!
  .map((stop) => stop.match(/../g)!.map((part) => parseInt(part, 16)));

/** Colours of values on a scale of square roots, from dark at `dark` to yellow at `light`. */
export function viridis(dark: number, light: number): (value: number) => string {
  const place = new Scale([dark, light], ROOT).between(0, STOPS.length - 1);
  return (value) => {
    const x = Math.min(STOPS.length - 1, Math.max(0, place.at(value) || 0));
    const i = Math.min(STOPS.length - 2, Math.floor(x));
    return `rgb(${STOPS[i].map((part, k) => Math.round(part + (x - i) * (STOPS[i + 1][k] - part)))})`;
  };
}
