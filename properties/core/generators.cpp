#include "properties/core/generators.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>
#include <numeric>

namespace posproof {

void showValue(const Tensor& tensor, std::ostream& stream) {
  stream << name(tensor.dtype()) << to_string(tensor.shape()) << "{";
  char text[40];
  for (std::size_t i = 0; i < tensor.size(); ++i) {
    std::snprintf(text, sizeof text, "%.9g", tensor.value(i));
    if (std::isfinite(tensor.value(i)) && std::strtod(text, nullptr) != tensor.value(i))
      std::snprintf(text, sizeof text, "%a", tensor.value(i));
    stream << (i ? ", " : "") << text;
  }
  stream << "}";
}

void showValue(Dtype dtype, std::ostream& stream) { stream << name(dtype); }

}  // namespace posproof

namespace posproof::properties {
namespace {

namespace gen = rc::gen;

double assembled(bool negative, int exponent, std::uint64_t significand,
                 const FloatFormat& format) {
  const double fraction =
      std::ldexp(static_cast<double>(significand >> (65 - format.precision)), 1 - format.precision);
  return round_to(std::ldexp(negative ? -1 - fraction : 1 + fraction, exponent), format);
}

/// Each is simpler by sign, significand or exponent.
std::vector<double> simpler(double x) {
  if (x == 0 || !std::isfinite(x))
    return std::signbit(x) || x != 0 ? std::vector{0.0} : std::vector<double>{};
  std::vector<double> candidates{0.0};
  if (x != 1) candidates.push_back(1.0);
  if (x < 0) candidates.push_back(-x);
  if (x < 0 && x != -1) candidates.push_back(-1.0);
  int exponent;
  const double significand = std::frexp(x, &exponent);
  for (int bits : {1, 4, 12, 26}) {
    const double cut = std::ldexp(std::trunc(std::ldexp(significand, bits)), exponent - bits);
    if (cut != x) candidates.push_back(cut);
  }
  if (exponent != 1 && exponent / 2 != exponent)
    candidates.push_back(std::ldexp(significand, exponent / 2));
  return candidates;
}

/// Numerators of the convergents of π: integers nearest to its multiples, where sine and cosine of
/// pair 0 are as small as they get.
const std::vector<std::int64_t> kNearMultiplesOfPi{22,      355,      710,       103993,   104348,
                                                   208341,  312689,   833719,    1146408,  4272943,
                                                   5419351, 80143857, 165707065, 245850922};

const std::vector<std::int64_t> kContexts{512, 1024, 2048, 4096, 8192, 16384, 32768, 131072};

}  // namespace

rc::Gen<std::int64_t> between(std::int64_t low, std::int64_t high) {
  return gen::resize(rc::kNominalSize, gen::inRange(low, high + 1));
}

rc::Gen<std::size_t> count_between(std::size_t low, std::size_t high) {
  return gen::resize(rc::kNominalSize, gen::inRange(low, high + 1));
}

rc::Gen<double> floats(Dtype dtype, int exponent) {
  const FloatFormat format = format_of(dtype);
  const auto significands = gen::resize(rc::kNominalSize, gen::arbitrary<std::uint64_t>());
  const auto with_exponents = [=](int low, int high) {
    return gen::map(gen::tuple(gen::arbitrary<bool>(), between(low, high), significands),
                    [format](const std::tuple<bool, std::int64_t, std::uint64_t>& drawn) {
                      const auto& [negative, e, significand] = drawn;
                      return assembled(negative, static_cast<int>(e), significand, format);
                    });
  };
  const auto specials = gen::map(
      gen::tuple(gen::arbitrary<bool>(), between(std::min(-4, exponent - 6), exponent - 1),
                 between(-1, 3)),
      [format, exponent](const std::tuple<bool, std::int64_t, std::int64_t>& drawn) {
        const auto& [negative, e, kind] = drawn;
        const double power = std::ldexp(1, static_cast<int>(e));
        const double value =
            kind == 0   ? 0
            : kind == 1 ? std::ldexp(1, static_cast<int>(std::min<std::int64_t>(0, exponent - 1)))
            : kind == 2 ? power
            : kind == 3 ? power * (1 - format.unit_roundoff())
                        : power * (1 + 2 * format.unit_roundoff());
        return negative ? -value : value;
      });
  return gen::shrink(gen::noShrink(gen::weightedOneOf<double>(
                         {{6, with_exponents(exponent - 8, exponent - 1)},
                          {2, with_exponents(format.min_exponent - 1, exponent - 1)},
                          {2, specials}})),
                     [=](double x) {
                       std::vector<double> candidates = simpler(x);
                       for (double& candidate : candidates) candidate = round_to(candidate, format);
                       std::erase_if(candidates, [exponent](double candidate) {
                         return std::fabs(candidate) >= std::ldexp(1, exponent);
                       });
                       return rc::seq::fromContainer(candidates);
                     });
}

rc::Gen<Tensor> tensors(Dtype dtype, Shape shape, int exponent) {
  return gen::map(
      gen::container<std::vector<double>>(element_count(shape), floats(dtype, exponent)),
      [=](const std::vector<double>& values) { return Tensor(dtype, shape, values); });
}

rc::Gen<Tensor> tensors_of_any_bits(Dtype dtype, Shape shape) {
  const auto words = gen::container<std::vector<std::uint64_t>>(
      element_count(shape), gen::resize(rc::kNominalSize, gen::arbitrary<std::uint64_t>()));
  const auto specials =
      gen::container<std::vector<std::int64_t>>(element_count(shape), between(0, 9));
  const double infinity = std::numeric_limits<double>::infinity();
  return gen::map(
      gen::pair(words, specials),
      [=](const std::pair<std::vector<std::uint64_t>, std::vector<std::int64_t>>& drawn) {
        Tensor tensor(dtype, shape);
        const std::size_t width = byte_size(dtype);
        for (std::size_t i = 0; i < tensor.size(); ++i) {
          std::memcpy(static_cast<char*>(tensor.bytes()) + i * width, &drawn.first[i], width);
          // A signalling NaN becomes a quiet one in any load: other bits by right.
          if (std::isnan(tensor.value(i))) tensor.set(i, std::numeric_limits<double>::quiet_NaN());
          if (drawn.second[i] > 5)
            tensor.set(i, std::array{infinity, -infinity, -0.0,
                                     std::nan("")}[static_cast<std::size_t>(drawn.second[i] - 6)]);
        }
        return tensor;
      });
}

rc::Gen<std::int64_t> positions(std::int64_t limit) {
  int bits = 0;
  while (bits < 62 && (std::int64_t{1} << (bits + 1)) <= limit) ++bits;
  const auto beside = [](const rc::Gen<std::int64_t>& centres) {
    return gen::map(gen::pair(centres, between(-1, 1)),
                    [](const std::pair<std::int64_t, std::int64_t>& drawn) {
                      return drawn.first + drawn.second;
                    });
  };
  const auto powers =
      gen::map(between(0, bits), [](std::int64_t k) { return std::int64_t{1} << k; });
  // Nearest to m·π/2 over the frequency base^(−i/64).
  const auto quarter_turns = gen::map(
      gen::tuple(one_of(std::vector<double>{10000, 500000}), between(0, 63), between(1, 64)),
      [](const std::tuple<double, std::int64_t, std::int64_t>& drawn) {
        const auto& [base, i, m] = drawn;
        return static_cast<std::int64_t>(
            std::llround(static_cast<double>(m) * std::numbers::pi / 2 *
                         std::pow(base, static_cast<double>(i) / 64)));
      });
  const auto magnitudes = gen::weightedOneOf<std::int64_t>({{4, between(0, 64)},
                                                            {1, quarter_turns},
                                                            {3, beside(powers)},
                                                            {3, beside(one_of(kContexts))},
                                                            {1, one_of(kNearMultiplesOfPi)},
                                                            {2, between(0, limit)}});
  return gen::shrink(
      gen::noShrink(gen::map(gen::pair(magnitudes, between(0, 4)),
                             [limit](const std::pair<std::int64_t, std::int64_t>& drawn) {
                               const std::int64_t size = std::min(drawn.first, limit);
                               return drawn.second == 4 ? -size : size;
                             })),
      [](std::int64_t x) { return rc::shrink::towards(x, std::int64_t{0}); });
}

rc::Gen<std::vector<std::int64_t>> position_lists(std::size_t count, std::int64_t limit) {
  return gen::container<std::vector<std::int64_t>>(count, positions(limit));
}

rc::Gen<std::vector<std::size_t>> permutations(std::size_t count) {
  // Which of those left comes next: one that is not 0 moves one entry.
  return gen::map(gen::container<std::vector<std::int64_t>>(count, between(0, 1 << 20)),
                  [](const std::vector<std::int64_t>& picks) {
                    std::vector<std::size_t> left(picks.size()), order;
                    std::iota(left.begin(), left.end(), std::size_t{0});
                    for (std::int64_t pick : picks) {
                      const auto next =
                          left.begin() + pick % static_cast<std::int64_t>(left.size());
                      order.push_back(*next);
                      left.erase(next);
                    }
                    return order;
                  });
}

rc::Gen<std::int64_t> head_counts() {
  return one_of(std::vector<std::int64_t>{1, 2, 3, 8, 12, 20, 71});
}

Tensor integers(const std::vector<std::int64_t>& values) {
  return Tensor::integers({values.size()}, values);
}

Tensor reordered(const Tensor& tensor, const std::vector<std::size_t>& order, std::size_t axis) {
  if (axis == 0) {
    std::vector<Tensor> slices;
    for (std::size_t i : order) slices.push_back(tensor.slice(i));
    return Tensor::stack(slices);
  }
  std::vector<Tensor> slices;
  for (std::size_t i = 0; i < tensor.shape()[0]; ++i)
    slices.push_back(reordered(tensor.slice(i), order, axis - 1));
  return Tensor::stack(slices);
}

}  // namespace posproof::properties
