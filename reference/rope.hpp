#pragma once

#include <Eigen/Dense>

#include "reference/core/phase.hpp"

namespace posproof::reference::rope {

/// r: the lanes that rotate. int(head_dim·partial_rotary_factor), that product in f64, as in every
/// model; head_dim when neither is given.
inline std::int64_t rotary_dim(const Parameters& p) {
  if (p.has("rotary_dim")) return p.integer("rotary_dim");
  const std::int64_t head_dim = p.integer("head_dim");
  return p.has("partial_rotary_factor")
             ? static_cast<std::int64_t>(static_cast<double>(head_dim) *
                                         p.number("partial_rotary_factor"))
             : head_dim;
}

inline std::size_t pair_count(const Parameters& p) {
  return static_cast<std::size_t>(rotary_dim(p)) / 2;
}

inline bool is_linear(const Parameters& p) { return p.text("rope_scaling.rope_type") == "linear"; }

/// ω_i = rope_theta^(−2i/r) (Su et al. 2021, eq. 15 with i from 0), divided by the factor when
/// positions are interpolated linearly (Chen et al. 2023, arXiv:2306.15595, eq. 4).
/// `hf_f32`: every step correctly rounded in f32, in the order of Hugging Face's code.
template <class R>
std::vector<R> inv_freq(const Parameters& p, Recipe recipe) {
  const auto step = [recipe](const R& x) { return recipe == Recipe::hf_f32 ? rounded_f32(x) : x; };
  const R base = step(R(p.number("rope_theta")));
  const R factor = step(R(is_linear(p) ? p.number("rope_scaling.factor") : 1));
  std::vector<R> frequencies;
  for (std::size_t i = 0; i < pair_count(p); ++i) {
    const R exponent =
        step(R(R(2 * static_cast<double>(i)) / R(static_cast<double>(rotary_dim(p)))));
    const R wavelength = step(i == 0 ? R(1) : power(base, exponent));
    frequencies.push_back(step(R(step(R(R(1) / wavelength)) / factor)));
  }
  return frequencies;
}

/// θ_{p,i} = p·ω_i. `hf_f32` rounds position and product; `ggml_f32_chain` runs
/// θ_{i+1} = f32(θ_i·f32(base^(−2/r))) from θ_0 = f32(p) and then scales by f32(1/factor).
template <class R>
xt::xarray<R> angles(const Parameters& p, const xt::xarray<std::int64_t>& positions,
                     Recipe recipe) {
  const std::size_t pairs = pair_count(p);
  xt::xarray<R> angle = xt::xarray<R>::from_shape({positions.size(), pairs});
  if (recipe == Recipe::ggml_f32_chain) {
    const R exponent = rounded_f32(R(R(-2) / R(static_cast<double>(rotary_dim(p)))));
    const R ratio = rounded_f32(power(rounded_f32(R(p.number("rope_theta"))), exponent));
    const R freq_scale =
        rounded_f32(R(R(1) / rounded_f32(R(is_linear(p) ? p.number("rope_scaling.factor") : 1))));
    for (std::size_t t = 0; t < positions.size(); ++t) {
      R running = rounded_f32(R(static_cast<double>(positions(t))));
      for (std::size_t i = 0; i < pairs; ++i, running = rounded_f32(R(running * ratio)))
        angle(t, i) = rounded_f32(R(freq_scale * running));
    }
    return angle;
  }
  const std::vector<R> omega = inv_freq<R>(p, recipe);
  for (std::size_t t = 0; t < positions.size(); ++t)
    for (std::size_t i = 0; i < pairs; ++i) {
      const R position(static_cast<double>(positions(t)));
      angle(t, i) = recipe == Recipe::hf_f32 ? rounded_f32(R(rounded_f32(position) * omega[i]))
                                             : R(position * omega[i]);
    }
  return angle;
}

/// Factor on cos and sin. 1 for rope_type default and linear.
template <class R>
R attention_factor(const Parameters&) {
  return R(1);
}

template <class R>
struct Waves {
  xt::xarray<R> cos, sin;
};

template <class R>
Waves<R> cos_sin(const Parameters& p, const xt::xarray<std::int64_t>& positions, Recipe recipe) {
  Waves<R> waves{angles<R>(p, positions, recipe), {}};
  waves.sin = waves.cos;
  const R magnitude = attention_factor<R>(p);
  for (std::size_t i = 0; i < waves.cos.size(); ++i) {
    const SinCos<R> wave = sin_cos(waves.cos.data()[i]);
    waves.cos.data()[i] = magnitude * wave.cos;
    waves.sin.data()[i] = magnitude * wave.sin;
  }
  return waves;
}

/// The two lanes that pair i turns: (i, i + r/2) for `half`, (2i, 2i+1) for `interleaved`.
struct Lanes {
  std::size_t first, second;
};
inline Lanes lanes(const std::string& layout, std::size_t pairs, std::size_t i) {
  return layout == "half" ? Lanes{i, i + pairs} : Lanes{2 * i, 2 * i + 1};
}

template <class R>
using Matrix2 = Eigen::Matrix<R, 2, 2>;
template <class R>
using Vector2 = Eigen::Matrix<R, 2, 1>;

/// R(θ) = [[cos, −sin], [sin, cos]] (Su et al. 2021, eq. 13); its transpose when inverse.
template <class R>
Matrix2<R> rotation(const R& cos, const R& sin, bool inverse) {
  Matrix2<R> matrix;
  matrix << cos, R(-sin), sin, cos;
  return inverse ? Matrix2<R>(matrix.transpose()) : matrix;
}

/// Each pair of each row turned by its rotation; the lanes from 2·pairs on are copied.
template <class R>
Output<R> rotate(const Parameters& p, const xt::xarray<R>& x, const Waves<R>& waves) {
  const std::size_t tokens = x.shape(0), heads = x.shape(1), head_dim = x.shape(2);
  const std::size_t pairs = waves.cos.shape(1);
  if (2 * pairs > head_dim)
    throw Refused("cos: found " + std::to_string(pairs) + " pairs, allowed are at most half of " +
                  std::to_string(head_dim) + " lanes");
  const std::string layout = p.text("layout");
  Output<R> y({tokens, heads, head_dim});
  for (std::size_t t = 0; t < tokens; ++t)
    for (std::size_t i = 0; i < pairs; ++i) {
      const Matrix2<R> turn = rotation<R>(waves.cos(t, i), waves.sin(t, i), p.flag("inverse"));
      const auto [first, second] = lanes(layout, pairs, i);
      for (std::size_t h = 0; h < heads; ++h) {
        const Vector2<R> turned = turn * Vector2<R>(x(t, h, first), x(t, h, second));
        y.values(t, h, first) = turned(0);
        y.values(t, h, second) = turned(1);
      }
    }
  for (std::size_t row = 0; row < tokens * heads; ++row)
    for (std::size_t lane = 2 * pairs; lane < head_dim; ++lane)
      y.copy(row * head_dim + lane, "x", x, row * head_dim + lane);
  return y;
}

struct InvFreq {
  template <class R>
  Outputs<R> operator()(const Parameters& p, const Inputs<R>&, Recipe recipe) const {
    const std::vector<R> omega = inv_freq<R>(p, recipe);
    Output<R> frequencies({omega.size()}), factor{Shape{}};
    std::copy(omega.begin(), omega.end(), frequencies.values.begin());
    factor.values.data()[0] = attention_factor<R>(p);
    return {{"inv_freq", frequencies}, {"attention_factor", factor}};
  }
};

struct CosSin {
  template <class R>
  Outputs<R> operator()(const Parameters& p, const Inputs<R>& in, Recipe recipe) const {
    const Waves<R> waves = cos_sin<R>(p, in.integers("positions"), recipe);
    Output<R> cos, sin;
    cos.values = waves.cos;
    sin.values = waves.sin;
    return {{"cos", cos}, {"sin", sin}};
  }
};

struct Apply {
  template <class R>
  Outputs<R> operator()(const Parameters& p, const Inputs<R>& in, Recipe recipe) const {
    return {{"y", rotate<R>(p, in.real("x"), cos_sin<R>(p, in.integers("positions"), recipe))}};
  }
};

struct Rotate {
  template <class R>
  Outputs<R> operator()(const Parameters& p, const Inputs<R>& in, Recipe) const {
    return {{"y", rotate<R>(p, in.real("x"), Waves<R>{in.real("cos"), in.real("sin")})}};
  }
};

}  // namespace posproof::reference::rope
