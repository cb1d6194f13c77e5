#include "conformance/bugs/rope_steps.hpp"

namespace posproof::bugs::rope {
namespace {

Steps rounded_product(Dtype dtype) {
  Steps steps;
  steps.angle = [dtype](double position, double frequency) {
    return rounded_to(dtype, position) * rounded_to(dtype, frequency);
  };
  return steps;
}

Steps rounded_position(Dtype dtype) {
  return at_positions([dtype](const Call& call, std::size_t t) {
    return rounded_to(dtype, own_position(call, t));
  });
}

/// Under 16-bit inputs such a table is honest (grade P3).
Steps table_in_bf16() {
  Steps steps;
  steps.kept = [](const Call& call, double x) {
    return is_16_bit(call.dtype) ? x : rounded_to(Dtype::bf16, x);
  };
  return steps;
}

Steps table_never_initialised() {
  Steps steps;
  steps.frequencies = [](const Parameters& p, const Call&) {
    return std::vector<double>(formula::pair_count(p), 6.93e-18);
  };
  return steps;
}

/// A grid of 65535 rows: the rest is never launched.
Outputs<double> rows_beyond_the_grid(const Call& call) {
  Outputs<double> outputs = right(call);
  if (call.operation != "rope.apply") return outputs;
  Output<double>& y = outputs.at("y");
  const auto& x = call.inputs.real("x");
  const std::size_t width = x.shape(2);
  for (std::size_t i = 65535 * width; i < x.size(); ++i) y.copy(i, "x", x, i);
  return outputs;
}

/// A cache that is keyed by length and width alone.
Answering remembering_tables() {
  Steps steps;
  steps.table = [seen = std::make_shared<std::map<std::pair<std::size_t, std::size_t>, Waves>>()](
                    const Call&, const Waves& waves) {
    return seen->try_emplace({waves.cos.shape(0), waves.cos.shape(1)}, waves).first->second;
  };
  return through_attention(
      [steps = std::move(steps)](const Call& call) { return answer(steps, call); });
}

std::size_t token_count(const Call& call) { return call.inputs.integers("positions").size(); }

/// Rows of x with a negative position, as a shift of cached keys has, turn all their lanes.
Outputs<double> shift_of_all_lanes(const Call& call) {
  Outputs<double> outputs = right(call);
  if (call.operation != "rope.apply") return outputs;
  json whole = call.parameters;
  whole.erase("rotary_dim");
  whole.erase("partial_rotary_factor");
  if (whole.value("head_dim", 0) % 2 != 0) return outputs;
  const Output<double> shifted = right(with_parameters(call, whole)).at("y");
  Output<double>& y = outputs.at("y");
  const std::size_t row = y.values.size() / std::max<std::size_t>(1, token_count(call));
  for (std::size_t i = 0; i < y.values.size(); ++i)
    if (own_position(call, i / row) < 0) {
      y.values.data()[i] = shifted.values.data()[i];
      if (!y.copied_from.empty()) y.copied_from[i] = -1;
    }
  return outputs;
}

/// [T,H,D] read as [H,T,D]: the index of the head is the position.
Outputs<double> heads_as_sequence(const Call& call) {
  if (call.operation != "rope.apply") return right(call);
  checked(call);
  const auto swapped = [](const xt::xarray<double>& x) {
    return xt::xarray<double>(xt::transpose(x, std::vector<std::size_t>{1, 0, 2}));
  };
  Call other = with_integers(call, "positions", counted(call.inputs.real("x").shape(1)));
  other.inputs.set("x", swapped(call.inputs.real("x")));
  other.tensors = nullptr;
  Output<double> y;
  y.values = swapped(right(other).at("y").values);
  return {{"y", y}};
}

/// A batch's rows beyond the first.
Steps in_later_rows(std::function<double(const Call&, std::size_t)> position) {
  return at_positions([position = std::move(position)](const Call& call, std::size_t t) {
    return call.row == 0 ? own_position(call, t) : position(call, t);
  });
}

/// Where one token is asked for.
Steps at_decode(std::function<double(double)> position) {
  return at_positions([position = std::move(position)](const Call& call, std::size_t t) {
    return token_count(call) == 1 ? position(own_position(call, t)) : own_position(call, t);
  });
}

}  // namespace

std::vector<BugModel> models_of_tables() {
  BugModel remembering =
      model({"K-RI5", "", "hands out the table of an earlier call of the same length",
             "the second sequence turns by the positions of the first",
             "key the cache by positions, base, scaling and dim, or keep none"},
            kAngles, right);
  remembering.make = remembering_tables;
  return {
      model({"K-RP1", "", "rounds the frequencies to bf16",
             "angles are off by up to 0.2 % of themselves: radians at position 1000",
             "keep frequencies in f32, outside any cast of the model"},
            kFrequencies,
            with_each_frequency([](double omega) { return rounded_to(Dtype::bf16, omega); })),
      model({"K-RP2", "bf16", "rounds positions to bf16", "neighbours beyond 256 coincide",
             "keep positions integer until the f32 product"},
            kAngles, rounded_position(Dtype::bf16)),
      model({"K-RP2", "f16", "rounds positions to f16",
             "neighbours beyond 2048 coincide, NaN from 65520",
             "keep positions integer until the f32 product"},
            kAngles, rounded_position(Dtype::f16)),
      model({"K-RP3", "", "multiplies position and frequency in bf16",
             "neighbours beyond 256 coincide although both are held in f32",
             "leave the automatic cast before the product"},
            kAngles, rounded_product(Dtype::bf16)),
      model({"K-RP4", "", "rounds table and products to bf16 under f32 inputs",
             "norms are off by 0.2 %", "keep table and products in the type of x, at least"},
            kAngles, table_in_bf16()),
      model({"K-RP5", "", "holds frequencies that went through f16",
             "an f32 table with f16 errors: radians at position 1000",
             "make the table anew after a cast of the model"},
            kFrequencies,
            with_each_frequency([](double omega) { return rounded_to(Dtype::f16, omega); })),
      model({"K-RP6", "", "never fills the frequencies", "nothing turns, or by chance",
             "fill buffers that are not in the checkpoint on load"},
            kFrequencies, table_never_initialised()),
      model({"K-RP8", "", "leaves rows from 65535 on", "the end of a large batch is not rotated",
             "loop over rows, or spread them over two axes of the grid"},
            {"rope.apply"}, rows_beyond_the_grid),
      model({"K-RI2", "one ahead", "turns a single token by its position + 1",
             "decoding disagrees with the whole sequence", "the next position is the past length"},
            kAngles, at_decode([](double position) { return position + 1; })),
      model({"K-RI2", "from 0", "turns a single token as if at 0",
             "decoding disagrees with the whole sequence", "the next position is the past length"},
            kAngles, at_decode([](double) { return 0.0; })),
      model({"K-RI4", "", "counts 0, 1, 2, … whatever the positions are",
             "packed, padded, evicted or continued sequences are wrong", "use the positions given"},
            kAngles,
            at_positions([](const Call&, std::size_t t) { return static_cast<double>(t); })),
      remembering,
      model({"K-RI6", "not turned", "turns only the first row of a batch",
             "a batch disagrees with its rows alone", "loop over the batch"},
            kRotated, in_later_rows([](const Call&, std::size_t) { return 0.0; })),
      model({"K-RI6", "runs on", "continues positions into the next row of a batch",
             "a batch disagrees with its rows alone", "each row has its own positions"},
            kRotated, in_later_rows([](const Call& call, std::size_t t) {
              return own_position(call, t) +
                     static_cast<double>(call.row) * static_cast<double>(token_count(call));
            })),
      model({"K-RI7", "", "clamps positions to 4095", "all tokens beyond the table turn alike",
             "grow the table, or refuse"},
            kAngles, at_positions([](const Call& call, std::size_t t) {
              return std::min(own_position(call, t), 4095.0);
            })),
      model({"K-RI8", "", "shifts cached keys by all their lanes under partial rotary",
             "the tail turns after a context shift", "shift with the rotary_dim of the model"},
            kRotated, shift_of_all_lanes),
      model({"K-RI9", "", "takes the head's index for the position",
             "heads are told apart, tokens are not", "rotate along the axis of tokens"},
            kRotated, heads_as_sequence)};
}

}  // namespace posproof::bugs::rope
