// A page: reads its data, draws what the data is of.

import './style.css';
import { SCHEMA, type DynamicsDocument, type ModelsDocument, type ReportDocument } from './document';
import { h } from './dom';
import { dynamicsPage } from './dynamics/page';
import { modelsPage } from './models';
import { reportPage } from './report';

async function start(): Promise<void> {
  const app = document.getElementById('app')!;
  const doc = JSON.parse(document.getElementById('focalibrate-data')!.textContent!) as ReportDocument | DynamicsDocument | ModelsDocument;
  if (doc.schema !== SCHEMA) throw new Error(`This page reads data of schema ${SCHEMA}, found ${doc.schema}.`);
  app.replaceChildren(...('kind' in doc ? (doc.kind === 'models' ? modelsPage(doc) : dynamicsPage(doc)) : await reportPage(doc)));
  document.documentElement.dataset.ready = 'true';
}

start().catch((error: unknown) => {
  const message = error instanceof Error ? error.message : String(error);
  document.getElementById('app')!.replaceChildren(h('p', { role: 'alert' }, `The report could not be drawn: ${message}`));
  console.error(error);
});
