#include "plot_json.hpp"

#include "figure_json.hpp"
#include "json_writer.hpp"

namespace bearing::tool {

std::string figure_as_json(const inspect::Figure& figure) {
  JsonWriter json;
  write_figure_json(json, figure);
  return json.text();
}

}  // namespace bearing::tool
