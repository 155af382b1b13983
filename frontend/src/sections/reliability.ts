// Reliability diagrams, before and after.

import { AFTER, BEFORE, binCounts, curveDiagram, isCrowded, LINEAR, logOdds, reliability, rowCounts, type DiagramWords } from '../charts';
import type { Binning, BinTable, Curve, Diagrams, ReportDocument } from '../document';
import { classPicker, h, responsive, section, segmented } from '../dom';
import type { Entries, Which } from '../entries';
import { clipped, fixed, percent, whole } from '../format';
import { Watched, type View } from '../state';

export function reliabilitySection(doc: ReportDocument, entries: Entries, names: (k: number) => string): HTMLElement {
  const start = doc.bin_counts.includes(doc.n_bins) ? doc.n_bins : 15;
  // Of two classes the probability of the second tells everything; confidence only its half.
  const klass = doc.event === null ? null : doc.event.klass;
  const eventOf = (k: number) => (k === klass && doc.event !== null ? doc.event.name : names(k));
  const axis = klass !== null && isCrowded(doc.positive?.before.curve ?? entries.curve(klass, 'before')) ? 'log-odds' : 'linear';
  const view = new Watched<View>({ form: 'curve', binning: 'equal-width', bins: start, klass, axis });
  const note = h('p', { class: 'small muted', role: 'status' });
  const guide = h('p', { class: 'muted' });

  /** Diagrams of all rows, or null where the class is drawn from the rows of the page. */
  const all = (which: Which, k: number | null): Diagrams | null => (k === null ? doc[which] : k === doc.event?.klass && doc.positive !== null ? doc.positive[which] : null);
  const table = (which: Which, { binning, bins, klass: k }: View): BinTable => all(which, k)?.tables[binning][String(bins)] ?? entries.table(k!, which, binning, bins);
  const curve = (which: Which, k: number | null): Curve => all(which, k)?.curve ?? entries.curve(k!, which);

  const sides = (doc.chosen === 'identity' ? ['before'] : ['before', 'after']) as Which[];
  const isOdds = ({ form, axis: shown, klass: k }: View) => form === 'curve' && shown === 'log-odds' && k !== null;
  const panels = sides.map((which) => panel(which, which === 'before' ? BEFORE : AFTER));

  function panel(which: Which, colour: string): HTMLElement {
    const chart = h('div', { class: 'chart' });
    const counts = h('div', { class: 'chart' });
    const figures = h('span', { class: 'figure-number', 'data-figure': `ece-${which}` });
    const apart = h('p', { class: 'small muted' });
    let words: DiagramWords = { name: which, x: 'confidence', y: 'accuracy' };
    const draw = responsive(chart, (width) => {
      const now = view.value;
      const isCurve = now.form === 'curve';
      if (isOdds(now)) {
        const odds = logOdds(sides.map((side) => curve(side, now.klass)));
        const { values, weights } = entries.of(now.klass!, which);
        chart.replaceChildren(curveDiagram(curve(which, now.klass), colour, width, words, odds));
        counts.replaceChildren(rowCounts(values, weights, odds, colour, width, words.name));
        return;
      }
      chart.replaceChildren(isCurve ? curveDiagram(curve(which, now.klass), colour, width, words, LINEAR) : reliability(table(which, now), colour, width, words));
      const counted = isCurve ? table(which, { ...now, binning: 'equal-width', bins: Math.max(...doc.bin_counts) }) : table(which, now);
      counts.replaceChildren(binCounts(counted, colour, width, words.name, !isCurve));
    });
    view.listen((now) => {
      words = {
        name: `${which} calibration${now.klass === null ? '' : `, class ${eventOf(now.klass)}`}`,
        x: now.klass === null ? 'confidence' : 'probability',
        y: now.klass === null ? 'accuracy' : 'frequency',
      };
      apart.textContent = apartWords(all(which, now.klass), now.klass === null ? '' : ` of P(${clipped(eventOf(now.klass), 16)})`);
      figures.textContent = `${errorName(now, eventOf)} ${percent(table(which, now).ece, 2)}`;
      draw();
    });
    const title = which === 'before' ? 'Before' : 'After';
    const method = which === 'before' ? 'the uncalibrated model' : methodWords(doc);
    return h(
      'figure',
      { class: `card ${which}` },
      h('figcaption', {}, h('h3', {}, title), h('span', { class: 'small muted' }, method), figures),
      chart,
      counts,
      apart,
    );
  }

  view.listen((now) => {
    guide.textContent = guideWords(now, names);
    note.textContent = [afterWords(doc), now.klass === null ? '' : sampleWords(doc, entries, now, all('before', now.klass) !== null)].filter((x) => x !== '').join(' ');
  });

  const binControls = [
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
  ];
  const axisControl = segmented<View['axis']>(
    'Axes',
    [
      { value: 'linear', text: 'linear' },
      { value: 'log-odds', text: 'log-odds' },
    ],
    axis,
    (value) => view.set({ axis: value }),
  );
  view.listenAtOnce((now) => {
    for (const control of binControls) control.hidden = now.form === 'curve';
    axisControl.hidden = now.form !== 'curve' || now.klass === null;
  });
  return section(
    'reliability',
    'Reliability',
    guide,
    h(
      'div',
      { class: 'controls' },
      classPicker('class-picker', 'Probability of', doc.n_classes, names, klass, (k) => view.set({ klass: k }), 'the predicted class'),
      segmented<View['form']>(
        'Diagram',
        [
          { value: 'curve', text: 'curve' },
          { value: 'bins', text: 'bins' },
        ],
        'curve',
        (form) => view.set({ form }),
      ),
      axisControl,
      binControls,
    ),
    h('div', { class: 'pair' }, panels),
    note,
  );
}

