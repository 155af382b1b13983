// The scores of one model: a row per metric, which fits a phone where a column per metric does not.

import type { ComparedModel, EventName } from '../document';
import { h } from '../dom';
import { metricRange, metricStyle, metricValue, percent, points } from '../format';
import { sortableTable, type Column } from './table';

interface Score {
  title: string;
  hint: string;
  value: string;
  /** its 95 % interval, or what noise alone shows */
  range: string;
}

export function scoresTable(model: ComparedModel, metrics: string[], event: EventName | null): HTMLElement {
  const { gap, rms } = model.assessment;
  const scores: Score[] = [
    { title: event === null ? 'Conf. − acc.' : 'Prob. − freq.', hint: event === null ? 'mean confidence − accuracy in points; 0 is best' : `mean probability of ${event.name} − how often it happens, in points; 0 is best`, value: points(gap[0]), range: `[${points(gap[1])}, ${points(gap[2])}]` },
    { title: 'RMS error', hint: 'typical calibration error', value: percent(rms[0]), range: `[${(100 * rms[1]).toFixed(1)}, ${(100 * rms[2]).toFixed(1)}]` },
    ...metrics.map((metric) => ({
      title: metricStyle(metric, event).title,
      hint: metricStyle(metric, event).hint,
      value: metricValue(metric, model.scores[metric][0]),
      range: metricRange(metric, model.scores[metric]) || noise(model, metric),
    })),
  ];
  const columns: Column<Score>[] = [
    { title: 'Score', isHeader: true, cell: (s) => h('span', { title: s.hint }, s.title) },
    { title: 'Value', numeric: true, cell: (s) => s.value },
    { title: 'Interval or noise', numeric: true, cell: (s) => s.range },
  ];
  return sortableTable({ caption: 'Scores', columns, rows: scores });
}

/** Median and 95 % quantile of a calibrated model with the same predictions, in per cent. */
export function noise(model: ComparedModel, metric: string): string {
  const floor = model.assessment.noise_floor[metric];
  return floor === undefined ? '' : `noise ${(100 * floor.median).toFixed(1)}–${(100 * floor.q95).toFixed(1)}`;
}
