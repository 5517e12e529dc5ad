#include "load_sinusoids.hpp"

#include <algorithm>
#include <bearing/encodings/sinusoidal_2d.hpp>
#include <bearing/rows.hpp>
#include <cmath>

#include "json_file.hpp"
#include "load_tables.hpp"

namespace bearing::load {

void check_sinusoids(Model& model, Weights& weights) {
  if (model.model_type != "vit_mae" || model.inputs.empty()) return;
  const Sinusoidal2d* spec = std::get_if<Sinusoidal2d>(&model.inputs.front().encoding);
  const std::vector<Match> stored = matches(weights.names(), "embeddings.position_embeddings");
  if (spec == nullptr || stored.empty()) return;
  const StoredTensor& tensor = weights.at(stored.front().name);
  const auto warn = [&](const std::string& what) {
    model.warnings.push_back({"", "the weights' " + tensor.name + " " + what});
  };
  // [1, class token and patches, dim]; the patches of a square image.
  const std::vector<Index>& shape = tensor.shape;
  const Index patches = shape.size() == 3 ? shape[1] - 1 : 0;
  const auto side = static_cast<Index>(std::llround(std::sqrt(static_cast<double>(std::max(patches, Index{0})))));
  if (shape.size() != 3 || shape[0] != 1 || shape[2] != spec->dim || side < 1 || side * side != patches) {
    return warn("is not the table of a class token and a square of patches, of " + std::to_string(spec->dim) +
                " columns, which the config's sinusoids make");
  }
  std::vector<float> rows(static_cast<std::size_t>(patches * spec->dim));
  const std::vector<double> at = grid_positions({.height = side, .width = side});
  fill<float>(Sinusoidal2dInputs<float>(*spec), dense(at.data(), 2, 1, patches),
              dense(rows.data(), patches, spec->dim));
  // Angles in float32 are off by as much as a place of the grid, rounded; 16 bits round the number.
  const double rounding = tensor.type.bits >= 32 ? 0x1p-20 * static_cast<double>(side) : 0x1p-7;
  const std::vector<float> numbers = tensor.numbers<float>();
  const auto skipped = static_cast<std::size_t>(spec->dim);  // the class token's row
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const float got = numbers[skipped + i];
    if (std::abs(double{got} - double{rows[i]}) <= rounding) continue;
    const std::size_t patch = i / skipped;
    return warn("has " + json::shortest(got) + " in row " + std::to_string(patch + 1) + ", column " +
                std::to_string(i % skipped) + ", where the config's sinusoids are " + json::shortest(rows[i]) +
                ": the sinusoids are given, not the weights' table");
  }
}

}  // namespace bearing::load
