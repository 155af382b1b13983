// The page of a comparison of calibrators.

import type { Method, ReportDocument } from './document';
import { prefersLessMotion } from './dom';
import { unpackEntries } from './entries';
import { whole } from './format';
import { framed } from './frame';
import { unpackRows } from './recovery';
import { exploreSection } from './sections/explore';
import { classesSection, mistakesSection } from './sections/lists';
import { madeSection } from './sections/made';
import { mapSection } from './sections/map';
import { methodsSection } from './sections/methods';
import { reliabilitySection } from './sections/reliability';
import { verdictSection } from './sections/verdict';
import { Watched, type Parameters } from './state';

const CONTENTS: [string, string][] = [
  ['verdict', 'Verdict'],
  ['methods', 'Methods'],
  ['reliability', 'Reliability'],
  ['explore', 'Try γ and T'],
  ['map', 'Ψ'],
  ['mistakes', 'Mistakes'],
  ['classes', 'Classes'],
  ['made', 'How it was made'],
];

export async function reportPage(doc: ReportDocument): Promise<HTMLElement[]> {
  const [rows, entries] = await Promise.all([unpackRows(doc.rows), unpackEntries(doc.entries)]);
  const names = (k: number): string => (doc.class_names === null ? String(k) : doc.class_names[k]);
  const chosen = doc.methods.find((m) => m.method === doc.chosen);
  const parameters = new Watched<Parameters>({ gamma: chosen?.gamma ?? 0, temperature: chosen?.temperature ?? 1 });
  const show = (method: Method) => {
    parameters.set({ gamma: method.gamma!, temperature: method.temperature! });
    document.getElementById('explore')!.scrollIntoView({ behavior: prefersLessMotion() ? 'auto' : 'smooth' });
  };
  const size = `${whole(doc.n_judged)} rows, ${whole(doc.n_classes)} classes, ${doc.judged_on === 'test' ? 'judged on a test set' : 'cross-fitted'}`;
  return framed(doc, size, CONTENTS, [
    verdictSection(doc),
    methodsSection(doc, show),
    reliabilitySection(doc, entries, names),
    exploreSection(doc, rows, parameters),
    mapSection(doc, rows, parameters, names),
    mistakesSection(doc, names),
    classesSection(doc, names),
    madeSection(doc),
  ]);
}
