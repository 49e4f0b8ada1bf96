// The page: shows what the core answers, and asks it. All decisions about models are the core's.
import { Cancelled, Core, Refused } from "./core.js";
import { $, element } from "./elements.js";
import { explain } from "./explain.js";
import { GraphView } from "./graph.js";
import { commandLine, Options } from "./options.js";
import { Runner } from "./runner.js";

const STEPS = {
  read: "Reading the file", inspect: "Looking at the file", check: "Checking the model", discover: "Detecting sizes that can change",
  export: "Exporting", write: "Writing", run: "Running",
};
const DTYPES = ["float32", "float16", "float64", "int64", "int32", "int8", "uint8", "bool"];

const bytesText = (n) => {
  if (n < 1000) return `${n} bytes`;
  const unit = Math.min(3, Math.floor(Math.log10(n) / 3));
  return `${(n / 1000 ** unit).toFixed(1)} ${["", "kB", "MB", "GB"][unit]}`;
};
const counted = (n, what) => `${n} ${what}${n === 1 ? "" : "s"}`;
const shapeText = (shape) => (shape === null ? "" : `[${shape.map((size) => size ?? "?").join(", ")}]`);
const valueText = ({ name, dtype, shape }) => `${name}: ${dtype || "type not known"}${shapeText(shape)}`;

function fill(list, rows) {
  list.replaceChildren(...rows.flatMap(([term, ...details]) => [element("dt", {}, term), ...details.map((d) => element("dd", {}, d))]));
}

function fillTable(table, head, rows) {
  const cells = (tag, row) => row.map((cell) => element(tag, typeof cell === "number" ? { class: "number" } : {}, String(cell)));
  table.replaceChildren(
    element("thead", {}, element("tr", {}, ...cells("th", head))),
    element("tbody", {}, ...rows.map((row) => element("tr", {}, ...cells("td", row)))),
  );
}

function showProgress({ step, done, total }) {
  $("step").textContent = total > 0 ? `${STEPS[step]}: ${bytesText(done)} of ${bytesText(total)}` : `${STEPS[step] ?? step} \u2026`;
  if (total > 0) {
    $("bar").max = total;
    $("bar").value = done;
  } else {
    $("bar").removeAttribute("value");
  }
}

const core = new Core(showProgress, hideResult);
const options = new Options($("options"), DTYPES);
const graph = new GraphView({ tree: $("tree"), search: $("search"), found: $("found"), node: $("node") });
const runner = new Runner(core, { card: $("try"), form: $("sizes"), table: $("runs"), failure: $("run-failure") });
let file = null;
let address = null; // of the ONNX file

let running = 0;

/** Runs a request with its progress in sight; undefined where it was cancelled or refused, which is shown. */
async function busy(work) {
  ++running;
  $("work").hidden = false;
  document.body.setAttribute("aria-busy", "true");
  for (const button of [$("export"), $("detect")]) button.disabled = true;
  try {
    return await work();
  } catch (error) {
    if (error instanceof Refused) showMessages(error.messages);
    else if (!(error instanceof Cancelled)) throw error;
    return undefined;
  } finally {
    if (--running === 0) rest();
  }
}

function rest() {
  $("work").hidden = true;
  $("step").textContent = "";
  document.body.removeAttribute("aria-busy");
  for (const button of [$("export"), $("detect")]) button.disabled = false;
}

function showMessages(messages) {
  const items = messages.map(({ code, severity, text, file: source, line, function: name, hint }) => {
    const item = element("li", { class: severity });
    const kind = element("span", { class: "kind" }, `${severity} ${code}`.trim());
    item.append(kind, `: ${text}`);
    if (source) item.append(element("br"), element("span", { class: "code" }, `at ${source}:${line}${name ? `, in ${name}` : ""}`));
    if (hint) item.append(element("br"), `hint: ${hint}`);
    if (code) {
      const button = element("button", { type: "button", class: "link" }, `about ${code}`);
      button.addEventListener("click", () => explain(code, $("explanation")));
      item.append(element("br"), button);
    }
    return item;
  });
  $("messages").hidden = items.length === 0;
  $("messages").querySelector("ol").replaceChildren(...items);
}

function hideResult() {
  for (const id of ["result", "try", "graph"]) $(id).hidden = true;
  if (address) URL.revokeObjectURL(address);
  address = null;
  runner.forget();
}

function setVerdict(text, kind = "") {
  $("verdict").textContent = text;
  $("verdict").className = kind;
}

function showModel(model) {
  $("model").hidden = false;
  $("model-title").textContent = `${file.name}: ${model.kind}`;
  const kind = model.release ? `${model.kind}, of PyTorch ${model.release}` : model.kind;
  fill($("facts"), [
    ["file", `${kind}, ${bytesText(file.size)}`],
    ["weights", `${counted(model.weights, "tensor")}, ${bytesText(model.weight_bytes)}`],
    ...model.inputs.map((input) => ["input", valueText(input)]),
    ...(model.returns ? [["returns", model.returns]] : []),
  ]);
  const operators = Object.entries(model.operators);
  $("operators").hidden = operators.length === 0;
  $("operators").querySelector("summary").textContent = counted(operators.length, "operator");
  fillTable($("operators").querySelector("table"), ["calls", "operator"], operators.map(([name, count]) => [count, name]));
  const tensors = model.tensors ?? [];
  $("tensors").hidden = tensors.length === 0;
  $("tensors").querySelector("summary").textContent = counted(tensors.length, "tensor");
  fillTable($("tensors").querySelector("table"), ["bytes", "tensor"], tensors.slice(0, 2000).map((t) => [t.bytes, valueText(t)]));
}

