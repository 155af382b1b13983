// The page that compares models on the same rows, or evaluates one.

import { curveDiagram, forest, isCrowded, LINEAR, logOdds, riskChart } from './charts';
import type { ComparedGroup, ComparedModel, Interval, ModelsDocument, Promised } from './document';
import { h, responsive, section, segmented } from './dom';
import { clipped, fixed, headlineEce, METRIC_ORDER, metricRange, metricStyle, metricValue, percent, points, pText, whole } from './format';
import { framed } from './frame';
import { assessedGroups } from './sections/groups';
import { definitions, provenanceFacts } from './sections/made';
import { noise, scoresTable } from './sections/scores';
import { sortableTable, type Column } from './sections/table';
import { verdictBox } from './sections/verdict';

/** One colour per model: blue, as everywhere, for the best; they repeat after eight. */
function place(doc: ModelsDocument, i: number): number {
  const best = Math.max(0, doc.models.findIndex((m) => m.difference === null));
  return (i === best ? 0 : i < best ? i + 1 : i) % 8;
}
const colour = (doc: ModelsDocument, i: number): string => `var(--model-${place(doc, i)})`;

/** Columns of the table; all metrics are in the JSON that the command prints. */
const SHOWN = ['nll', 'brier', 'error'];

/** Whether the page evaluates one model. */
const isAlone = (doc: ModelsDocument): boolean => doc.models.length === 1;

export function modelsPage(doc: ModelsDocument): HTMLElement[] {
  const size = `${whole(doc.n_rows)} rows, ${whole(doc.n_classes)} classes${doc.event === null ? '' : ` (positive: ${doc.event.name})`}`;
  const subtitle = isAlone(doc) ? size : `${doc.models.length} models, ${size}`;
  return framed(doc, subtitle, [
    ['Verdict', verdictSection(doc)],
    ['Scores', scoresSection(doc)],
    ['Reliability', reliabilitySection(doc)],
    ...(doc.assessed.length === 0 ? [] : ([['Groups', section('groups', 'Group by group', ...assessedGroups(doc.assessed, doc.worst_slice, 'P-values', doc.event))]] as [string, HTMLElement][])),
    ...(doc.groups.length === 0 ? [] : ([['Groups', groupsSection(doc)]] as [string, HTMLElement][])),
    ['Coverage', coverageSection(doc)],
    ['How it was made', section('made', 'How this was made', provenanceFacts(doc, size), h('h3', {}, 'Definitions'), definitions(false))],
  ]);
}

function verdictSection(doc: ModelsDocument): HTMLElement {
  const findings = [...(isAlone(doc) ? [] : doc.models.map((m) => h('li', {}, h('strong', {}, `${m.name}: `), m.assessment.summary))), ...doc.notes.map((note) => h('li', {}, note))];
  return verdictBox(doc.verdict, findings.length > 0 && h('ul', { class: 'findings' }, findings));
}

