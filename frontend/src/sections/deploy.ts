// Code that uses this calibrator, to be copied.

import type { ReportDocument, Snippet } from '../document';
import { h, section, segmented } from '../dom';

export function deploySection(doc: ReportDocument): HTMLElement {
  const note = h('p', { class: 'small muted' });
  const code = h('code', { id: 'snippet' });
  const copy = h('button', { type: 'button', class: 'copy', onclick: () => void copied() }, 'Copy');
  let shown = doc.deploy[0];
  function show(snippet: Snippet): void {
    shown = snippet;
    note.textContent = snippet.note;
    code.textContent = snippet.code;
    copy.textContent = 'Copy';
  }
  async function copied(): Promise<void> {
    copy.textContent = (await toClipboard(shown.code, code)) ? 'Copied' : 'Press Ctrl+C';
  }
  show(shown);
  return section(
    'deploy',
    'Use this calibrator',
    h('p', { class: 'muted' }, 'The command wrote the calibrator to calibrator.json, beside this page.'),
    h(
      'div',
      { class: 'controls' },
      segmented<string>('Code for', doc.deploy.map(({ title }) => ({ value: title, text: title })), shown.title, (title) => show(doc.deploy.find((s) => s.title === title)!)),
    ),
    note,
    h('div', { class: 'snippet' }, h('pre', { tabindex: 0, role: 'region', 'aria-label': 'Code' }, code), copy),
  );
}

/** Copy, or select the text where the browser does not let a page copy. */
async function toClipboard(text: string, element: HTMLElement): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    getSelection()?.selectAllChildren(element);
    return false;
  }
}
