#include <algorithm>
#include <bearing/encodings/sinusoidal.hpp>
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

// A float table of such scales keeps all its bits; beyond, sines near 0 would be subnormal.
constexpr double least_scale = 0x1p-64, largest_scale = 0x1p64;

void must_be_positive(const char* argument, double value) {
  if (value > 0 && std::isfinite(value)) return;
  throw RangeError(concat("[Sinusoidal] ", argument, ": must be finite and above 0, got ", value));
}

void check_spec(const Sinusoidal& spec) {
  if (spec.dim < 2 || spec.dim > largest_dim) {
    throw ShapeError(concat("[Sinusoidal] dim: must be from 2 to ", largest_dim, ", got ", spec.dim));
  }
  const SinusoidalLayout layout = spec.layout;
  if (layout < SinusoidalLayout::interleaved || layout > SinusoidalLayout::cos_first_shifted) {
    throw ShapeError(concat("[Sinusoidal] layout: must be one of the five, got ", static_cast<Index>(layout)));
  }
  must_be_positive("base", spec.base);
  must_be_positive("frequency_scale", spec.frequency_scale);
  const double size = std::fabs(spec.scale);
  if (!(size >= least_scale && size <= largest_scale)) {
    throw RangeError(concat("[Sinusoidal] scale: must be from 2^-64 to 2^64 in magnitude, got ", spec.scale));
  }
}

/// Where sines and cosines lie in a row, and how exponents run: ω_i = base^(−i·numerator/denominator).
struct Geometry {
  Index sine, cosine;    ///< the first one's column
  Index step;            ///< between pairs
  Index sines, cosines;  ///< how many; what is left of the row is 0
  Index numerator, denominator;

  Index pairs() const { return std::max(sines, cosines); }
};

Geometry geometry(SinusoidalLayout layout, Index dim) {
  const Index half = dim / 2, more = dim - half;
  // One pair alone has exponent 0, where half − 1 would divide 0 by 0.
  const Index spread = std::max<Index>(half - 1, 1);
  switch (layout) {
    case SinusoidalLayout::interleaved:
      return {0, 1, 2, more, half, 2, dim};
    case SinusoidalLayout::concatenated:
      return {0, more, 1, more, half, 2, dim};
    case SinusoidalLayout::tensor2tensor:
      return {0, half, 1, half, half, 1, spread};
    case SinusoidalLayout::cos_first:
      return {half, 0, 1, half, half, 1, half};
    case SinusoidalLayout::cos_first_shifted:
      break;
  }
  return {half, 0, 1, half, half, 1, spread};
}

std::vector<Wide> wide_frequencies(const Sinusoidal& spec) {
  check_spec(spec);
  const Geometry g = geometry(spec.layout, spec.dim);
  const Wide ln_base = log(Wide(spec.base));
  std::vector<Wide> frequencies;
  for (Index i = 0; i < g.pairs(); ++i) {
    frequencies.push_back(exp(-ln_base * Wide(i * g.numerator) / Wide(g.denominator)) * Wide(spec.frequency_scale));
  }
  return frequencies;
}

/// The spec's frequencies, or learned ones.
template <class A>
std::vector<Wide> wide_frequencies(const Sinusoidal& spec, const Param<A, 1>& learned) {
  if (learned.value.data == nullptr) return wide_frequencies(spec);
  std::vector<Wide> frequencies;
  for (Index i = 0; i < learned.value.shape[0]; ++i) {
    const A omega = learned.value(i);
    if (!std::isfinite(omega)) {
      throw RangeError(concat("[SinusoidalInputs] frequencies[", i, "]: must be finite, got ", double{omega}));
    }
    frequencies.emplace_back(omega);
  }
  return frequencies;
}