/** How much of the score is miscalibration, where all rows are known. */
function apartWords(found: Diagrams | null, of: string): string {
  const brier = found?.apart['Brier score'];
  if (brier === undefined) return '';
  return `Brier score${of} ${fixed(brier.score, 4)} = ${fixed(brier.miscalibration, 4)} miscalibration − ${fixed(brier.discrimination, 4)} discrimination + ${fixed(brier.uncertainty, 4)} uncertainty`;
}

function guideWords({ form, klass }: View, names: (k: number) => string): string {
  const meaning =
    klass === null
      ? 'Of the predictions made with 80 % confidence, 80 % should be right: the closer to the dashed line, the better. Below the line the model is overconfident.'
      : `Of the rows given a probability of 80 % for “${names(klass)}”, 80 % should be “${names(klass)}”: the closer to the dashed line, the better. Below the line the probability is too high.`;
  const drawn =
    form === 'curve'
      ? 'The curve is an isotonic regression (no bins). A calibrated model’s curve would stay inside the grey band in 95 % of samples.'
      : 'The bars are 95 % bootstrap intervals. A calibrated model’s dots would stay inside the grey band in 95 % of samples.';
  return `${meaning} ${drawn}`;
}

function afterWords(doc: ReportDocument): string {
  if (doc.judged_on !== 'cross-fit' || doc.chosen === 'identity') return '';
  return 'After: each row is calibrated by a fit on the other folds.';
}

function sampleWords(doc: ReportDocument, entries: Entries, { form, binning }: View, isAll: boolean): string {
  if (isAll) return '';
  const sample = entries.n < doc.n_judged ? `Drawn from a random sample of ${whole(entries.n)} of ${whole(doc.n_judged)} rows.` : '';
  const weighted = doc.is_weighted ? 'Rows are drawn in proportion to their weights. ' : '';
  const isPooled = entries.pooledBelow > 0 && (form === 'curve' || binning === 'equal-mass');
  return `${weighted}${sample}${isPooled ? ` Probabilities below ${percent(entries.pooledBelow)} are pooled.` : ''}`;
}

function errorName({ binning, klass, form }: View, names: (k: number) => string): string {
  const name = form === 'curve' || binning === 'equal-width' ? 'ECE' : 'AdaECE';
  return klass === null ? name : `${name} of P(${clipped(names(klass), 16)})`;
}

function methodWords(doc: ReportDocument): string {
  const method = doc.methods.find((m) => m.method === doc.chosen);
  return method === undefined ? doc.chosen : method.label;
}
