/* Browsers start no worker from a file. The search is one: here it gets a hidden frame instead, which runs the same
   script beside the page. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.inside = frame.contentWindow;
      this.inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", {data}));
      this.inside.importScripts = async (...scripts) => {
        for (const script of scripts) await this.load(script);
      };
      this.ready = this.load(address);
    }

    load(address) {
      const script = this.inside.document.createElement("script");
      script.src = address;
      this.inside.document.body.append(script);
      return new Promise((done, fail) => Object.assign(script, {onload: done, onerror: fail}));
    }

    async postMessage(data) {
      await this.ready;
      this.inside.dispatchEvent(new MessageEvent("message", {data}));
    }
  };
}
