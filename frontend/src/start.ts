// Every page: reads its data, draws it, says so if it cannot.

import { SCHEMA } from './document';
import { h } from './dom';

export function start<D extends { schema: number }>(draw: (doc: D) => HTMLElement[] | Promise<HTMLElement[]>): void {
  const app = document.getElementById('app')!;
  const page = async (): Promise<void> => {
    const doc = JSON.parse(document.getElementById('focalibrate-data')!.textContent!) as D;
    if (doc.schema !== SCHEMA) throw new Error(`This page reads data of schema ${SCHEMA}, found ${doc.schema}.`);
    app.replaceChildren(...(await draw(doc)));
    document.documentElement.dataset.ready = 'true';
  };
  page().catch((error: unknown) => {
    const message = error instanceof Error ? error.message : String(error);
    app.replaceChildren(h('p', { role: 'alert' }, `The report could not be drawn: ${message}`));
    console.error(error);
  });
}