function showCheck(result) {
  const errors = result.messages.filter(({ severity }) => severity === "error");
  if (result.exportable) setVerdict("This model can be exported.", "good");
  else if (errors.some(({ code }) => code === "LTH022")) setVerdict("Enter the types and sizes of the inputs, which the file does not have.", "warning");
  else setVerdict(`This model cannot be exported: ${errors.length === 1 ? "one reason" : `${errors.length} reasons`} below.`, "bad");
  fillTable(
    $("operators").querySelector("table"), ["calls", "operator", "exportable"],
    result.operators.map(({ name, count, supported, since }) => [count, name, supported ? `from opset ${since}` : "no"]),
  );
  $("operators").querySelector("summary").textContent = counted(result.operators.length, "operator");
  options.showVersions(result);
  showMessages(result.messages);
}

/** Asks whether the model can be exported with the options as they are. A later question replaces an earlier one. */
let question = 0;
async function check() {
  const mine = ++question;
  $("command").textContent = commandLine(file.name, options.value());
  const result = await busy(() => core.request("check", { options: options.value() }));
  if (mine !== question) return;
  if (result) showCheck(result);
  else if ($("messages").hidden) setVerdict("");
  else setVerdict("This model cannot be exported.", "bad");
}

async function open(chosen) {
  file = chosen;
  ++question;
  hideResult();
  showMessages([]);
  for (const id of ["model", "options"]) $(id).hidden = true;
  core.open(file);
  const model = await busy(() => core.request("inspect"));
  if (!model) {
    if ($("messages").hidden) return;
    $("model").hidden = false;
    $("model-title").textContent = file.name;
    $("operators").hidden = $("tensors").hidden = true;
    fill($("facts"), [["file", bytesText(file.size)]]);
    setVerdict("This file cannot be exported.", "bad");
    return;
  }
  showModel(model);
  setVerdict("");
  if (model.inputs.length > 0) options.show(model.inputs);
  $("options").hidden = model.inputs.length === 0;
  await check();
}

async function detect() {
  const found = await busy(() => core.request("discover", { options: options.value() }));
  if (!found) return;
  const count = options.nameAxes(found.dynamic_inputs);
  $("detected").textContent = count > 0 ? `${counted(count, "dimension")} can change; rename what you like.` : "No dimension can change.";
  await check();
}

function showResult(result, claims) {
  const name = file.name.replace(/\.[^.]*$/, "") + ".onnx";
  address = URL.createObjectURL(result.file);
  $("result").hidden = false;
  $("result-title").textContent = `${name}: ${bytesText(result.file_bytes)}, opset ${result.opset}`;
  Object.assign($("download"), { href: address, download: name, textContent: `Save ${name}` });
  const seconds = Object.values(result.seconds).reduce((a, b) => a + b, 0);
  const nodes = Object.entries(result.nodes);
  fill($("written"), [
    ...result.inputs.map((v) => ["input", valueText(v)]),
    ...result.outputs.map((v) => ["output", valueText(v)]),
    ["right at", ...claims.split("\n")],
    ["nodes", `${nodes.reduce((a, [, n]) => a + n, 0)}: ${nodes.slice(0, 12).map(([op, n]) => `${n} ${op}`).join(", ")}${nodes.length > 12 ? ", \u2026" : ""}`],
    ["weights", `${counted(result.weights, "tensor")}, ${bytesText(result.weight_bytes)}`],
    ["seconds", seconds.toFixed(2)],
  ]);
}

async function exportModel() {
  hideResult();
  const result = await busy(() => core.request("export", { options: options.value() }));
  if (!result) {
    if (!$("messages").hidden) setVerdict("This model cannot be exported.", "bad");
    return;
  }
  showMessages(result.messages);
  showResult(result, (await core.request("claims")).text);
  $("download").click();
  runner.show(result);
  const { text } = await core.request("graph");
  $("graph").hidden = false;
  graph.show(text);
  $("result").scrollIntoView({ block: "nearest" });
}

let timer;
options.onChange = () => {
  clearTimeout(timer);
  timer = setTimeout(check, 400);
};
$("options").addEventListener("submit", (event) => {
  event.preventDefault();
  clearTimeout(timer);
  exportModel();
});
$("detect").addEventListener("click", detect);
$("cancel").addEventListener("click", () => {
  core.cancel();
  setVerdict("Cancelled.");
});
$("file").addEventListener("change", ({ target }) => {
  if (target.files.length > 0) open(target.files[0]);
  target.value = "";
});
$("also").addEventListener("change", ({ target }) => core.openOther(target.files[0] ?? null));
$("example").addEventListener("click", async () => {
  const response = await fetch("example.pt");
  open(new File([await response.blob()], "example.pt"));
});
for (const type of ["dragover", "dragleave", "drop"]) {
  addEventListener(type, (event) => {
    event.preventDefault();
    $("drop").classList.toggle("over", type === "dragover");
    if (type === "drop" && event.dataTransfer.files.length > 0) open(event.dataTransfer.files[0]);
  });
}
