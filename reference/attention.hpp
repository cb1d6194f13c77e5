#pragma once

#include <Eigen/Dense>
#include <optional>

#include "reference/core/registry.hpp"
#include "reference/core/truth.hpp"

namespace posproof::reference::attention {

template <class R>
using Matrix = Eigen::Matrix<R, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <class R>
using MatrixView = Eigen::Map<const Matrix<R>>;

template <class R>
MatrixView<R> head_of(const xt::xarray<R>& x, std::size_t h) {
  return {&x(h, 0, 0), static_cast<Eigen::Index>(x.shape(1)),
          static_cast<Eigen::Index>(x.shape(2))};
}

/// The scheme that `scheme` names, and its parameters checked for one of its operations.
inline const Scheme& scheme_in(const Parameters& p) {
  return find_scheme(p.object("scheme").value("name", "nope"));
}
inline Parameters parameters_of(const Parameters& p, const Operation& operation) {
  try {
    return checked_parameters(operation,
                              p.object("scheme").value("parameters", nlohmann::json::object()));
  } catch (const Refused& refused) {
    throw Refused(std::string("scheme.parameters.") + refused.what());
  }
}

/// Positions given, or 0, 1, ….
template <class R>
xt::xarray<std::int64_t> positions(const Inputs<R>& in, const std::string& name,
                                   std::size_t length) {
  if (in.has(name)) return in.integers(name);
  return xt::arange<std::int64_t>(0, static_cast<std::int64_t>(length));
}

/// The operation `name` of a scheme's attention part, on the given inputs and those of its tensors
/// that attention was handed. Nothing when the part is absent or its optional tensors are.
template <class R>
std::optional<Outputs<R>> run_part(const Parameters& p, const std::string& name,
                                   const Inputs<R>& in, Inputs<R> given, Recipe recipe) {
  if (name.empty()) return std::nullopt;
  const Operation& operation = find_operation(name);
  const Parameters own = parameters_of(p, operation);
  for (const InputSpec& spec : operation.inputs(own))
    if (!given.has(spec.name)) {
      if (!in.has(spec.name)) return std::nullopt;
      given.set(spec.name, in.real(spec.name));
    }
  return operation.formula.in<R>()(own, given, recipe);
}

/// [H,L,D] and [L,H,D] into each other: attention and rope.apply order their axes differently.
template <class R>
xt::xarray<R> swapped(const xt::xarray<R>& x) {
  return xt::transpose(x, std::vector<std::size_t>{1, 0, 2});
}

template <class R>
xt::xarray<R> rotated(const Parameters& p, const xt::xarray<R>& x,
                      const xt::xarray<std::int64_t>& at, Recipe recipe) {
  Inputs<R> given;
  given.set("x", swapped(x));
  given.set("positions", at);
  const auto turned =
      run_part(p, scheme_in(p).attention.rotates, Inputs<R>{}, std::move(given), recipe);
  return turned ? swapped(turned->at("y").values) : x;
}

/// Hidden when key_mask is 0, or when causal and the key's position is greater than the query's.
template <class R>
bool visible(const Parameters& p, const Inputs<R>& in, std::int64_t q_position,
             std::int64_t k_position, std::size_t key) {
  if (in.has("key_mask") && in.integers("key_mask")(key) == 0) return false;
  return !(p.flag("causal") && k_position > q_position);
}

template <class R>
R scale(const Parameters& p, std::size_t head_dim) {
  using std::sqrt;
  return p.has("scale") ? R(p.number("scale")) : R(R(1) / sqrt(R(static_cast<double>(head_dim))));
}

/// scale·(q·kᵀ + key term) + bias, before the mask.
template <class R>
xt::xarray<R> scores(const Parameters& p, const Inputs<R>& in, Recipe recipe) {
  const auto& q = in.real("q");
  const auto& k = in.real("k");
  const auto q_at = positions(in, "q_positions", q.shape(1));
  const auto k_at = positions(in, "k_positions", k.shape(1));
  const xt::xarray<R> turned_q = rotated(p, q, q_at, recipe),
                      turned_k = rotated(p, k, k_at, recipe);
  const R factor = scale<R>(p, q.shape(2));

  Inputs<R> given;
  given.set("q_positions", q_at);
  given.set("k_positions", k_at);
  const AttentionPart& part = scheme_in(p).attention;
  const auto bias = run_part(p, part.bias, in, given, recipe);
  given.set("q", q);
  const auto key_term = run_part(p, part.key_term, in, given, recipe);

  xt::xarray<R> score = xt::xarray<R>::from_shape({q.shape(0), q.shape(1), k.shape(1)});
  for (std::size_t h = 0; h < q.shape(0); ++h) {
    const Matrix<R> product = head_of(turned_q, h).lazyProduct(head_of(turned_k, h).transpose());
    for (std::size_t i = 0; i < q.shape(1); ++i)
      for (std::size_t j = 0; j < k.shape(1); ++j) {
        R sum = product(static_cast<Eigen::Index>(i), static_cast<Eigen::Index>(j));
        if (key_term) sum += key_term->at("logits").values(h, i, j);
        sum *= factor;
        if (bias) sum += bias->at("bias").values(h, i, j);
        score(h, i, j) = sum;
      }
  }
  return score;
}

/// Softmax over the visible keys; hidden keys weigh exactly 0. The shift cancels: any number
/// serves.
template <class R>
xt::xarray<R> softmax(const Parameters& p, const Inputs<R>& in, const xt::xarray<R>& score) {
  const auto q_at = positions(in, "q_positions", score.shape(1));
  const auto k_at = positions(in, "k_positions", score.shape(2));
  xt::xarray<R> weight = score;
  for (std::size_t h = 0; h < score.shape(0); ++h)
    for (std::size_t i = 0; i < score.shape(1); ++i) {
      std::optional<double> shift;
      for (std::size_t j = 0; j < score.shape(2); ++j)
        if (visible(p, in, q_at(i), k_at(j), j))
          shift = shift ? std::max(*shift, estimate(score(h, i, j))) : estimate(score(h, i, j));
      if (!shift)
        throw Refused("key_mask: query " + std::to_string(i) +
                      " sees no key; allowed is at least one visible key");
      R sum(0);
      for (std::size_t j = 0; j < score.shape(2); ++j) {
        weight(h, i, j) =
            visible(p, in, q_at(i), k_at(j), j) ? exponential(R(score(h, i, j) - R(*shift))) : R(0);
        sum += weight(h, i, j);
      }
      for (std::size_t j = 0; j < score.shape(2); ++j) weight(h, i, j) /= sum;
    }
  return weight;
}

/// softmax(scale·(q·kᵀ + key term) + bias)·v + value term (Vaswani et al. 2017, eq. 1, with the
/// scheme's terms where its paper puts them). RoPE turns q and k, never v.
struct Attention {
  template <class R>
  Outputs<R> operator()(const Parameters& p, const Inputs<R>& in, Recipe recipe) const {
    const auto& v = in.real("v");
    const xt::xarray<R> weight = softmax(p, in, scores(p, in, recipe));
    Inputs<R> given;
    given.set("weights", weight);
    given.set("q_positions", positions(in, "q_positions", weight.shape(1)));
    given.set("k_positions", positions(in, "k_positions", weight.shape(2)));
    const auto value_term =
        run_part(p, scheme_in(p).attention.value_term, in, std::move(given), recipe);
    Output<R> out({weight.shape(0), weight.shape(1), v.shape(2)});
    for (std::size_t h = 0; h < weight.shape(0); ++h) {
      const Matrix<R> mixed = head_of(weight, h).lazyProduct(head_of(v, h));
      for (std::size_t i = 0; i < weight.shape(1); ++i)
        for (std::size_t d = 0; d < v.shape(2); ++d) {
          out.values(h, i, d) = mixed(static_cast<Eigen::Index>(i), static_cast<Eigen::Index>(d));
          if (value_term) out.values(h, i, d) += value_term->at("out").values(h, i, d);
        }
    }
    return {{"out", out}};
  }
};

}  // namespace posproof::reference::attention
