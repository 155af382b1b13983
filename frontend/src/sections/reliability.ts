// Reliability diagrams, before and after.

import { AFTER, BEFORE, binCounts, reliability, type DiagramWords } from '../charts';
import type { Binning, BinTable, ReportDocument } from '../document';
import { h, responsive, section, segmented } from '../dom';
import type { Entries } from '../entries';
import { percent, whole } from '../format';
import { Watched, type View } from '../state';

export function reliabilitySection(doc: ReportDocument, entries: Entries, names: (k: number) => string): HTMLElement {
  const start = doc.bin_counts.includes(doc.n_bins) ? doc.n_bins : 15;
  const view = new Watched<View>({ binning: 'equal-width', bins: start, klass: null });
  const note = h('p', { class: 'small muted', role: 'status' });
  const panels = (['before', 'after'] as const).map((which) => panel(which, which === 'before' ? BEFORE : AFTER));

  function table(which: 'before' | 'after', { binning, bins, klass }: View): BinTable {
    return klass === null ? doc[which].tables[binning][String(bins)] : entries.table(klass, which, binning, bins);
  }

  function panel(which: 'before' | 'after', colour: string): HTMLElement {
    const chart = h('div', { class: 'chart' });
    const counts = h('div', { class: 'chart' });
    const figures = h('span', { class: 'figure-number', 'data-figure': `ece-${which}` });
    let words: DiagramWords = { name: which, x: 'confidence', y: 'accuracy' };
    const draw = responsive(chart, (width) => {
      const shown = table(which, view.value);
      chart.replaceChildren(reliability(shown, colour, width, words));
      counts.replaceChildren(binCounts(shown, colour, width, words.name));
    });
    view.listen((now) => {
      const shown = table(which, now);
      const subject = now.klass === null ? '' : `, class ${names(now.klass)}`;
      words = {
        name: `${which} calibration${subject}`,
        x: now.klass === null ? 'confidence' : 'probability of the class',
        y: now.klass === null ? 'accuracy' : 'share of the class',
      };
      figures.textContent = `${errorName(now)} ${percent(shown.ece, 2)}`;
      draw();
    });
    const title = which === 'before' ? 'Before' : 'After';
    const method = which === 'before' ? 'the model as it is' : methodWords(doc);
    return h(
      'figure',
      { class: `card ${which}` },
      h('figcaption', {}, h('h3', {}, title), h('span', { class: 'small muted' }, method), figures),
      chart,
      counts,
    );
  }

  view.listen((now) => {
    const sample = entries.n < doc.n_judged ? ` Drawn from a sample of ${whole(entries.n)} rows.` : '';
    const pooled = now.binning === 'equal-mass' ? ' Rows below 4 % are pooled.' : '';
    note.textContent =
      now.klass === null
        ? doc.after_is_in_sample
          ? 'After: the calibrator fitted on all validation rows, shown on the same rows. The table above is cross-fitted, and so a little more sober.'
          : doc.judged_on === 'cross-fit'
            ? 'After: each row by a calibrator fitted on the other parts, as in the table above.'
            : ''
        : `All rows, by their probability of the class “${names(now.klass)}”.${pooled}${sample}`;
  });

  return section(
    'reliability',
    'Reliability',
    h(
      'p',
      { class: 'muted' },
      'Of the rows given a confidence of 80 %, 80 % should be right: dots belong on the dashed line. Below it the model is too sure. ',
      'Bars on the dots are 95 % bootstrap bands; the grey band is where the dots of a calibrated model with as many rows would lie.',
    ),
    h(
      'div',
      { class: 'controls' },
      segmented<Binning>(
        'Bins of',
        [
          { value: 'equal-width', text: 'equal width' },
          { value: 'equal-mass', text: 'equal mass' },
        ],
        'equal-width',
        (binning) => view.set({ binning }),
      ),
      segmented<number>('Number of bins', doc.bin_counts.map((value) => ({ value, text: String(value) })), start, (bins) => view.set({ bins })),
      classPicker(doc, names, (klass) => view.set({ klass })),
    ),
    h('div', { class: 'pair' }, panels),
    note,
  );
}

function errorName({ binning, klass }: View): string {
  const name = binning === 'equal-width' ? 'ECE' : 'AdaECE';
  return klass === null ? name : `${name} of the class`;
}

function methodWords(doc: ReportDocument): string {
  const method = doc.methods.find((m) => m.method === doc.chosen);
  return method === undefined ? doc.chosen : method.method === 'identity' ? 'nothing to change' : method.label;
}

function classPicker(doc: ReportDocument, names: (k: number) => string, change: (klass: number | null) => void): HTMLElement {
  const select = h(
    'select',
    {
      id: 'class-picker',
      onchange: () => change(select.value === '' ? null : Number(select.value)),
    },
    h('option', { value: '' }, 'top label'),
    Array.from({ length: doc.n_classes }, (_, k) => h('option', { value: k }, names(k))),
  );
  return h('div', { class: 'field' }, h('label', { for: 'class-picker' }, 'What is judged'), select);
}