template <class A>
void check_param(const char* name, const Param<A, 1>& param, Index size) {
  if (!is_given(param.value) && param.grad.data == nullptr) return;
  if (param.value.shape[0] != size) {
    throw ShapeError(concat("[SinusoidalInputs] ", name, ": must have shape [", size, "], got ", param.value.shape));
  }
  check_memory("SinusoidalInputs", name, param.value);
  if (param.grad.data != nullptr && param.grad.shape != param.value.shape) {
    throw ShapeError(concat("[SinusoidalInputs] ", name, ".grad: must have the shape of the value, ", param.value.shape,
                            ", got ", param.grad.shape));
  }
  check_countable("SinusoidalInputs", name, param.grad);
}

}  // namespace

std::vector<SinusoidColumn> sinusoidal_columns(const Sinusoidal& spec) {
  check_spec(spec);
  const Geometry g = geometry(spec.layout, spec.dim);
  std::vector<SinusoidColumn> columns(static_cast<std::size_t>(spec.dim));
  for (Index i = 0; i < g.sines; ++i) {
    columns[static_cast<std::size_t>(g.sine + i * g.step)] = {i, SinusoidPart::sine};
  }
  for (Index i = 0; i < g.cosines; ++i) {
    columns[static_cast<std::size_t>(g.cosine + i * g.step)] = {i, SinusoidPart::cosine};
  }
  return columns;
}

std::vector<double> sinusoidal_frequencies(const Sinusoidal& spec) {
  std::vector<double> frequencies;
  for (const Wide& omega : wide_frequencies(spec)) frequencies.push_back(omega.to_double());
  return frequencies;
}

std::vector<Index> sinusoidal_column_order(SinusoidalLayout from, SinusoidalLayout to, Index dim) {
  const std::vector<SinusoidColumn> have = sinusoidal_columns({.dim = dim, .layout = from});
  const std::vector<SinusoidColumn> want = sinusoidal_columns({.dim = dim, .layout = to});
  const Geometry a = geometry(from, dim), b = geometry(to, dim);
  if (a.pairs() != b.pairs() || a.cosines != b.cosines || a.numerator * b.denominator != b.numerator * a.denominator) {
    throw ShapeError(concat("[sinusoidal_column_order] to: must have the exponents of `from`, i·", a.numerator, "/",
                            a.denominator, ", got i·", b.numerator, "/", b.denominator, "; dim is ", dim));
  }
  std::vector<Index> order;
  order.reserve(want.size());
  for (const SinusoidColumn& column : want) {
    order.push_back(std::find(have.begin(), have.end(), column) - have.begin());
  }
  return order;
}

double sinusoidal_base_gradient(const Sinusoidal& spec, View<const double, 1> d_frequencies) {
  const std::vector<double> frequencies = sinusoidal_frequencies(spec);
  const Index pairs = static_cast<Index>(frequencies.size());
  if (d_frequencies.shape[0] != pairs) {
    throw ShapeError(
        concat("[sinusoidal_base_gradient] d_frequencies: must have shape [", pairs, "], got ", d_frequencies.shape));
  }
  check_tensor("sinusoidal_base_gradient", "d_frequencies", d_frequencies);
  const Geometry g = geometry(spec.layout, spec.dim);
  double d_base = 0;
  for (Index i = 0; i < pairs; ++i) {
    const double exponent = static_cast<double>(i * g.numerator) / static_cast<double>(g.denominator);
    d_base -= d_frequencies(i) * exponent * frequencies[static_cast<std::size_t>(i)] / spec.base;
  }
  return d_base;
}

template <class A>
SinusoidalInputs<A>::SinusoidalInputs(const Sinusoidal& spec, SinusoidalParams<A> learned)
    : spec_(spec), learned_(learned) {
  check_spec(spec);
  check_param("scale", learned.scale, 1);
  check_param("frequencies", learned.frequencies, geometry(spec.layout, spec.dim).pairs());
  auto sinusoids =
      std::make_shared<Sinusoids>("SinusoidalInputs", wide_frequencies(spec, learned.frequencies), spec.scale);
  if constexpr (std::is_same_v<A, float>) sinusoids->prepare_sequences();
  sinusoids_ = std::move(sinusoids);
}

