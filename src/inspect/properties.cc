#include <bearing/error.hpp>
#include <bearing/properties.hpp>
#include <cmath>
#include <limits>

#include "inspect/probes.hpp"
#include "text.hpp"

namespace bearing::inspect {

using text::concat;

namespace {

/// Squares of powers of two, so that an image's grid is whole.
constexpr std::array<Index, 3> lengths = {64, 256, 1024};

std::array<Index, 3> counts(const Description& entry, SpecimenOptions options, Index Specimen::*count) {
  std::array<Index, 3> all{};
  for (std::size_t i = 0; i < 3; ++i) {
    options.length = lengths[i];
    all[i] = make(entry, options).*count;
  }
  return all;
}

Property count_property(const char* name, const Description& entry, const SpecimenOptions& options,
                        Index Specimen::*count) {
  const Index here = make(entry, options).*count;
  const std::array<Index, 3> at = counts(entry, options, count);
  const std::string order = growth(at[0], at[1], at[2]);
  const std::string grows = order == "grows" ? order : concat("grows as ", order);
  return {name, here > 0 ? Verdict::yes : Verdict::no,
          here == 0 && at[2] == 0
              ? "none"
              : concat(here, " numbers; ", at[0], ", ", at[1], ", ", at[2],
                       " at lengths 64, 256, 1024: ", order == "O(1)" ? "the length does not matter" : grows),
          static_cast<double>(here)};
}

/// Some ten arrays of this many numbers are alive at once.
constexpr double most_numbers = 0x1p24;

void check_size(const char* function, const SpecimenOptions& o) {
  const double numbers = static_cast<double>(o.heads) * static_cast<double>(o.dim) * static_cast<double>(o.length);
  if (!(numbers > most_numbers)) return;
  throw RangeError(concat("[", function, "] heads, dim, length: their product must be at most 2^24, got ", o.heads,
                          ", ", o.dim, ", ", o.length));
}

}  // namespace

const char* name(Verdict verdict) {
  switch (verdict) {
    case Verdict::yes:
      return "yes";
    case Verdict::no:
      return "no";
    case Verdict::partly:
      return "partly";
    case Verdict::learned:
      return "learned";
    default:
      return "n/a";
  }
}

std::string growth(Index at_length, Index at_fourfold, Index at_sixteenfold) {
  const auto first = static_cast<double>(at_fourfold - at_length);
  const auto second = static_cast<double>(at_sixteenfold - at_fourfold);
  if (first == 0 && second == 0) return "O(1)";
  const double ratio = second / first;
  const auto near = [ratio](double wanted) { return std::abs(ratio - wanted) < 0.05 * wanted; };
  return near(1) ? "O(log L)" : near(2) ? "O(sqrt L)" : near(4) ? "O(L)" : near(16) ? "O(L^2)" : "grows";
}

Property check_parameters(const Description& entry, const SpecimenOptions& options) {
  return count_property("parameters", entry, options, &Specimen::parameters);
}

Property check_memory(const Description& entry, const SpecimenOptions& options) {
  return count_property("memory", entry, options, &Specimen::held);
}

std::vector<Property> check(const Description& entry, const SpecimenOptions& options) {
  check_size("check", options);
  const Probe probe(entry, options);
  return {check_unique(probe),
          check_relative(probe),
          check_decay(entry, options),
          check_extensible(probe),
          check_deterministic(entry, probe),
          check_bounded(probe),
          check_norm(probe),
          check_symmetric(probe),
          check_shift_map(probe),
          check_parameters(entry, options),
          check_memory(entry, options)};
}

Comparison compare(const Description& entry, const SpecimenOptions& options) {
  check_size("compare", options);
  const Probe probe(entry, options);
  const Property extensible = check_extensible(probe);
  const std::array<Index, 3> held = counts(entry, options, &Specimen::held);
  return {.stem = entry.name,
          .sites = sites(probe.specimen),
          .learnable = probe.specimen.parameters > 0,
          .extensible = extensible.verdict,
          .relative = check_relative(probe).verdict,
          .decay = check_decay(entry, options).verdict,
          .past_length = extensible.evidence.substr(0, extensible.evidence.find(':')),
          .memory = held[2] == 0 ? "none" : growth(held[0], held[1], held[2]),
          .parameters = probe.specimen.parameters};
}

}  // namespace bearing::inspect
