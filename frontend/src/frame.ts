// What every page has around its sections.

import { h } from './dom';
import { addDownloads } from './download';
import { themeButton } from './theme';

interface Framed {
  title: string;
  provenance: { version: string; made_at: string };
}

/** Header with the contents, main part, footer, from sections with what the contents call them. */
export function framed(doc: Framed, subtitle: string, parts: [string, HTMLElement][]): HTMLElement[] {
  const sections = parts.map(([, section]) => section);
  addDownloads(sections);
  const { version, made_at: date } = doc.provenance;
  return [
    h('a', { class: 'skip', href: '#main' }, 'Skip to the report'),
    h(
      'header',
      {},
      h(
        'div',
        { class: 'bar' },
        h('div', {}, h('h1', {}, doc.title), h('p', { class: 'muted' }, subtitle, date !== '' && ` · ${date}`)),
        themeButton(),
      ),
      h('nav', { 'aria-label': 'Contents' }, h('ul', {}, parts.map(([title, section]) => h('li', {}, h('a', { href: `#${section.id}` }, title))))),
    ),
    h('main', { id: 'main', tabindex: -1 }, sections),
    h('footer', {}, h('p', { class: 'small muted' }, `Made by focalibrate ${version}. This file is complete: it loads nothing from the network.`)),
  ];
}