template <class A>
void SinusoidalInputs<A>::check(const char* function, const Problem& problem) const {
  if (problem.q_positions->axes() != 1) {
    throw ShapeError(
        concat("[", function, "] positions: must have one axis for Sinusoidal, got ", problem.q_positions->axes()));
  }
  check_finite(function, "Sinusoidal.scale", learned_.scale.value);
}

template <class A>
bool SinusoidalInputs<A>::is_padding(double p) const {
  return spec_.padding_position && p == static_cast<double>(*spec_.padding_position);
}

namespace {

constexpr Index block_pairs = Sinusoids::block_pairs;

/// One row at p, exact, scaled, rounded, scaled by what is learned and put in order, or added.
template <bool added, class A>
void put_embedding(const Sinusoids& sinusoids, const Geometry& g, double scale, A learned, double p, A* to) {
  const auto put = [=](double exact, A& number) {
    const A one = static_cast<A>(exact * scale) * learned;
    number = added ? number + one : one;
  };
  alignas(64) double cos[block_pairs], sin[block_pairs];
  for (Index block = 0; block < sinusoids.blocks(); ++block) {
    sinusoids.phases(p, block, cos, sin);
    const Index first = block * block_pairs, count = sinusoids.block_size(block);
    const Index sines = std::min(count, g.sines - first), cosines = std::min(count, g.cosines - first);
    A *sine = to + g.sine + first * g.step, *cosine = to + g.cosine + first * g.step;
    for (Index i = 0; i < sines; ++i) put(sin[i], sine[i * g.step]);
    for (Index i = 0; i < cosines; ++i) put(cos[i], cosine[i * g.step]);
  }
}

}  // namespace

/// Rows first … end − 1 of a tile whose positions follow each other.
template <class A>
void SinusoidalInputs<A>::sequence(const RowTile& tile, Index first, Index end, A* p, bool added) const {
  if constexpr (std::is_same_v<A, float>) {
    if (first == end) return;
    const Geometry g = geometry(spec_.layout, spec_.dim);
    float* row = p + first * tile.y_stride;
    sinusoids_->sequence(
        static_cast<Index>(tile.at[0][first]), end - first,
        {row + g.cosine, row + g.sine, tile.y_stride, g.cosines, g.sines, g.step == 2, learned_scale(), added});
  }
}

template <class A>
void SinusoidalInputs<A>::add_inputs(const RowTile& tile, A* x) const {
  const Geometry g = geometry(spec_.layout, spec_.dim);
  const double* at = tile.at[0];
  if (std::is_same_v<A, float> && tile.consecutive) {
    Index padding = 0;
    while (padding < tile.rows && !is_padding(at[padding])) ++padding;
    sequence(tile, 0, padding, x, true);
    return sequence(tile, std::min(padding + 1, tile.rows), tile.rows, x, true);
  }
  for (Index r = 0; r < tile.rows; ++r) {
    if (is_padding(at[r])) continue;
    put_embedding<true>(*sinusoids_, g, spec_.scale, learned_scale(), at[r], x + r * tile.y_stride);
  }
}

template <class A>
void SinusoidalInputs<A>::inputs(const RowTile& tile, A* p) const {
  const Geometry g = geometry(spec_.layout, spec_.dim);
  const double* at = tile.at[0];
  const A scale = learned_scale();
  const bool run = std::is_same_v<A, float> && tile.consecutive;
  if (run) sequence(tile, 0, tile.rows, p, false);
  if (run && !spec_.padding_position && g.sines + g.cosines == spec_.dim)
    return;  // not once more through a large table
  for (Index r = 0; r < tile.rows; ++r) {
    A* row = p + r * tile.y_stride;
    if (!run) put_embedding<false>(*sinusoids_, g, spec_.scale, scale, at[r], row);
    std::fill(row + g.sines + g.cosines, row + spec_.dim, A(0) * scale);
    if (is_padding(at[r])) std::fill(row, row + spec_.dim, A(0) * scale);
  }
}

