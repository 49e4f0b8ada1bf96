// ONNX Runtime, in a worker: runs the exported file on random inputs of given shapes.
import * as ort from "./ort.wasm.min.mjs";

ort.env.wasm.numThreads = 1;

let session;

const ARRAYS = {
  float32: Float32Array, float64: Float64Array, int8: Int8Array, uint8: Uint8Array, int16: Int16Array,
  uint16: Uint16Array, int32: Int32Array, uint32: Uint32Array, int64: BigInt64Array, uint64: BigUint64Array,
  bool: Uint8Array,
};

/** Random numbers of about a normal distribution; integers below `below`. */
function random(dtype, shape, below) {
  const Array_ = ARRAYS[dtype];
  if (!Array_) throw new Error(`inputs of the type ${dtype} cannot be filled here`);
  const size = shape.reduce((a, b) => a * b, 1);
  const integer = () => Math.floor(Math.random() * (dtype === "bool" ? 2 : below));
  const big = dtype.endsWith("int64");
  const real = dtype.startsWith("float");
  const number = real ? () => (Math.random() + Math.random() + Math.random() - 1.5) * 2 : big ? () => BigInt(integer()) : integer;
  return new ort.Tensor(dtype, Array_.from({ length: size }, number), shape);
}

function statistics(tensor) {
  if (tensor.type === "string") return null;
  let least = Infinity, most = -Infinity, sum = 0, finite = 0;
  for (const item of tensor.data) {
    const value = Number(item);
    if (!Number.isFinite(value)) continue;
    least = Math.min(least, value);
    most = Math.max(most, value);
    sum += value;
    ++finite;
  }
  return { least, mean: sum / finite, most, finite, count: tensor.data.length };
}

async function run({ file, inputs, below }) {
  if (file) {
    await session?.release();
    session = await ort.InferenceSession.create(new Uint8Array(await file.arrayBuffer()), { executionProviders: ["wasm"] });
  }
  const feeds = Object.fromEntries(inputs.map(({ name, dtype, shape }) => [name, random(dtype, shape, below)]));
  const start = performance.now();
  const results = await session.run(feeds);
  const milliseconds = performance.now() - start;
  const outputs = session.outputNames.map((name) => {
    const { type, dims } = results[name];
    return { name, dtype: type, shape: [...dims], ...statistics(results[name]) };
  });
  return { milliseconds, outputs };
}

onmessage = async ({ data }) => {
  try {
    postMessage(await run(data));
  } catch (error) {
    session = data.file ? undefined : session;
    postMessage({ failure: String(error.message ?? error) });
  }
};
