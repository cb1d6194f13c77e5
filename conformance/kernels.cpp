#include "conformance/kernels.hpp"

#include <bit>
#include <cmath>

#include "optimized/alibi.hpp"
#include "optimized/core/rounding.hpp"
#include "optimized/learned.hpp"
#include "optimized/rope.hpp"
#include "optimized/shaw.hpp"
#include "optimized/sinusoidal.hpp"
#include "optimized/t5.hpp"
#include "reference/core/registry.hpp"
#include "reference/core/truth.hpp"

namespace posproof {
namespace {

namespace fast = optimized;
using fast::Isa;

/// A request whose parameters and inputs have passed the checks of the operation.
struct Call {
  Isa isa;
  Parameters parameters;
  const Tensors& inputs;
  Dtype dtype;  ///< of the float outputs

  const Tensor& input(const std::string& name) const { return inputs.at(name); }
  std::size_t size(const std::string& name, std::size_t axis) const {
    return input(name).shape().at(axis);
  }
  std::size_t count(const std::string& name) const {
    return static_cast<std::size_t>(parameters.integer(name));
  }
};

template <class T>
T* data(Tensor& tensor) {
  return static_cast<T*>(tensor.bytes());
}
template <class T>
const T* data(const Tensor& tensor) {
  return static_cast<const T*>(tensor.bytes());
}

/// Calls body with float, F16 or BF16.
template <class Body>
auto in_type(Dtype dtype, Body body) {
  switch (dtype) {
    case Dtype::f32: return body(float{});
    case Dtype::f16: return body(fast::F16{});
    case Dtype::bf16: return body(fast::BF16{});
    default: throw Unsupported("the kernels have f32, f16 and bf16, not " + std::string(name(dtype)));
  }
}

/// Positions as a kernel takes them; a run is passed as one.
struct List {
  std::vector<std::int64_t> values;

