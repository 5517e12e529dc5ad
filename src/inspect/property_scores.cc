#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "inspect/probes.hpp"
#include "text.hpp"

// Properties of what attention sees: relative, decay, symmetric, deterministic.

namespace bearing::inspect {

using text::concat;

namespace {

/// Logits and the value site's output of the same tokens, at positions moved by `shift`.
struct ScoresSeen {
  Array logits, values;
};

/// How far tokens can be moved along each axis.
Index room(const Specimen& s) { return s.is_image() ? std::min(s.grid.height, s.grid.width) : s.options.length; }

/// An image's tokens keep to half of its shorter side, so that they can be moved within it.
Tokens movable(const Probe& probe, Index count, Index shift) {
  const Specimen& s = probe.specimen;
  return s.in_rows(s.is_image() ? std::max<Index>(1, room(s) / 2) : 0, count, 0, shift);
}

/// Of queries and keys.
struct Rows {
  Array q, k;
};

ScoresSeen see(const Probe& probe, const Rows& x, Index shift) {
  const Specimen& specimen = probe.specimen;
  const Index count = x.q.shape[1];
  const Tokens at = movable(probe, count, shift);
  ScoresSeen seen{specimen.logits(at, at, x.q, x.k), {}};
  if (specimen.value_terms || specimen.turn_values) {
    Array p(probe.options().heads, count, count);
    for (double& weight : p.values) weight = 1 / static_cast<double>(count);
    seen.values = specimen.value_terms ? specimen.values(at, at, p) : specimen.turned_values(at, at, p, x.k);
  }
  return seen;
}

/// Whether logits change when queries move and keys do not, or keys and not queries.
bool looks_at_positions(const Probe& probe, const Rows& x, const Array& logits) {
  const Specimen& s = probe.specimen;
  const Index count = x.q.shape[1];
  const Tokens at = movable(probe, count, 0);
  for (const Index shift : {Index{1}, room(s) / 2}) {
    const Tokens moved = movable(probe, count, shift);
    if (change(logits, s.logits(moved, at, x.q, x.k), s.causal).most > 0) return true;
    if (change(logits, s.logits(at, moved, x.q, x.k), s.causal).most > 0) return true;
  }
  return false;
}

void execute_backwards(void*, Index tasks, void (*task)(void*, Index), void* data) {
  for (Index i = tasks; i-- > 0;) task(data, i);
}

bool same_bits(const Array& x, const Array& y) {
  return x.values.size() == y.values.size() &&
         std::memcmp(x.values.data(), y.values.data(), x.values.size() * sizeof(double)) == 0;
}

}  // namespace

Property check_relative(const Probe& probe) {
  const Specimen& specimen = probe.specimen;
  const Index reach = room(specimen);
  const Index count = specimen.is_image() ? std::min<Index>(24, reach * reach / 4) : std::min<Index>(24, reach / 2);
  if (count < 1) return {"relative", Verdict::not_applicable, "too short a length to move tokens in", nan};
  if (specimen.by_index) {
    return {"relative", Verdict::not_applicable, "depends on the order of tokens, not on positions", nan};
  }
  const Rows contents{probe.various(count), probe.various(count, 1)};
  const ScoresSeen here = see(probe, contents, 0);
  if (!specimen.turn_values && !looks_at_positions(probe, contents, here.logits)) {
    return {"relative", Verdict::not_applicable, "logits do not depend on positions", nan};
  }
  double worst = 0;
  Index moved = 0, farthest = 0;
  for (const Index shift : {Index{1}, reach / 4, reach / 2, 2 * reach}) {  // past the length too, where there is a past
    ScoresSeen there;
    try {
      there = see(probe, contents, shift);
    } catch (const std::logic_error&) {
      continue;
    }
    farthest = shift;
    const double off = std::max(change(here.logits, there.logits, specimen.causal).relative(),
                                change(here.values, there.values, false).relative());
    if (off > worst) worst = off, moved = shift;
  }
  // Sums of dim products, and angles of whole positions: a few units of 2^-53 each, times dim.
  const bool relative = worst < 0x1p-53 * 64 * static_cast<double>(probe.options().dim);
  std::string evidence =
      concat(count, " tokens moved by up to ", farthest, ": ", specimen.turn_values ? "outputs" : "logits",
             " change by ", brief(worst), " of the largest");
  if (!relative) evidence += concat(" (by ", moved, ")");
  if (specimen.input_rows && !relative) {
    const Array p = specimen.inputs(movable(probe, count, 0));
    const Array moved_p = specimen.inputs(movable(probe, count, reach / 2));
    evidence += concat(
        "; products of two positions alone change by ",
        brief(change(products(p.head(0), p.head(0)), products(moved_p.head(0), moved_p.head(0)), false).relative()));
  }
  return {"relative", relative ? Verdict::yes : Verdict::no, evidence, worst};
}

namespace {

/// What decay() says of the curves of all heads, seeds and directions.
struct Decays {
  Index falling = 0, curves = 0, rises = 0, steps = 0, negative = 0;
  double drop = 0;
  bool flat = true;

