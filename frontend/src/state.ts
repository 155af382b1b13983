// What the controls say, and who wants to know.

import type { Binning } from './document';

export interface Parameters {
  gamma: number;
  temperature: number;
}

/** What the sliders reach. */
export interface Range {
  gamma: [number, number];
  temperature: [number, number];
}

export interface View {
  /** a curve without bins, or bins */
  form: 'curve' | 'bins';
  binning: Binning;
  bins: number;
  /** class shown, or null for the top label */
  klass: number | null;
  /** of the curve of one class */
  axis: 'linear' | 'log-odds';
}

/** A value that tells its listeners of every change: controls at once, charts once a frame. */
export class Watched<T extends object> {
  #listeners: ((value: T) => void)[] = [];
  #controls: ((value: T) => void)[] = [];
  #waiting = false;

  constructor(public value: T) {}

  set(change: Partial<T>): void {
    this.value = { ...this.value, ...change };
    for (const listener of this.#controls) listener(this.value);
    if (this.#waiting) return;
    this.#waiting = true;
    requestAnimationFrame(() => {
      this.#waiting = false;
      for (const listener of this.#listeners) listener(this.value);
    });
  }

  listen(listener: (value: T) => void): void {
    this.#listeners.push(listener);
    listener(this.value);
  }

  /** For controls: they must be up to date before the next key is pressed. */
  listenAtOnce(listener: (value: T) => void): void {
    this.#controls.push(listener);
    listener(this.value);
  }
}