  explicit List(const Tensor& tensor) : values(tensor.size()) {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = tensor.integer(i);
  }
  bool is_run() const {
    for (std::size_t i = 1; i < values.size(); ++i)
      if (values[i] != values[i - 1] + 1) return false;
    return true;
  }
  fast::Positions positions() const {
    return is_run() ? fast::Positions::run(values.empty() ? 0 : values[0], values.size())
                    : fast::Positions::of(values.data(), values.size());
  }
};

/// Calls body with the positions as int32 or int64.
template <class Body>
void with_positions(const Tensor& tensor, Body body) {
  if (tensor.dtype() == Dtype::i32)
    body(data<std::int32_t>(tensor));
  else
    body(data<std::int64_t>(tensor));
}

Tensors sinusoidal_table(const Call& call) {
  namespace sinusoidal = fast::sinusoidal;
  sinusoidal::Parameters parameters{call.count("d_model")};
  parameters.base = call.parameters.number("base");
  const std::string layout = call.parameters.text("layout");
  parameters.layout = layout == "interleaved" ? sinusoidal::Layout::interleaved
                      : layout == "concat"    ? sinusoidal::Layout::concat
                                              : sinusoidal::Layout::concat_cos_first;
  if (call.parameters.text("denominator") == "half_minus_one")
    parameters.denominator = sinusoidal::Denominator::half_minus_one;
  parameters.zero_pad = call.parameters.text("odd") == "zero_pad";
  parameters.scale = call.parameters.number("scale");
  const sinusoidal::Table table(parameters, call.isa);

  const List at(call.input("positions"));
  Tensor rows(call.dtype, {at.values.size(), parameters.d_model});
  in_type(call.dtype, [&]<class T>(T) {
    const auto stride = static_cast<std::ptrdiff_t>(parameters.d_model);
    if (!at.values.empty() && at.is_run())
      table.range(at.values[0], at.values.size(), data<T>(rows), stride);
    else
      with_positions(call.input("positions"), [&](const auto* positions) {
        table.list(positions, at.values.size(), data<T>(rows), stride);
      });
  });
  return {{"table", rows}};
}

Tensors learned_embed(const Call& call) {
  std::int64_t shift = call.parameters.integer("offset");
  if (call.parameters.has("padding_idx")) shift += call.parameters.integer("padding_idx") + 1;
  const std::size_t rows = call.size("table", 0), width = call.size("table", 1);
  const std::size_t count = call.size("positions", 0);
  Tensor out(call.dtype, {count, width});
  in_type(call.dtype, [&]<class T>(T) {
    with_positions(call.input("positions"), [&](const auto* positions) {
      const std::size_t outside = fast::learned::first_outside(rows, shift, positions, count);
      if (outside < count)
        throw Refused("positions: found " + std::to_string(positions[outside]) +
                      ", allowed are those with a row, plus " + std::to_string(shift) +
                      ", among " + std::to_string(rows));
      const auto stride = static_cast<std::ptrdiff_t>(width);
      fast::learned::embed(
          fast::learned::Table<T>{data<T>(call.input("table")), rows, width, stride, shift},
          positions, count, data<T>(out), stride, call.isa);
    });
  });
  return {{"rows", out}};
}

fast::shaw::Sign shaw_sign(const Call& call) {
  return call.parameters.text("sign") == "k-q" ? fast::shaw::Sign::key_minus_query
                                               : fast::shaw::Sign::query_minus_key;
}

void require_f32(const Call& call) {
  if (call.dtype != Dtype::f32) throw Unsupported("the kernels of shaw have f32 only");
}

Tensors shaw_key_logits(const Call& call) {
  require_f32(call);
  const std::size_t heads = call.size("q", 0), rows = call.size("q", 1), width = call.size("q", 2);
  const List queries(call.input("q_positions")), keys(call.input("k_positions"));
  Tensor logits(Dtype::f32, {heads, rows, keys.values.size()});
  const fast::shaw::KeyLogits kernel(data<float>(call.input("relative_keys")),
                                     call.count("max_distance"), width, shaw_sign(call), call.isa);
  kernel(fast::Scores<const float>::packed(data<float>(call.input("q")), rows, width), heads,
         queries.positions(), keys.positions(),
         fast::Scores<float>::packed(data<float>(logits), rows, keys.values.size()));
  return {{"logits", logits}};
}

Tensors shaw_value_term(const Call& call) {
  require_f32(call);
  const std::size_t heads = call.size("weights", 0), rows = call.size("weights", 1);
  const std::size_t columns = call.size("weights", 2), width = call.size("relative_values", 1);
  const List queries(call.input("q_positions")), keys(call.input("k_positions"));
  Tensor out(Dtype::f32, {heads, rows, width});
  fast::shaw::value_term(
      data<float>(call.input("relative_values")), call.count("max_distance"), width,
      shaw_sign(call),
      fast::Scores<const float>::packed(data<float>(call.input("weights")), rows, columns), heads,
      queries.positions(), keys.positions(),
      fast::Scores<float>::packed(data<float>(out), rows, width), call.isa);
  return {{"out", out}};
}

fast::rope::Angles rope_angles(const Call& call) {
  const auto head_dim = static_cast<double>(call.parameters.integer("head_dim"));
  std::size_t rotary_dim = call.count("head_dim");
  if (call.parameters.has("partial_rotary_factor"))
    rotary_dim =
        static_cast<std::size_t>(head_dim * call.parameters.number("partial_rotary_factor"));
  if (call.parameters.has("rotary_dim")) rotary_dim = call.count("rotary_dim");
  const bool is_linear = call.parameters.text("rope_scaling.rope_type") == "linear";
  return {rotary_dim, call.parameters.number("rope_theta"),
          is_linear ? call.parameters.number("rope_scaling.factor") : 1, call.isa};
}

/// hi + lo rounded to odd.
double to_odd(fast::core::DoubleDouble value) {
  if (value.lo == 0) return value.hi;
  const double inner = (value.lo < 0) == (value.hi < 0) ? value.hi : std::nextafter(value.hi, 0.0);
  return std::bit_cast<double>(std::bit_cast<std::uint64_t>(inner) | 1u);
}

Tensors rope_inv_freq(const Call& call) {
  const fast::rope::Angles angles = rope_angles(call);
  Tensor inv_freq(call.dtype, {angles.pairs()});
  for (std::size_t i = 0; i < angles.pairs(); ++i)
    if (call.dtype == Dtype::f64)
      inv_freq.set(i, angles.inv_freq(i).hi);
    else
      inv_freq.set(i, to_odd(angles.inv_freq(i)));
  return {{"inv_freq", inv_freq}, {"attention_factor", Tensor(call.dtype, {}, {1.0})}};
}

/// cos and sin of every position.
template <class T>
void fill_cos_sin(const fast::rope::Angles& angles, const Tensor& positions, T* cos, T* sin) {
  const List at(positions);
  const auto stride = static_cast<std::ptrdiff_t>(angles.pairs());
  if (!at.values.empty() && at.is_run())
    angles.cos_sin(at.values[0], at.values.size(), cos, sin, stride);
  else
    with_positions(positions, [&](const auto* list) {
      angles.cos_sin(list, at.values.size(), cos, sin, stride);
    });
}

Tensors rope_cos_sin(const Call& call) {
  const fast::rope::Angles angles = rope_angles(call);
  const Shape shape{call.size("positions", 0), angles.pairs()};
  Tensor cos(call.dtype, shape), sin(call.dtype, shape);
  in_type(call.dtype, [&]<class T>(T) {
    fill_cos_sin(angles, call.input("positions"), data<T>(cos), data<T>(sin));
  });
  return {{"cos", cos}, {"sin", sin}};
}

fast::rope::Layout rope_layout(const Call& call) {
  return call.parameters.text("layout") == "half" ? fast::rope::Layout::half
                                                  : fast::rope::Layout::interleaved;
}

/// x [T,H,D] or [B,T,H,D], its tokens in one axis.
template <class T>
fast::rope::Heads<T> heads_of(const Tensor& x, Tensor& y) {
  const Shape& shape = x.shape();
  const std::size_t heads = shape[shape.size() - 2], head_dim = shape[shape.size() - 1];
  const std::size_t per_token = heads * head_dim;
  return fast::rope::Heads<T>::packed(data<T>(x), data<T>(y),
                                      per_token == 0 ? 0 : x.size() / per_token, heads, head_dim);
}

Tensors rope_apply(const Call& call) {
  const fast::rope::Angles angles = rope_angles(call);
  const Tensor &x = call.input("x"), &positions = call.input("positions");
  const bool inverse = call.parameters.flag("inverse");
  Tensor y(x.dtype(), x.shape());
  in_type(x.dtype(), [&]<class T>(T) {
    const fast::rope::Heads<T> heads = heads_of<T>(x, y);
    if (angles.pairs() <= fast::rope::kMostPairs && !List(positions).is_run()) {
      with_positions(positions, [&](const auto* list) {
        fast::rope::apply(angles, heads, list, rope_layout(call), inverse);
      });
      return;
    }
    const std::size_t tokens = positions.size();
    std::vector<float> cos(tokens * angles.pairs()), sin(cos.size());
    fill_cos_sin(angles, positions, cos.data(), sin.data());
    fast::rope::rotate(heads, cos.data(), sin.data(), angles.pairs(),
                       static_cast<std::ptrdiff_t>(angles.pairs()), rope_layout(call), inverse,
                       call.isa);
  });
  return {{"y", y}};
}

Tensors rope_rotate(const Call& call) {
  const Tensor& x = call.input("x");
  const std::size_t pairs = call.input("cos").shape().back();
  if (2 * pairs > x.shape().back())
    throw Refused("cos: found " + std::to_string(pairs) + " pairs, allowed are at most half of " +
                  std::to_string(x.shape().back()) + " lanes");
  Tensor y(x.dtype(), x.shape());
  in_type(x.dtype(), [&]<class T>(T) {
    const Tensor cos = call.input("cos").as(Dtype::f32), sin = call.input("sin").as(Dtype::f32);
    fast::rope::rotate(heads_of<T>(x, y), data<float>(cos), data<float>(sin), pairs,
                       static_cast<std::ptrdiff_t>(pairs), rope_layout(call),
                       call.parameters.flag("inverse"), call.isa);
  });
  return {{"y", y}};
}

fast::alibi::Bias alibi(const Call& call, std::size_t offset, std::size_t local_heads) {
  return fast::alibi::Bias(
      {call.count("num_heads"),
       call.parameters.text("rule") == "press" ? fast::alibi::Rule::press
                                               : fast::alibi::Rule::geometric,
       call.parameters.number("bias_max"), offset, local_heads},
      call.isa);
}

Tensors alibi_slopes(const Call& call) {
  const fast::alibi::Bias bias = alibi(call, 0, 0);
  Tensor slopes(call.dtype, {bias.heads()});
  in_type(call.dtype, [&]<class T>(T) {
    for (std::size_t h = 0; h < bias.heads(); ++h) data<T>(slopes)[h] = bias.slope<T>(h);
  });
  return {{"slopes", slopes}};
}

Tensors alibi_bias(const Call& call) {
  const fast::alibi::Bias bias =
      alibi(call, call.count("head_offset"),
            call.parameters.has("local_heads") ? call.count("local_heads") : 0);
  const fast::alibi::Form form = call.parameters.text("form") == "key"
                                     ? fast::alibi::Form::key
                                 : call.parameters.flag("causal")
                                     ? fast::alibi::Form::causal_distance
                                     : fast::alibi::Form::distance;
  const List queries(call.input("q_positions")), keys(call.input("k_positions"));
  const std::size_t rows = queries.values.size(), columns = keys.values.size();
  Tensor out(call.dtype, {bias.heads(), rows, columns});
  in_type(call.dtype, [&]<class T>(T) {
    bias.fill(form, queries.positions(), keys.positions(),
              fast::Scores<T>::packed(data<T>(out), rows, columns));
  });
  return {{"bias", out}};
}

fast::t5::Buckets t5_buckets(const Call& call) {
  return fast::t5::Buckets({call.parameters.integer("num_buckets"),
                            call.parameters.integer("max_distance"),
                            call.parameters.flag("bidirectional")},
                           call.isa);
}

Tensors t5_bucket(const Call& call) {
  const fast::t5::Buckets kernel = t5_buckets(call);
  const Tensor& relative = call.input("relative_positions");
  Tensor buckets(Dtype::i64, relative.shape());
  for (std::size_t i = 0; i < relative.size(); ++i)
    buckets.set_integer(i, kernel.bucket(relative.integer(i)));
  return {{"buckets", buckets}};
}

Tensors t5_bias(const Call& call) {
  const fast::t5::Buckets kernel = t5_buckets(call);
  const List queries(call.input("q_positions")), keys(call.input("k_positions"));
  const std::size_t rows = queries.values.size(), columns = keys.values.size();
  const std::size_t heads = call.size("table", 1);
  Tensor bias(call.dtype, {heads, rows, columns});
  in_type(call.dtype, [&]<class T>(T) {
    kernel.fill(queries.positions(), keys.positions(), data<T>(call.input("table")),
                static_cast<std::ptrdiff_t>(heads), heads,
                fast::Scores<T>::packed(data<T>(bias), rows, columns));
  });
  return {{"bias", bias}};
}

using Function = Tensors (*)(const Call&);

struct Kernel {
  Function function;
  std::vector<std::string> dtypes;
};

const std::map<std::string, Kernel>& kernels() {
  const std::vector<std::string> all{"f32", "f16", "bf16"};
  static const std::map<std::string, Kernel> kKernels{
      {"alibi.bias", {alibi_bias, all}},
      {"alibi.slopes", {alibi_slopes, all}},
      {"learned.embed", {learned_embed, all}},
      {"rope.apply", {rope_apply, all}},
      {"rope.cos_sin", {rope_cos_sin, all}},
      {"rope.inv_freq", {rope_inv_freq, {"f64", "f32", "f16", "bf16"}}},
      {"rope.rotate", {rope_rotate, all}},
      {"shaw.key_logits", {shaw_key_logits, {"f32"}}},
      {"shaw.value_term", {shaw_value_term, {"f32"}}},
      {"sinusoidal.table", {sinusoidal_table, all}},
      {"t5.bias", {t5_bias, all}},
      {"t5.bucket", {t5_bucket, {}}}};
  return kKernels;
}

}  // namespace

std::map<std::string, DeclaredOperation> kernel_operations() {
  std::map<std::string, DeclaredOperation> operations;
  for (const auto& [name, kernel] : kernels()) operations[name] = {kernel.dtypes, {}};
  return operations;
}

Tensors run_kernel(Isa isa, const Request& request) {
  const auto kernel = kernels().find(request.operation);
  if (kernel == kernels().end()) throw Unsupported("no kernel of " + request.operation);
  const Operation& operation = find_operation(request.operation);
  Parameters parameters = checked_parameters(operation, request.parameters);
  check_inputs(operation, parameters, request.inputs);
  const Dtype dtype = operation.outputs[0].integer
                          ? Dtype::i64
                          : output_dtype(operation, parameters, request.inputs);
  try {
    return kernel->second.function({isa, std::move(parameters), request.inputs, dtype});
  } catch (const std::domain_error& outside) {
    throw Unsupported(outside.what());
  } catch (const Refused&) {
    throw;
  } catch (const std::invalid_argument& wrong) {
    throw Refused(wrong.what());
  }
}

}  // namespace posproof