function scoresSection(doc: ModelsDocument): HTMLElement {
  const known = Object.keys(doc.models[0].scores);
  const metrics = METRIC_ORDER.filter((m) => known.includes(m) && (isAlone(doc) || SHOWN.includes(m) || m === headlineEce(doc.event)));
  const how = 'Lower is better. In brackets: 95 % intervals. “Noise” is the median and the 95 % quantile of a calibrated model with the same predictions.';
  if (isAlone(doc)) return section('scores', 'Scores', h('p', { class: 'muted' }, how), scoresTable(doc.models[0], metrics, doc.event));
  const best = new Map(metrics.map((m) => [m, metricValue(m, Math.min(...doc.models.map((row) => row.scores[m][0] ?? Infinity)))]));
  const hasInterval = (m: string) => doc.models[0].scores[m].length === 3;
  const columns: Column<ComparedModel>[] = [
    { title: 'Model', isHeader: true, key: (m) => m.name, cell: (m) => [h('span', { class: 'class-name', title: m.name }, m.name), m.difference === null ? h('span', { class: 'chip' }, 'lowest log loss') : ''] },
    ...differenceColumns(),
    {
      title: doc.event === null ? 'Conf. − acc.' : 'Prob. − freq.',
      hint: doc.event === null ? 'mean confidence − accuracy in points, with its 95 % interval' : `mean probability of ${doc.event.name} − how often it happens, in points, with its 95 % interval`,
      numeric: true,
      key: (m) => m.assessment.gap[0],
      cell: (m) => [h('span', {}, points(m.assessment.gap[0])), h('span', { class: 'small muted' }, `[${points(m.assessment.gap[1])}, ${points(m.assessment.gap[2])}]`)],
    },
    {
      title: 'RMS error',
      hint: 'typical calibration error, with its 95 % interval',
      numeric: true,
      key: (m) => m.assessment.rms[0],
      cell: (m) => [h('span', {}, percent(m.assessment.rms[0])), h('span', { class: 'small muted' }, `[${(100 * m.assessment.rms[1]).toFixed(1)}, ${(100 * m.assessment.rms[2]).toFixed(1)}]`)],
    },
    ...metrics.map((metric): Column<ComparedModel> => ({
      title: metricStyle(metric, doc.event).title,
      hint: metricStyle(metric, doc.event).hint,
      numeric: true,
      key: (m) => m.scores[metric][0],
      cell: (m) => [
        h('span', { class: hasInterval(metric) && metricValue(metric, m.scores[metric][0]) === best.get(metric) ? 'best' : '' }, metricValue(metric, m.scores[metric][0])),
        h('span', { class: 'small muted' }, metricRange(metric, m.scores[metric]) || noise(m, metric)),
      ],
    })),
  ];
  return section(
    'methods',
    'Scores',
    h('p', { class: 'muted' }, `${how} Calibration errors are not compared between models, because their noise does not cancel.`),
    sortableTable({ caption: 'Models', columns, rows: doc.models, rowClass: (m) => (m.difference === null ? 'chosen' : null) }),
    scoresFigure(doc, metrics.filter(hasInterval)),
  );
}

/** Columns on how far a model is from the best. */
function differenceColumns(): Column<ComparedModel>[] {
  return [
    {
      title: 'Log loss − best',
      hint: 'paired by row, with its 95 % interval; positive is worse than the best model',
      numeric: true,
      key: (m) => m.difference?.[0] ?? 0,
      cell: (m) => (m.difference === null ? '–' : [h('span', {}, fixed(m.difference[0], 4)), h('span', { class: 'small muted' }, metricRange('nll', m.difference))]),
    },
    { title: 'p-value', hint: 'of that difference, corrected for the number of models (Holm)', numeric: true, key: (m) => m.p_value, cell: (m) => pText(m.p_value) },
  ];
}

