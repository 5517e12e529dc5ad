#include <algorithm>
#include <bearing/error.hpp>
#include <bearing/properties.hpp>
#include <cmath>
#include <limits>

#include "inspect/probes.hpp"
#include "inspect/tasks.hpp"
#include "text.hpp"

namespace bearing::inspect {

using text::concat;

namespace {

/// Squares of powers of two, so that an image's grid is whole.
constexpr std::array<Index, 3> lengths = {64, 256, 1024};

Property count_property(const char* name, Index here, const std::array<Index, 3>& at, const Specimen& of) {
  const Verdict verdict = here > 0 ? Verdict::yes : Verdict::no;
  const auto number = static_cast<double>(here);
  if (here == 0 && at[2] == 0) return {name, verdict, "none", number};
  const std::string own = concat(here, " numbers of its own, as trained, none drawn: ");
  if (of.own_tokens > 0) {
    return {name, verdict, concat(own, "they end at ", of.own_tokens, of.own_tokens == 1 ? " token" : " tokens"),
            number};
  }
  const std::string order = growth(at[0], at[1], at[2]);
  if (of.own_numbers && order == "O(1)") return {name, verdict, own + "as many at any length", number};
  const std::string grows = order == "grows" ? order : concat("grows as ", order);
  return {name, verdict,
          concat(here, " numbers; ", at[0], ", ", at[1], ", ", at[2],
                 " at lengths 64, 256, 1024: ", order == "O(1)" ? "the length does not matter" : grows),
          number};
}

/// A few arrays of this many numbers are alive at once.
constexpr double most_numbers = 0x1p24;

/// Of what may be of any size, as in an example.
constexpr Index usual_extent = 16;

/// The numbers that an encoding has because of its spec, whatever the size: those of one head and one token.
double numbers_of(const EncodingInfo& info, const Record& spec, Index dim) {
  const Sizes one{
      .batch = 1, .heads = 1, .kv_heads = 1, .q_len = 1, .k_len = 1, .dim = dim, .value_dim = dim, .length = 1};
  double all = info.tables && spec ? static_cast<double>(info.tables(spec)) : 0;
  for (const ParameterInfo& parameter : info.parameters) {
    double numbers = 1;
    for (const Extent& extent : parameter.extents) {
      Index size = extent.or_one ? 1 : extent.size(spec, one);
      const bool sized = extent.name == "sets" || extent.name == "time";  // heads and tokens
      if (size == Extent::any) size = sized ? 1 : extent.usual ? extent.usual(spec, one) : usual_extent;
      numbers *= static_cast<double>(size);
    }
    all += numbers;
  }
  return all;
}

void check_size(const char* function, const Description& entry, const SpecimenOptions& o) {
  check_sizes(function, o);
  const EncodingInfo* info = entry.encoding;
  // Tables of the input are only read; make() bounds them.
  if (info != nullptr && !info->inputs && !info->specs.empty() && entry.spec) {
    const double own = numbers_of(*info, entry.spec(o), o.dim);
    if (own > most_numbers) {
      throw RangeError(concat("[", function, "] ", entry.name, ": its tables must be of at most 2^24 numbers, got ",
                              static_cast<Index>(std::min(own, 0x1p62))));
    }
  }
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

Examples::Examples(const Description& entry, const SpecimenOptions& options, const Executor& on)
    : probe(entry, options) {
  if (probe.specimen.own_tokens > 0) return;  // there are none for another length
  constexpr Index seeds = 3;
  const bool drawn = probe.specimen.parameters > 0 && !probe.specimen.own_numbers;
  other_seeds.resize(drawn ? seeds - 1 : 0);
  const Index others = static_cast<Index>(other_seeds.size()), sizes = static_cast<Index>(lengths.size());
  each(on, sizes + others, [&](Index task) {
    SpecimenOptions changed = options;
    if (task < sizes) {  // the largest first, as others can then run beside it
      const auto i = static_cast<std::size_t>(sizes - 1 - task);
      changed.length = lengths[i];
      const Specimen specimen = make(entry, changed);
      counts.parameters[i] = specimen.parameters, counts.held[i] = specimen.held;
    } else {
      const Index other = task - sizes;
      changed.seed += static_cast<std::uint64_t>(other + 1);
      other_seeds[static_cast<std::size_t>(other)] = make(entry, changed);
    }
  });
}

Property check_parameters(const Examples& examples) {
  const Specimen& one = examples.probe.specimen;
  return count_property("parameters", one.parameters, examples.counts.parameters, one);
}

Property check_memory(const Examples& examples) {
  const Specimen& one = examples.probe.specimen;
  return count_property("memory", one.held, examples.counts.held, one);
}

std::vector<Property> check(const Description& entry, const SpecimenOptions& options, const Executor& on,
                            const std::function<void(const char* step)>& begins) {
  check_size("check", entry, options);
  const auto begin = [&](const char* step) {
    if (begins) begins(step);
  };
  begin("examples");
  const Examples examples(entry, options, on);
  const Probe& probe = examples.probe;
  std::vector<Property> all;
  const auto measure = [&](const char* name, auto&& property) {
    begin(name);
    all.push_back(property());
  };
  measure("unique", [&] { return check_unique(probe, on); });
  measure("relative", [&] { return check_relative(probe); });
  measure("decay", [&] { return check_decay(examples, on); });
  measure("extensible", [&] { return check_extensible(probe, on); });
  measure("deterministic", [&] { return check_deterministic(entry, probe); });
  measure("bounded", [&] { return check_bounded(probe, on); });
  measure("norm", [&] { return check_norm(probe, on); });
  measure("symmetric", [&] { return check_symmetric(probe); });
  measure("shift map", [&] { return check_shift_map(probe); });
  measure("parameters", [&] { return check_parameters(examples); });
  measure("memory", [&] { return check_memory(examples); });
  return all;
}

Comparison compare(const Description& entry, const SpecimenOptions& options, const Executor& on) {
  check_size("compare", entry, options);
  const Examples examples(entry, options, on);
  const Probe& probe = examples.probe;
  const Property extensible = check_extensible(probe, on);
  const std::array<Index, 3>& held = examples.counts.held;
  const Index ends = probe.specimen.own_tokens;
  return {.name = entry.name,
          .sites = sites(probe.specimen),
          .learnable = probe.specimen.parameters > 0,
          .extensible = extensible.verdict,
          .relative = check_relative(probe).verdict,
          .decay = check_decay(examples, on).verdict,
          .past_length = extensible.evidence.substr(0, extensible.evidence.find(':')),
          .memory = ends > 0       ? concat("ends at ", ends)
                    : held[2] == 0 ? "none"
                                   : growth(held[0], held[1], held[2]),
          .parameters = probe.specimen.parameters,
          .length = probe.options().length,
          .own_numbers = probe.specimen.own_numbers};
}

}  // namespace bearing::inspect