template <class A>
void SinusoidalInputs<A>::input_grads(const RowTile& tile, const A* d_p, A* d_params) const {
  const Geometry g = geometry(spec_.layout, spec_.dim);
  const bool of_scale = learned_.scale.grad.data != nullptr, of_frequencies = learned_.frequencies.grad.data != nullptr;
  const double slope = spec_.scale * static_cast<double>(learned_scale());
  double d_scale = 0;
  A* d_frequencies = d_params + (of_scale ? 1 : 0);
  alignas(64) double cos[block_pairs], sin[block_pairs], d_omega[block_pairs];
  for (Index block = 0; block < sinusoids_->blocks(); ++block) {
    const Index first = block * block_pairs, count = sinusoids_->block_size(block);
    std::fill(d_omega, d_omega + count, 0.0);
    for (Index r = 0; r < tile.rows; ++r) {
      const double at = tile.at[0][r];
      if (is_padding(at)) continue;
      sinusoids_->phases(at, block, cos, sin);
      const A* d_row = d_p + r * tile.y_stride;
      for (Index i = 0; i < count; ++i) {
        const Index pair = first + i;
        const double d_sin = pair < g.sines ? static_cast<double>(d_row[g.sine + pair * g.step]) : 0;
        const double d_cos = pair < g.cosines ? static_cast<double>(d_row[g.cosine + pair * g.step]) : 0;
        d_scale += d_sin * sin[i] + d_cos * cos[i];            // row = scale·(sin, cos)
        d_omega[i] += at * (d_sin * cos[i] - d_cos * sin[i]);  // d sin(pω) = p cos(pω) dω
      }
    }
    if (!of_frequencies) continue;
    for (Index i = 0; i < count; ++i) d_frequencies[first + i] += static_cast<A>(slope * d_omega[i]);
  }
  if (of_scale) d_params[0] += static_cast<A>(spec_.scale * d_scale);
}

template class SinusoidalInputs<float>;
template class SinusoidalInputs<double>;

template <>
struct describe::Words<SinusoidPart> {
  static constexpr const char* all[] = {"sine", "cosine", "zero"};
};

namespace {

/// (pair, part) of each column.
Value columns_of(const Sinusoidal& spec) {
  Values all;
  for (const SinusoidColumn& column : sinusoidal_columns(spec)) {
    all.emplace_back(Values{column.pair, ValueOf<SinusoidPart>::to(column.part)});
  }
  return all;
}

void describe_functions(Describer& to) {
  to.function("sinusoidal_columns", columns_of, {"spec"},
              "Lists what each column holds: its pair, and 'sine', 'cosine' or 'zero'.", "list[tuple[int, str]]");
  to.function(
      "sinusoidal_frequencies", [](const Sinusoidal& spec) { return describe::doubles(sinusoidal_frequencies(spec)); },
      {"spec"}, "Returns w of every pair in radians per token: float64 [pairs].");
  to.function(
      "sinusoidal_column_order", sinusoidal_column_order, {"from_layout", "to_layout", "dim"},
      "Returns the permutation between two layouts of the same numbers: column c of to_layout is column order[c] of\n"
      "from_layout.\n\n"
      "Raises ShapeError if the exponents differ: then there is no permutation.");
  to.function(
      "sinusoidal_base_gradient",
      [](const Sinusoidal& spec, const Tensor& d_frequencies) {
        return sinusoidal_base_gradient(
            spec, describe::view_of<double, 1>("[sinusoidal_base_gradient] d_frequencies", d_frequencies));
      },
      {"spec", "d_frequencies"}, "Returns the gradient of the base, from that of the frequencies, float64 [pairs].");
}

}  // namespace

