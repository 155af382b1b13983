// How the page was made, and what its words mean.

import type { ReportDocument } from '../document';
import { formula, h, section } from '../dom';
import { whole } from '../format';

const DEFINITIONS: [string, string, string][] = [
  ['Confidence', 'v = softmax(z),  conf = max_k v_k', 'the largest probability of a row'],
  ['ECE', 'Σ_b (n_b/N) |acc_b − conf_b|', 'mean gap between confidence and accuracy over bins ((b−1)/B, b/B] of equal width'],
  ['AdaECE', 'the same, n_b ∈ {⌊N/B⌋, ⌈N/B⌉}', 'over bins of equal mass; rows of equal confidence share their outcomes'],
  ['Classwise ECE', '(1/K) Σ_k Σ_b (n_b/N) |freq_{kb} − v̄_{kb}|', 'the same for the probability of each class, averaged over the classes'],
  ['MCE', 'max_b |acc_b − conf_b|', 'largest gap of any bin that has rows'],
  ['Smooth ECE', '∫ |E[(y − v) K_σ(v, t)]| dt,  σ = smECE', 'calibration error smoothed by a kernel; the width of the kernel equals the error'],
  ['Log loss', '−(1/N) Σ_i log v_{i,yᵢ}', 'negative log likelihood in nats; lowest for the true probabilities'],
  ['Brier', '(1/N) Σ_i Σ_k (v_{ik} − 1[y_i = k])²', 'squared distance to the label, summed over the classes (for two classes twice scikit-learn’s brier_score_loss); lowest for the true probabilities'],
  ['Confidence of 99 % or more', '(1/N) #{i : conf_i ≥ .99}', 'share of predictions with a confidence of at least 99 %'],
  ['Reliability curve', 'min_m Σ_i (m(v_i) − y_i)²,  m rising', 'isotonic regression of outcomes on probabilities; the band comes from outcomes drawn with the stated probabilities'],
  ['Miscalibration, discrimination, uncertainty', 'S(v) = [S(v) − S(ṽ)] − [S(ȳ) − S(ṽ)] + S(ȳ)', 'decomposition of a proper score: ṽ is the reliability curve at v, ȳ the base rate'],
  ['RMS calibration error', '√ Σ_b (n_b/N) (acc_b − conf_b)²', 'typical size of the error over 15 bins of equal mass, with the bias of noise subtracted'],
  ['Intervals', '[2θ̂ − q_{.975}, 2θ̂ − q_{.025}]', 'basic bootstrap over rows, for log loss, Brier and error. Calibration errors are instead compared with those of a calibrated model'],
];

/** For models trained with focal loss. */
const FOCAL: [string, string, string][] = [
  ['Temperature', 'softmax(z / T)', 'T > 1 makes every row less confident; the order of the classes is unchanged'],
  ['Ψ_γ', 'Ψ_k ∝ v_k / φ_γ(v_k),  φ_γ(p) = (1−p)^γ − γ (1−p)^{γ−1} p log p', 'turns scores of a model trained with focal loss into probabilities'],
  ['Focal temperature', 'Ψ_γ(softmax(z / T))', 'both: γ and T fitted on validation rows'],
  ['τ_{oc}, τ_{uc}', 'argmax φ_γ;  the root of φ_γ = 1 in (0, ½)', 'below the first, focal scores are overconfident; above the second, underconfident'],
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
    [...DEFINITIONS, ...(isFocal ? FOCAL : [])].map(([term, maths, words]) => h('div', {}, h('dt', {}, formula(term)), h('dd', {}, formula(maths), h('span', { class: 'muted' }, words)))),
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
