// ONNX Runtime's two RotaryEmbedding operators, judged through posproof's line protocol.
//
//   adapter.js onnx        ai.onnx, opset 23
//   adapter.js microsoft   com.microsoft, version 1
//
// rope.rotate is theirs alone. In rope.apply the cos and sin caches are this file's: f32, each step
// rounded, as Hugging Face makes them.
'use strict';

const ort = require('onnxruntime-node');

const flavour = process.argv[2] || 'onnx';
if (!['onnx', 'microsoft'].includes(flavour)) {
  console.error('usage: adapter.js [onnx|microsoft]');
  process.exit(2);
}

class Refused extends Error {}

// --- Tensors ---------------------------------------------------------------------------------

const ONNX_TYPE = {f32: 1, int64: 7, f16: 10};
const ORT_TYPE = {f32: 'float32', f16: 'float16', int64: 'int64'};
const SPECIAL = {NaN: NaN, Infinity: Infinity, '-Infinity': -Infinity, '-0': -0};

/** The bits of x in binary16, rounded once to nearest even. */
function f16Bits(x) {
  const sign = x < 0 || Object.is(x, -0) ? 0x8000 : 0;
  const a = Math.abs(x);
  if (Number.isNaN(a)) return 0x7e00;
  if (a >= 65520) return sign | 0x7c00;
  const exponent = Math.max(Math.floor(Math.log2(a)), -14);
  // log2 may be one off next to a power of two; a short significand then just carries.
  const quantum = 2 ** (exponent - 10);
  const steps = a / quantum;
  let whole = Math.floor(steps);
  const rest = steps - whole;
  if (rest > 0.5 || (rest === 0.5 && whole % 2)) ++whole;
  return sign | (whole + (exponent + 14) * 1024);
}

function count(shape) {
  return shape.reduce((product, n) => product * n, 1);
}

/** A TENSOR as {dtype, shape, data}: Float32Array, Uint16Array for f16, BigInt64Array or Int32Array. */
function decoded({dtype, shape, data}) {
  const arrays = {f32: Float32Array, f16: Uint16Array, int64: BigInt64Array, int32: Int32Array};
  const Data = arrays[dtype];
  if (!Data) throw new Error(`dtype ${dtype}`);
  let values;
  if (typeof data === 'string') {
    const bytes = Buffer.from(data, 'base64');
    values = new Data(bytes.length / Data.BYTES_PER_ELEMENT);
    Buffer.from(values.buffer).set(bytes);
  } else {
    const read = (v) => (typeof v === 'string' ? SPECIAL[v] : v);
    if (dtype === 'f16') values = Data.from(data, (v) => f16Bits(read(v)));
    else if (dtype === 'int64') values = Data.from(data, BigInt);
    else values = Data.from(data, read);
  }
  if (values.length !== count(shape)) throw new Error(`${values.length} values for shape [${shape}]`);
  return {dtype, shape, data: values};
}

function encoded({dtype, shape, data}) {
  return {dtype, shape, data: Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString('base64')};
}

// --- The model: ONNX's protobuf by hand ------------------------------------------------------------

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

/** ValueInfoProto of a tensor whose dimensions are open. */
function valueInfo(name, dtype, rank) {
  const shape = message(...Array(rank).fill([1, message()]));
  return message([1, name], [2, message([1, message([1, ONNX_TYPE[dtype]], [2, shape])])]);
}

/** AttributeProto of an integer. */
function attribute(name, value) {
  return message([1, name], [3, value], [20, 2]);
}

/** y [B,H,T,D] of x [B,H,T,D]; cos and sin are [B·T, pairs] caches that position_ids [B,T] index. */
function model(dtype, attributes) {
  const x = ['x', dtype, 4];
  const cos = ['cos', dtype, 2];
  const sin = ['sin', dtype, 2];
  const ids = ['position_ids', 'int64', 2];
  const inputs = flavour === 'onnx' ? [x, cos, sin, ids] : [x, ids, cos, sin];
  const [domain, version] = flavour === 'onnx' ? ['', 23] : ['com.microsoft', 1];
  const node = message(
    ...inputs.map(([name]) => [1, name]),
    [2, 'y'],
    [4, 'RotaryEmbedding'],
    ...Object.entries(attributes).map(([name, value]) => [5, attribute(name, value)]),
    [7, domain],
  );
  const graph = message(
    [1, node],
    [2, 'rotate'],
    ...inputs.map((input) => [11, valueInfo(...input)]),
    [12, valueInfo('y', dtype, 4)],
  );
  // A model imports the standard operators even where it uses none.
  const imports = [[8, message([1, ''], [2, 23])]];
  if (domain) imports.push([8, message([1, domain], [2, version])]);
  return message([1, 10], [7, graph], ...imports);
}

