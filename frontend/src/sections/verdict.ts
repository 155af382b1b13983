// The verdict in words, and the few numbers that carry it.

import type { ReportDocument } from '../document';
import { h } from '../dom';
import { capitalised, metricRange, metricValue, percent, whole } from '../format';

export function verdictSection(doc: ReportDocument): HTMLElement {
  const [headline, ...rest] = doc.verdict.split('; ');
  const raw = doc.methods.find((m) => m.method === 'identity') ?? doc.methods[0];
  const chosen = doc.methods.find((m) => m.method === doc.chosen) ?? raw;
  const compared = (metric: string, title: string) =>
    tile(
      title,
      metricValue(metric, raw.scores[metric][0]),
      chosen === raw ? null : metricValue(metric, chosen.scores[metric][0]),
      metricRange(metric, chosen.scores[metric]),
    );
  return h(
    'section',
    { id: 'verdict', class: 'verdict', 'aria-labelledby': 'verdict-title' },
    h('h2', { id: 'verdict-title', class: 'headline' }, `${capitalised(headline)}.`),
    rest.length > 0 && h('p', { class: 'lead' }, `${capitalised(rest.join('; '))}.`),
    h('p', { class: 'muted' }, capitalised(doc.reason)),
    h(
      'dl',
      { class: 'tiles' },
      compared('adaptive_ece', 'Calibration error (AdaECE)'),
      compared('nll', 'Log loss'),
      tile(
        'Sure to 99 % or more',
        percent(doc.before.s99),
        chosen === raw ? null : percent(doc.after.s99),
        s99Words(doc),
      ),
      tile('Accuracy', percent(doc.accuracy), null, changed(chosen.changed)),
    ),
  );
}

function changed(n: number): string {
  return n === 0 ? 'calibration changes no prediction' : `calibration changes ${whole(n)} predictions`;
}

function s99Words(doc: ReportDocument): string {
  const words = (x: number | null) => (x === null ? 'none' : percent(x));
  return `right: ${words(doc.before.s99_accuracy)} → ${words(doc.after.s99_accuracy)}`;
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
  return h('div', { class: 'tile' }, h('dt', {}, title), h('dd', {}, h('div', { class: 'values' }, values), h('div', { class: 'note' }, note)));
}
