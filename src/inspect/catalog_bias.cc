#include <bearing/encodings/alibi.hpp>

#include "inspect/make.hpp"

// Biases: scores that depend on positions, not on queries and keys.

namespace bearing::inspect {
namespace {

Specimen make_alibi(const SpecimenOptions& options) {
  Specimen specimen{.options = options};
  act(specimen, std::make_shared<Parameters>(options.seed), AlibiBias<double>(Alibi::published(options.heads)));
  specimen.held += options.heads;
  return specimen;
}

Specimen make_alibi_learned(const SpecimenOptions& options) {
  Specimen specimen{.options = options};
  const auto numbers = std::make_shared<Parameters>(options.seed);
  const Param<double, 1> slopes = numbers->normal<1>({options.heads}, 1);
  numbers->map(slopes, [](double x) { return std::exp2(x - 4); });
  act(specimen, numbers, AlibiBias<double>(slopes));
  return specimen;
}

}  // namespace

void list_biases(std::vector<Entry>& all) {
  constexpr const char* press = "Press, Smith, Lewis";
  all.insert(all.end(), {{"alibi", "ALiBi", press, 2022, "arXiv 2108.12409", "a score loses in proportion to distance",
                          make_alibi},
                         {"alibi_learned", "ALiBi with learned slopes", press, 2022, "arXiv 2108.12409",
                          "ALiBi at rates that are learned", make_alibi_learned}});
}

}  // namespace bearing::inspect
