#include <bearing/encodings/cape.hpp>
#include <bearing/error.hpp>
#include <cmath>

#include "encodings/limits.hpp"
#include "encodings/sinusoid_rows.hpp"
#include "tensor_checks.hpp"
#include "terms/checks.hpp"
#include "text.hpp"

namespace bearing {

using detail::Wide;
using text::concat;

namespace {

constexpr std::uint64_t golden_gamma = 0x9E37'79B9'7F4A'7C15u;

std::uint64_t mix(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58'476D'1CE4'E5B9u;
  z = (z ^ (z >> 27)) * 0x94D0'49BB'1331'11EBu;
  return z ^ (z >> 31);
}

/// The draws of one sequence, each by its number.
class Draws {
 public:
  Draws(CapeSeed seed, Index sequence)
      : key_(mix(mix(seed.value + golden_gamma) + (static_cast<std::uint64_t>(sequence) + 1) * golden_gamma)) {}

  /// Uniform in ±bound.
  double operator()(Index n, double bound) const {
    const std::uint64_t bits = mix(key_ + (static_cast<std::uint64_t>(n) + 1) * golden_gamma);
    return -bound + 2 * bound * (0x1p-53 * static_cast<double>(bits >> 11));
  }

 private:
  std::uint64_t key_;
};

/// The draw numbers of a sequence: ln λ, a shift for each axis, then ε.
class Motion {
 public:
  Motion(const CapeAugmentation& how, CapeSeed seed, Index sequence, Index axes)
      : how_(how), draw_(seed, sequence), axes_(axes) {
    // In integer arithmetic, because exp and log of two machines may differ in the last bit.
    scale_ = exp(Wide(draw_(0, 1)) * log(Wide(how.max_global_scale))).to_double();
  }

  double operator()(double p, Index token, Index axis, double spacing) const {
    const double shift = draw_(1 + axis, how_.max_global_shift);
    const double jitter = draw_(1 + axes_ + token * axes_ + axis, how_.max_local_shift * spacing);
    return (p + shift + jitter) * scale_;
  }

