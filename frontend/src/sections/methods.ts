// The methods side by side.

import { AFTER, BEFORE, forest } from '../charts';
import type { Method, ReportDocument } from '../document';
import { h, responsive, section, segmented } from '../dom';
import { headlineEce, METRIC_ORDER, metricRange, metricStyle, metricValue, sentence, whole } from '../format';
import { sortableTable, type Column } from './table';

export function methodsSection(doc: ReportDocument, show: ((method: Method) => void) | null): HTMLElement {
  const raw = doc.methods.find((m) => m.method === 'identity') ?? doc.methods[0];
  const first = ['nll', headlineEce(doc.event), 'brier', 'error'];
  const metrics = [...first, ...METRIC_ORDER.filter((m) => !first.includes(m))].filter((m) => m in raw.scores);
  const leftOut = (m: string) => (!first.includes(m) ? 'at first' : first.indexOf(m) > 1 ? 'on a phone' : undefined);
  // What reads the same is as good. Lowest calibration errors are mostly luck, and not marked.
  const best = new Map(metrics.filter((m) => raw.scores[m].length === 3).map((m) => [m, metricValue(m, Math.min(...doc.methods.map((row) => row.scores[m][0] ?? Infinity)))]));
  const columns: Column<Method>[] = [
    {
      title: 'Method',
      hint: 'from simple to complex',
      key: (row) => row.complexity,
      isHeader: true,
      cell: (row) => [
        h('span', { class: 'method-name' }, row.label, row.method === doc.chosen && ' ', row.method === doc.chosen && h('span', { class: 'chip' }, 'chosen'), row.why_not !== null && [' ', h('span', { class: 'chip off', title: row.why_not }, 'compared only')]),
        h('span', { class: 'small muted' }, row.parameters, show !== null && row.gamma !== null && [' ', h('button', { type: 'button', class: 'plain try', onclick: () => show(row) }, 'try', h('span', { class: 'sr' }, ` ${row.label} at the sliders`))]),
      ],
    },
    ...metrics.map((metric): Column<Method> => ({
      ...columnStyle(metricStyle(metric, doc.event)),
      leftOut: leftOut(metric),
      key: (row) => row.scores[metric][0],
      cell: (row) => [
        h('span', { class: metricValue(metric, row.scores[metric][0]) === best.get(metric) ? 'best' : '' }, metricValue(metric, row.scores[metric][0])),
        h('span', { class: 'small muted' }, metricRange(metric, row.scores[metric]) || floor(doc, row, metric)),
      ],
    })),
    { title: 'Predictions changed', hint: 'rows whose predicted class changes', leftOut: 'on a phone', numeric: true, key: (row) => row.changed, cell: (row) => whole(row.changed) },
  ];
  const notes = [...doc.methods.flatMap((row) => row.notes.map((note) => `${row.label}: ${note}`)), ...whyNot(doc)];
  return section(
    'methods',
    'Methods compared',
    h('p', { class: 'muted' }, judgedWords(doc)),
    sortableTable({
      caption: 'Methods compared',
      columns,
      rows: doc.methods,
      rowClass: (row) => (row.method === doc.chosen ? 'chosen' : null),
    }),
    forestFigure(doc, metrics),
    doc.skipped.length + notes.length > 0 &&
      h(
        'ul',
        { class: 'small muted notes' },
        notes.map((note) => h('li', {}, note)),
        doc.skipped.map(([method, why]) => h('li', {}, `${method} could not be fitted: ${why}`)),
      ),
  );
}

const columnStyle = ({ title, hint }: { title: string; hint: string }) => ({ title, hint, numeric: true });

/** Why methods are compared but cannot be chosen, those with the same reason together. */
function whyNot(doc: ReportDocument): string[] {
  const reasons = new Map<string, string[]>();
  for (const { label, why_not: why } of doc.methods) if (why !== null) reasons.set(why, [...(reasons.get(why) ?? []), label]);
  return [...reasons].map(([why, labels]) => `Cannot be chosen (${labels.join(', ')}): ${sentence(why)}`);
}

/** What chance alone would give, where that was computed. */
function floor(doc: ReportDocument, row: Method, metric: string): string {
  const found = row.method === 'identity' ? doc.assessment.before : row.method === doc.chosen ? doc.assessment.after : undefined;
  const noise = found?.noise_floor[metric];
  return noise === undefined ? '' : `noise ${(100 * noise.median).toFixed(1)}–${(100 * noise.q95).toFixed(1)}`;
}

function judgedWords(doc: ReportDocument): string {
  const how =
    doc.judged_on === 'test'
      ? `Fitted on ${whole(doc.n_fitted)} rows, evaluated on ${whole(doc.n_judged)} others.`
      : `Cross-validated on ${whole(doc.n_judged)} rows in ${doc.n_folds} folds: each row is scored by a calibrator fitted without it.`;
  const isInfinite = doc.methods.some((row) => row.scores.nll[0] === null) ? ' A log loss of ∞ means that the true class of some row got probability 0.' : '';
  return `${how} Lower is better; the best proper scores are bold, with 95 % bootstrap intervals below. “Noise” is the median and the 95 % quantile of a calibrated model with the same predictions.${isInfinite}`;
}

/** One metric of all methods, as a picture. */
function forestFigure(doc: ReportDocument, metrics: string[]): HTMLElement {
  const raw = doc.methods.find((m) => m.method === 'identity') ?? doc.methods[0];
  const offered = metrics.filter((m) => raw.scores[m].length === 3);
  let metric = offered[0];
  const chart = h('div', { class: 'chart' });
  const colour = (row: Method) => (row.method === 'identity' ? BEFORE : row.method === doc.chosen ? AFTER : 'var(--muted)');
  const draw = responsive(chart, (width) => {
    const rows = doc.methods.flatMap((row) => {
      const [estimate, low = null, high = null] = row.scores[metric];
      if (estimate === null || low === null || high === null) return [];
      const tip = `${row.label} ${metricValue(metric, estimate)} ${metricRange(metric, row.scores[metric])}`;
      return [{ label: row.label, estimate, low, high, colour: colour(row), tip }];
    });
    const style = metricStyle(metric);
    if (rows.length > 0) chart.replaceChildren(forest(rows, width, style.percent ? `${style.title} (%)` : style.title, style.percent ? 100 : 1, raw.scores[metric][0]));
  });
  return h(
    'figure',
    { class: 'card forest' },
    h(
      'figcaption',
      {},
      h('h3', {}, 'Proper scores with their intervals'),
      segmented<string>('Score shown', offered.map((m) => ({ value: m, text: metricStyle(m).title })), metric, (value) => {
        metric = value;
        draw();
      }),
    ),
    chart,
  );
}
