// The core, in a worker: reads the model by slices into its memory, answers requests, and hands the ONNX file on in
// parts. To cancel, the page ends the worker.
import start from "./lithify.mjs";

const SLICE = 8 << 20;
const OUTPUT = "/dev/onnx";
const TEXTS = ["graph", "claims"]; // answers that are not JSON

let core;
let output; // of the export that runs: parts that the browser keeps, and bytes that are not yet one

/** Reports that a step is at `done` of `total` bytes. */
function progress(step, done, total) {
  postMessage({ progress: { step, done, total } });
}

/** Hands bytes to the browser, which may put them onto the disk. */
function flush() {
  output.parts.push(new Blob(output.chunks));
  output.chunks = [];
  output.size = 0;
}

async function load() {
  const loaded = await start({ progress: (done, total) => progress("write", done, total) });
  const device = loaded.FS.makedev(100, 0);
  loaded.FS.registerDevice(device, {
    open() {},
    close() {},
    write(stream, memory, offset, length) {
      output.chunks.push(memory.slice(offset, offset + length));
      output.size += length;
      if (output.size >= SLICE) flush();
      return length;
    },
  });
  loaded.FS.mkdev(OUTPUT, device);
  return loaded;
}

/** Puts the bytes of a file into the core's memory; false where there is too little. */
async function read(file, ofOther) {
  const at = core._lithify_web_memory(ofOther, file.size) >>> 0;
  if (at === 0) return false;
  for (let done = 0; done < file.size; done += SLICE) {
    progress("read", done, file.size);
    core.HEAPU8.set(new Uint8Array(await file.slice(done, done + SLICE).arrayBuffer()), at + done);
  }
  return true;
}

function call(request) {
  return core.ccall("lithify_web_call", "string", ["string"], [JSON.stringify(request)]);
}

async function answer({ file, other, request }) {
  core ??= await load();
  if (file ?? other) return { done: await read(file ?? other, file === undefined) };
  if (TEXTS.includes(request.call)) return { text: call(request) };
  progress(request.call, 0, 0);
  if (request.call !== "export") return JSON.parse(call(request));
  output = { parts: [], chunks: [], size: 0 };
  const result = JSON.parse(call({ ...request, out: OUTPUT }));
  flush();
  return { ...result, file: result.opset ? new Blob(output.parts, { type: "application/octet-stream" }) : null };
}

let queue = Promise.resolve();

onmessage = ({ data }) => {
  queue = queue.then(async () => {
    try {
      postMessage({ id: data.id, answer: await answer(data) });
    } catch (error) {
      postMessage({ id: data.id, failure: String(error.message ?? error) });
    }
  });
};
