#include <algorithm>
#include <bearing/error.hpp>

#include "inspect/example.hpp"
#include "inspect/make.hpp"
#include "text.hpp"

namespace bearing::inspect {
namespace {

Specimen make_nope(const SpecimenOptions& options) { return {.options = options}; }

std::vector<Description> all_entries() {
  std::vector<Description> all = registry().descriptions();
  list_rows(all);
  list_terms(all);
  all.push_back(entry("nope", "NoPE: no encoding", "Haviv et al.", 2022, "arXiv 2203.16634",
                      "nothing: the causal mask alone tells order", make_nope));
  return all;
}

}  // namespace

const std::vector<Description>& catalog() {
  static const std::vector<Description> all = all_entries();
  return all;
}

const Description* find(std::string_view name) {
  const auto found =
      std::find_if(catalog().begin(), catalog().end(), [&](const Description& one) { return one.is(name); });
  return found == catalog().end() ? nullptr : &*found;
}

Specimen make(const Description& entry, const SpecimenOptions& options, const Record& spec) {
  for (const auto& [name, value] :
       {std::pair{"heads", options.heads}, {"dim", options.dim}, {"length", options.length}}) {
    if (value < 1 || value > (Index{1} << 20)) {
      throw RangeError(text::concat("[make] ", name, ": must be from 1 to 1048576, got ", value));
    }
  }
  Specimen specimen = entry.specimen ? entry.specimen(options, spec) : example_of(entry, options, spec);
  if (specimen.width > 0) specimen.options.length = specimen.width * specimen.width;  // whole rows of the grid
  return specimen;
}

}  // namespace bearing::inspect
