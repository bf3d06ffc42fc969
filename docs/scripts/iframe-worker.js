// Search from a folder: browsers start no Worker from a page opened as file:, so its script runs
// in a hidden frame instead, and both exchange the messages that a Worker and its page would.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inside = this.frame.contentWindow;
      this.ready = new Promise((loaded) => {
        inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
        inside.importScripts = (...urls) => urls.reduce(
          (before, next) => before.then(() => run(inside.document, next)), Promise.resolve());
        run(inside.document, url).then(loaded);
      });
    }

    set onmessage(listener) {
      this.addEventListener("message", listener);
    }

    postMessage(data) {
      const event = new MessageEvent("message", { data: structuredClone(data) });
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(event));
    }

    terminate() {
      this.frame.remove();
    }
  };
}

function run(page, url) {
  return new Promise((loaded, failed) => {
    const script = page.createElement("script");
    script.src = url;
    script.onload = loaded;
    script.onerror = failed;
    page.body.append(script);
  });
}
