// Numbers as people read them.

import type { EventName, Interval } from './document';

export const MINUS = '\u2212';

const signed = (text: string): string => text.replace('-', MINUS);

export function fixed(value: number | null, digits: number): string {
  return value === null ? '∞' : signed(value.toFixed(digits));
}

export function percent(value: number | null, digits = 1): string {
  return value === null ? '∞' : `${signed((value * 100).toFixed(digits))}\u202f%`;
}

/** Percentage points with a sign. */
export function points(value: number, digits = 1): string {
  const text = (value * 100).toFixed(digits);
  return Number(text) === 0 ? (0).toFixed(digits) : value > 0 ? `+${text}` : signed(text);
}

export function whole(value: number): string {
  return Math.round(value).toLocaleString('en');
}

export interface MetricStyle {
  title: string;
  hint: string;
  percent: boolean;
  digits: number;
}

const STYLES: Record<string, MetricStyle> = {
  adaptive_ece: { title: 'AdaECE', hint: 'calibration error, bins of equal mass', percent: true, digits: 2 },
  ece: { title: 'ECE', hint: 'calibration error, bins of equal width', percent: true, digits: 2 },
  classwise_ece: { title: 'Classwise ECE', hint: 'calibration error of each class, averaged', percent: true, digits: 2 },
  smooth_ece: { title: 'Smooth ECE', hint: 'calibration error without bins', percent: true, digits: 2 },
  nll: { title: 'Log loss', hint: 'mean negative log likelihood, nats', percent: false, digits: 4 },
  brier: { title: 'Brier', hint: 'mean squared distance to the label, summed over the classes: for two classes twice scikit-learn’s brier_score_loss', percent: false, digits: 4 },
  error: { title: 'Error', hint: 'share of wrong predictions', percent: true, digits: 2 },
};

/** The order of columns. MCE, which is mostly the noise of the smallest bin, stays in results.json. */
export const METRIC_ORDER = ['nll', 'brier', 'error', 'ece', 'adaptive_ece', 'classwise_ece', 'smooth_ece'];

/** The calibration error of an event is the classwise one: both classes have the same. */
export const headlineEce = (event: EventName | null): string => (event === null ? 'ece' : 'classwise_ece');

const OF_CONFIDENCE = ['ece', 'adaptive_ece', 'smooth_ece'];

export function metricStyle(name: string, event: EventName | null = null): MetricStyle {
  const style = STYLES[name] ?? { title: name, hint: name, percent: false, digits: 4 };
  if (event === null) return style;
  if (name === 'classwise_ece') return { ...style, title: `ECE of P(${clipped(event.name, 16)})`, hint: `calibration error of the probability of ${event.name}, bins of equal width` };
  return OF_CONFIDENCE.includes(name) ? { ...style, title: `${style.title} of confidence`, hint: `${style.hint}, of the predicted class` } : style;
}

export function metricValue(name: string, value: number | null): string {
  const style = metricStyle(name);
  return style.percent ? percent(value, style.digits) : fixed(value, style.digits);
}

/** The interval in brackets; nothing where there is none. */
export function metricRange(name: string, interval: Interval): string {
  if (interval.length === 1 || interval[0] === null) return '';
  const style = metricStyle(name);
  const [low, high] = [interval[1], interval[2]].map((x) =>
    x === null ? '∞' : signed((style.percent ? x * 100 : x).toFixed(style.digits)));
  return `[${low}, ${high}]`;
}

export function capitalised(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** Text as a sentence of its own. */
export const sentence = (text: string): string => `${capitalised(text.replace(/[.]$/, ''))}.`;

export function clipped(text: string, length: number): string {
  return text.length > length ? `${text.slice(0, length - 1)}…` : text;
}

/** A p-value; nothing where there is none. */
export function pText(p: number | null): string {
  return p === null ? '' : p <= 0.001 ? '≤ .001' : p.toFixed(3).replace(/^0/, '');
}
