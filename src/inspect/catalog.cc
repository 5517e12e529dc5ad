#include <algorithm>
#include <bearing/error.hpp>

#include "inspect/make.hpp"
#include "text.hpp"

namespace bearing::inspect {
namespace {

Specimen make_nope(const SpecimenOptions& options) { return {.options = options}; }

std::vector<Entry> all_entries() {
  std::vector<Entry> all;
  list_inputs(all);
  list_rope(all);
  list_rows(all);
  list_biases(all);
  list_terms(all);
  all.push_back({"nope", "NoPE: no encoding", "Haviv et al.", 2022, "arXiv 2203.16634",
                 "nothing: the causal mask alone tells order", make_nope});
  return all;
}

}  // namespace

const std::vector<Entry>& catalog() {
  static const std::vector<Entry> all = all_entries();
  return all;
}

const Entry* find(const std::string& stem) {
  const auto found =
      std::find_if(catalog().begin(), catalog().end(), [&](const Entry& entry) { return entry.stem == stem; });
  return found == catalog().end() ? nullptr : &*found;
}

Specimen make(const Entry& entry, const SpecimenOptions& options) {
  for (const auto& [name, value] :
       {std::pair{"heads", options.heads}, {"dim", options.dim}, {"length", options.length}}) {
    if (value < 1 || value > (Index{1} << 20)) {
      throw RangeError(text::concat("[make] ", name, ": must be from 1 to 1048576, got ", value));
    }
  }
  Specimen specimen = entry.make_unchecked(options);
  if (specimen.width > 0) specimen.options.length = specimen.width * specimen.width;  // whole rows of the grid
  return specimen;
}

}  // namespace bearing::inspect
