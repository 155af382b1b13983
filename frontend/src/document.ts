// The JSON inside a page, as src/focalibrate/report/page.py and the dynamics_page.py of papers write it (schema 3).

export const SCHEMA = 3;

export interface Packed {
  dtype: 'uint8' | 'uint16' | 'uint32' | 'float32';
  shape: [number, number];
  delta: boolean;
  data: string;
}

/** estimate, low, high, or an estimate alone; null stands for infinity */
export type Interval = [number | null, number | null, number | null] | [number | null];

/** estimate, low, high, all finite */
export type Known = [number, number, number];

export interface Method {
  method: string;
  label: string;
  complexity: number;
  /** such as "T = 1.9"; empty where there are too many */
  parameters: string;
  /** why it could not be chosen; null where it could */
  why_not: string | null;
  /** both null where the method is not a map of gamma and temperature */
  gamma: number | null;
  temperature: number | null;
  scores: Record<string, Interval>;
  changed: number;
  notes: string[];
}

export interface BinTable {
  count: number[];
  confidence: number[];
  accuracy: number[];
  ece: number;
}

export type Binning = 'equal-width' | 'equal-mass';

/** Isotonic regression of outcomes on probabilities: blocks, and the band of a calibrated model. */
export interface Curve {
  low: number[];
  high: number[];
  rate: number[];
  count: number[];
  band_at: number[];
  band_low: number[];
  band_high: number[];
}

/** score = miscalibration − discrimination + uncertainty; null stands for infinity */
export interface Apart {
  score: number | null;
  miscalibration: number | null;
  discrimination: number;
  uncertainty: number;
}

export interface Diagrams {
  curve: Curve;
  apart: Record<string, Apart>;
  tables: Record<Binning, Record<string, BinTable>>;
}

/** Error among the most confident rows, and what their confidence says it is. */
export interface Risk {
  coverage: number[];
  risk: number[];
  stated: number[];
  area: number;
}

/** With 95 % certainty, at most `error` of the rows with a confidence of at least `threshold` is wrong. */
export interface Promised {
  error: number;
  threshold: number;
  coverage: number;
}

export interface TopLabel extends Diagrams {
  risk: Risk;
}

export interface PackedRows {
  n: number;
  top: Packed | null;
  correct: Packed;
  true_gap: Packed;
  gaps: Packed;
  weights: Packed | null;
  max_gap: number;
  max_weight: number;
  weight_codes: number;
  seed: number;
}

/** Whole rows (of two classes, the probability of the second). */
export interface DenseEntries {
  n: number;
  pooled_below: 0;
  labels: Packed;
  before: Packed;
  after: Packed;
}

/** By class, those whose label is the class first; small probabilities only as sums. */
export interface SparseEntries {
  n: number;
  pooled_below: number;
  counts: Packed;
  hits: Packed;
  before: Packed;
  after: Packed;
  rest_hits: Packed;
  rest_before: Packed;
  rest_after: Packed;
}

export type PackedEntries = DenseEntries | SparseEntries;

export interface ClassTable {
  count: number[];
  predicted: number[];
  recall: (number | null)[];
  precision: (number | null)[];
  confidence_before: (number | null)[];
  confidence_after: (number | null)[];
  ece_before: number[];
  ece_after: number[];
}

export interface Mistake {
  row: number;
  /** what the file calls the row; null where it has no such column */
  id: string | null;
  label: number;
  predicted: number;
  predicted_after: number;
  before: number;
  after: number;
}

export interface Criterion {
  criterion: string;
  gammas: number[];
  temperatures: number[];
  values: (number | null)[][];
  n_rows: number;
  n_rows_given: number;
}

/** What `focalibrate.metrics.assess` found. */
export interface Assessment {
  n: number;
  effective_n: number;
  /** what the probabilities are of */
  event: 'top label' | 'positive class' | 'correct';
  mean_probability: number;
  observed_rate: number;
  /** mean probability − observed rate */
  gap: Known;
  rms: Known;
  /** of the logistic regression of the outcome on the log-odds; null where there is no line */
  slope: Known | null;
  intercept: Known | null;
  p_value: number;
  noise_floor: Record<string, { median: number; q95: number }>;
  detectable: number | null;
  direction: string | null;
  verdict: string;
  summary: string;
}

export interface Group {
  name: string;
  n: number;
  gap: [number, number, number] | [null, null, null];
  rms: [number, number, number] | [null, null, null];
  /** corrected for the number of groups; null where there are too few rows to test */
  p_value: number | null;
  verdict: string;
}

