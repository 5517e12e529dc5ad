#include <bearing/error.hpp>
#include <utility>

#include "describe/example.hpp"
#include "inspect/probes.hpp"
#include "text.hpp"

namespace bearing::inspect {
const std::vector<Description>& catalog() { return registry().descriptions(); }

const Description* find(std::string_view name) { return registry().find(name); }

void check_sizes(const char* function, const SpecimenOptions& options) {
  for (const auto& [name, value] :
       {std::pair{"heads", options.heads}, {"dim", options.dim}, {"length", options.length}}) {
    if (value < 1 || value > (Index{1} << 20)) {
      throw RangeError(text::concat("[", function, "] ", name, ": must be from 1 to 1048576, got ", value));
    }
  }
}

Specimen make(const Description& entry, const SpecimenOptions& options, const Record& spec) {
  check_sizes("make", options);
  Specimen specimen = entry.specimen ? entry.specimen(options, spec) : example_of(entry, options, spec);
  if (specimen.is_image()) specimen.options.length = specimen.grid.height * specimen.grid.width;
  return specimen;
}

std::string length_note(Index asked, Index taken) {
  if (asked == 0 || asked == taken) return "";
  return text::concat(taken, taken == 1 ? " token is" : " tokens are", " taken, not ", asked,
                      ": patches fill a grid, which the encoding states, or else a square");
}

}  // namespace bearing::inspect
