#pragma once

#include <cmath>
#include <map>
#include <numeric>
#include <optional>

#include "implementations/plain/alibi.hpp"
#include "implementations/plain/given.hpp"
#include "implementations/plain/inputs.hpp"
#include "implementations/plain/rope.hpp"
#include "implementations/plain/shaw.hpp"
#include "implementations/plain/t5.hpp"

namespace posproof::plain::attention {

/// The positions under `name`, or 0, 1, … where the caller gave none.
inline std::vector<std::int64_t> positions_or_range(const Tensors& inputs, const std::string& name,
                                                    std::size_t count) {
  if (inputs.contains(name)) {
    require_shape(name, input(inputs, name), {count});
    return positions(inputs, name);
  }
  std::vector<std::int64_t> range(count);
  std::iota(range.begin(), range.end(), 0);
  return range;
}

/// One attention without a batch axis, in the compute type C.
template <class Phase, class C>
class Attention {
 public:
  Attention(const Given& given, const Tensors& inputs)
      : q_(floats(inputs, "q", 3)), causal_(given.flag("causal", false)) {
    const Tensor& k = floats(inputs, "k", 3);
    const Tensor& v = floats(inputs, "v", 3);
    heads_ = q_.shape()[0], width_ = q_.shape()[2];
    require_shape("k", k, {heads_, k.shape()[1], width_});
    require_shape("v", v, k.shape());
    scale_ = given.number("scale", 1 / std::sqrt(static_cast<double>(width_)));
    q_at_ = positions_or_range(inputs, "q_positions", q_.shape()[1]);
    k_at_ = positions_or_range(inputs, "k_positions", k.shape()[1]);
    visible_.assign(k_at_.size(), 1);
    if (inputs.contains("key_mask")) {
      require_shape("key_mask", input(inputs, "key_mask"), {k_at_.size()});
      visible_ = integers(inputs, "key_mask", 2);
    }
    queries_ = widened<C>(q_), keys_ = widened<C>(k), values_ = widened<C>(v);
    bias_.assign(heads_ * q_at_.size() * k_at_.size(), 0);
    read_scheme(Given(given.object("scheme"), {"name", "parameters"}), inputs);
  }

  Tensor out() const {
    std::vector<C> out(queries_.size(), 0);
    for (std::size_t n = 0; n < heads_ * q_at_.size(); ++n) {
      const std::size_t i = n % q_at_.size(), head = n / q_at_.size();
      const std::vector<C> weights = softmax(n, i, head);
      C* row = out.data() + n * width_;
      for (std::size_t j = 0; j < k_at_.size(); ++j) {
        if (hidden(i, j)) continue;  // a weight of 0 would still let a NaN through
        const C* value = values_.data() + (head * k_at_.size() + j) * width_;
        for (std::size_t lane = 0; lane < width_; ++lane) row[lane] += weights[j] * value[lane];
        if (relative_values_.empty()) continue;
        const C* relative = relative_values_.data() + (*shaw_)(q_at_[i], k_at_[j]) * width_;
        for (std::size_t lane = 0; lane < width_; ++lane) row[lane] += weights[j] * relative[lane];
      }
    }
    return rounded(q_.dtype(), q_.shape(), out);
  }

 private:
  void read_scheme(const Given& scheme, const Tensors& inputs) {
    const std::string name = scheme.choice("name", {"nope", "rope", "alibi", "shaw", "t5"});
    const nlohmann::json parameters = scheme.object("parameters");
    if (name == "nope") {
      Given(parameters, {});
    } else if (name == "rope") {
      rotate(Given(parameters, joined(rope::kFrequencyKeys, rope::kRotationKeys)));
    } else if (name == "alibi") {
      const alibi::Bias bias(Given(parameters, joined(alibi::kSlopeKeys, alibi::kBiasKeys)));
      if (bias.local_slopes.size() != heads_) {
        throw Refused("alibi: " + std::to_string(bias.local_slopes.size()) + " slopes for " +
                      std::to_string(heads_) + " heads");
      }
      fill_bias([&](std::size_t head, std::int64_t q_position, std::int64_t k_position) {
        return bias(head, q_position, k_position);
      });
    } else if (name == "t5") {
      const t5::Buckets bucket(Given(parameters, t5::kKeys));
      const Tensor& table = floats(inputs, "table", 2);
      require_shape("table", table, {static_cast<std::size_t>(bucket.count), heads_});
      fill_bias([&](std::size_t head, std::int64_t q_position, std::int64_t k_position) {
        const auto row = static_cast<std::size_t>(bucket(k_position - q_position));
        return table.value(row * heads_ + head);
      });
    } else {
      shaw_.emplace(Given(parameters, shaw::kKeys));
      relative_keys_ = shaw_table(inputs, "relative_keys");
      if (inputs.contains("relative_values")) {
        relative_values_ = shaw_table(inputs, "relative_values");
      }
    }
  }

