// The most confident mistakes, and the classes one by one.

import type { Mistake, ReportDocument } from '../document';
import { h, section } from '../dom';
import { percent, whole } from '../format';
import { sortableTable } from './table';

export function mistakesSection(doc: ReportDocument, names: (k: number) => string): HTMLElement {
  const name = (k: number) => h('span', { class: 'class-name' }, names(k));
  return section(
    'mistakes',
    'Confident mistakes',
    h('p', { class: 'muted' }, `The wrong predictions with the highest confidence: look for wrong labels and ambiguous rows.${doc.file === null ? '' : ` Rows of ${doc.file} are numbered from 0.`}`),
    doc.mistakes.length === 0
      ? h('p', {}, 'The model makes no mistake on these rows.')
      : sortableTable<Mistake>({
          caption: 'Most confident mistakes',
          rows: doc.mistakes,
          limit: 10,
          columns: [
            { title: 'Row', numeric: true, isHeader: true, key: (m) => m.row, cell: (m) => String(m.row) },
            ...(doc.mistakes.some((m) => m.id !== null) ? [{ title: 'Id', key: (m: Mistake) => m.id, cell: (m: Mistake) => h('span', { class: 'class-name' }, m.id ?? '') }] : []),
            { title: 'Label', key: (m) => names(m.label), cell: (m) => name(m.label) },
            { title: 'Predicted', key: (m) => names(m.predicted), cell: (m) => name(m.predicted) },
            { title: 'Before', numeric: true, key: (m) => m.before, cell: (m) => percent(m.before, 2) },
            { title: 'After', numeric: true, hint: 'probability of the same class, calibrated', key: (m) => m.after, cell: (m) => percent(m.after, 2) },
          ],
        }),
  );
}

export function classesSection(doc: ReportDocument, names: (k: number) => string): HTMLElement {
  const t = doc.classes;
  const rows = Array.from({ length: doc.n_classes }, (_, k) => k);
  const share = (title: string, values: (number | null)[], hint: string, digits = 1) => ({
    title,
    leftOut: title.startsWith('ECE') ? undefined : ('on a phone' as const),
    hint,
    numeric: true,
    key: (k: number) => values[k],
    cell: (k: number) => (values[k] === null ? '–' : percent(values[k], digits)),
  });
  return section(
    'classes',
    'Class by class',
    h('p', { class: 'muted' }, 'The ECE of a class compares its probability with how often it is the label. The classes with the largest error come first.'),
    sortableTable<number>({
      caption: 'Classes',
      rows,
      limit: 20,
      sortBy: 7,
      descending: true,
      columns: [
        { title: 'Class', isHeader: true, key: (k) => (doc.class_names === null ? k : names(k)), cell: (k) => h('span', { class: 'class-name' }, names(k)) },
        { title: 'Rows', numeric: true, hint: 'rows with this label', key: (k) => t.count[k], cell: (k) => whole(t.count[k]) },
        { title: 'Predicted', leftOut: 'on a phone', numeric: true, hint: 'rows predicted as this class', key: (k) => t.predicted[k], cell: (k) => whole(t.predicted[k]) },
        share('Recall', t.recall, 'share of its rows that are found'),
        share('Precision', t.precision, 'share of its predictions that are right'),
        share('Confidence before', t.confidence_before, 'mean confidence where it is predicted'),
        share('Confidence after', t.confidence_after, 'the same, calibrated'),
        share('ECE before', t.ece_before, 'calibration error of the class, 15 bins of equal width', 2),
        share('ECE after', t.ece_after, 'the same, calibrated', 2),
      ],
    }),
  );
}
