// Elements from data. Strings become text nodes, never markup: a class called <script> is shown.

type Child = Node | string | number | null | undefined | false;
export type Attributes = Record<string, string | number | boolean | null | undefined | ((event: Event) => void)>;

const SVG = 'http://www.w3.org/2000/svg';

export function h<K extends keyof HTMLElementTagNameMap>(tag: K, attributes: Attributes = {}, ...children: (Child | Child[])[]): HTMLElementTagNameMap[K] {
  return filled(document.createElement(tag), attributes, children);
}

/** An element of a picture. */
export function s<K extends keyof SVGElementTagNameMap>(tag: K, attributes: Attributes = {}, ...children: (Child | Child[])[]): SVGElementTagNameMap[K] {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled<E extends Element>(element: E, attributes: Attributes, children: (Child | Child[])[]): E {
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

/** Text whose _x and ^x, or _{xy} and ^{xy}, stand below and above the line. */
export function formula(text: string): HTMLElement {
  const parts = [...text.matchAll(/([_^])(?:\{([^}]*)\}|(.))|[^_^]+/gu)];
  return h(
    'span',
    { class: 'formula' },
    parts.map(([whole, mark, long, short]) => (mark === undefined ? whole : h(mark === '_' ? 'sub' : 'sup', {}, long ?? short))),
  );
}

/** A section with a heading that the contents can link to. */
export function section(id: string, title: string, ...children: (Child | Child[])[]): HTMLElement {
  return h('section', { id, 'aria-labelledby': `${id}-title` }, h('h2', { id: `${id}-title` }, title), ...children);
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

/**
 * Draw into `element` whenever its width changes, and when the function returned is called: then
 * at once if the element can be seen, else when it comes into view or is printed.
 */
export function responsive(element: HTMLElement, draw: (width: number) => void): () => void {
  let width = 0;
  let isVisible = true;
  let isStale = false;
  const now = () => {
    isStale = false;
    if (width > 0) draw(width);
  };
  const redraw = () => {
    if (isVisible || element.childElementCount === 0) now();
    else isStale = true;
  };
  new IntersectionObserver(
    (entries) => {
      isVisible = entries[entries.length - 1].isIntersecting;
      if (isVisible && isStale) now();
    },
    { rootMargin: '200px' },
  ).observe(element);
  addEventListener('beforeprint', () => isStale && now());
  new ResizeObserver((entries) => {
    const next = Math.floor(entries[entries.length - 1].contentRect.width);
    if (next > 0 && next !== width) {
      width = next;
      now();
    }
  }).observe(element);
  return redraw;
}

export const prefersLessMotion = (): boolean => matchMedia('(prefers-reduced-motion: reduce)').matches;

/** Select one class by its name. */
export function classPicker(id: string, label: string, count: number, names: (k: number) => string, initial: number | null, change: (klass: number | null) => void, none?: string): HTMLElement {
  const select = h(
    'select',
    { id, onchange: () => change(select.value === '' ? null : Number(select.value)) },
    none === undefined ? null : h('option', { value: '', selected: initial === null }, none),
    Array.from({ length: count }, (_, k) => h('option', { value: k, selected: k === initial }, names(k))),
  );
  return h('div', { class: 'field' }, h('label', { for: id }, label), select);
}

/** A box for a number of at least `min`; anything else is put back. */
export function numberBox(id: string, label: string, initial: number, min: number, change: (value: number) => void): HTMLElement {
  let last = initial;
  const input = h('input', {
    id,
    type: 'number',
    min,
    step: 'any',
    value: initial,
    oninput: () => {
      const value = Number(input.value);
      if (input.value === '' || !Number.isFinite(value) || value < min) return;
      last = value;
      change(value);
    },
    onchange: () => (input.value = String(last)),
  });
  return h('div', { class: 'field' }, h('label', { for: id }, label), input);
}