/** What a calibrator of its own would gain a group. */
export interface GroupTrial {
  name: string;
  n: number;
  /** held-out log loss of the shared calibrator, and of one fitted on the group */
  shared: number | null;
  own: number | null;
  /** one-sided, corrected for the number of groups */
  p_value: number | null;
  /** in words where the group has its own, else null */
  calibrator: string | null;
}

/** What was found, what calibration gains and what to do, each a sentence or empty. */
export interface Verdict {
  /** null where several models are compared */
  status: 'good' | 'repairable' | 'too few rows' | 'check the data' | null;
  headline: string;
  /** calibration slope and intercept */
  line: string;
  gain: string;
  after: string;
  reason: string;
  advice: string;
}

/** Whose probability is judged where it is not the predicted class's: the positive class of two. */
export interface EventName {
  name: string;
  klass: number;
}

export interface Snippet {
  title: string;
  language: string;
  note: string;
  code: string;
}

export interface ReportDocument {
  schema: number;
  title: string;
  verdict: Verdict;
  event: EventName | null;
  chosen: string;
  /** the file of the rows evaluated; null where they are arrays */
  file: string | null;
  judged_on: 'test' | 'cross-fit';
  n_judged: number;
  n_fitted: number;
  n_classes: number;
  n_folds: number;
  is_weighted: boolean;
  n_bins: number;
  n_resamples: number;
  bin_counts: number[];
  class_names: string[] | null;
  accuracy: number;
  assessment: { before: Assessment; after: Assessment | null };
  groups: Group[];
  /** the slice of several columns that is most clearly off, as a sentence */
  worst_slice: string | null;
  by_group: { summary: string; has_own: boolean; trials: GroupTrial[] } | null;
  deploy: Snippet[];
  methods: Method[];
  skipped: [string, string][];
  before: TopLabel;
  after: TopLabel;
  /** for two classes: the probability of the second */
  positive: { before: Diagrams; after: Diagrams } | null;
  classes: ClassTable;
  entries: PackedEntries;
  mistakes: Mistake[];
  /** both only where gammas and temperatures can be tried */
  rows: PackedRows | null;
  criterion: Criterion | null;
  provenance: {
    command: string;
    version: string;
    seed: number;
    made_at: string;
    files: { name: string; sha256: string; role: string }[];
  };
}

/** One number per epoch; epochs count from 1, and those not looked at are left out. */
export interface EpochCurve {
  epoch: number[];
  value: number[];
}

/** What was seen after one epoch. */
export interface Picture {
  epoch: number;
  table: BinTable;
  /** examples by the norm of their gradient: below the first edge, between edges, above the last */
  gradients: number[];
}

export type Split = 'train' | 'validation' | 'test';

/** Of the network that was kept. */
export interface Kept {
  n: number;
  error: number;
  ece: number;
  adaptive_ece: number;
  nll: number | null;
  /** mean confidence − accuracy */
  gap: number;
}

export interface DynamicsDocument {
  schema: number;
  kind: 'dynamics';
  title: string;
  verdict: string;
  epochs: number;
  kept_epoch: number;
  kept_best: boolean;
  kept: Record<'validation' | 'test', Kept>;
  curves: Record<string, EpochCurve>;
  pictures: Record<Split, Picture[]>;
  /** log10 */
  gradient_edges: number[];
  recipe: Record<string, string>;
  scale: number;
  versions: Record<string, string | number>;
  seconds: number | null;
  next: string[];
  provenance: ReportDocument['provenance'];
}

/** Models side by side on the same rows. */
export interface ComparedModel extends TopLabel {
  name: string;
  scores: Record<string, Interval>;
  /** log loss minus that of the best model; null for the best */
  difference: Interval | null;
  p_value: number | null;
  assessment: Assessment;
  /** by rising error; empty where nothing can be promised */
  promised: Promised[];
}

/** The log loss of every model in one group of rows. */
export interface ComparedGroup {
  name: string;
  n: number;
  nll: (number | null)[];
  /** whether each model differs there from the best of all rows by more than noise */
  clear: boolean[];
}

export interface ModelsDocument {
  schema: number;
  kind: 'models';
  title: string;
  verdict: Verdict;
  event: EventName | null;
  n_rows: number;
  n_classes: number;
  models: ComparedModel[];
  groups: ComparedGroup[];
  /** of a page of one model: its groups, each assessed by itself */
  assessed: Group[];
  worst_slice: string | null;
  /** sentences below the verdict */
  notes: string[];
  provenance: ReportDocument['provenance'];
}
