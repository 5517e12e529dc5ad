#include <bearing/encodings/cape.hpp>
#include <bearing/error.hpp>
#include <cmath>

#include "describe/describer.hpp"
#include "describe/tensors.hpp"
#include "encodings/input/sinusoids.hpp"
#include "encodings/limits.hpp"
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
    throw RangeError(concat("[Cape] max_global_shift: must be from 0 to 2^31, got ", how.max_global_shift));
  }
  if (!(how.max_local_shift >= 0 && how.max_local_shift <= limit)) {
    throw RangeError(concat("[Cape] max_local_shift: must be from 0 to 2^31, got ", how.max_local_shift));
  }
  if (!(how.max_global_scale >= 1 && how.max_global_scale <= limit)) {
    throw RangeError(concat("[Cape] max_global_scale: must be from 1 to 2^31, got ", how.max_global_scale));
  }
}

}  // namespace

void cape_positions(const Cape& cape, const Positions& positions, View<double, 2> to,
                    std::optional<CapeSeed> training) {
  check_augmentation(cape.augmentation);
  if (!(cape.position_scale > 0) || !std::isfinite(cape.position_scale)) {
    throw RangeError(concat("[Cape] position_scale: must be finite and above 0, got ", cape.position_scale));
  }
  check_output("cape_positions", "to", to);
  const auto [batch, time] = to.shape;
  positions.check("cape_positions", "positions", 1, batch, time);
  if (positions.memory() != Memory(batch_of_one(to))) {
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
    throw RangeError(concat("[cape_positions] height, width: must be at least 0 and make at most 2^31 patches, got ",
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
    throw ShapeError(concat("[Cape2dInputs] dim: must be even and from 4 to 65536, got ", dim_));
  }
  const Index waves = dim_ / 2;
  std::vector<Wide> u, v;
  for (Index j = 0; j < waves; ++j) {
    const Wide rho = detail::wide_pi() * exp(log(Wide(10)) * Wide(j) / Wide(waves - 1));
    u.push_back(rho * cos(Wide(j)));
    v.push_back(rho * sin(Wide(j)));
  }
  along_x_ = std::make_shared<const Sinusoids>("Cape2dInputs", u, 1);
  along_y_ = std::make_shared<const Sinusoids>("Cape2dInputs", v, 1);
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
  constexpr Index pairs = Sinusoids::block_pairs;
  alignas(64) double cos_x[pairs], sin_x[pairs], cos_y[pairs], sin_y[pairs];
  for (Index r = 0; r < tile.rows; ++r) {
    A *cosine = p + r * tile.y_stride, *sine = cosine + dim_ / 2;
    for (Index block = 0; block < along_x_->blocks(); ++block) {
      along_x_->phases(tile.at[1][r], block, cos_x, sin_x);
      along_y_->phases(tile.at[0][r], block, cos_y, sin_y);
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

template <>
struct describe::Words<CapeCentre> {
  static constexpr const char* all[] = {"none", "mean"};
};

namespace {

std::optional<CapeSeed> seed_of(std::optional<Index> training) {
  if (!training) return std::nullopt;
  return CapeSeed{static_cast<std::uint64_t>(*training)};
}

/// Positions [time] or [batch, time]: an array, or counted from a number.
Tensor moved(const Cape& cape, const describe::GivenPositions& at, std::optional<Index> time,
             std::optional<Index> batch, std::optional<Index> training) {
  std::vector<Index> shape = at.shape();
  if (shape.empty()) {
    if (!time) throw ShapeError("[cape_positions] time: must be given, unless positions are an array, got None");
    if (*time < 0) throw RangeError(text::concat("[cape_positions] time: must be at least 0, got ", *time));
    shape = {*time};
  }
  if (batch && shape.size() < 2) shape.insert(shape.begin(), std::max(*batch, Index{0}));
  describe::NewTensor<double, 2> rows({shape.size() == 2 ? shape[0] : 1, shape.back()});
  cape_positions(cape, at.positions(), rows.view, seed_of(training));
  rows.tensor.shape = shape;
  return rows.tensor;
}

Tensor moved_2d(const Cape2d& cape, Index height, Index width, Index batch, std::optional<Index> training) {
  if (!countable_grid(height, width)) {
    throw ShapeError(text::concat("[cape_positions] height, width: must be of at most 2^31 patches, got (", height,
                                  ", ", width, ")"));
  }
  describe::NewTensor<double, 3> rows({2, std::max(batch, Index{0}), height * width});
  cape_positions(cape, height, width, rows.view, seed_of(training));
  return rows.tensor;
}

void describe_records(Describer& to) {
  to.record("CapeAugmentation", CapeAugmentation{},
            "How far CAPE's training moves positions.\n\n"
            "Likhomanenko, Xu, Synnaeve, Collobert, Rogozhnikov 2021, arXiv 2106.03143.")
      .member("max_global_shift", &CapeAugmentation::max_global_shift,
              "How far all positions of a sequence move together.")
      .member("max_local_shift", &CapeAugmentation::max_local_shift,
              "How far each position moves, in units of the distance between neighbours; up to 0.5 keeps their order.")
      .member("max_global_scale", &CapeAugmentation::max_global_scale,
              "The largest factor that positions are multiplied by; at least 1.");
  to.record("Cape", Cape{},
            "CAPE, continuous augmented positional embeddings: sinusoids of positions that training moves about.\n\n"
            "    p <- position_scale p - mean          always\n"
            "    p <- (p + D + e_t) l                  in training\n\n"
            "D uniform in +-max_global_shift, e_t in +-max_local_shift spacing, ln l in +-ln max_global_scale.\n"
            "cape_positions() makes the positions, CapeInputs the rows.\n\n"
            "Likhomanenko, Xu, Synnaeve, Collobert, Rogozhnikov 2021, arXiv 2106.03143.")
      .member("dim", &Cape::dim, "How many columns a row has.")
      .member("augmentation", &Cape::augmentation, "How far training moves positions.")
      .member("centre", &Cape::centre, "'mean' counts positions from their mean.")
      .member("position_scale", &Cape::position_scale, "Multiplies positions before anything else.")
      .member("frequency_scale", &Cape::frequency_scale,
              "Multiplies every frequency; above 1 if positions are seconds and not tokens.")
      .member("base", &Cape::base, "The longest wavelength is a little less than 2 pi times this.")
      .method("sinusoidal", &Cape::sinusoidal, {}, "The spec of the sinusoids that its positions go into.");
  to.record("Cape2d", Cape2d{},
            "CAPE for the patches of an image at (y, x) in [-1, 1]^2: waves in C = dim/2 directions.\n\n"
            "    cos pi(u_j x + v_j y), sin ...      u_j = r_j cos j,  v_j = r_j sin j,  r_j = 10^(j/(C-1))\n\n"
            "Likhomanenko, Xu, Synnaeve, Collobert, Rogozhnikov 2021, arXiv 2106.03143.")
      .member("dim", &Cape2d::dim, "How many columns a row has; even, at least 4.")
      .member("augmentation", &Cape2d::augmentation, "How far training moves positions.");
}

/// Patches at (y, x) of a grid, from -1 to 1 within the length.
inspect::Specimen grid_example(const ExampleSize& size, const Cape2d& cape) {
  inspect::Specimen specimen{.options = size, .grid = inspect::square_grid(size.length)};
  const auto encoding = std::make_shared<const Cape2dInputs<double>>(cape);
  const double half = std::max(0.5, static_cast<double>(specimen.grid.width - 1) / 2);
  specimen.input_rows = [encoding, half](const Positions& at, View<double, 3> rows, const Executor& on) {
    const Index time = rows.shape[1];
    std::vector<double> coordinates(static_cast<std::size_t>(2 * time));
    for (Index axis = 0; axis < 2; ++axis) {
      for (Index t = 0; t < time; ++t) {
        coordinates[static_cast<std::size_t>(axis * time + t)] = at.real(axis, 0, t) / half - 1;
      }
    }
    fill<double>(*encoding, Positions(dense<const double>(coordinates.data(), 2, 1, time)), rows, on);
  };
  return specimen;
}

}  // namespace

void describe_cape(Describer& to) {
  to.home("cape", {"Likhomanenko et al.", 2021, "arXiv 2106.03143"});
  describe_records(to);
  to.encoding<Cape>("CapeInputs",
                    "The sinusoids of cape_positions(). Nothing is learned.\n\n"
                    "Likhomanenko, Xu, Synnaeve, Collobert, Rogozhnikov 2021, arXiv 2106.03143.",
                    {}, make_with_spec<CapeInputs>)
      // As evaluation has it: nothing is moved, and positions count from the first token.
      .called("cape", "CAPE", "sinusoids of positions that training moves",
              [](const ExampleSize& size) { return Cape{.dim = size.dim, .centre = CapeCentre::none}; });
  to.encoding<Cape2d>("Cape2dInputs",
                      "The waves of a Cape2d at its cape_positions(). Nothing is learned.\n\n"
                      "Likhomanenko, Xu, Synnaeve, Collobert, Rogozhnikov 2021, arXiv 2106.03143.",
                      {}, make_with_spec<Cape2dInputs>)
      .grid([](const Cape2d&, Index length) { return inspect::square_grid(length); })
      .called("cape_2d", "CAPE on two axes", "waves in many directions of an image",
              [](const ExampleSize& size) { return Cape2d{.dim = size.dim}; })
      .example(grid_example);
  to.function("cape_positions", moved,
              {"spec",
               {"positions", Value{}},
               {"time", Value{}},
               Argument("batch", Value{}).named(),
               Argument("training", Value{}).named()},
              "Returns positions for a Cape encoding, float64 [time] or [batch, time], scaled and centred. `training`, "
              "if given,\n"
              "is a seed: positions are moved as well, by the same draws on every machine. Give each step its own.");
  to.function("cape_positions", moved_2d,
              {"spec", "height", "width", Argument("batch", Index{1}).named(), Argument("training", Value{}).named()},
              "Returns the positions of a grid's patches, row by row, for a Cape2d encoding: float64 [2, batch, height "
              "width], y then x.");
}

}  // namespace bearing
