#include "load_lilt.hpp"

#include <bearing/error.hpp>

#include "load_matrix.hpp"

namespace bearing::load {
namespace {

constexpr int edges = 6;
constexpr const char* names_of_edges[edges] = {"x", "y", "x", "y", "h", "w"};

}  // namespace

LiltTable lilt_table(Weights& weights, const std::vector<std::string>& names, int place) {
  const MatrixReader reader(weights, names);
  const bool index = place > edges;
  const std::string name = index ? "box" : names_of_edges[place - 1];
  const Matrix table = reader.read("layout_embeddings." + name + "_position_embeddings.weight", 0, 0);
  LiltTable out{.tensor = table.tensor, .shape = {table.rows, table.columns}, .numbers = {}};
  if (index) {
    const Matrix bias = reader.read("layout_embeddings.box_linear_embeddings.bias", table.columns, 1);
    for (std::size_t i = 0; i < table.numbers.size(); ++i) {
      out.numbers.push_back(static_cast<float>(table.numbers[i] + bias.numbers[i % bias.numbers.size()]));
    }
    return out;
  }
  const Matrix weight = reader.read("layout_embeddings.box_linear_embeddings.weight", 0, edges * table.columns);
  out.shape[1] = weight.rows;
  for (Index i = 0; i < table.rows; ++i) {
    for (Index feature = 0; feature < weight.rows; ++feature) {
      const double* w = weight.row(feature) + (place - 1) * table.columns;
      double sum = 0;
      for (Index c = 0; c < table.columns; ++c) sum += w[c] * table.row(i)[c];
      out.numbers.push_back(static_cast<float>(sum));
    }
  }
  return out;
}

}  // namespace bearing::load