 private:
  const CapeAugmentation& how_;
  Draws draw_;
  Index axes_;
  double scale_ = 1;
};

void check_augmentation(const CapeAugmentation& how) {
  const double limit = static_cast<double>(max_position);
  if (!(how.max_global_shift >= 0 && how.max_global_shift <= limit)) {
    throw RangeError(concat("[Cape] max_global_shift: must be between 0 and 2^31, got ", how.max_global_shift));
  }
  if (!(how.max_local_shift >= 0 && how.max_local_shift <= limit)) {
    throw RangeError(concat("[Cape] max_local_shift: must be between 0 and 2^31, got ", how.max_local_shift));
  }
  if (!(how.max_global_scale >= 1 && how.max_global_scale <= limit)) {
    throw RangeError(concat("[Cape] max_global_scale: must be between 1 and 2^31, got ", how.max_global_scale));
  }
}

}  // namespace

void cape_positions(const Cape& cape, const Positions& positions, View<double, 2> to,
                    std::optional<CapeSeed> training) {
  check_augmentation(cape.augmentation);
  if (!(cape.position_scale > 0) || !std::isfinite(cape.position_scale)) {
    throw RangeError(concat("[Cape] position_scale: must be positive and finite, got ", cape.position_scale));
  }
  check_output("cape_positions", "to", to);
  const auto [batch, time] = to.shape;
  positions.check("cape_positions", "positions", 1, batch, time);
  const View<double, 3> in_place{to.data, {1, batch, time}, {0, to.stride[0], to.stride[1]}};
  if (positions.memory() != Memory(in_place)) {
    check_apart("cape_positions", "to", to, "positions", positions.memory());
  }
  for (Index b = 0; b < batch; ++b) {
    double mean = 0;
    if (cape.centre == CapeCentre::mean) {
      for (Index t = 0; t < time; ++t) mean += positions.real(0, b, t) * cape.position_scale;
      mean /= static_cast<double>(time);
    }
    const Motion moved(cape.augmentation, training.value_or(CapeSeed{}), b, 1);
    for (Index t = 0; t < time; ++t) {
      const double p = positions.real(0, b, t) * cape.position_scale - mean;
      to(b, t) = training ? moved(p, t, 0, cape.position_scale) : p;
    }
  }
}

void cape_positions(const Cape2d& cape, Index height, Index width, View<double, 3> to,
                    std::optional<CapeSeed> training) {
  check_augmentation(cape.augmentation);
  if (!countable_grid(height, width)) {
    throw RangeError(concat("[cape_positions] height, width: must not be negative and make at most 2^31 patches, got ",
                            height, ", ", width));
  }
  if (to.shape[0] != 2 || to.shape[2] != height * width) {
    throw ShapeError(concat("[cape_positions] to: must be [2, batch, ", height * width,
                            "] (y and x of every patch), got ", to.shape));
  }
  check_output("cape_positions", "to", to);
  const auto spacing = [](Index extent) { return extent < 2 ? 0.0 : 2 / static_cast<double>(extent - 1); };
  const auto place = [&](Index i, Index extent) {
    return extent < 2
               ? 0.0
               : (2 * static_cast<double>(i) - static_cast<double>(extent - 1)) / static_cast<double>(extent - 1);
  };
  for (Index b = 0; b < to.shape[1]; ++b) {
    const Motion moved(cape.augmentation, training.value_or(CapeSeed{}), b, 2);
    for (Index y = 0; y < height; ++y) {
      for (Index x = 0; x < width; ++x) {
        const Index t = y * width + x;
        const double at_y = place(y, height), at_x = place(x, width);
        to(0, b, t) = training ? moved(at_y, t, 0, spacing(height)) : at_y;
        to(1, b, t) = training ? moved(at_x, t, 1, spacing(width)) : at_x;
      }
    }
  }
}

template <class A>
Cape2dInputs<A>::Cape2dInputs(const Cape2d& cape) : dim_(cape.dim) {
  if (dim_ < 4 || dim_ % 2 != 0 || dim_ > largest_dim) {
    throw ShapeError(concat("[Cape2dInputs] dim: must be even and between 4 and 65536, got ", dim_));
  }
  const Index waves = dim_ / 2;
  std::vector<Wide> u, v;
  for (Index j = 0; j < waves; ++j) {
    const Wide rho = detail::wide_pi() * exp(log(Wide(10)) * Wide(j) / Wide(waves - 1));
    u.push_back(rho * cos(Wide(j)));
    v.push_back(rho * sin(Wide(j)));
  }
  along_x_ = std::make_shared<const SinusoidRows>("Cape2dInputs", u, 1);
  along_y_ = std::make_shared<const SinusoidRows>("Cape2dInputs", v, 1);
}

template <class A>
void Cape2dInputs<A>::check(const char* function, const Problem& problem) const {
  check_present(function, "Cape2d", along_x_ != nullptr);
  if (problem.q_positions->axes() == 2) return;
  throw ShapeError(
      concat("[", function, "] positions: must have two axes, y and x, for Cape2d, got ", problem.q_positions->axes()));
}

template <class A>
void Cape2dInputs<A>::inputs(const RowTile& tile, A* p) const {
  constexpr Index pairs = SinusoidRows::block_pairs;
  alignas(64) double cos_x[pairs], sin_x[pairs], cos_y[pairs], sin_y[pairs];
  for (Index r = 0; r < tile.rows; ++r) {
    A *cosine = p + r * tile.y_stride, *sine = cosine + dim_ / 2;
    for (Index block = 0; block < along_x_->blocks(); ++block) {
      along_x_->row(tile.at[1][r], block, cos_x, sin_x);
      along_y_->row(tile.at[0][r], block, cos_y, sin_y);
      for (Index i = 0; i < along_x_->block_size(block); ++i) {
        const Index j = block * pairs + i;
        cosine[j] = static_cast<A>(cos_x[i] * cos_y[i] - sin_x[i] * sin_y[i]);
        sine[j] = static_cast<A>(sin_x[i] * cos_y[i] + cos_x[i] * sin_y[i]);
      }
    }
  }
}

template class Cape2dInputs<float>;
template class Cape2dInputs<double>;

}  // namespace bearing
