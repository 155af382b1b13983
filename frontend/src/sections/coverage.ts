// Leaving the least confident rows to somebody else: error against coverage.

import { AFTER, at, BEFORE, riskChart } from '../charts';
import type { ReportDocument } from '../document';
import { h, responsive, section } from '../dom';
import { percent } from '../format';

const COVERAGES = [1, 0.95, 0.9, 0.8, 0.7, 0.5];

export function coverageSection(doc: ReportDocument): HTMLElement {
  const lines = [
    { name: 'before', colour: BEFORE, risk: doc.before.risk },
    ...(doc.chosen === 'identity' ? [] : [{ name: 'after', colour: AFTER, risk: doc.after.risk }]),
  ];
  const chart = h('div', { class: 'chart' });
  responsive(chart, (width) => chart.replaceChildren(riskChart(lines, width)));
  const offered = COVERAGES.filter((x) => x >= doc.before.risk.coverage[0]);
  return section(
    'coverage',
    'Keeping only confident predictions',
    h('p', { class: 'muted' }, 'Keep the most confident predictions and hand the rest to a person: how many of those kept are wrong? Solid: observed error. Dashed: predicted error (1 − mean confidence). Calibration brings the two together.'),
    h(
      'div',
      { class: 'pair wide-left' },
      h(
        'figure',
        { class: 'card' },
        h('figcaption', {}, h('h3', {}, 'Risk and coverage')),
        chart,
        h('p', { class: 'small muted key' }, lines.map(({ name }) => h('span', { class: 'key-item' }, h('span', { class: `swatch ${name}` }), name))),
      ),
      h(
        'div',
        { class: 'scroller', tabindex: 0, role: 'region', 'aria-label': 'Table: error by coverage' },
        h(
          'table',
          {},
          h('caption', { class: 'sr' }, 'Error by coverage'),
          h('thead', {}, h('tr', {}, ['Kept', ...lines.flatMap(({ name }) => [`Error, ${name}`, `Predicted error, ${name}`])].map((title, i) => h('th', { scope: 'col', class: i > 0 ? 'numeric' : null }, title)))),
          h(
            'tbody',
            {},
            offered.map((x) =>
              h(
                'tr',
                {},
                h('th', { scope: 'row' }, percent(x, 0)),
                lines.flatMap(({ risk }) => [h('td', { class: 'numeric' }, percent(at(risk, x), 2)), h('td', { class: 'numeric muted' }, percent(at(risk, x, risk.stated), 2))]),
              ),
            ),
          ),
        ),
      ),
    ),
  );
}
