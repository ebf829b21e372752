// A browser starts no worker from a file. Read as files, the site's search runs in a hidden frame of the page instead.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.documentElement.append(frame);
      const within = (this.within = frame.contentWindow);
      within.postMessage = data => this.tell(this, data);
      const script = within.document.createElement("script");
      script.src = new URL(url, location.href).href;
      this.ready = new Promise(resolve => (script.onload = resolve));
      within.document.documentElement.append(script);
    }

    postMessage(data) {
      this.ready.then(() => this.tell(this.within, data));
    }

    tell(whom, data) {
      const event = new MessageEvent("message", { data });
      whom.dispatchEvent(event);
      if (whom === this) this.onmessage?.(event);
    }
  };
}
