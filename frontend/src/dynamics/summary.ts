// What came of the run, and how it was made.

import type { DynamicsDocument, Kept, Split } from '../document';
import { h, section } from '../dom';
import { fixed, percent, whole } from '../format';

const SPLITS: Split[] = ['train', 'validation', 'test'];

export function summarySection(doc: DynamicsDocument): HTMLElement {
  const test = doc.kept.test;
  return h(
    'section',
    { id: 'summary', class: 'verdict', 'aria-labelledby': 'summary-title' },
    h('h2', { id: 'summary-title', class: 'headline' }, `${doc.verdict}.`),
    h('p', { class: 'lead' }, gapWords(test)),
    doc.scale < 1 && h('p', {}, `Scaled down to ${doc.scale} of the published data and epochs: do not compare with the published numbers.`),
    h(
      'dl',
      { class: 'tiles' },
      tile('Test error', percent(test.error, 2), `validation ${percent(doc.kept.validation.error, 2)}`),
      tile('Calibration error (ECE)', percent(test.ece, 2), lowest(doc, 'test_ece')),
      tile('AdaECE', percent(test.adaptive_ece, 2), lowest(doc, 'test_adaptive_ece')),
      tile('Log loss', fixed(test.nll, 4), lowest(doc, 'test_nll')),
    ),
    h('p', { class: 'next' }, 'Next: ', h('code', {}, doc.next[0])),
  );
}

function gapWords({ gap }: Kept): string {
  const points = `${(Math.abs(gap) * 100).toFixed(1)} points`;
  if (Math.abs(gap) < 0.005) return 'On average its confidence equals its accuracy within half a point.';
  return `On average its confidence is ${points} ${gap > 0 ? 'higher than its accuracy: it is overconfident' : 'lower than its accuracy: it is underconfident'}.`;
}

function lowest(doc: DynamicsDocument, name: string): string {
  const curve = doc.curves[name];
  if (curve === undefined || curve.value.length === 0) return '';
  const at = curve.value.indexOf(Math.min(...curve.value));
  const value = name.endsWith('nll') ? fixed(curve.value[at], 4) : percent(curve.value[at], 2);
  return curve.epoch[at] === doc.kept_epoch ? 'lowest of all epochs' : `lowest ${value}, epoch ${curve.epoch[at]}`;
}

function tile(title: string, value: string, note: string): HTMLElement {
  return h('div', { class: 'tile' }, h('dt', {}, title), h('dd', {}, h('div', { class: 'values' }, h('span', { class: 'now' }, value)), h('div', { class: 'note' }, note)));
}

const COLUMNS: [string, string, boolean][] = [
  ['error', 'Error', true],
  ['ece', 'ECE', true],
  ['adaptive_ece', 'AdaECE', true],
  ['nll', 'Log loss', false],
  ['nll_correct', 'of right ones', false],
  ['nll_incorrect', 'of wrong ones', false],
  ['entropy', 'Entropy', false],
  ['p_true', 'p of the true class', false],
];

/** The figures after the last epoch, for those who want numbers. */
export function numbersSection(doc: DynamicsDocument): HTMLElement {
  const cell = (split: Split, figure: string, isPercent: boolean): string => {
    const curve = doc.curves[`${split}_${figure}`];
    const at = curve?.epoch.indexOf(doc.epochs) ?? -1;
    return at < 0 ? '–' : isPercent ? percent(curve.value[at], 2) : fixed(curve.value[at], 4);
  };
  return section(
    'numbers',
    'After the last epoch',
    h(
      'div',
      { class: 'scroller', tabindex: 0, role: 'region', 'aria-label': 'Table: figures after the last epoch' },
      h(
        'table',
        {},
        h('caption', { class: 'sr' }, 'Figures after the last epoch'),
        h('thead', {}, h('tr', {}, h('th', { scope: 'col' }, 'Examples'), COLUMNS.map(([, title]) => h('th', { scope: 'col', class: 'numeric' }, title)))),
        h('tbody', {}, SPLITS.map((split) => h('tr', {}, h('th', { scope: 'row' }, split), COLUMNS.map(([figure, , isPercent]) => h('td', { class: 'numeric' }, cell(split, figure, isPercent)))))),
      ),
    ),
    doc.kept_best && h('p', { class: 'small muted' }, `The run keeps the weights of epoch ${doc.kept_epoch}, the first with the lowest validation error; the headline shows these weights.`),
  );
}

export function madeSection(doc: DynamicsDocument): HTMLElement {
  const fact = (title: string, ...value: (Node | string)[]) => h('div', {}, h('dt', {}, title), h('dd', {}, ...value));
  const table = (values: Record<string, string | number>) => Object.entries(values).map(([name, value]) => fact(name, String(value)));
  return section(
    'made',
    'How this was made',
    h('h3', {}, 'Recipe'),
    h('dl', { class: 'facts columns' }, table(doc.recipe)),
    h('h3', {}, 'Made with'),
    h(
      'dl',
      { class: 'facts columns' },
      doc.provenance.command !== '' && fact('Command', h('code', {}, doc.provenance.command)),
      fact('Training took', doc.seconds === null ? 'not recorded' : duration(doc.seconds)),
      table(doc.versions),
    ),
  );
}

export function duration(seconds: number): string {
  if (seconds < 100) return `${fixed(seconds, 1)} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 100 ? `${minutes} min` : `${whole(Math.floor(minutes / 60))} h ${minutes % 60} min`;
}
