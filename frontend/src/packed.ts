// Reader of src/focalibrate/report/rows.py: base64, deflate, byte planes, columns.

import type { Packed } from './document';

export type Numbers = Uint8Array | Uint16Array | Uint32Array | Float32Array;

async function inflate(text: string): Promise<Uint8Array> {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate'));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** Return the array row by row, shape [n, columns] flattened. */
export async function unpack(packed: Packed): Promise<Numbers> {
  const planes = await inflate(packed.data);
  const [n, columns] = packed.shape;
  const size = n * columns;
  const types = { uint8: Uint8Array, uint16: Uint16Array, uint32: Uint32Array, float32: Float32Array };
  const type = types[packed.dtype];
  const width = type.BYTES_PER_ELEMENT;
  const bytes = new Uint8Array(size * width);
  for (let column = 0; column < columns; column++) {
    for (let row = 0; row < n; row++) {
      const to = (row * columns + column) * width;
      const from = column * n + row;
      for (let b = 0; b < width; b++) bytes[to + b] = planes[b * size + from];
    }
  }
  const array = new type(bytes.buffer);
  if (packed.delta) {
    for (let row = 0; row < n; row++) {
      for (let i = row * columns + 1; i < (row + 1) * columns; i++) array[i] += array[i - 1];
    }
  }
  return array;
}

/** Undo `companded`: the value of every code. */
export function expansion(top: number, codes: number): Float64Array {
  const scale = codes > 1 ? Math.log1p(top) / (codes - 1) : 0;
  return Float64Array.from({ length: codes }, (_, code) => Math.expm1(code * scale));
}
