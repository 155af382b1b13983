// The verdict in words, and the few numbers that carry it.

import type { Assessment, Known, ReportDocument } from '../document';
import { h } from '../dom';
import { capitalised, metricRange, metricValue, percent, points, whole } from '../format';

export function verdictSection(doc: ReportDocument): HTMLElement {
  const [headline, ...rest] = doc.verdict.split(/\.\s+(?=\p{L})/u);
  const raw = doc.methods.find((m) => m.method === 'identity') ?? doc.methods[0];
  const chosen = doc.methods.find((m) => m.method === doc.chosen) ?? raw;
  // Without the optimism of having chosen the best of several.
  const held = chosen === raw ? raw.scores.nll : doc.held_out.nll ?? chosen.scores.nll;
  const compared = (metric: string, title: string, note: string) =>
    tile(title, metricValue(metric, raw.scores[metric][0]), chosen === raw ? null : metricValue(metric, chosen.scores[metric][0]), note);
  return h(
    'section',
    { id: 'verdict', class: 'verdict', 'aria-labelledby': 'verdict-title' },
    h('h2', { id: 'verdict-title', class: headline.length > 70 ? 'headline long' : 'headline' }, sentence(headline)),
    rest.length > 0 && h('p', { class: 'lead' }, sentence(rest.join('. '))),
    doc.reason !== '' && h('p', { class: 'muted' }, sentence(doc.reason)),
    doc.assessment !== null && doc.assessment.after !== null && h('p', { class: 'after-words' }, h('strong', {}, 'After calibration: '), `${doc.assessment.after.summary.replace(/[.]$/, '')}.`),
    h(
      'dl',
      { class: 'tiles' },
      doc.assessment !== null && sizes(doc.assessment),
      compared('ece', 'Calibration error (ECE)', floorWords(doc, 'ece')),
      tile('Log loss', metricValue('nll', raw.scores.nll[0]), chosen === raw ? null : metricValue('nll', held[0]), intervalWords(metricRange('nll', held))),
      tile('Predictions made with 99 % confidence or more', percent(doc.before.sure), chosen === raw ? null : percent(doc.after.sure), sureWords(doc, chosen === raw)),
      tile('Accuracy', percent(doc.accuracy), chosen.changed === 0 ? null : percent(1 - (chosen.scores.error[0] ?? NaN)), changed(chosen.changed)),
    ),
  );
}

const sentence = (text: string): string => `${capitalised(text.replace(/[.]$/, ''))}.`;
const intervalWords = (range: string): string => (range === '' ? '' : `95 % interval ${range}`);

function sizes({ before, after }: { before: Assessment; after: Assessment | null }): HTMLElement[] {
  const range = ([, low, high]: Known, text: (x: number) => string) => `95 % interval [${text(low)}, ${text(high)}]`;
  const last = after ?? before;
  const plain = (x: number) => (x * 100).toFixed(1);
  return [
    tile('Confidence − accuracy, in points', points(before.gap[0]), after && points(after.gap[0]), range(last.gap, points)),
    tile('Size of the error (RMS)', percent(before.rms[0]), after && percent(after.rms[0]), range(last.rms, plain)),
  ];
}

/** What chance alone would give, for the predictions shown last. */
function floorWords(doc: ReportDocument, metric: string): string {
  const found = doc.assessment?.after ?? doc.assessment?.before;
  const floor = found?.noise_floor[metric];
  if (floor === undefined) return `${doc.n_bins} bins of equal width`;
  return `a calibrated model of this size shows ${percent(floor.median)}, up to ${percent(floor.q95)}`;
}

function changed(n: number): string {
  return n === 0 ? 'calibration changes no prediction' : `calibration changes ${whole(n)} ${n === 1 ? 'prediction' : 'predictions'}`;
}

function sureWords(doc: ReportDocument, isSame: boolean): string {
  const words = (x: number | null) => (x === null ? 'none made' : percent(x));
  const [before, after] = [doc.before.sure_accuracy, doc.after.sure_accuracy];
  if (isSame) return before === null ? '' : `${words(before)} of them right`;
  return before === null && after === null ? '' : `right: ${words(before)} → ${words(after)}`;
}

function tile(title: string, before: string, after: string | null, note: string): HTMLElement {
  const values =
    after === null
      ? [h('span', { class: 'now' }, before)]
      : [
          h('span', { class: 'was' }, h('span', { class: 'sr' }, 'before '), before),
          h('span', { class: 'arrow', 'aria-hidden': 'true' }, '→'),
          h('span', { class: 'now' }, h('span', { class: 'sr' }, 'after '), after),
        ];
  return h('div', { class: 'tile' }, h('dt', {}, title), h('dd', {}, h('div', { class: 'values' }, values), note !== '' && h('div', { class: 'note' }, note)));
}