const sessions = new Map();

function session(dtype, attributes) {
  const key = JSON.stringify([dtype, attributes]);
  if (!sessions.has(key)) {
    const options = {graphOptimizationLevel: 'disabled', intraOpNumThreads: 1, interOpNumThreads: 1, logSeverityLevel: 4};
    sessions.set(key, ort.InferenceSession.create(model(dtype, attributes), options));
  }
  return sessions.get(key);
}

// --- Operations --------------------------------------------------------------------------------

/** [B,T,H,D] to [B,H,T,D], or back with T and H exchanged. */
function transposed(data, [batch, rows, columns, width]) {
  const result = new data.constructor(data.length);
  for (let b = 0; b < batch; ++b)
    for (let r = 0; r < rows; ++r)
      for (let c = 0; c < columns; ++c) {
        const from = ((b * rows + r) * columns + c) * width;
        result.set(data.subarray(from, from + width), ((b * columns + c) * rows + r) * width);
      }
  return result;
}

/** Any number of f16 or f32 values with the sign bit turned. */
function negated(data) {
  return data instanceof Uint16Array ? data.map((bits) => bits ^ 0x8000) : data.map((v) => -v);
}

async function rotate({layout = 'half', inverse = false, ...unknown}, {x, cos, sin}) {
  if (Object.keys(unknown).length) throw new Refused(`unknown parameter ${Object.keys(unknown)}`);
  if (!['half', 'interleaved'].includes(layout)) throw new Refused(`unknown layout ${layout}`);
  const [batch, tokens, heads, width] = x.shape.length === 3 ? [1, ...x.shape] : x.shape;
  const pairs = cos.shape[cos.shape.length - 1];
  const attributes = {interleaved: layout === 'interleaved' ? 1 : 0};
  if (2 * pairs !== width) {
    attributes.rotary_embedding_dim = 2 * pairs;
    // com.microsoft asks for the number of heads as soon as a width is given.
    attributes.num_heads = heads;
  }
  const rows = batch * tokens;
  const ids = BigInt64Array.from({length: rows}, (_, i) => BigInt(i));
  const tensor = (dtype, data, shape) => new ort.Tensor(ORT_TYPE[dtype], data, shape);
  const feeds = {
    x: tensor(x.dtype, transposed(x.data, [batch, tokens, heads, width]), [batch, heads, tokens, width]),
    cos: tensor(x.dtype, cos.data, [rows, pairs]),
    sin: tensor(x.dtype, inverse ? negated(sin.data) : sin.data, [rows, pairs]),
    position_ids: tensor('int64', ids, [batch, tokens]),
  };
  const {y} = await (await session(x.dtype, attributes)).run(feeds);
  return {y: {dtype: x.dtype, shape: x.shape, data: transposed(y.data, [batch, heads, tokens, width])}};
}

/** inv_freq in f32, each step rounded: exponent, power, reciprocal, division by the factor. */
function inverseFrequencies(p) {
  const known = ['head_dim', 'rotary_dim', 'partial_rotary_factor', 'rope_theta', 'rope_scaling', 'max_position_embeddings', 'seq_len'];
  const strange = Object.keys(p).filter((name) => !known.includes(name));
  if (strange.length) throw new Refused(`unknown parameter ${strange}`);
  const {rope_type: type = 'default', factor, ...unknown} = p.rope_scaling || {};
  if (Object.keys(unknown).length) throw new Refused(`unknown rope_scaling key ${Object.keys(unknown)}`);
  if (!['default', 'linear'].includes(type)) throw new Refused(`unknown rope_type ${type}`);
  if (type === 'linear' && !(factor > 0)) throw new Refused(`factor ${factor}, must be above 0`);
  const base = p.rope_theta === undefined ? 10000 : p.rope_theta;
  if (!(base > 0)) throw new Refused(`rope_theta ${base}, must be above 0`);
  let dim = p.rotary_dim === undefined ? p.head_dim : p.rotary_dim;
  if (p.partial_rotary_factor !== undefined) {
    dim = Math.trunc(p.head_dim * p.partial_rotary_factor);
    if (p.rotary_dim !== undefined && p.rotary_dim !== dim)
      throw new Refused(`rotary_dim ${p.rotary_dim}, but partial_rotary_factor makes it ${dim}`);
  }
  if (dim % 2 || dim < 2 || dim > p.head_dim)
    throw new Refused(`rotary_dim ${dim}, must be even, from 2 to head_dim ${p.head_dim}`);
  const f32 = Math.fround;
  return Float32Array.from({length: dim / 2}, (_, i) => {
    const frequency = f32(1 / f32(f32(base) ** f32((2 * i) / dim)));
    return type === 'linear' ? f32(frequency / f32(factor)) : frequency;
  });
}

