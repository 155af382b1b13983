// Groups of rows, each assessed by itself.

import { AFTER, BEFORE, forest } from '../charts';
import type { EventName, Group, GroupTrial, ReportDocument } from '../document';
import { h, responsive, section, segmented } from '../dom';
import { capitalised, metricValue, percent, points, pText, whole } from '../format';
import { sortableTable } from './table';

type Shown = 'gap' | 'rms';

export function groupsSection(doc: ReportDocument): HTMLElement {
  return section('groups', 'Group by group', ...assessedGroups(doc.groups, doc.worst_slice, 'These are the values before calibration; their p-values', doc.event), doc.by_group !== null && ownCalibrators(doc.by_group));
}

/** Groups with their intervals and verdicts; `began` begins the sentence on p-values. */
export function assessedGroups(groups: Group[], worstSlice: string | null, began: string, event: EventName | null): (HTMLElement | false)[] {
  let shown: Shown = 'gap';
  const gap = event === null ? 'confidence − accuracy' : 'mean probability − frequency';
  const chart = h('div', { class: 'chart' });
  const isBad = (g: Group) => g.p_value !== null && g.p_value < 0.05;
  const draw = responsive(chart, (width) => {
    const rows = groups.flatMap((g) => {
      const [estimate, low, high] = g[shown];
      if (estimate === null) return [];
      const range = shown === 'gap' ? `${points(estimate)} points [${points(low)}, ${points(high)}]` : `${percent(estimate)} [${(low * 100).toFixed(1)}, ${(high * 100).toFixed(1)}]`;
      return [{ label: g.name, estimate, low, high, colour: isBad(g) ? BEFORE : AFTER, tip: `${g.name}, ${whole(g.n)} rows: ${range}, ${g.verdict}` }];
    });
    if (rows.length > 0) chart.replaceChildren(forest(rows, width, shown === 'gap' ? `${gap}, points` : 'RMS calibration error (%)', 100, 0, false));
  });
  const bad = groups.filter(isBad).length;
  const words = bad === 0 ? 'No group is significantly miscalibrated.' : `${bad} of ${groups.length} groups ${bad === 1 ? 'is' : 'are'} significantly miscalibrated.`;
  return [
    h('p', { class: 'muted' }, `${words} ${began} are corrected for the number of groups (Holm). Orange: significantly miscalibrated.`),
    worstSlice !== null && h('p', {}, h('strong', {}, 'Worst slice: '), `${worstSlice}.`),
    h(
      'figure',
      { class: 'card' },
      h(
        'figcaption',
        {},
        h('h3', {}, 'Groups with 95 % intervals'),
        segmented<Shown>(
          'Shown',
          [
            { value: 'gap', text: 'direction' },
            { value: 'rms', text: 'size' },
          ],
          shown,
          (value) => {
            shown = value;
            draw();
          },
        ),
      ),
      chart,
    ),
    h('div', { class: 'below' }, sortableTable<Group>({
      caption: 'Groups',
      rows: groups,
      limit: 20,
      columns: [
        { title: 'Group', isHeader: true, key: (g) => g.name, cell: (g) => h('span', { class: 'class-name', title: g.name }, g.name) },
        { title: 'Rows', numeric: true, key: (g) => g.n, cell: (g) => whole(g.n) },
        { title: capitalised(gap), numeric: true, hint: 'in points, with its 95 % interval', key: (g) => g.gap[0], cell: (g) => (g.gap[0] === null ? '–' : `${points(g.gap[0])} [${points(g.gap[1])}, ${points(g.gap[2])}]`) },
        { title: 'Typical error (RMS)', numeric: true, key: (g) => g.rms[0], cell: (g) => (g.rms[0] === null ? '–' : percent(g.rms[0])) },
        { title: 'p-value', numeric: true, hint: 'corrected for the number of groups', key: (g) => g.p_value, cell: (g) => pText(g.p_value) },
        { title: 'Finding', key: (g) => g.verdict, cell: (g) => g.verdict },
      ],
    })),
  ];
}

/** Which groups get a calibrator of their own, and what that gains. */
function ownCalibrators(found: NonNullable<ReportDocument['by_group']>): HTMLElement {
  const figures = found.has_own ? ' All other figures of this page show the shared calibrator.' : '';
  return h(
    'div',
    { class: 'below', id: 'own-calibrators' },
    h('h3', {}, 'One calibrator per group?'),
    h('p', {}, `${capitalised(found.summary)}.${figures}`),
    found.trials.length > 0 &&
      sortableTable<GroupTrial>({
        caption: 'Held-out log loss with the shared calibrator and with one fitted on the group alone',
        rows: found.trials,
        limit: 20,
        columns: [
          { title: 'Group', isHeader: true, key: (t) => t.name, cell: (t) => h('span', { class: 'class-name', title: t.name }, t.name) },
          { title: 'Rows', numeric: true, key: (t) => t.n, cell: (t) => whole(t.n) },
          { title: 'Shared', numeric: true, hint: 'log loss', key: (t) => t.shared, cell: (t) => metricValue('nll', t.shared) },
          { title: 'Its own', numeric: true, hint: 'log loss', key: (t) => t.own, cell: (t) => metricValue('nll', t.own) },
          { title: 'p-value', numeric: true, hint: 'one-sided, corrected for the number of groups', key: (t) => t.p_value, cell: (t) => pText(t.p_value) },
          { title: 'Used', key: (t) => t.calibrator ?? '', cell: (t) => t.calibrator ?? 'the shared calibrator' },
        ],
      }),
  );
}
