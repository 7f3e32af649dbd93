// Search for pages that are opened from a folder, without a server. The theme searches in a Worker, which browsers
// refuse to start from a file. This one loads the same script into a hidden frame, which they allow. Material uses it
// as it would use a Worker, and then takes the index from search/search_index.js (docs/tools/search_script.py).
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      const script = frame.contentDocument.createElement("script");
      this.scope = frame.contentWindow;
      this.scope.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      this.ready = new Promise((resolve) => script.addEventListener("load", resolve));
      script.src = new URL(address, document.baseURI);
      frame.contentDocument.body.append(script);
    }

    postMessage(data) {
      this.ready.then(() => this.scope.dispatchEvent(new this.scope.MessageEvent("message", { data })));
    }
  };
}
