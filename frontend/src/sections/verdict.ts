// The verdict in words, and the few numbers that carry it.

import type { Assessment, EventName, ReportDocument, Verdict } from '../document';
import { h } from '../dom';
import { fixed, headlineEce, metricRange, metricValue, percent, points, whole } from '../format';

export function verdictSection(doc: ReportDocument): HTMLElement {
  const raw = doc.methods.find((m) => m.method === 'identity') ?? doc.methods[0];
  const chosen = doc.methods.find((m) => m.method === doc.chosen) ?? raw;
  const both = (before: string, after: string): [string, string | null] => [before, chosen === raw ? null : after];
  const ece = headlineEce(doc.event);
  return verdictBox(
    doc.verdict,
    h(
      'dl',
      { class: 'tiles' },
      sizes(doc.event, doc.assessment),
      tile(doc.event === null ? 'Calibration error (ECE)' : `Calibration error (ECE) of P(${doc.event.name})`, both(metricValue(ece, raw.scores[ece][0]), metricValue(ece, chosen.scores[ece][0])), floorWords(doc, ece)),
      tile('Log loss', both(metricValue('nll', raw.scores.nll[0]), metricValue('nll', chosen.scores.nll[0])), intervalWords(metricRange('nll', chosen.scores.nll))),
      doc.event === null && tile('Accuracy', [percent(doc.accuracy), chosen.changed === 0 ? null : percent(1 - (chosen.scores.error[0] ?? NaN))], changedWords(chosen.changed)),
    ),
  );
}

const LIGHTS: Record<NonNullable<Verdict['status']>, string> = {
  good: 'Good',
  repairable: 'Off, but repairable',
  'too few rows': 'Too few rows',
  'check the data': 'Check the data',
};

/** What was found with its traffic light, what calibration gains, and what to do. */
export function verdictBox(verdict: Verdict, ...rest: (HTMLElement | false)[]): HTMLElement {
  const { status, headline, line, gain, after, reason, advice } = verdict;
  return h(
    'section',
    { id: 'verdict', class: `verdict ${status === null ? '' : status.replace(/ /g, '-')}`, 'aria-labelledby': 'verdict-title' },
    status !== null && h('p', { class: 'light' }, h('span', { class: 'lamp', 'aria-hidden': 'true' }), LIGHTS[status]),
    h('h2', { id: 'verdict-title', class: headline.length > 70 ? 'headline long' : 'headline' }, headline.replace(/ ([≤=<]) /g, '\u00a0$1\u00a0')),
    line !== '' && h('p', {}, line),
    gain !== '' && h('p', { class: 'lead' }, gain),
    after !== '' && h('p', { class: 'after-words' }, after),
    advice !== '' && h('p', { class: 'advice' }, h('strong', {}, 'What to do: '), advice),
    reason !== '' && h('p', { class: 'small muted' }, reason),
    ...rest,
  );
}

const intervalWords = (range: string): string => (range === '' ? '' : `95 % interval ${range}`);

function sizes(event: EventName | null, { before, after }: { before: Assessment; after: Assessment | null }): HTMLElement[] {
  const last = after ?? before;
  const [low, high] = last.gap.slice(1);
  if (event !== null) {
    const slope = (found: Assessment | null) => (found === null || found.slope === null ? null : fixed(found.slope[0], 2));
    const range = last.slope === null ? '' : ` [${fixed(last.slope[1], 2)}, ${fixed(last.slope[2], 2)}]`;
    return [
      tile(`Mean probability of ${event.name}`, [percent(before.mean_probability), after && percent(after.mean_probability)], `${percent(last.observed_rate)} happen`),
      ...(before.slope === null ? [] : [tile('Calibration slope', [slope(before)!, slope(after)], `1 is calibrated, below 1 too extreme; 95 % interval${range}`)]),
    ];
  }
  return [tile('Confidence − accuracy, in points', [points(before.gap[0]), after && points(after.gap[0])], `95 % interval [${points(low)}, ${points(high)}]`)];
}

/** What chance alone would give, for the predictions shown last. */
function floorWords(doc: ReportDocument, metric: string): string {
  const floor = (doc.assessment.after ?? doc.assessment.before).noise_floor[metric];
  if (floor === undefined) return `${doc.n_bins} bins of equal width`;
  return `a calibrated model would show about ${percent(floor.median)}, at most ${percent(floor.q95)} in 95 % of samples`;
}

function changedWords(n: number): string {
  return n === 0 ? 'calibration changes no prediction' : `calibration changes ${whole(n)} ${n === 1 ? 'prediction' : 'predictions'}`;
}

function tile(title: string, [before, after]: [string, string | null], note: string): HTMLElement {
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
