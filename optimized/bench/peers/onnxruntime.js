// Times ONNX Runtime's kernels on one thread; an object a line, see child.h.
//
// The package is the one that implementations/onnxruntime/install fetches. Its RotaryEmbedding never works in
// place. What JavaScript costs is kept out: the timed models give only the shape of their result, as an output
// of 64 MiB would be copied, and short works are chains of nodes in one model, as starting one takes 20 us.
'use strict';

const ort = require('../../../implementations/onnxruntime/node_modules/onnxruntime-node');
const {version} = require('../../../implementations/onnxruntime/node_modules/onnxruntime-node/package.json');

const HEADS = 32;
const PAIRS = 64;
const WIDTH = 2 * PAIRS;

// --- ONNX's protobuf by hand -------------------------------------------------------------------

const ONNX_TYPE = {float32: 1, int64: 7, float16: 10};

function varint(n) {
  const bytes = [];
  for (; n > 127; n = Math.floor(n / 128)) bytes.push((n % 128) | 128);
  return Buffer.from([...bytes, n]);
}

/** One field: an integer, or text, bytes or a message with its length before it. */
function field(number, value) {
  if (typeof value === 'number') return Buffer.concat([varint(number * 8), varint(value)]);
  const bytes = Buffer.from(value);
  return Buffer.concat([varint(number * 8 + 2), varint(bytes.length), bytes]);
}

function message(...fields) {
  return Buffer.concat(fields.map(([number, value]) => field(number, value)));
}

function attribute(name, value) {
  return message([1, name], [3, value], [20, 2]);
}

function node({op, domain = '', inputs, output, attributes = {}}) {
  return message(
    ...inputs.map((name) => [1, name]),
    [2, output],
    [4, op],
    ...Object.entries(attributes).map(([name, value]) => [5, attribute(name, value)]),
    [7, domain],
  );
}

/** ValueInfoProto of a tensor with that shape. */
function valueInfo(name, {type, dims}) {
  const shape = message(...dims.map((n) => [1, message([1, n])]));
  return message([1, name], [2, message([1, message([1, ONNX_TYPE[type]], [2, shape])])]);
}

/** A session of the nodes, from the tensors of feeds to the output, a name with {type, dims}. */
function session(nodes, feeds, name, output) {
  const graph = message(
    ...nodes.map((n) => [1, node(n)]),
    [2, 'work'],
    ...Object.entries(feeds).map(([name, tensor]) => [11, valueInfo(name, tensor)]),
    [12, valueInfo(name, output)],
  );
  const imports = [['', 23], ['com.microsoft', 1]].map(([domain, v]) => [8, message([1, domain], [2, v])]);
  const options = {
    // Nothing to gain in single operators, and the timed ones must not be found to be unused.
    graphOptimizationLevel: 'disabled',
    executionMode: 'sequential',
    intraOpNumThreads: 1,
    interOpNumThreads: 1,
    logSeverityLevel: 3,
  };
  return ort.InferenceSession.create(message([1, 10], [7, graph], ...imports), options);
}

// --- f16 -------------------------------------------------------------------------------------------

/** The bits in binary16 of x, |x| below 65504, rounded to nearest, ties up: close enough for cos and sin. */
function f16Bits(x) {
  const sign = x < 0 ? 0x8000 : 0;
  const a = Math.abs(x);
  const exponent = Math.max(Math.floor(Math.log2(a)), -14);
  return sign | (Math.round(a / 2 ** (exponent - 10)) + (exponent + 14) * 1024);
}

function f16Value(bits) {
  const exponent = (bits >> 10) & 31;
  const a = exponent ? (1024 + (bits & 1023)) * 2 ** (exponent - 25) : (bits & 1023) * 2 ** -24;
  return bits & 0x8000 ? -a : a;
}