function scoresFigure(doc: ModelsDocument, offered: string[]): HTMLElement {
  let metric = offered[0];
  const chart = h('div', { class: 'chart' });
  const draw = responsive(chart, (width) => {
    const style = metricStyle(metric);
    const rows = doc.models.flatMap((m, i) => {
      const [estimate, low = null, high = null] = m.scores[metric] as Interval;
      if (estimate === null || low === null || high === null) return [];
      return [{ label: clipped(m.name, 34), estimate, low, high, colour: colour(doc, i), tip: `${m.name} ${metricValue(metric, estimate)} ${metricRange(metric, m.scores[metric])}` }];
    });
    if (rows.length > 0) chart.replaceChildren(forest(rows, width, style.percent ? `${style.title} (%)` : style.title, style.percent ? 100 : 1, Math.min(...rows.map((r) => r.estimate))));
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
    h('p', { class: 'small muted' }, 'Each interval is of one model alone. Models whose intervals overlap can still differ: the table compares them row by row, which is sharper.'),
  );
}

function reliabilitySection(doc: ModelsDocument): HTMLElement {
  const [x, y] = doc.event === null ? ['confidence', 'accuracy'] : [`probability of ${doc.event.name}`, `frequency of ${doc.event.name}`];
  const ece = headlineEce(doc.event);
  const axis = doc.event !== null && doc.models.every((m) => isCrowded(m.curve)) ? logOdds(doc.models.map((m) => m.curve)) : LINEAR;
  return section(
    'reliability',
    'Reliability',
    h('p', { class: 'muted' }, `${y[0].toUpperCase()}${y.slice(1)} against ${x}: an isotonic regression (no bins). A calibrated model’s curve would stay inside the grey band in 95 % of samples.`),
    h(
      'div',
      { class: doc.models.length <= 2 ? 'pair' : 'several' },
      doc.models.map((m, i) => {
        const chart = h('div', { class: 'chart' });
        responsive(chart, (width) => chart.replaceChildren(curveDiagram(m.curve, colour(doc, i), width, { name: m.name, x, y }, axis)));
        return h('figure', { class: 'card' }, h('figcaption', {}, h('h3', { class: 'class-name', title: m.name }, m.name), h('span', { class: 'figure-number' }, `ECE ${m.scores[ece] === undefined ? '' : metricValue(ece, m.scores[ece][0])}`)), chart);
      }),
    ),
  );
}

function groupsSection(doc: ModelsDocument): HTMLElement {
  const lowest = (g: ComparedGroup) => Math.min(...g.nll.map((x) => x ?? Infinity));
  const columns: Column<ComparedGroup>[] = [
    { title: 'Group', isHeader: true, key: (g) => g.name, cell: (g) => h('span', { class: 'class-name', title: g.name }, g.name) },
    { title: 'Rows', numeric: true, key: (g) => g.n, cell: (g) => whole(g.n) },
    ...doc.models.map((m, i): Column<ComparedGroup> => ({
      title: clipped(m.name, 24),
      hint: `log loss of ${m.name}`,
      numeric: true,
      key: (g) => g.nll[i],
      cell: (g) => [h('span', { class: g.nll[i] === lowest(g) ? 'best' : '' }, metricValue('nll', g.nll[i])), h('span', { class: 'small muted' }, g.clear[i] ? 'significant' : '')],
    })),
  ];
  const best = doc.models.find((m) => m.difference === null);
  return section(
    'groups',
    'Group by group',
    h('p', { class: 'muted' }, `Log loss in every group. “Significant”: different from ${best?.name ?? 'the best model'} in that group, paired by row and corrected for the number of comparisons (Holm).`),
    sortableTable({ caption: 'Log loss by group', columns, rows: doc.groups, limit: 20 }),
  );
}

const PROMISED: Column<Promised>[] = [
  { title: 'Error, at most', hint: 'with 95 % certainty, of each row of this table by itself', numeric: true, key: (p) => p.error, cell: (p) => percent(p.error) },
  { title: 'Accept confidence from', numeric: true, key: (p) => p.threshold, cell: (p) => fixed(p.threshold, 4) },
  { title: 'Rows kept', numeric: true, key: (p) => p.coverage, cell: (p) => percent(p.coverage) },
];

function coverageSection(doc: ModelsDocument): HTMLElement {
  const chart = h('div', { class: 'chart' });
  const lines = doc.models.map((m, i) => ({ name: clipped(m.name, 40), colour: colour(doc, i), risk: m.risk }));
  const promised = doc.models[0].promised;
  responsive(chart, (width) => chart.replaceChildren(riskChart(lines, width, promised)));
  return section(
    'coverage',
    'Keeping only confident predictions',
    h('p', { class: 'muted' }, `The error among the most confident predictions. Solid: observed. Dashed: predicted by the confidence.${promised.length === 0 ? '' : ' Grey steps: where a step ends, its error is promised for new rows with 95 % certainty, one promise at a time.'}`),
    h(
      'figure',
      { class: 'card' },
      h('figcaption', {}, h('h3', {}, 'Risk and coverage')),
      chart,
      promised.length > 0 && sortableTable({ caption: 'Promised errors', columns: PROMISED, rows: promised }),
      h('p', { class: 'small muted key' }, lines.map((line, i) => h('span', { class: 'key-item' }, h('span', { class: `swatch model-${place(doc, i)}` }), line.name))),
    ),
  );
}
