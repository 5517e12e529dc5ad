#include "load_matrix.hpp"

#include <bearing/error.hpp>
#include <cmath>

#include "json_file.hpp"
#include "load_tables.hpp"

namespace bearing::load {

Matrix MatrixReader::read(const std::string& name, Index rows, Index columns) const {
  const std::vector<Match> found = matches(names_, name);
  if (found.size() != 1) {
    throw ConfigError(weights_.path() + ": must have one tensor " + json::quoted(name) + ", got " +
                      (found.empty() ? "none" : json::quoted(found[0].name) + " and " + json::quoted(found[1].name)));
  }
  const StoredTensor& tensor = weights_.at(found[0].name);
  const bool column = tensor.shape.size() == 1;
  const bool fits = (column || tensor.shape.size() == 2) && (rows == 0 || tensor.shape[0] == rows) &&
                    (columns == 0 || (column ? 1 : tensor.shape[1]) == columns);
  if (!fits) {
    tensor.fail("must have the shape [" + (rows > 0 ? std::to_string(rows) : "any") + ", " +
                (columns > 0 ? std::to_string(columns) : "any") + "] that config.json says");
  }
  Matrix out{tensor.numbers<double>(), tensor.shape[0], column ? 1 : tensor.shape[1], tensor.name};
  for (const double x : out.numbers) {
    if (!std::isfinite(x)) tensor.fail("must hold finite numbers, got " + std::to_string(x));
  }
  return out;
}

}  // namespace bearing::load
