#include <bearing/figures.hpp>

// The pictures that the founding documents show or describe: 000 the slides, 001 the blog on sinusoids, 002 the blog on
// RoPE.

namespace bearing::inspect {

const std::vector<DocumentFigure>& document_figures() {
  static const std::vector<DocumentFigure> all{
      {"000", "curves", "values across dimensions", "curves", {"sinusoidal"}, {.dim = 64, .length = 64}},
  };
  return all;
}

}  // namespace bearing::inspect
