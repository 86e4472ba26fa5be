// Browsers start no workers for pages that are read from files, and the search runs in one. On such pages a hidden
// frame does the same work, so that the search needs neither a server nor a network.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      document.body.appendChild(this.frame)
      this.listen = event => {
        if (event.source !== this.frame.contentWindow) return
        const message = new MessageEvent("message", { data: event.data })
        this.dispatchEvent(message)
        if (this.onmessage) this.onmessage(message)
      }
      addEventListener("message", this.listen)
      const inside = this.frame.contentDocument
      inside.open()
      inside.write(`<script>
        postMessage = data => parent.postMessage(data, "*")
        importScripts = (...urls) => urls.reduce((done, url) => done.then(() => new Promise((resolve, reject) => {
          const script = document.createElement("script")
          Object.assign(script, { src: url, onload: resolve, onerror: reject })
          document.head.appendChild(script)
        })), Promise.resolve())
        <\/script><script src="${url}"><\/script>`)
      inside.close()
      this.ready = new Promise(resolve => this.frame.addEventListener("load", resolve, { once: true }))
    }
    postMessage(data) {
      // Not its postMessage: inside, that name means the way out, as it does in a worker.
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })))
    }
    terminate() {
      removeEventListener("message", this.listen)
      this.frame.remove()
    }
  }
}
