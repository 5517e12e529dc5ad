#include <bearing/encodings/fope.hpp>
#include <cmath>
#include <numbers>

#include "describe/describer.hpp"
#include "encodings/head_sets.hpp"

namespace bearing {

using text::concat;

std::vector<double> fope_frequencies(const Fope& fope) {
  check_even_head("fope_frequencies", fope.head_dim);
  const Index pairs = fope.head_dim / 2;
  if (!(std::isfinite(fope.base) && fope.base > 0)) {
    throw RangeError(concat("[fope_frequencies] base: must be finite and above 0, got ", fope.base));
  }
  if (fope.kept < 0 || fope.kept > pairs) {
    throw ShapeError(concat("[fope_frequencies] kept: must be from 0 to the pairs, ", pairs, ", got ", fope.kept));
  }
  const Index least = fope.kept == 0 ? 1 : 0;  // which frequencies are kept may be said otherwise
  if (fope.trained_length < least || fope.trained_length > max_position) {
    throw RangeError(
        concat("[fope_frequencies] trained_length: must be from ", least, " to 2^31, got ", fope.trained_length));
  }
  std::vector<double> kept;
  for (Index i = 0; i < pairs; ++i) {
    const double theta = std::pow(fope.base, -2 * static_cast<double>(i) / static_cast<double>(fope.head_dim));
    const double slowest = 2 * std::numbers::pi / static_cast<double>(fope.trained_length);
    if (fope.kept > 0 ? i < fope.kept : theta >= slowest) kept.push_back(theta);
  }
  return kept;
}

template <class A>
FopeRows<A>::FopeRows(const Fope& fope, Param<A, 3> cos, Param<A, 3> sin, Index group)
    : fope_(fope), frequencies_(fope_frequencies(fope)), cos_(cos), sin_(sin), group_(group) {
  const Index sets = cos.value.shape[0];
  if (kept() < 1) {
    throw RangeError(
        concat("[FopeRows] trained_length: must leave a frequency that completes a turn, got ", fope.trained_length));
  }
  if (mixed() < 1 || mixed() > fope.head_dim / 2) {
    throw ShapeError(concat("[FopeRows] cos: must mix from 1 to head_dim/2 = ", fope.head_dim / 2, " pairs, got shape ",
                            cos.value.shape));
  }
  check_set("FopeRows", "cos", cos, {sets, kept(), mixed()}, "[sets, kept, mixed]");
  check_set("FopeRows", "sin", sin, {sets, kept(), mixed()}, "[sets, kept, mixed]");
  check_group("FopeRows", sets, group);
}

template <class A>
void FopeRows<A>::check(const char* function, const Problem& problem) const {
  check_present(function, "Fope", !frequencies_.empty());
  check_rows(function, "Fope", problem, fope_.head_dim, 1, cos_.value.shape[0], group_);
  check_finite(function, "Fope.cos", cos_.value);
  check_finite(function, "Fope.sin", sin_.value);
}

template <class A>
void FopeRows<A>::series(Index head, double p, double* waves, double* mixed_waves) const {
  for (Index k = 0; k < kept(); ++k) {
    const double angle = p * frequencies_[static_cast<std::size_t>(k)];
    waves[k] = std::cos(angle);
    waves[kept() + k] = std::sin(angle);
  }
  for (Index i = 0; i < mixed(); ++i) {
    double cos = 0, sin = 0;
    for (Index k = 0; k < kept(); ++k) {
      cos += waves[k] * static_cast<double>(cos_.value(head / group_, k, i));
      sin += waves[kept() + k] * static_cast<double>(sin_.value(head / group_, k, i));
    }
    mixed_waves[i] = cos;
    mixed_waves[mixed() + i] = sin;
  }
}

template <class A>
void FopeRows<A>::turn(const RowTile& tile, const A* x, A* y) const {
  const Index pairs = fope_.head_dim / 2;
  double *waves = tile.scratch, *turns = waves + 2 * kept();
  for (Index r = 0; r < tile.rows; ++r) {
    series(tile.head, tile.at[0][r], waves, turns);
    const A* in = x + r * tile.x_stride;
    A* out = y + r * tile.y_stride;
    for (Index i = 0; i < pairs; ++i) {
      const auto cos = static_cast<A>(i < mixed() ? turns[i] : 1),
                 sin = static_cast<A>(i < mixed() ? turns[mixed() + i] : 0);
      const auto [u, v] = pair_place(fope_.pairing, pairs, i);
      const A x_u = in[u], x_v = in[v];
      out[u] = x_u * cos - x_v * sin;
      out[v] = x_u * sin + x_v * cos;
    }
  }
}

template <class A>
void FopeRows<A>::turn_grads(const RowTile& tile, const A* x, const A* d_y, A* d_x, A* d_params) const {
  const Index pairs = fope_.head_dim / 2;
  double *waves = tile.scratch, *turns = waves + 2 * kept();
  const auto [d_cos, d_sin] = grad_block(0, tile.head).split(d_params);
  for (Index r = 0; r < tile.rows; ++r) {
    series(tile.head, tile.at[0][r], waves, turns);
    const A *in = x + r * tile.x_stride, *d_out = d_y + r * tile.y_stride;
    A* d_in = d_x + r * tile.x_stride;
    for (Index i = 0; i < pairs; ++i) {
      const auto [u, v] = pair_place(fope_.pairing, pairs, i);
      const auto cos = static_cast<A>(i < mixed() ? turns[i] : 1),
                 sin = static_cast<A>(i < mixed() ? turns[mixed() + i] : 0);
      const A g_u = d_out[u], g_v = d_out[v];
      for (Index k = 0; i < mixed() && k < kept(); ++k) {
        // ∂(u cos′ − v sin′, u sin′ + v cos′)/∂cos′ = (u, v), /∂sin′ = (−v, u)
        if (d_cos != nullptr) d_cos[k * mixed() + i] += static_cast<A>(waves[k]) * (g_u * in[u] + g_v * in[v]);
        if (d_sin != nullptr) d_sin[k * mixed() + i] += static_cast<A>(waves[kept() + k]) * (g_v * in[u] - g_u * in[v]);
      }
      d_in[u] = g_u * cos + g_v * sin;
      d_in[v] = g_v * cos - g_u * sin;
    }
  }
}

template class FopeRows<float>;
template class FopeRows<double>;

namespace {

/// The identity, which is RoPE, and a little of the other frequencies.
Rule around_identity(double otherwise, bool by_size) {
  return {by_size ? "at the identity, which is RoPE, and Glorot-normal numbers times gain" : "around the identity",
          [otherwise, by_size](const Filling& all) {
            const double gain = all.number.value_or(otherwise);
            const Index rows = all.extents[1], cols = all.extents[2];
            normal(by_size ? gain / std::sqrt(static_cast<double>(rows)) : gain).fill(all);
            for (std::size_t i = 0; i < all.numbers.size(); ++i) {
              const Index at = static_cast<Index>(i) % (rows * cols);
              if (at / cols == at % cols) all.numbers[i] += 1;
            }
          },
          by_size ? "gain" : "", otherwise};
}

}  // namespace

void describe_fope(Describer& to) {
  to.home("fope", {"Hua et al.", 2024, "arXiv 2412.17739"});
  to.record("Fope", Fope{.pairing = Pairing::half},
            "FoPE, Fourier position embedding: each pair turns by a Fourier series instead of one frequency.\n\n"
            "    cos'_d(p) = sum_D cos(p w_D) C[head, D, d]     sin'_d(p) = sum_D sin(p w_D) S[head, D, d]\n\n"
            "Pairs past the mixed ones pass through.\n\nHua et al. 2024, arXiv 2412.17739.")
      .member("head_dim", &Fope::head_dim, "How many dimensions a head has.")
      .member("base", &Fope::base, "The base of the frequencies, as in RoPE.")
      .member("trained_length", &Fope::trained_length,
              "A frequency is kept if it completes a turn within this many tokens.")
      .member("kept", &Fope::kept, "How many of the fastest frequencies are kept; 0 if trained_length decides.")
      .member("pairing", &Fope::pairing, "Which two elements turn together; 'half' in vLLM.");
  const NamedExtent kept("kept frequencies", [](const Record& spec, const Sizes&) {
    return static_cast<Index>(fope_frequencies(*spec.as<Fope>()).size());
  });
  const NamedExtent mixed = usually(any("mixed"), kept.size);
  to.encoding_with<Fope, Grouped, 3, 3>(
        "FopeRows",
        "FoPE with its coefficients C and S: cos, sin [sets, kept, mixed], taken as they are.\n\n"
        "    (u, v) <- (u cos' - v sin', u sin' + v cos')\n\n"
        "kept is as many as fope_frequencies(spec) has, mixed at most head_dim/2. Head h uses set h / group, as in\n"
        "RopeMixedRows: the published models have one set per key head.\n\nHua et al. 2024, arXiv 2412.17739.",
        {Parameter("cos", {"sets", kept, mixed}, "The coefficients C.")
             .starts(around_identity(0.3, true))
             .draws(around_identity(0.02, false)),
         Parameter("sin", {"sets", kept, mixed}, "The coefficients S.")
             .starts(around_identity(0.3, true))
             .draws(around_identity(0.02, false))},
        make_grouped<FopeRows>)
      .called("fope", "FoPE", "RoPE with a Fourier series per pair",
              [](const ExampleSize& size) {  // the fastest pair's turn takes 2 pi tokens
                return Fope{
                    .head_dim = size.dim, .trained_length = std::max<Index>(7, size.length), .pairing = Pairing::half};
              });
  to.function("fope_frequencies", fope_frequencies, {"spec"},
              "Lists the frequencies that are kept, the fastest first.");
}

}  // namespace bearing