  void add(const Array& heads) {
    for (Index h = 0; h < heads.shape[1]; ++h) {
      const double* row = heads.values.data() + h * heads.shape[2];
      const Decay d = decay({row, row + heads.shape[2]});
      const auto [low, high] = std::minmax_element(d.curve.begin(), d.curve.end());
      // What remains of a flat curve is rounding.
      flat = flat && *high - *low <= 0x1p-40 * std::max(std::abs(*low), std::abs(*high));
      falling += d.decays ? 1 : 0;
      ++curves;
      rises += d.rises, negative += d.negative, steps += heads.shape[2] - 1;
      if (!d.octaves.empty()) drop += d.curve.front() - d.octaves.back();
    }
  }
};

}  // namespace

Property check_decay(const Examples& examples, const Executor& on) {
  constexpr Index draws = 16;
  Decays before, after;
  const bool causal = examples.probe.specimen.causal, learns = !examples.other_seeds.empty();
  if (examples.probe.line() < 4) return {"decay", Verdict::not_applicable, "too short a line of tokens", nan};
  const auto add = [&](const Specimen& specimen) {
    const std::vector<Keys> towards = causal ? std::vector{Keys::before} : std::vector{Keys::before, Keys::after};
    const std::vector<Array> means = mean_scores(specimen, draws, Contents::alike, towards, on);
    before.add(means.front());
    if (!causal) after.add(means.back());
  };
  add(examples.probe.specimen);
  for (const Specimen& specimen : examples.other_seeds) add(specimen);
  if (before.flat && after.flat) return {"decay", Verdict::no, "the same at every distance", 0};
  const Index falling = before.falling + after.falling, curves = before.curves + after.curves;
  const Verdict verdict = falling == curves ? Verdict::yes
                          : learns          ? Verdict::learned
                          : falling > 0     ? Verdict::partly
                                            : Verdict::no;
  const auto fall = [](const Decays& d) { return concat(d.falling, " of ", d.curves); };
  const std::string where = causal ? concat(fall(before), " heads")
                                   : concat(fall(before), " heads before the query, ", fall(after), " after it");
  return {"decay", verdict,
          concat("octave maxima fall in ", where,
                 learns ? concat(" (", static_cast<Index>(examples.other_seeds.size()) + 1, " seeds)") : "", ", by ",
                 brief((before.drop + after.drop) / static_cast<double>(curves)), " on average; the curves rise at ",
                 before.rises + after.rises, " of ", before.steps + after.steps, " steps and are negative at ",
                 before.negative + after.negative),
          static_cast<double>(falling) / static_cast<double>(curves)};
}

Property check_symmetric(const Probe& probe) {
  const Specimen& specimen = probe.specimen;
  if (specimen.causal) {
    return {"symmetric", Verdict::not_applicable, "keys after the query are to be masked", nan};
  }
  if (values_at(probe, 0, 1).shape[2] == 0) return {"symmetric", Verdict::not_applicable, "does nothing", nan};
  const Index count = std::min<Index>(24, probe.options().length);
  const Tokens at = specimen.tokens(count);
  const auto asymmetry = [&](std::uint64_t of_keys) {
    const Array s = specimen.logits(at, at, probe.alike(count), probe.alike(count, of_keys));
    Array turned = s;
    for (Index h = 0; h < s.shape[0]; ++h) {
      for (Index i = 0; i < count; ++i) {
        for (Index j = 0; j < count; ++j) turned(h, i, j) = s(h, j, i);
      }
    }
    return change(s, turned, false).relative();
  };
  const double off = asymmetry(0);
  std::string evidence = concat("swapping two positions changes logits of equal contents by ", brief(off));
  if (!probe.input_only) evidence += concat(", of different ones by ", brief(asymmetry(1)), ",");
  evidence += " of the largest";
  // Rounding of sums in another order.
  const bool symmetric = off < 0x1p-53 * 64 * static_cast<double>(probe.options().dim);
  const bool drawn = specimen.parameters > 0 && !specimen.own_numbers;
  const Verdict verdict = symmetric ? Verdict::yes : drawn ? Verdict::learned : Verdict::no;
  return {"symmetric", verdict, evidence, off};
}

Property check_deterministic(const Description& entry, const Probe& probe) {
  const SpecimenOptions& o = probe.options();
  const Index count = std::min<Index>(o.length, 96);  // more than one tile
  const Executor three{3, execute_backwards, nullptr}, one{1, execute_backwards, nullptr};
  const Array q = probe.various(count), k = probe.various(count, 1);
  const auto logits = [&](const Specimen& specimen, const Executor& on) {
    const Tokens at = specimen.tokens(count);
    return specimen.logits(at, at, q, k, on);
  };
  const Array first = logits(probe.specimen, {});
  const bool again = same_bits(first, logits(probe.specimen, {}));
  const bool anew = same_bits(first, logits(make(entry, o), {}));
  const bool cut = same_bits(first, logits(probe.specimen, one)) && same_bits(first, logits(probe.specimen, three));
  const auto word = [](bool same) { return same ? "the same bits" : "other bits"; };
  return {"deterministic", again && anew && cut ? Verdict::yes : Verdict::no,
          concat("called again: ", word(again),
                 probe.specimen.own_numbers ? "; made again of its numbers: " : "; made again from the seed: ",
                 word(anew), "; work cut for 1 and 3 workers, last task first: ", word(cut)),
          nan};
}

}  // namespace bearing::inspect
