// Browsers start no worker from a file: pages opened from disk run the search in a hidden frame.
if (location.protocol === 'file:') {
  class FrameWorker extends EventTarget {
    #waiting = [];
    #frame = document.createElement('iframe');

    constructor(url) {
      super();
      this.#frame.hidden = true;
      document.body.append(this.#frame);
      const inside = this.#frame.contentWindow;
      inside.postMessage = (data) => this.#dispatch(this, data);
      inside.importScripts = (...urls) => Promise.all(urls.map((src) => this.#load(src)));
      this.#load(url).then(() => {
        for (const data of this.#waiting.splice(0)) this.#dispatch(inside, data);
        this.postMessage = (data) => this.#dispatch(inside, data);
      });
    }

    postMessage(data) {
      this.#waiting.push(data);
    }

    #dispatch(target, data) {
      setTimeout(() => target.dispatchEvent(new MessageEvent('message', { data })));
    }

    #load(src) {
      const script = this.#frame.contentDocument.createElement('script');
      script.src = new URL(src, location.href).href;
      const done = new Promise((resolve, reject) => Object.assign(script, { onload: resolve, onerror: reject }));
      this.#frame.contentDocument.body.append(script);
      return done;
    }
  }
  window.IFrameWorker = window.Worker = FrameWorker;
}
