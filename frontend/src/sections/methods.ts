// The methods side by side.

import type { Method, ReportDocument } from '../document';
import { h, section } from '../dom';
import { METRIC_ORDER, metricRange, metricStyle, metricValue, whole } from '../format';
import { sortableTable, type Column } from './table';

export function methodsSection(doc: ReportDocument, show: (method: Method) => void): HTMLElement {
  const raw = doc.methods.find((m) => m.method === 'identity') ?? doc.methods[0];
  const known = Object.keys(raw.scores);
  const metrics = [...METRIC_ORDER.filter((m) => known.includes(m)), ...known.filter((m) => !METRIC_ORDER.includes(m))];
  const best = new Map(metrics.map((m) => [m, Math.min(...doc.methods.map((row) => row.scores[m][0] ?? Infinity))]));
  const columns: Column<Method>[] = [
    {
      title: 'Method',
      hint: 'from simple to complex',
      key: (row) => row.complexity,
      isHeader: true,
      cell: (row) => [
        h('span', { class: 'method-name' }, row.label, row.method === doc.chosen && ' ', row.method === doc.chosen && h('span', { class: 'chip' }, 'chosen')),
        h('span', { class: 'small muted' }, parameters(row)),
      ],
    },
    ...metrics.map((metric): Column<Method> => ({
      title: metricStyle(metric).title,
      hint: metricStyle(metric).hint,
      numeric: true,
      key: (row) => row.scores[metric][0],
      cell: (row) => [
        h('span', { class: row.scores[metric][0] === best.get(metric) ? 'best' : '' }, metricValue(metric, row.scores[metric][0])),
        h('span', { class: 'small muted' }, metricRange(metric, row.scores[metric])),
      ],
    })),
    { title: 'Changed', hint: 'predictions that the method changes', numeric: true, key: (row) => row.changed, cell: (row) => whole(row.changed) },
    {
      title: 'Sliders',
      cell: (row) =>
        row.gamma === null
          ? ''
          : h('button', { type: 'button', class: 'plain', onclick: () => show(row) }, 'try', h('span', { class: 'sr' }, ` ${row.label} at the sliders`)),
    },
  ];
  const notes = doc.methods.flatMap((row) => row.notes.map((note) => `${row.label}: ${note}`));
  return section(
    'methods',
    'Methods compared',
    h('p', { class: 'muted' }, judgedWords(doc)),
    sortableTable({
      caption: 'Methods with 95 % intervals',
      columns,
      rows: doc.methods,
      rowClass: (row) => (row.method === doc.chosen ? 'chosen' : null),
    }),
    doc.skipped.length + notes.length > 0 &&
      h(
        'ul',
        { class: 'small muted notes' },
        notes.map((note) => h('li', {}, note)),
        doc.skipped.map(([method, why]) => h('li', {}, `${method} was left out: ${why}`)),
      ),
  );
}

function parameters(row: Method): string {
  const [, ...rest] = row.describe.split(': ');
  return rest.join(': ').replace('gamma', 'γ');
}

function judgedWords(doc: ReportDocument): string {
  const how =
    doc.judged_on === 'test'
      ? `Fitted on ${whole(doc.n_fitted)} rows, judged on ${whole(doc.n_judged)} others.`
      : `No test set was given: each of ${doc.n_folds} parts of the ${whole(doc.n_judged)} rows was judged by calibrators fitted on the others.`;
  return `${how} In brackets: 95 % bootstrap intervals (${doc.n_resamples} resamples, ${doc.n_bins} bins). Lower is better; the best of a column is bold.${outside(doc) ? ' Where an estimate lies above its interval, the interval has taken off the bias that bins add.' : ''}`;
}

function outside(doc: ReportDocument): boolean {
  return doc.methods.some((row) => Object.values(row.scores).some(([x, , high]) => x !== null && high !== null && x > high));
}