const TYPES = {
  f32: {type: 'float32', Data: Float32Array, bits: Math.fround, value: (x) => x},
  f16: {type: 'float16', Data: Uint16Array, bits: f16Bits, value: f16Value},
};

// --- Works -----------------------------------------------------------------------------------------

/** Values in (-1, 1), the same ones each time. */
function drawn(n, {Data, bits}) {
  const values = new Data(n);
  for (let i = 0, state = 1; i < n; ++i) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    values[i] = bits(state / 2 ** 31 - 1 + 2 ** -33);
  }
  return values;
}

/** How a work runs: run, of repeats copies of it in one model, and result, the same but gives y. */
async function prepared(nodes, feeds, {type, dims}, repeats = 1) {
  const shape = {op: 'Shape', inputs: ['y'], output: 'shape'};
  const model = await session([...nodes, shape], feeds, 'shape', {type: 'int64', dims: [dims.length]});
  const result = async () => {
    const whole = await session(nodes, feeds, 'y', {type, dims});
    return (await whole.run(feeds)).y.data;
  };
  return {feeds, repeats, run: () => model.run(feeds), result};
}

/** com.microsoft's, whose caches hold the rows that position_ids name; ai.onnx's is the same code. */
async function rope(dtype, interleaved, tokens, repeats = 1, begin = 0) {
  const {type, Data, bits} = TYPES[dtype];
  const rows = begin + tokens;
  const cos = new Data(rows * PAIRS);
  const sin = new Data(rows * PAIRS);
  for (let p = begin; p < rows; ++p)
    for (let i = 0; i < PAIRS; ++i) {
      const angle = Math.fround(p * Math.fround(10000 ** (-i / PAIRS)));
      cos[p * PAIRS + i] = bits(Math.cos(angle));
      sin[p * PAIRS + i] = bits(Math.sin(angle));
    }
  const shape = [1, tokens, HEADS * WIDTH];
  const n = tokens * HEADS * WIDTH;
  const feeds = {
    x: new ort.Tensor(type, drawn(n, TYPES[dtype]), shape),
    position_ids: new ort.Tensor('int64', BigInt64Array.from({length: tokens}, (_, t) => BigInt(begin + t)), [1, tokens]),
    cos: new ort.Tensor(type, cos, [rows, PAIRS]),
    sin: new ort.Tensor(type, sin, [rows, PAIRS]),
  };
  const nodes = Array.from({length: repeats}, (_, k) => ({
    op: 'RotaryEmbedding',
    domain: 'com.microsoft',
    inputs: [k ? `y${k}` : 'x', 'position_ids', 'cos', 'sin'],
    output: k + 1 < repeats ? `y${k + 1}` : 'y',
    attributes: {interleaved},
  }));
  return prepared(nodes, feeds, {type, dims: shape}, repeats);
}

/** Row p·1677 mod size, size a power of 2: every row once, out of order. */
function shuffled(p, size) {
  return (p * 1677) % size;
}

async function learned(add, size) {
  const shape = [size, size];
  const f32 = (data) => new ort.Tensor('float32', data, shape);
  const feeds = {
    table: f32(drawn(size * size, TYPES.f32)),
    positions: new ort.Tensor('int64', BigInt64Array.from({length: size}, (_, p) => BigInt(shuffled(p, size))), [size]),
  };
  const nodes = [{op: 'Gather', inputs: ['table', 'positions'], output: add ? 'rows' : 'y'}];
  if (add) {
    feeds.x = f32(new Float32Array(size * size).map((_, i) => i % 251));
    nodes.push({op: 'Add', inputs: ['x', 'rows'], output: 'y'});
  }
  return prepared(nodes, feeds, {type: 'float32', dims: shape});
}

const WORKS = {};
for (const dtype of ['f32', 'f16'])
  for (const [interleaved, layout] of ['half', 'interleaved'].entries()) {
    WORKS[`rope_${dtype}_${layout}_memory`] = () => rope(dtype, interleaved, 4096);
    WORKS[`rope_${dtype}_${layout}_cache`] = () => rope(dtype, interleaved, 64, 16);
  }
