// Every figure as a file: SVG as it is drawn, PNG from that. Nothing leaves the page.

import { h, s } from './dom';

const PAD = 14;
const INHERITED = ['font-family', 'font-size', 'color'];

/** The pictures of a figure, one below the other, with its heading, as one SVG. */
export function figureSvg(figure: Element): SVGSVGElement {
  const style = getComputedStyle(document.documentElement);
  const value = (name: string) => style.getPropertyValue(name).trim();
  const title = figure.querySelector('h3')?.textContent ?? '';
  const number = figure.querySelector('.figure-number')?.textContent ?? '';
  const copies: SVGSVGElement[] = [];
  let [width, height] = [0, PAD + 24];
  for (const svg of figure.querySelectorAll<SVGSVGElement>('.chart svg, .heat-key svg')) {
    const box = svg.getBoundingClientRect();
    const copy = svg.cloneNode(true) as SVGSVGElement;
    const live = getComputedStyle(svg);
    for (const name of INHERITED) copy.style.setProperty(name, live.getPropertyValue(name));
    const place = { x: PAD, y: height, width: box.width, height: box.height, fill: live.getPropertyValue('fill') };
    for (const [name, text] of Object.entries(place)) copy.setAttribute(name, String(text));
    width = Math.max(width, box.width);
    height += box.height + 6;
    copies.push(copy);
  }
  const size = { width: Math.ceil(width + 2 * PAD), height: Math.ceil(height + PAD) };
  const heading = { x: PAD, y: PAD + 12, fill: value('--ink'), 'font-size': 14, 'font-weight': 600, 'font-family': getComputedStyle(document.body).fontFamily };
  const out = s(
    'svg',
    { ...size, viewBox: `0 0 ${size.width} ${size.height}` },
    s('rect', { width: '100%', height: '100%', fill: value('--surface') }),
    s('text', heading, [title, number].filter((x) => x !== '').join(' · ')),
    copies,
  );
  // Colours are variables of the page, which a file of its own does not know.
  for (const element of out.querySelectorAll('*')) {
    for (const attribute of [...element.attributes]) {
      if (attribute.value.includes('var(--')) element.setAttribute(attribute.name, attribute.value.replace(/var\((--[\w-]+)\)/g, (_, name: string) => value(name)));
    }
  }
  return out;
}

function save(blob: Blob, name: string): void {
  const link = h('a', { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

function source(figure: Element): { text: string; width: number; height: number } {
  const svg = figureSvg(figure);
  return { text: new XMLSerializer().serializeToString(svg), width: Number(svg.getAttribute('width')), height: Number(svg.getAttribute('height')) };
}

async function png(figure: Element, name: string): Promise<void> {
  const { text, width, height } = source(figure);
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  await image.decode();
  const canvas = h('canvas', { width: 2 * width, height: 2 * height });
  const context = canvas.getContext('2d')!;
  context.scale(2, 2);
  context.drawImage(image, 0, 0);
  canvas.toBlob((blob) => blob !== null && save(blob, `${name}.png`));
}

/** Give every figure of the page two buttons. */
export function addDownloads(sections: HTMLElement[]): void {
  const taken = new Set<string>();
  for (const section of sections) {
    for (const figure of section.querySelectorAll('figure')) {
      const title = figure.querySelector('h3')?.textContent ?? section.id;
      const base = `${section.id}-${title}`.normalize('NFKD').replace(/[^\p{L}\p{N}]+/gu, '-').replace(/^-+|-+$/g, '').toLowerCase();
      let name = base;
      for (let i = 2; taken.has(name); i++) name = `${base}-${i}`;
      taken.add(name);
      const words = h('span', { class: 'sr' }, ` of the figure “${title}”`);
      figure.append(
        h(
          'div',
          { class: 'downloads' },
          h('button', { type: 'button', 'data-download': 'svg', onclick: () => save(new Blob([source(figure).text], { type: 'image/svg+xml' }), `${name}.svg`) }, 'SVG', words),
          h('button', { type: 'button', 'data-download': 'png', onclick: () => void png(figure, name) }, 'PNG', words.cloneNode(true)),
        ),
      );
    }
  }
}
