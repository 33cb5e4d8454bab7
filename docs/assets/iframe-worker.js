// Search without a server: browsers start no workers for pages that are files, so the worker's script runs in a frame.
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super();
      this.onmessage = null;
      this.waiting = [];
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inner = this.frame.contentWindow;
      inner.postMessage = (data) => setTimeout(() => {
        const event = new MessageEvent("message", { data });
        this.dispatchEvent(event);
        if (this.onmessage) this.onmessage(event);
      });
      const script = inner.document.createElement("script");
      script.src = new URL(url, location.href);
      script.onload = () => {
        const waiting = this.waiting;
        this.waiting = null;
        waiting.forEach((data) => this.postMessage(data));
      };
      inner.document.body.append(script);
    }

    postMessage(data) {
      if (this.waiting) this.waiting.push(data);
      else setTimeout(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })));
    }

    terminate() {
      this.frame.remove();
    }
  };
  window.Worker = window.IFrameWorker;
}

// What starts with a dash is an option to look for (--trust-code), not a word to leave out.
const post = window.Worker.prototype.postMessage;
window.Worker.prototype.postMessage = function (sent, ...more) {
  const typed = sent && typeof sent.data === "string";
  return post.call(this, typed ? { ...sent, data: sent.data.replace(/(^|\s)-+(?=\w)/g, "$1") } : sent, ...more);
};
