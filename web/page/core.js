// The worker with the core, as promises. What a worker was asked before it ended is rejected with Cancelled.

export class Cancelled extends Error {}

/** An answer with errors: `messages` has the diagnostics. */
export class Refused extends Error {
  constructor(messages) {
    super(messages[0]?.text ?? "the model cannot be exported");
    this.messages = messages;
  }
}

const plain = (text) => ({ severity: "error", code: "", text, file: "", line: 0, function: "", hint: "" });

export class Core {
  /** `onProgress({step, done, total})` is called while the core works, `onEnd()` when what it exported is lost. */
  constructor(onProgress, onEnd) {
    this.onProgress = onProgress;
    this.onEnd = onEnd;
    this.file = null;
    this.other = null; // another capture of the same model
    this.loaded = this.otherLoaded = null; // resolve when the worker has the files
    this.worker = null; // started when there is something to do
  }

  #waiting = new Map();
  #next = 1;
  #ended = 0; // workers

  #start() {
    this.worker = new Worker(new URL("./worker.js", import.meta.url), { type: "module" });
    this.worker.onmessage = ({ data }) => this.#receive(data);
    this.worker.onerror = (event) => {
      event.preventDefault();
      this.#end(new Refused([plain(`this browser cannot run the exporter: ${event.message ?? "no reason is given"}`)]));
    };
  }

  #receive({ id, answer, failure, progress }) {
    if (progress) {
      this.onProgress(progress);
      return;
    }
    const { resolve, reject } = this.#waiting.get(id) ?? {};
    this.#waiting.delete(id);
    if (failure !== undefined) {
      // Out of stack or memory: the core's state is lost.
      reject?.(new Refused([plain(`the browser stopped the exporter (${failure}); use the command line`)]));
      this.#end(new Cancelled());
    } else if (answer.messages && answer.opset === undefined) {
      reject?.(new Refused(answer.messages));
    } else {
      resolve?.(answer);
    }
  }

  #send(message) {
    if (!this.worker) this.#start();
    const id = this.#next++;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      this.worker.postMessage({ id, ...message });
    });
  }

  #end(reason) {
    ++this.#ended;
    this.worker?.terminate();
    this.worker = null;
    for (const { reject } of this.#waiting.values()) reject(reason);
    this.#waiting.clear();
    this.loaded = this.otherLoaded = null;
    this.onEnd();
  }

  /** Stops whatever the core does. */
  cancel() {
    this.#end(new Cancelled());
  }

  /** From now on requests are about this file. */
  open(file) {
    if (this.#waiting.size > 0) this.cancel();
    this.file = file;
    this.loaded = null;
    this.openOther(null);
  }

  /** Another capture of the model, for the option `also`; or null. */
  openOther(file) {
    this.other = file;
    this.otherLoaded = null;
  }

  async request(call, rest = {}) {
    const ended = this.#ended;
    this.loaded ??= this.#send({ file: this.file });
    if (this.other) this.otherLoaded ??= this.#send({ other: this.other });
    const files = await Promise.all([this.loaded, this.otherLoaded]);
    if (ended !== this.#ended) throw new Cancelled();
    if (files.some((file) => file?.done === false)) throw new Refused([plain("the browser gives this page too little memory for the model; use the command line")]);
    return this.#send({ request: { call, ...rest } });
  }
}
