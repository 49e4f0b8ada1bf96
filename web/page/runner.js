// The form that runs the exported file at sizes of the user's choice, and the table of its runs.
import { element } from "./elements.js";

const short = (x) => (Number.isInteger(x) ? String(x) : x.toPrecision(4));

export class Runner {
  constructor(core, { card, form, table, failure }) {
    Object.assign(this, { core, card, form, table, failure });
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#run();
    });
  }

  /** A form with a field for each dynamic dimension of an export. */
  show({ inputs, dimensions, file }) {
    this.forget();
    this.file = file;
    this.inputs = inputs;
    this.fields = new Map(dimensions.map(({ name }, i) => [name, element("input", { type: "number", min: 0, value: 2 + i, required: "" })]));
    this.below = element("input", { type: "number", min: 1, value: 10, required: "" });
    this.form.replaceChildren(...[...this.fields].map(([name, field]) => element("label", {}, name, field)));
    if (inputs.some(({ dtype }) => /int/.test(dtype))) this.form.append(element("label", {}, "integers below", this.below));
    this.button = element("button", { id: "run" }, "Run");
    this.form.append(this.button);
    this.table.tBodies[0].replaceChildren();
    this.table.hidden = this.failure.hidden = true;
    this.card.hidden = false;
  }

  forget() {
    this.worker?.terminate();
    this.worker = null;
    this.file = null;
  }

  /** What ONNX Runtime computes of random inputs of these shapes. */
  #ask(inputs) {
    const file = this.worker ? null : this.file;
    this.worker ??= new Worker(new URL("./run.js", import.meta.url), { type: "module" });
    return new Promise((resolve, reject) => {
      this.worker.onmessage = ({ data }) => (data.failure ? reject(new Error(data.failure)) : resolve(data));
      this.worker.onerror = (event) => reject(new Error(event.message ?? "ONNX Runtime cannot be loaded"));
      this.worker.postMessage({ file, inputs, below: Number(this.below.value) });
    });
  }

  async #run() {
    const sizes = Object.fromEntries([...this.fields].map(([name, field]) => [name, Number(field.value)]));
    this.button.disabled = true;
    this.failure.hidden = true;
    const text = Object.entries(sizes).map(([name, size]) => `${name}=${size}`).join(", ") || "fixed";
    try {
      const shapes = await this.core.request("shapes", { sizes });
      const claim = await this.core.request("claim", { sizes });
      const { milliseconds, outputs } = await this.#ask(this.inputs.map((input, i) => ({ ...input, shape: shapes[i] })));
      const cells = [
        text,
        outputs.map((o) => `${o.name}: ${o.dtype}[${o.shape.join(", ")}]`).join("\n"),
        outputs.map((o) => (o.count > 0 && o.finite > 0 ? `${short(o.least)} to ${short(o.most)}, mean ${short(o.mean)}` : "")).join("\n"),
        milliseconds.toFixed(1),
        claim.holds === null ? `not known: ${claim.why}` : claim.holds ? "yes" : `no: ${claim.why}`,
      ];
      this.table.tBodies[0].append(element("tr", {}, ...cells.map((cell) => element("td", { class: "code" }, cell))));
      this.table.hidden = false;
    } catch (error) {
      this.failure.textContent = `at ${text}: ${error.messages?.[0]?.text ?? error.message}`;
      this.failure.hidden = false;
      if (!error.messages) {
        this.worker?.terminate();
        this.worker = null;
      }
    }
    this.button.disabled = false;
  }
}
