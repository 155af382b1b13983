// The page of a training run: what was seen after every epoch.

import type { EpochCurve, DynamicsDocument, Split } from '../document';
import { h, responsive, section, segmented } from '../dom';
import { whole } from '../format';
import { framed } from '../frame';
import { Watched } from '../state';
import { key, lines, STYLE, type Line, type LineWords } from './charts';
import { epochsSection } from './epochs';
import { madeSection, numbersSection, summarySection } from './summary';

const SPLITS: Split[] = ['train', 'validation', 'test'];
const NONE: EpochCurve = { epoch: [], value: [] };

export function dynamicsPage(doc: DynamicsDocument): HTMLElement[] {
  const subtitle = `Training dynamics, ${whole(doc.epochs)} ${doc.epochs === 1 ? 'epoch' : 'epochs'}`;
  return framed(doc, subtitle, [
    ['Summary', summarySection(doc)],
    ['Loss and error', learningSection(doc)],
    ['Calibration', calibrationSection(doc)],
    ['Right and wrong', sidesSection(doc)],
    ['Epoch by epoch', epochsSection(doc)],
    ['Numbers', numbersSection(doc)],
    ['How it was made', madeSection(doc)],
  ]);
}

/** Epochs at whose start the learning rate changes. */
function changes({ curves: { lr } }: DynamicsDocument): number[] {
  return lr.epoch.filter((_, i) => i > 0 && lr.value[i] !== lr.value[i - 1]);
}

function one(doc: DynamicsDocument, name: string, title: string): Line[] {
  return [{ name: title, colour: 'var(--ink)', dash: '', curve: doc.curves[name] ?? NONE }];
}

function bySplit(doc: DynamicsDocument, figure: string): Line[] {
  return SPLITS.map((split) => ({ name: split, ...STYLE[split], curve: doc.curves[`${split}_${figure}`] ?? NONE }));
}

/** A card with lines that follow the width, and what is watched. */
function panel(title: string, note: string, words: LineWords, drawn: () => Line[], watched?: Watched<{ split: Split }>): HTMLElement {
  const chart = h('div', { class: 'chart' });
  const draw = responsive(chart, (width) => {
    const found = drawn().filter((line) => line.curve.epoch.length > 0);
    chart.replaceChildren(found.length > 0 ? lines(found, width, words) : h('p', {}, 'No values were recorded.'));
  });
  watched?.listen(draw);
  return h('figure', { class: 'card' }, h('figcaption', {}, h('h3', {}, title), h('span', { class: 'small muted' }, note)), chart);
}

function learningSection(doc: DynamicsDocument): HTMLElement {
  const words = { epochs: doc.epochs, changes: changes(doc) };
  const rates = doc.curves.lr.value;
  const ticks = new Set(rates).size <= 6 ? [...new Set(rates)] : undefined;
  const isLog = Math.min(...rates) > 0 && Math.max(...rates) / Math.min(...rates) > 5;
  return section(
    'learning',
    'Loss and error',
    h('p', { class: 'muted' }, words.changes.length > 0 ? 'Vertical lines: the learning rate changes.' : 'The learning rate does not change.'),
    h(
      'div',
      { class: 'pair' },
      panel('Loss', 'mean over the epoch, as trained', { name: 'Loss', ...words }, () => one(doc, 'loss', 'loss')),
      panel('Learning rate', isLog ? 'log scale' : '', { name: 'Learning rate', isLog, ticks, ...words }, () => one(doc, 'lr', 'learning rate')),
      panel('Error', 'share of wrong predictions', { name: 'Error', isPercent: true, ...words }, () => bySplit(doc, 'error')),
      panel('Weight norm', 'of the last layer', { name: 'Norm of the last layer’s weights', isFromZero: false, ...words }, () => one(doc, 'weight_norm', 'norm')),
    ),
    key(SPLITS),
  );
}

function calibrationSection(doc: DynamicsDocument): HTMLElement {
  const words = { epochs: doc.epochs, changes: changes(doc), isPercent: true };
  const n = doc.pictures.train[0].table.count.reduce((a, b) => a + b, 0);
  return section(
    'calibration',
    'Calibration',
    h('p', { class: 'muted' }, `Mean gap between confidence and accuracy over 15 bins. Training examples: ${whole(n)} of them, not augmented, in evaluation mode.`),
    h(
      'div',
      { class: 'pair' },
      panel('ECE', 'bins of equal width', { name: 'ECE', ...words }, () => bySplit(doc, 'ece')),
      panel('AdaECE', 'bins of equal mass', { name: 'AdaECE', ...words }, () => bySplit(doc, 'adaptive_ece')),
    ),
    key(SPLITS),
  );
}

function sidesSection(doc: DynamicsDocument): HTMLElement {
  const watched = new Watched<{ split: Split }>({ split: 'test' });
  const words = { epochs: doc.epochs, changes: changes(doc) };
  const sides = (figure: string) => (): Line[] => {
    const { split } = watched.value;
    return [
      { name: 'all', ...STYLE.all, curve: doc.curves[`${split}_${figure}`] ?? NONE },
      ...(['correct', 'incorrect'] as const).map((side) => ({ name: side, ...STYLE[side], curve: doc.curves[`${split}_${figure}_${side}`] ?? NONE })),
    ];
  };
  return section(
    'sides',
    'Right and wrong predictions',
    h(
      'p',
      { class: 'muted' },
      'A network that memorises its training data grows overconfident in its mistakes: the log loss of wrong predictions rises and their entropy falls, while the error no longer changes.',
    ),
    h(
      'div',
      { class: 'controls' },
      segmented<Split>('Predictions for', SPLITS.map((value) => ({ value, text: value })), 'test', (split) => watched.set({ split })),
    ),
    h(
      'div',
      { class: 'three' },
      panel('Log loss', 'nats', { name: 'Log loss', ...words }, sides('nll'), watched),
      panel('Entropy', 'nats', { name: 'Entropy of the prediction', ...words }, sides('entropy'), watched),
      panel('p of the true class', '', { name: 'Probability of the true class', ...words }, sides('p_true'), watched),
    ),
    key(['correct', 'incorrect', 'all']),
  );
}