WORKS.rope_f32_half_decode = () => rope('f32', 0, 1, 256, 4000);
WORKS.learned_gather_f32 = () => learned(false, 4096);
WORKS.learned_add_f32 = () => learned(true, 4096);

// --- Checks: against the plain formula ------------------------------------------------------------

function near(what, got, expected, tolerance) {
  if (Math.abs(got - expected) <= tolerance) return;
  throw new Error(`${what}: got ${got}, expected ${expected}`);
}

async function checkRope(dtype, interleaved, tokens, repeats, begin, tolerance) {
  const work = await rope(dtype, interleaved, tokens, repeats, begin);
  const {value} = TYPES[dtype];
  const x = work.feeds.x.data;
  const y = await work.result();
  for (let row = 0; row < tokens * HEADS; ++row)
    for (let i = 0; i < PAIRS; ++i) {
      const a = row * WIDTH + (interleaved ? 2 * i : i);
      const b = row * WIDTH + (interleaved ? 2 * i + 1 : i + PAIRS);
      const angle = repeats * (begin + Math.floor(row / HEADS)) * 10000 ** (-i / PAIRS);
      const [u, v, cos, sin] = [value(x[a]), value(x[b]), Math.cos(angle), Math.sin(angle)];
      near('rope', value(y[a]), u * cos - v * sin, tolerance);
      near('rope', value(y[b]), v * cos + u * sin, tolerance);
    }
}

async function check() {
  for (const interleaved of [0, 1]) {
    await checkRope('f32', interleaved, 64, 3, 0, 1e-4);
    await checkRope('f32', interleaved, 1, 1, 4000, 2e-3);
    await checkRope('f16', interleaved, 64, 1, 0, 4e-3);
  }
  const size = 64;
  for (const add of [false, true]) {
    const work = await learned(add, size);
    const y = await work.result();
    const {table, x} = work.feeds;
    for (let i = 0; i < size * size; ++i) {
      const k = shuffled(Math.floor(i / size), size) * size + (i % size);
      near('rows', y[i], table.data[k] + (add ? x.data[i] : 0), 2e-5);
    }
  }
}

// --- Protocol --------------------------------------------------------------------------------------

async function timed(work, seconds) {
  const {run, repeats} = await WORKS[work]();
  const now = () => Number(process.hrtime.bigint());
  await run();
  let batch = 1;
  for (; batch < 2 ** 24; batch *= 2) {
    const start = now();
    for (let i = 0; i < batch; ++i) await run();
    if (now() - start >= 50000) break;
  }
  const nanoseconds = [];
  const start = now();
  while (nanoseconds.length < 3 || now() - start < seconds * 1e9) {
    const begin = now();
    for (let i = 0; i < batch; ++i) await run();
    nanoseconds.push((now() - begin) / (batch * repeats));
  }
  nanoseconds.sort((a, b) => a - b);
  const n = nanoseconds.length;
  const median = (nanoseconds[(n - 1) >> 1] + nanoseconds[n >> 1]) / 2;
  return {work, min_ns: nanoseconds[0], median_ns: median, runs: n * batch * repeats};
}

async function serve() {
  await check();
  const say = (answer) => process.stdout.write(JSON.stringify(answer) + '\n');
  say({peer: 'ONNX Runtime', version, works: Object.keys(WORKS)});
  const lines = require('node:readline').createInterface({input: process.stdin, crlfDelay: Infinity});
  for await (const line of lines) {
    const {work, seconds = 0.3} = JSON.parse(line);
    say(work in WORKS ? await timed(work, seconds) : {work, unsupported: 'ONNX Runtime has no such kernel'});
  }
}

serve().catch((why) => {
  console.error(`ONNX Runtime: ${why.message}`);
  process.exit(1);
});
