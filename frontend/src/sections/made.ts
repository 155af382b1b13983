// How the page was made, and what its words mean.

import type { ReportDocument } from '../document';
import { h, section } from '../dom';
import { whole } from '../format';

const DEFINITIONS: [string, string][] = [
  ['Confidence', 'The largest probability of a row: the probability of its predicted class.'],
  ['ECE', 'Expected calibration error: the gap between probability and frequency in each bin of equal width, averaged over the rows.'],
  ['AdaECE', 'The same with bins that hold equally many rows.'],
  ['Classwise ECE', 'The ECE of each class’s own probability, averaged over the classes.'],
  ['Smooth ECE', 'A calibration error without bins: a kernel smooths the gaps, and its width equals the error.'],
  ['Log loss', 'The mean of −log of the probability given to the true class, in nats; no probabilities score lower than the true ones.'],
  ['Brier', 'The squared distance between the probabilities and the outcome, summed over the classes (for two classes twice scikit-learn’s brier_score_loss).'],
  ['Reliability curve', 'How often the event happens at each predicted probability, by isotonic regression (a rising curve, no bins).'],
  ['Grey band', 'Where the curve of a calibrated model with the same predictions would lie in 95 % of samples.'],
  ['Miscalibration, discrimination, uncertainty', 'The Brier score taken apart: what recalibration would gain, what the model knows, and how hard the task is.'],
  ['Typical error (RMS)', 'The root-mean-square gap between probability and frequency over 15 bins with equally many rows, corrected for sampling noise.'],
  ['Calibration slope and intercept', 'Logistic regression of the outcome on the log-odds of the probability: slope 1 and intercept 0 are calibrated, a slope below 1 means too extreme.'],
  ['Intervals', 'Basic bootstrap over rows for log loss, Brier and error; calibration errors are compared with the noise of a calibrated model instead.'],
];

/** For models trained with focal loss. */
const FOCAL: [string, string][] = [
  ['Temperature T', 'Logits are divided by T: above 1 every row becomes less confident; the predicted class stays the same.'],
  ['Posterior recovery Ψ', 'The map that turns the scores of a model trained with focal loss of exponent γ into probabilities.'],
  ['Focal temperature', 'First the temperature T, then Ψ; γ and T are both fitted.'],
  ['Regimes', 'Below one confidence focal scores are too high, above another they are too low; the page marks both.'],
];

type Made = Pick<ReportDocument, 'provenance'>;

/** Command, version, seed, date, data and files. */
export function provenanceFacts({ provenance: p }: Made, data: string): HTMLElement {
  const fact = (title: string, ...value: (Node | string)[]) => h('div', {}, h('dt', {}, title), h('dd', {}, ...value));
  return h(
    'dl',
    { class: 'facts' },
    fact('Command', h('code', {}, p.command)),
    fact('Version', `focalibrate ${p.version}`),
    fact('Seed', String(p.seed)),
    p.made_at !== '' && fact('Date', p.made_at),
    fact('Data', data),
    p.files.map((file) =>
      fact(file.role === '' ? 'File' : `File ${file.role}`, h('span', { class: 'file' }, file.name), h('br'), h('code', { class: 'small' }, `sha256 ${file.sha256}`)),
    ),
  );
}

export function definitions(isFocal: boolean): HTMLElement {
  return h(
    'dl',
    { class: 'definitions' },
    [...DEFINITIONS, ...(isFocal ? FOCAL : [])].map(([term, words]) => h('div', {}, h('dt', {}, term), h('dd', {}, words))),
  );
}

export function madeSection(doc: ReportDocument): HTMLElement {
  return section(
    'made',
    'How this was made',
    provenanceFacts(doc, `${whole(doc.n_judged)} rows evaluated, ${whole(doc.n_fitted)} fitted on, ${whole(doc.n_classes)} classes`),
    h('h3', {}, 'Definitions'),
    definitions(doc.criterion !== null),
  );
}
