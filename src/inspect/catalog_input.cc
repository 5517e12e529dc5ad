#include <bearing/encodings/cape.hpp>
#include <bearing/encodings/index_encoding.hpp>
#include <bearing/encodings/learned.hpp>
#include <bearing/encodings/sinusoidal.hpp>
#include <bearing/encodings/sinusoidal_2d.hpp>
#include <optional>

#include "inspect/make.hpp"

// Encodings that are added to the input.

namespace bearing::inspect {
namespace {

template <class E>
Specimen fixed(const SpecimenOptions& options, E encoding) {
  Specimen specimen{.options = options};
  act(specimen, std::make_shared<Parameters>(options.seed), std::move(encoding));
  return specimen;
}

template <SinusoidalLayout layout>
Specimen make_sinusoidal(const SpecimenOptions& options) {
  return fixed(options, SinusoidalInputs<double>(Sinusoidal{.dim = options.dim, .layout = layout}));
}

Specimen make_sinusoidal_2d(const SpecimenOptions& options) {
  Specimen specimen = fixed(options, Sinusoidal2dInputs<double>(Sinusoidal2d::detr(options.dim)));
  specimen.width = square_side(options.length);
  return specimen;
}

Specimen make_learned(const SpecimenOptions& options) {
  Specimen specimen{.options = options};
  const auto numbers = std::make_shared<Parameters>(options.seed);
  const Param<double, 2> table = numbers->normal<2>({options.length, options.dim}, 0.02);  // BERT's and GPT-2's start
  act(specimen, numbers, LearnedInputs<double>({.length = options.length, .dim = options.dim}, table));
  return specimen;
}

/// As evaluation has it: nothing is moved, and positions count from the first token.
Specimen make_cape(const SpecimenOptions& options) {
  return fixed(options, CapeInputs<double>(Cape{.dim = options.dim, .centre = CapeCentre::none}));
}

/// Patches at (y, x) of a grid, from −1 to 1 within the length.
Specimen make_cape_2d(const SpecimenOptions& options) {
  Specimen specimen{.options = options, .width = square_side(options.length)};
  const auto encoding = std::make_shared<const Cape2dInputs<double>>(Cape2d{.dim = options.dim});
  const double half = std::max(0.5, static_cast<double>(specimen.width - 1) / 2);
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

template <IndexForm form>
Specimen make_index(const SpecimenOptions& options) {
  const Index length = form == IndexForm::normalised ? std::max<Index>(2, options.length) : 0;
  return fixed(options, IndexInputs<double>({.dim = options.dim, .form = form, .length = length}));
}

}  // namespace

void list_inputs(std::vector<Description>& all) {
  constexpr const char* vaswani = "Vaswani et al.";
  constexpr const char* cape = "Likhomanenko et al.";
  using enum SinusoidalLayout;
  all.insert(
      all.end(),
      {entry("learned", "learned positions", "Gehring et al.", 2017, "arXiv 1705.03122",
             "a learned row for each position", make_learned),
       entry("sinusoidal", "sinusoidal", vaswani, 2017, "arXiv 1706.03762", "sines and cosines of the position",
             make_sinusoidal<interleaved>),
       entry("sinusoidal_tensor2tensor", "sinusoidal, tensor2tensor's", vaswani, 2017, "arXiv 1706.03762",
             "sines, then cosines, at slightly other frequencies", make_sinusoidal<tensor2tensor>),
       entry("sinusoidal_2d", "sinusoidal on two axes", "Carion et al.", 2020, "arXiv 2005.12872",
             "half of the columns for each coordinate", make_sinusoidal_2d),
       entry("cape", "CAPE", cape, 2021, "arXiv 2106.03143", "sinusoids of positions that training moves", make_cape),
       entry("cape_2d", "CAPE on two axes", cape, 2021, "arXiv 2106.03143", "waves in many directions of an image",
             make_cape_2d),
       entry("index", "index", "-", 0, "-", "the position itself, in every column", make_index<IndexForm::index>),
       entry("index_normalised", "normalised index", "-", 0, "-", "the position over the length",
             make_index<IndexForm::normalised>),
       entry("index_binary", "binary index", "-", 0, "-", "the position's bits", make_index<IndexForm::binary>)});
}

}  // namespace bearing::inspect