void describe_sinusoidal(Describer& to) {
  to.home("sinusoidal", {"Vaswani et al.", 2017, "arXiv 1706.03762"});
  to.record("Sinusoidal", Sinusoidal{.layout = SinusoidalLayout::interleaved},
            "Sinusoidal encoding of the input: sines and cosines of the position times a row of frequencies.\n\n"
            "    x_p <- x_p + [sin p w_0, cos p w_0, sin p w_1, cos p w_1, ...]        w_i = base^(-2i/dim)\n\n"
            "layout has no default, as implementations differ in the order of the columns and in the exponent:\n\n"
            "    interleaved        [scsc]   2i/dim       the paper; DistilBERT, XLM, Flaubert\n"
            "    concatenated       [ss|cc]  2i/dim       Transformer-XL, Marian, Pegasus\n"
            "    tensor2tensor      [ss|cc]  i/(h-1)      fairseq, M2M100, Whisper, MLX; h is dim/2\n"
            "    cos_first          [cc|ss]  i/h          DiT, diffusers with flip_sin_to_cos\n"
            "    cos_first_shifted  [cc|ss]  i/(h-1)      diffusers with downscale_freq_shift 1\n\n"
            "Vaswani et al. 2017, arXiv 1706.03762.")
      .member("dim", &Sinusoidal::dim, "How many columns a row has.")
      .member("base", &Sinusoidal::base, "The longest wavelength is 2 pi times this, or a little less.")
      .member("layout", &Sinusoidal::layout, "The order of the columns, and the exponent.")
      .member("frequency_scale", &Sinusoidal::frequency_scale, "Multiplies every w.")
      .member("scale", &Sinusoidal::scale, "Multiplies every sine and cosine.")
      .member("padding_position", &Sinusoidal::padding_position, "The position whose row is 0.");
  const Rule scale{"at dim^-1/2, as in x-transformers", [](const Filling& all) {
                     constant(1 / std::sqrt(static_cast<double>(all.spec.as<Sinusoidal>()->dim))).fill(all);
                   }};
  const Rule frequencies{"at the spec's", [](const Filling& all) {
                           const std::vector<double> w = sinusoidal_frequencies(*all.spec.as<Sinusoidal>());
                           std::copy(w.begin(), w.end(), all.numbers.begin());
                         }};
  const auto pairs = [](const Record& spec, const Sizes&) {
    return static_cast<Index>(sinusoidal_frequencies(*spec.as<Sinusoidal>()).size());
  };
  const auto of_layout = [](SinusoidalLayout layout) {
    return [layout](const ExampleSize& size) { return Sinusoidal{.dim = size.dim, .layout = layout}; };
  };
  to.encoding<Sinusoidal, 1, 1>(
        "SinusoidalInputs",
        "The sinusoids of a spec: those of the real numbers p and w, rounded. Positions may be real numbers.\n\n"
        "    x_p <- x_p + scale [sin p w_0, cos p w_0, ...]\n\n"
        "Two parameters may be learned: scale [1], which multiplies beside the spec's, and frequencies [pairs], which\n"
        "replace the spec's.\n\n"
        "Vaswani et al. 2017, arXiv 1706.03762.",
        {Parameter("scale", {{"1", [](const Record&, const Sizes&) { return Index{1}; }}},
                   "Multiplies every sine and cosine, beside the spec's scale.")
             .starts(scale)
             .may_be_learned(),
         Parameter("frequencies", {{"pairs", pairs}}, "Radians per token, in place of the spec's.")
             .starts(frequencies)
             .may_be_learned()},
        []<class A>(const Sinusoidal& spec, const Param<A, 1>& learned_scale, const Param<A, 1>& learned_frequencies) {
          return SinusoidalInputs<A>(spec, {learned_scale, learned_frequencies});
        })
      .called("sinusoidal", "sinusoidal", "sines and cosines of the position", of_layout(SinusoidalLayout::interleaved))
      .also({"sincos", "sinusoidal_interleaved"})
      .called("sinusoidal_tensor2tensor", "sinusoidal, tensor2tensor's",
              "sines, then cosines, at slightly other frequencies", of_layout(SinusoidalLayout::tensor2tensor));
  describe_functions(to);
}

}  // namespace bearing
