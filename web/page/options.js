// The form of the options: what the user chose, as the core and as the command line take it.
import { $, element } from "./elements.js";

const CHOICES = ["recover", "state", "weights", "precision"];
const FLAGS = ["strict", "allow_custom"];

const quoted = (text) => (/^[\w./:=-]+$/.test(text) ? text : `'${text.replaceAll("'", String.raw`'\''`)}'`);

/** The command that does what the page does. */
export function commandLine(file, options) {
  const words = ["lithify", "export", quoted(file)];
  for (const spec of options.inputs ?? []) words.push("--input", quoted(spec));
  for (const [input, axes] of Object.entries(options.dynamic_axes ?? {}))
    words.push("--dynamic", quoted(`${input}:${Object.entries(axes).map(([axis, name]) => `${axis}=${name}`).join(",")}`));
  for (const name of ["opset", "target", ...CHOICES]) if (options[name]) words.push(`--${name}`, quoted(String(options[name])));
  if (options.also) words.push("--also", quoted($("also").files[0].name));
  for (const name of FLAGS) if (options[name]) words.push(`--${name.replace("_", "-")}`);
  if (options.custom_ops) words.push("--custom-ops", "FILE");
  return words.join(" ");
}

export class Options {
  constructor(form, dtypes) {
    this.dtypes = dtypes;
    this.inputs = [];
    this.onChange = () => {};
    form.addEventListener("input", () => this.onChange());
  }

  /** Fields for the inputs of a model: a name for each axis, or type and sizes where the file does not have them. */
  show(inputs) {
    for (const name of CHOICES) $(name).value = "";
    for (const name of FLAGS) $(name).checked = false;
    $("custom_ops").value = $("also").value = "";
    $("detected").textContent = "";
    this.inputs = inputs.map((input) => ({ ...input, known: Boolean(input.dtype && input.shape) }));
    $("inputs").replaceChildren(...this.inputs.map((input) => this.#fields(input)));
    $("version").replaceChildren(element("option", { value: "" }, "the usual opset"));
    this.versions = "";
  }

  #fields(input) {
    const fields = element("div", { class: "fields" });
    input.axes = [];
    if (input.known) {
      input.shape.forEach((size, axis) => {
        const field = element("input", { placeholder: size ?? "?", autocomplete: "off", spellcheck: "false", size: 8, "data-axis": axis });
        input.axes.push(field);
        fields.append(element("label", {}, `axis ${axis} (${size ?? "?"})`, field));
      });
      if (input.shape.length === 0) fields.append("a single number");
    } else {
      input.type = element("select", {}, ...this.dtypes.map((name) => element("option", {}, name)));
      if (input.dtype) input.type.value = input.dtype;
      input.sizes = element("input", { class: "sizes", placeholder: "batch=2, 3, 224, 224", autocomplete: "off", spellcheck: "false" });
      fields.append(
        element("label", {}, "type", input.type),
        element("label", {}, "sizes: a number is fixed, a name may change", input.sizes),
      );
    }
    const title = input.known ? `${input.name}: ${input.dtype}` : input.name;
    return element("fieldset", {}, element("legend", { class: "code" }, title), fields);
  }

  /** The opsets and runtimes for which the model can be written. */
  showVersions({ opset, opsets }) {
    const possible = opsets.filter(({ exportable }) => exportable);
    const key = JSON.stringify(possible.map(({ opset: number, nodes }) => [number, nodes]));
    if (possible.length === 0 || key === this.versions) return;
    this.versions = key;
    const chosen = $("version").value;
    const group = (label, options) => element("optgroup", { label }, ...options);
    const numbers = possible.map((o) => element("option", { value: `opset ${o.opset}` }, `opset ${o.opset}, ${o.nodes} nodes`));
    const runtimes = possible[0].runtimes.toReversed().map((name) => element("option", { value: `target ${name}` }, name));
    $("version").replaceChildren(
      element("option", { value: "" }, chosen ? "the usual opset" : `the usual opset, ${opset}`),
      group("runtimes", runtimes), group("opsets", numbers),
    );
    $("version").value = chosen;
    if ($("version").selectedIndex < 0) $("version").value = "";
  }

  /** Writes the names of axes that were found into the fields; returns how many there are. */
  nameAxes(found) {
    let count = 0;
    for (const { name, shape } of found) {
      const input = this.inputs.find((other) => other.name === name);
      if (!input || !shape) continue;
      if (!input.known) {
        const given = input.sizes.value.split(",").map((size) => size.trim());
        input.sizes.value = shape.map((size, axis) => (typeof size === "string" && /^\d+$/.test(given[axis]) ? (++count, `${size}=${given[axis]}`) : given[axis] ?? size)).join(", ");
        continue;
      }
      shape.forEach((size, axis) => {
        if (typeof size !== "string") return;
        ++count;
        if (input.axes[axis].value === "" && input.shape[axis] !== size) input.axes[axis].value = size;
      });
    }
    return count;
  }

  /** The options by their names in ExportOptions; those that are as usual are left out. */
  value() {
    const out = {};
    const axes = {}, inputs = [];
    for (const input of this.inputs) {
      if (!input.known) {
        if (input.sizes.value.trim() !== "") inputs.push(`${input.name}:${input.type.value}[${input.sizes.value.replaceAll(/\s/g, "")}]`);
        continue;
      }
      for (const field of input.axes)
        if (field.value.trim() !== "") (axes[input.name] ??= {})[field.dataset.axis] = field.value.trim();
    }
    if (inputs.length > 0) out.inputs = inputs;
    if (Object.keys(axes).length > 0) out.dynamic_axes = axes;
    const [kind, version] = $("version").value.split(" ");
    if (kind === "opset") out.opset = Number(version);
    if (kind === "target") out.target = version;
    for (const name of CHOICES) if ($(name).value) out[name] = $(name).value;
    for (const name of FLAGS) if ($(name).checked) out[name] = true;
    if ($("also").files.length > 0) out.also = true;
    if ($("custom_ops").value.trim() !== "") out.custom_ops = $("custom_ops").value;
    return out;
  }
}
