// The page: reads its data, draws its sections.

import './style.css';
import { SCHEMA, type Method, type ReportDocument } from './document';
import { h, prefersLessMotion } from './dom';
import { unpackEntries } from './entries';
import { whole } from './format';
import { unpackRows } from './recovery';
import { exploreSection } from './sections/explore';
import { classesSection, mistakesSection } from './sections/lists';
import { madeSection } from './sections/made';
import { mapSection } from './sections/map';
import { methodsSection } from './sections/methods';
import { reliabilitySection } from './sections/reliability';
import { verdictSection } from './sections/verdict';
import { Watched, type Parameters } from './state';
import { themeButton } from './theme';

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

async function start(): Promise<void> {
  const app = document.getElementById('app')!;
  const doc = JSON.parse(document.getElementById('focalibrate-data')!.textContent!) as ReportDocument;
  if (doc.schema !== SCHEMA) throw new Error(`This page reads data of schema ${SCHEMA}, found ${doc.schema}.`);
  const [rows, entries] = await Promise.all([unpackRows(doc.rows), unpackEntries(doc.entries)]);
  const names = (k: number): string => (doc.class_names === null ? String(k) : doc.class_names[k]);
  const chosen = doc.methods.find((m) => m.method === doc.chosen);
  const parameters = new Watched<Parameters>({ gamma: chosen?.gamma ?? 0, temperature: chosen?.temperature ?? 1 });
  const show = (method: Method) => {
    parameters.set({ gamma: method.gamma!, temperature: method.temperature! });
    document.getElementById('explore')!.scrollIntoView({ behavior: prefersLessMotion() ? 'auto' : 'smooth' });
  };
  app.replaceChildren(
    h('a', { class: 'skip', href: '#main' }, 'Skip to the report'),
    h(
      'header',
      {},
      h(
        'div',
        { class: 'bar' },
        h(
          'div',
          {},
          h('h1', {}, doc.title),
          h('p', { class: 'muted' }, `${whole(doc.n_judged)} rows, ${whole(doc.n_classes)} classes, ${doc.judged_on === 'test' ? 'judged on a test set' : 'cross-fitted'}`, doc.provenance.made_at !== '' && ` · ${doc.provenance.made_at}`),
        ),
        themeButton(),
      ),
      h('nav', { 'aria-label': 'Contents' }, h('ul', {}, CONTENTS.map(([id, title]) => h('li', {}, h('a', { href: `#${id}` }, title))))),
    ),
    h(
      'main',
      { id: 'main', tabindex: -1 },
      verdictSection(doc),
      methodsSection(doc, show),
      reliabilitySection(doc, entries, names),
      exploreSection(doc, rows, parameters),
      mapSection(doc, rows, parameters, names),
      mistakesSection(doc, names),
      classesSection(doc, names),
      madeSection(doc),
    ),
    h('footer', {}, h('p', { class: 'small muted' }, `Made by focalibrate ${doc.provenance.version}. This file is complete: it asks no network for anything.`)),
  );
  document.documentElement.dataset.ready = 'true';
}

start().catch((error: unknown) => {
  const message = error instanceof Error ? error.message : String(error);
  document.getElementById('app')!.replaceChildren(h('p', { role: 'alert' }, `The report could not be drawn: ${message}`));
  console.error(error);
});