async function apply({layout, inverse, ...parameters}, {x, positions}) {
  const frequencies = inverseFrequencies(parameters);
  if (x.shape[x.shape.length - 1] !== parameters.head_dim) throw new Refused(`x is not ${parameters.head_dim} wide`);
  const Data = x.data.constructor;
  const pairs = frequencies.length;
  const cos = new Data(positions.data.length * pairs);
  const sin = new Data(cos.length);
  const kept = x.dtype === 'f16' ? f16Bits : Number;
  positions.data.forEach((position, t) => {
    const p = Math.fround(Number(position));
    frequencies.forEach((frequency, i) => {
      const angle = Math.fround(p * frequency);
      // A cache is an f32 table first, also where the model keeps it in f16.
      cos[t * pairs + i] = kept(Math.fround(Math.cos(angle)));
      sin[t * pairs + i] = kept(Math.fround(Math.sin(angle)));
    });
  });
  const shape = [...positions.shape, pairs];
  return rotate({layout, inverse}, {x, cos: {data: cos, shape}, sin: {data: sin, shape}});
}

// --- Protocol ------------------------------------------------------------------------------------

const OPERATIONS = {'rope.rotate': rotate, 'rope.apply': apply};

const ABOUT = {
  protocol: 1,
  implementation: {
    name: flavour === 'onnx' ? 'onnxruntime-opset23' : 'onnxruntime-microsoft',
    version: `${require('onnxruntime-node/package.json').version} (adapter's own f32 caches)`,
    language: 'javascript',
  },
  base64: true,
  operations: {
    'rope.rotate': {dtypes: ['f32', 'f16']},
    'rope.apply': {dtypes: ['f32', 'f16'], parameters: {'rope_scaling.rope_type': ['default', 'linear']}},
  },
};

async function answer({cmd, id, protocol, operation, parameters = {}, inputs = {}}) {
  if (cmd === 'start') return protocol === 1 ? ABOUT : {error: `protocol ${protocol} asked, 1 spoken`};
  if (cmd !== 'run') return {id: id === undefined ? null : id, error: `unknown cmd ${cmd}`};
  if (!(operation in OPERATIONS)) return {id, unsupported: `${operation} is no operator of ONNX Runtime`};
  const floats = Object.values(inputs).map((t) => t.dtype);
  if (floats.includes('bf16')) return {id, unsupported: 'no CPU kernel for bf16'};
  if (floats.includes('f64')) return {id, unsupported: 'the operator has no f64'};
  try {
    const tensors = Object.fromEntries(Object.entries(inputs).map(([name, t]) => [name, decoded(t)]));
    const outputs = await OPERATIONS[operation](parameters, tensors);
    return {id, outputs: Object.fromEntries(Object.entries(outputs).map(([name, t]) => [name, encoded(t)]))};
  } catch (why) {
    return why instanceof Refused ? {id, refused: why.message} : {id, error: `${why.name}: ${why.message}`};
  }
}

async function serve() {
  const lines = require('node:readline').createInterface({input: process.stdin, crlfDelay: Infinity});
  for await (const line of lines) {
    let request;
    try {
      request = JSON.parse(line);
    } catch (why) {
      request = {cmd: line.slice(0, 80)};
    }
    if (request && request.cmd === 'stop') break;
    const text = JSON.stringify(await answer(request || {})) + '\n';
    await new Promise((done) => process.stdout.write(text, done));
  }
}

// The idle input would keep the process alive after stop.
serve().then(() => process.exit(0));
