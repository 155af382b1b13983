// The page of a comparison of calibrators.

import type { Method, ReportDocument } from './document';
import { prefersLessMotion } from './dom';
import { unpackEntries } from './entries';
import { whole } from './format';
import { framed } from './frame';
import { unpackRows } from './recovery';
import { coverageSection } from './sections/coverage';
import { deploySection } from './sections/deploy';
import { exploreSection } from './sections/explore';
import { groupsSection } from './sections/groups';
import { classesSection, mistakesSection } from './sections/lists';
import { madeSection } from './sections/made';
import { mapSection } from './sections/map';
import { methodsSection } from './sections/methods';
import { reliabilitySection } from './sections/reliability';
import { thresholdSection } from './sections/threshold';
import { verdictSection } from './sections/verdict';
import { Watched, type Parameters } from './state';

export async function reportPage(doc: ReportDocument): Promise<HTMLElement[]> {
  const [rows, entries] = await Promise.all([doc.rows === null ? null : unpackRows(doc.rows), unpackEntries(doc.entries, doc.n_classes)]);
  const names = (k: number): string => (doc.class_names === null ? String(k) : doc.class_names[k]);
  const chosen = doc.methods.find((m) => m.method === doc.chosen);
  const parameters = new Watched<Parameters>({ gamma: chosen?.gamma ?? 0, temperature: chosen?.temperature ?? 1 });
  const show = (method: Method) => {
    parameters.set({ gamma: method.gamma!, temperature: method.temperature! });
    document.getElementById('explore')!.scrollIntoView({ behavior: prefersLessMotion() ? 'auto' : 'smooth' });
  };
  const how = doc.judged_on === 'test' ? 'evaluated on a test set' : 'cross-validated';
  const parts: [string, HTMLElement][] = [
    ['Verdict', verdictSection(doc)],
    ['Methods', methodsSection(doc, rows === null ? null : show)],
    ['Reliability', reliabilitySection(doc, entries, names)],
    ...(doc.groups.length === 0 ? [] : ([['Groups', groupsSection(doc)]] as [string, HTMLElement][])),
    ['Threshold', thresholdSection(doc, entries, names)],
    ['Coverage', coverageSection(doc)],
    ...(rows === null
      ? []
      : ([
          ['Try γ and T', exploreSection(doc, rows, parameters)],
          ['What Ψ does', mapSection(doc, rows, parameters, names)],
        ] as [string, HTMLElement][])),
    ...(doc.deploy.length === 0 ? [] : ([['Deploy', deploySection(doc)]] as [string, HTMLElement][])),
    ['Mistakes', mistakesSection(doc, names)],
    ['Classes', classesSection(doc, names)],
    ['How it was made', madeSection(doc)],
  ];
  return framed(doc, `${whole(doc.n_judged)} rows, ${whole(doc.n_classes)} classes${doc.event === null ? '' : ` (positive: ${doc.event.name})`}, ${how}`, parts);
}
