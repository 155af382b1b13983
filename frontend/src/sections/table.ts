// A table that sorts by any column, inside a box that scrolls.

import { h } from '../dom';

export interface Column<T> {
  title: string;
  hint?: string;
  /** what a column is sorted by; text or number, null last */
  key?(row: T): number | string | null;
  cell(row: T): (Node | string)[] | Node | string;
  numeric?: boolean;
  /** the row's name, for screen readers */
  isHeader?: boolean;
  /** left out on a phone, or everywhere, until all columns are asked for */
  leftOut?: 'on a phone' | 'at first';
}

export interface TableOptions<T> {
  caption: string;
  columns: Column<T>[];
  rows: T[];
  sortBy?: number;
  descending?: boolean;
  rowClass?(row: T): string | null;
  /** rows shown before "show all" */
  limit?: number;
}

export function sortableTable<T>(options: TableOptions<T>): HTMLElement {
  const { columns, rows } = options;
  let by = options.sortBy ?? -1;
  let descending = options.descending ?? false;
  let limit = options.limit ?? Infinity;
  const body = h('tbody');
  const headers = columns.map((column, index) => {
    const content = column.key
      ? h('button', { type: 'button', class: 'sort', title: column.hint, onclick: () => sort(index) }, column.title, h('span', { class: 'direction', 'aria-hidden': 'true' }))
      : column.title;
    return h('th', { scope: 'col', class: classOf(column), title: column.hint }, content);
  });
  const more = h('button', { type: 'button', class: 'plain', onclick: () => { limit = Infinity; fill(); } });

  function sort(index: number): void {
    descending = by === index ? !descending : false;
    by = index;
    fill();
  }

  function fill(): void {
    const key = by >= 0 ? columns[by].key : undefined;
    const ordered = key === undefined ? rows : [...rows].sort((a, b) => compare(key(a), key(b), descending));
    body.replaceChildren(...ordered.slice(0, limit).map(line));
    headers.forEach((header, index) => {
      if (index === by) header.setAttribute('aria-sort', descending ? 'descending' : 'ascending');
      else header.removeAttribute('aria-sort');
    });
    more.hidden = rows.length <= limit;
    more.textContent = `Show all ${rows.length} rows`;
  }

  function line(row: T): HTMLElement {
    return h(
      'tr',
      { class: options.rowClass?.(row) ?? null },
      columns.map((column) =>
        h(column.isHeader ? 'th' : 'td', { scope: column.isHeader ? 'row' : null, class: classOf(column) }, ...[column.cell(row)].flat()),
      ),
    );
  }

  const leftOut = new Set(columns.map((column) => column.leftOut));
  const wider = h('button', { type: 'button', class: `plain wider${leftOut.has('at first') ? '' : ' phone'}`, 'aria-expanded': 'false', onclick: () => widen() }, 'Show all columns');
  function widen(): void {
    const isAll = block.classList.toggle('all');
    wider.setAttribute('aria-expanded', String(isAll));
    wider.textContent = isAll ? 'Show fewer columns' : 'Show all columns';
  }

  fill();
  const block = h(
    'div',
    { class: 'table-block' },
    h(
      'div',
      { class: 'scroller', tabindex: 0, role: 'region', 'aria-label': `Table: ${options.caption}` },
      h('table', {}, h('caption', { class: 'sr' }, options.caption), h('thead', {}, h('tr', {}, headers)), body),
    ),
    more,
    leftOut.size > 1 && wider,
  );
  return block;
}

function classOf<T>({ numeric, leftOut }: Column<T>): string | null {
  return [numeric && 'numeric', leftOut === 'at first' && 'extra', leftOut === 'on a phone' && 'wide'].filter(Boolean).join(' ') || null;
}

function compare(a: number | string | null, b: number | string | null, descending: boolean): number {
  if (a === null || b === null) return a === b ? 0 : a === null ? 1 : -1;
  const order = typeof a === 'string' || typeof b === 'string' ? String(a).localeCompare(String(b)) : a - b;
  return descending ? -order : order;
}
