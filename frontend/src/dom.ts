// Elements from data. Strings become text nodes, never markup: a class called <script> is shown.

type Child = Node | string | number | null | undefined | false;
type Attributes = Record<string, string | number | boolean | null | undefined | ((event: Event) => void)>;

export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: (Child | Child[])[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === 'function') element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? '' : String(value));
  }
  append(element, children);
  return element;
}

export function append(element: Element, children: (Child | Child[])[]): void {
  for (const child of children.flat()) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
}

/** A section with a heading that the contents can link to. */
export function section(id: string, title: string, ...children: (Child | Child[])[]): HTMLElement {
  return h('section', { id, 'aria-labelledby': `${id}-title` }, h('h2', { id: `${id}-title` }, title), ...children);
}

export interface Choice<T extends string | number> {
  element: HTMLElement;
  value(): T;
}

/** A group of radio buttons that looks like one switch. */
export function segmented<T extends string | number>(
  label: string,
  options: { value: T; text: string }[],
  initial: T,
  change: (value: T) => void,
): HTMLElement {
  const name = `choice-${label.replace(/\W+/g, '-').toLowerCase()}`;
  return h(
    'fieldset',
    { class: 'segmented' },
    h('legend', {}, label),
    h(
      'div',
      { class: 'segments' },
      options.map(({ value, text }) =>
        h(
          'label',
          {},
          h('input', {
            type: 'radio',
            name,
            value,
            checked: value === initial,
            onchange: () => change(value),
          }),
          h('span', {}, text),
        ),
      ),
    ),
  );
}

/** Draw into `element` now and whenever its width changes. */
export function responsive(element: HTMLElement, draw: (width: number) => void): () => void {
  let width = 0;
  const redraw = () => {
    if (width > 0) draw(width);
  };
  new ResizeObserver((entries) => {
    const next = Math.floor(entries[entries.length - 1].contentRect.width);
    if (next > 0 && next !== width) {
      width = next;
      redraw();
    }
  }).observe(element);
  return redraw;
}

export const prefersLessMotion = (): boolean => matchMedia('(prefers-reduced-motion: reduce)').matches;
