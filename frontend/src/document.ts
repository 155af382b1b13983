// The JSON inside a page, as src/focalibrate/report/data.py and dynamics.py write it (schema 1).

export const SCHEMA = 1;

export interface Packed {
  dtype: 'uint8' | 'uint16' | 'uint32' | 'float32';
  shape: [number, number];
  delta: boolean;
  data: string;
}

/** estimate, low, high; null stands for infinity */
export type Interval = [number | null, number | null, number | null];

export interface Method {
  method: string;
  label: string;
  complexity: number;
  describe: string;
  /** both null where the method is not a map of gamma and temperature */
  gamma: number | null;
  temperature: number | null;
  scores: Record<string, Interval>;
  to_raw: Record<string, Interval>;
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

export interface Diagrams {
  tables: Record<Binning, Record<string, BinTable>>;
  histogram: number[];
  confidence: number;
  s99: number;
  s99_accuracy: number | null;
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

export interface PackedEntries {
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

export interface ReportDocument {
  schema: number;
  title: string;
  verdict: string;
  reason: string;
  chosen: string;
  judged_on: 'test' | 'cross-fit';
  after_is_in_sample: boolean;
  n_judged: number;
  n_fitted: number;
  n_classes: number;
  n_folds: number;
  n_bins: number;
  n_resamples: number;
  bin_counts: number[];
  class_names: string[] | null;
  accuracy: number;
  methods: Method[];
  skipped: [string, string][];
  before: Diagrams;
  after: Diagrams;
  classes: ClassTable;
  entries: PackedEntries;
  mistakes: Mistake[];
  rows: PackedRows;
  criterion: Criterion | null;
  provenance: {
    command: string;
    version: string;
    seed: number;
    made_at: string;
    files: { name: string; sha256: string; role: string }[];
  };
}

/** One number an epoch; epochs count from 1, and those not looked at are left out. */
export interface Curve {
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
  /** mean confidence less accuracy */
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
  curves: Record<string, Curve>;
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