  void rotate(const Given& given) {
    const rope::Frequencies frequencies(given);
    const rope::Rotation rotation(given);
    if (frequencies.head_dim != width_) {
      throw Refused("head_dim: " + std::to_string(width_) + " lanes in q, got " +
                    std::to_string(frequencies.head_dim));
    }
    const auto turn = [&](std::vector<C>& rows, const std::vector<std::int64_t>& at) {
      const rope::Table<Phase> table = rope::table<Phase>(frequencies, at);
      for (std::size_t n = 0; n < heads_ * at.size(); ++n) {
        const std::size_t first = n % at.size() * frequencies.pairs;
        rotation.turn(rows.data() + n * width_, table.cos.data() + first, table.sin.data() + first,
                      frequencies.pairs);
      }
    };
    turn(queries_, q_at_);
    turn(keys_, k_at_);
  }

  template <class Function>
  void fill_bias(Function bias_of) {
    for (std::size_t n = 0; n < bias_.size(); ++n) {
      const std::size_t row = n / k_at_.size();
      bias_[n] = static_cast<C>(
          bias_of(row / q_at_.size(), q_at_[row % q_at_.size()], k_at_[n % k_at_.size()]));
    }
  }

  std::vector<C> shaw_table(const Tensors& inputs, const std::string& name) const {
    const Tensor& table = floats(inputs, name, 2);
    shaw_->require_table(name, table, width_);
    return widened<C>(table);
  }

  bool hidden(std::size_t i, std::size_t j) const {
    return visible_[j] == 0 || (causal_ && k_at_[j] > q_at_[i]);
  }

  C score(std::size_t n, std::size_t i, std::size_t j, std::size_t head) const {
    const C* query = queries_.data() + n * width_;
    C product = dot(query, keys_.data() + (head * k_at_.size() + j) * width_, width_);
    if (shaw_) {
      const std::size_t row = (*shaw_)(q_at_[i], k_at_[j]);
      product += dot(query, relative_keys_.data() + row * width_, width_);
    }
    return static_cast<C>(scale_) * product + bias_[n * k_at_.size() + j];
  }

  /// The weights of query row n, which is query i of `head`; the maximum goes off before exp.
  std::vector<C> softmax(std::size_t n, std::size_t i, std::size_t head) const {
    std::vector<C> weights(k_at_.size(), 0);
    std::optional<C> largest;
    for (std::size_t j = 0; j < weights.size(); ++j) {
      if (hidden(i, j)) continue;
      weights[j] = score(n, i, j, head);
      if (!largest || weights[j] > *largest) largest = weights[j];
    }
    if (!largest) {
      throw Refused("query " + std::to_string(i) + " at position " + std::to_string(q_at_[i]) +
                    " sees no key");
    }
    C sum = 0;
    for (std::size_t j = 0; j < weights.size(); ++j) {
      if (hidden(i, j)) continue;
      weights[j] = std::exp(weights[j] - *largest);
      sum += weights[j];
    }
    for (C& weight : weights) weight /= sum;
    return weights;
  }

  const Tensor& q_;
  bool causal_;
  double scale_ = 1;
  std::size_t heads_ = 0, width_ = 0;
  std::vector<std::int64_t> q_at_, k_at_, visible_;
  std::vector<C> queries_, keys_, values_, bias_, relative_keys_, relative_values_;
  std::optional<shaw::Rows> shaw_;
};

/// The b-th entry of every input that has the batch axis; tables may be shared.
inline Tensors batch_entry(const Tensors& inputs, std::size_t b, std::size_t count) {
  static const std::map<std::string, std::size_t> kRanks{{"q", 3},
                                                         {"k", 3},
                                                         {"v", 3},
                                                         {"q_positions", 1},
                                                         {"k_positions", 1},
                                                         {"key_mask", 1},
                                                         {"relative_keys", 2},
                                                         {"relative_values", 2},
                                                         {"table", 2}};
  Tensors entry;
  for (const auto& [name, tensor] : inputs) {
    const auto known = kRanks.find(name);
    const bool is_batched = known != kRanks.end() && tensor.rank() == known->second + 1;
    if (is_batched && tensor.shape()[0] != count) {
      throw Refused(name + ": a batch of " + std::to_string(count) + " expected, got shape " +
                    to_string(tensor.shape()));
    }
    entry.emplace(name, is_batched ? tensor.slice(b) : tensor);
  }
  return entry;
}

/// Softmax(scale · (q kᵀ + Shaw's key term) + bias) · v, plus Shaw's value term (Vaswani et al.
/// 2017, eq. 1; Shaw et al. 2018, eq. 3 and 4).
template <class Phase>
Tensors attend(const nlohmann::json& parameters, const Tensors& inputs) {
  const Given given(parameters, {"scheme", "causal", "scale"});
  std::vector<const Tensor*> all_floats;
  for (const auto& [name, tensor] : inputs) {
    if (is_float(tensor.dtype())) all_floats.push_back(&tensor);
  }
  return in_compute_type<Phase>(all_floats, [&]<class C>(std::type_identity<C>) -> Tensors {
    const Tensor& q = floats(inputs, "q", 3, 4);
    if (q.rank() == 3) return {{"out", Attention<Phase, C>(given, inputs).out()}};
    const std::size_t count = q.shape()[0];
    std::vector<Tensor> out;
    for (std::size_t b = 0; b < count; ++b) {
      const Tensors entry = batch_entry(inputs, b, count);
      out.push_back(Attention<Phase, C>(given, entry).out());
    }
    return {{"out", count == 0 ? q : Tensor::stack(out)}};
  });
}

}  // namespace posproof::plain::attention
