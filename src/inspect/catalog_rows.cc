#include <algorithm>
#include <bearing/encodings/fope.hpp>
#include <bearing/encodings/lie_rope.hpp>
#include <bearing/encodings/pope.hpp>
#include <bearing/encodings/position_temperature.hpp>
#include <bearing/encodings/rope_mixed.hpp>
#include <bearing/encodings/string_rope.hpp>

#include "inspect/make.hpp"

// Encodings of queries and keys beside RoPE itself. What is learned is drawn around what the authors start from.

namespace bearing::inspect {
namespace {

template <class E>
Specimen grid_rows(const SpecimenOptions& options, const Numbers& numbers, E encoding) {
  Specimen specimen{.options = options, .width = square_side(options.length)};
  act(specimen, numbers, std::move(encoding));
  return specimen;
}

/// RoPE-Mixed's start: [2, heads, dim/2].
Param<double, 3> mixed_frequencies(const SpecimenOptions& options, const Numbers& numbers, const RopeMixed& mixed) {
  const std::vector<double> start = rope_mixed_frequencies(mixed, options.heads, options.seed);
  const View<double, 3> learned = numbers->learned<3>({2, options.heads, options.dim / 2});
  std::copy(start.begin(), start.end(), learned.data);
  return {learned};
}

Specimen make_cayley_string(const SpecimenOptions& options) {
  const auto numbers = std::make_shared<Parameters>(options.seed);
  const RopeMixed mixed{.head_dim = options.dim, .pairing = Pairing::interleaved};
  const Param<double, 3> frequencies = mixed_frequencies(options, numbers, mixed);
  const Param<double, 2> skew = numbers->normal<2>({options.heads, options.dim * (options.dim - 1) / 2}, 0.1);
  return grid_rows(options, numbers, CayleyStringRows<double>({mixed}, frequencies, skew));
}

Specimen make_circulant_string(const SpecimenOptions& options) {
  const auto numbers = std::make_shared<Parameters>(options.seed);
  const Param<double, 3> c = numbers->normal<3>({2, options.heads, options.dim}, 0.02);
  return grid_rows(options, numbers, CirculantStringRows<double>({.head_dim = options.dim}, c));
}

/// Blocks of 4, not the authors' 8, where the head allows it: a matrix exponential per token takes its time.
Specimen make_lie_rope(const SpecimenOptions& options) {
  const auto numbers = std::make_shared<Parameters>(options.seed);
  const Index block = options.dim % 4 == 0 ? 4 : options.dim;
  const Param<double, 4> generators =
      numbers->normal<4>({options.heads, 2, options.dim / block, block * (block - 1) / 2}, 0.1);
  return grid_rows(options, numbers, LieRopeRows<double>({.head_dim = options.dim, .block = block}, generators));
}

Specimen make_fope(const SpecimenOptions& options) {
  const auto numbers = std::make_shared<Parameters>(options.seed);
  const Index length = std::max<Index>(7, options.length);  // the fastest pair's turn takes 2π tokens
  const Fope fope{.head_dim = options.dim, .trained_length = length, .pairing = Pairing::half};
  const auto kept = static_cast<Index>(fope_frequencies(fope).size());
  const auto around_identity = [&] {  // RoPE's own frequencies, and a little of the others
    Normal normal(options.seed);
    const View<double, 3> all = numbers->learned<3>({options.heads, kept, kept});
    for (Index h = 0; h < options.heads; ++h) {
      for (Index i = 0; i < kept; ++i) {
        for (Index j = 0; j < kept; ++j) all(h, i, j) = (i == j ? 1 : 0) + 0.02 * normal();
      }
    }
    return Param<double, 3>{all};
  };
  const Param<double, 3> cos = around_identity();
  Specimen specimen{.options = options};
  act(specimen, numbers, FopeRows<double>(fope, cos, around_identity()));
  return specimen;
}

Specimen make_pope(const SpecimenOptions& options) {
  const auto numbers = std::make_shared<Parameters>(options.seed);
  const Param<double, 2> offsets = numbers->normal<2>({options.heads, options.dim}, 1);
  numbers->map(offsets, [](double x) { return -std::abs(x); });  // within [−6, 0], in radians
  Specimen specimen{.options = options};
  act(specimen, numbers, PopeRows<double>({.head_dim = options.dim}, offsets));
  return specimen;
}

Specimen make_temperature(const SpecimenOptions& options) {
  Specimen specimen{.options = options, .causal = true};
  const double step = std::max(1.0, static_cast<double>(options.length) / 4);
  act(specimen, std::make_shared<Parameters>(options.seed),
      TemperatureRows<double>(PositionTemperature::ministral3(step)));
  return specimen;
}

}  // namespace

void list_rows(std::vector<Description>& all) {
  constexpr const char* schenck = "Schenck et al.";
  all.insert(all.end(), {entry("lie_rope", "LieRE", "Ostmeier et al.", 2024, "arXiv 2406.10322",
                               "turns by the exponential of learned generators", make_lie_rope),
                         entry("cayley_string", "Cayley-STRING", schenck, 2025, "arXiv 2502.02562",
                               "RoPE-Mixed in a learned basis", make_cayley_string),
                         entry("circulant_string", "Circulant-STRING", schenck, 2025, "arXiv 2502.02562",
                               "turns by commuting, circulant generators", make_circulant_string),
                         entry("fope", "FoPE", "Hua et al.", 2024, "arXiv 2412.17739",
                               "RoPE with a Fourier series per pair", make_fope),
                         entry("pope", "PoPE", "Gopalakrishnan et al.", 2025, "arXiv 2509.10534",
                               "content gives lengths, position gives angles", make_pope),
                         entry("position_temperature", "position temperature", "Nakanishi", 2025, "arXiv 2501.19399",
                               "queries grow with the logarithm of position", make_temperature)});
}

}  // namespace bearing::inspect
