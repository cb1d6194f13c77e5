#include <cmath>
#include <numeric>

#include "conformance/bugs/core/right.hpp"
#include "reference/attention.hpp"
#include "reference/rope.hpp"
#include "reference/shaw.hpp"

namespace posproof::bugs {
namespace {

namespace attention = reference::attention;
using Array = xt::xarray<double>;
using Waves = reference::rope::Waves<double>;

enum class Order { backwards, pairwise };

template <class C>
C pairwise(const std::vector<C>& terms, std::size_t first, std::size_t count) {
  if (count == 0) return 0;
  if (count == 1) return terms[first];
  return pairwise(terms, first, count / 2) + pairwise(terms, first + count / 2, count - count / 2);
}

template <class C>
C summed(const std::vector<C>& terms, Order order) {
  if (order == Order::pairwise) return pairwise(terms, 0, terms.size());
  return std::accumulate(terms.rbegin(), terms.rend(), C(0));
}

/// Σ a_n·b_n for n < count, products and sums in C.
template <class C, class A, class B>
C dot(std::size_t count, Order order, A a, B b) {
  std::vector<C> terms(count);
  for (std::size_t n = 0; n < count; ++n) terms[n] = static_cast<C>(a(n)) * static_cast<C>(b(n));
  return summed(terms, order);
}

template <class C>
Outputs<double> shaw_in(const Call& call, Order order) {
  const Parameters p = checked(call);
  const bool of_keys = call.operation == "shaw.key_logits";
  const auto& table = call.inputs.real(of_keys ? "relative_keys" : "relative_values");
  const auto& other = call.inputs.real(of_keys ? "q" : "weights");
  const auto& q_at = call.inputs.integers("q_positions");
  const auto& k_at = call.inputs.integers("k_positions");
  const auto row = [&](std::size_t i, std::size_t j) {
    return reference::shaw::row_of(p, q_at(i), k_at(j));
  };
  Output<double> out({other.shape(0), q_at.size(), of_keys ? k_at.size() : table.shape(1)});
  for (std::size_t h = 0; h < other.shape(0); ++h)
    for (std::size_t i = 0; i < q_at.size(); ++i)
      for (std::size_t n = 0; n < out.values.shape(2); ++n)
        out.values(h, i, n) =
            of_keys ? dot<C>(
                          table.shape(1), order, [&](std::size_t d) { return other(h, i, d); },
                          [&](std::size_t d) { return table(row(i, n), d); })
                    : dot<C>(
                          k_at.size(), order, [&](std::size_t j) { return other(h, i, j); },
                          [&](std::size_t j) { return table(row(i, j), n); });
  return {{of_keys ? "logits" : "out", out}};
}

/// The parts of the scheme are right, rounded to C; scores, softmax and sums are in C.
template <class C>
Outputs<double> attention_in(const Call& call, Order order) {
  const Parameters p = checked(call);
  const Inputs<double>& in = call.inputs;
  const AttentionPart& part = attention::scheme_in(p).attention;
  const Array& v = in.real("v");
  const auto q_at = attention::positions(in, "q_positions", in.real("q").shape(1)),
             k_at = attention::positions(in, "k_positions", in.real("k").shape(1));
  const Array q = attention::rotated(p, in.real("q"), q_at, Recipe::exact),
              k = attention::rotated(p, in.real("k"), k_at, Recipe::exact);
  Inputs<double> given;
  given.set("q_positions", q_at);
  given.set("k_positions", k_at);
  const auto bias = attention::run_part(p, part.bias, in, given, Recipe::exact);
  given.set("q", in.real("q"));
  const auto key_term = attention::run_part(p, part.key_term, in, given, Recipe::exact);
  const std::size_t heads = q.shape(0), queries = q.shape(1), keys = k.shape(1), width = q.shape(2);
  const C factor = static_cast<C>(attention::scale<double>(p, width));

  Array weights = Array::from_shape({heads, queries, keys});
  for (std::size_t h = 0; h < heads; ++h)
    for (std::size_t i = 0; i < queries; ++i) {
      std::vector<C> score(keys), exponential(keys, 0);
      std::optional<C> largest;
      for (std::size_t j = 0; j < keys; ++j) {
        score[j] = dot<C>(
            width, order, [&](std::size_t d) { return q(h, i, d); },
            [&](std::size_t d) { return k(h, j, d); });
        if (key_term) score[j] += static_cast<C>(key_term->at("logits").values(h, i, j));
        score[j] *= factor;
        if (bias) score[j] += static_cast<C>(bias->at("bias").values(h, i, j));
        if (attention::visible(p, in, q_at(i), k_at(j), j))
          largest = largest ? std::max(*largest, score[j]) : score[j];
      }
      if (!largest) throw Refused("key_mask: a query sees no key");
      for (std::size_t j = 0; j < keys; ++j)
        if (attention::visible(p, in, q_at(i), k_at(j), j))
          exponential[j] = std::exp(score[j] - *largest);
      const C sum = summed(exponential, order);
      for (std::size_t j = 0; j < keys; ++j) weights(h, i, j) = exponential[j] / sum;
    }
  Inputs<double> of_values;
  of_values.set("weights", weights);
  of_values.set("q_positions", q_at);
  of_values.set("k_positions", k_at);
  const auto value_term = attention::run_part(p, part.value_term, in, of_values, Recipe::exact);
  Output<double> out({heads, queries, v.shape(2)});
  for (std::size_t h = 0; h < heads; ++h)
    for (std::size_t i = 0; i < queries; ++i)
      for (std::size_t d = 0; d < v.shape(2); ++d) {
        C sum = dot<C>(
            keys, order, [&](std::size_t j) { return weights(h, i, j); },
            [&](std::size_t j) { return v(h, j, d); });
        if (value_term) sum += static_cast<C>(value_term->at("out").values(h, i, d));
        out.values(h, i, d) = sum;
      }
  return {{"out", out}};
}

/// x1·cos − x2·sin and its partner in f32 (f64 for f64), fused or not.
template <class C>
Outputs<double> rotated_in(const Call& call, bool fused) {
  const Parameters p = checked(call);
  const auto& x = call.inputs.real("x");
  const Waves table =
      call.operation == "rope.rotate"
          ? Waves{call.inputs.real("cos"), call.inputs.real("sin")}
          : reference::rope::cos_sin<double>(p, call.inputs.integers("positions"), Recipe::exact);
  Output<double> y = reference::rope::rotate<double>(p, x, table);
  for (std::size_t t = 0; t < x.shape(0); ++t)
    for (std::size_t h = 0; h < x.shape(1); ++h)
      for (std::size_t i = 0; i < table.cos.shape(1); ++i) {
        const auto [first, second] =
            reference::rope::lanes(p.text("layout"), table.cos.shape(1), i);
        const auto a = static_cast<C>(x(t, h, first)), b = static_cast<C>(x(t, h, second)),
                   cos = static_cast<C>(table.cos(t, i)),
                   sin = static_cast<C>(p.flag("inverse") ? -table.sin(t, i) : table.sin(t, i));
        y.values(t, h, first) = fused ? std::fma(a, cos, -(b * sin)) : a * cos - b * sin;
        y.values(t, h, second) = fused ? std::fma(b, cos, a * sin) : b * cos + a * sin;
      }
  return {{"y", y}};
}

bool is_f64(const Call& call) { return call.dtype == Dtype::f64; }

}  // namespace

std::vector<RightVariation> right_sums() {
  const std::vector<std::string> shaw{"shaw.key_logits", "shaw.value_term"};
  std::vector<RightVariation> all;
  for (const auto& [order, how] :
       {std::pair{Order::backwards, "backwards"}, std::pair{Order::pairwise, "pairwise"}}) {
    const Order in = order;
    all.push_back({std::string("attention summed ") + how, {"attention"}, [in](const Call& call) {
                     return is_f64(call) ? attention_in<double>(call, in)
                                         : attention_in<float>(call, in);
                   }});
    all.push_back({std::string("shaw summed ") + how, shaw, [in](const Call& call) {
                     return is_f64(call) ? shaw_in<double>(call, in) : shaw_in<float>(call, in);
                   }});
  }
  for (bool fused : {true, false})
    all.push_back({fused ? "rotation with fma" : "rotation without fma",
                   {"rope.apply", "rope.rotate"},
                   [fused](const Call& call) {
                     return is_f64(call) ? rotated_in<double>(call, fused)
                                         : rotated_in<float>(call, fused);
                   }});
  return all;
}

}  // namespace posproof::bugs
