#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

#include "inspect/distinct.hpp"
#include "inspect/probes.hpp"
#include "inspect/tasks.hpp"
#include "text.hpp"

// Properties of what a position becomes: unique, extensible, bounded, norm, shift map.

namespace bearing::inspect {

using text::concat;

namespace {

bool silent(const Array& values) { return values.shape[2] == 0; }

bool all_the_same(const Array& values, const Array& last) {
  for (Index r = 0; r < values.shape[1]; ++r) {
    for (Index c = 0; c < values.shape[2]; ++c) {
      if (values(0, r, c) != last(0, 0, c)) return false;
    }
  }
  return true;
}

/// The range of each feature.
struct Ranges {
  std::vector<double> least, most;

  void add(const Array& values) {
    const auto features = static_cast<std::size_t>(values.shape[2]);
    if (least.empty()) {
      least.assign(values.values.begin(), values.values.begin() + values.shape[2]);
      most = least;
    }
    for (Index r = 0; r < values.shape[1]; ++r) {
      const double* row = values.values.data() + r * values.shape[2];
      for (std::size_t c = 0; c < features; ++c) {
        least[c] = std::min(least[c], row[c]), most[c] = std::max(most[c], row[c]);
      }
    }
  }
  void add(const Ranges& other) {
    const auto features = static_cast<Index>(other.least.size());
    for (const std::vector<double>* ends : {&other.least, &other.most}) {
      Array row(1, 1, features);
      row.values = *ends;
      add(row);
    }
  }
  /// By a hundredth: whole positions miss the very ends of a wave.
  void widen() {
    for (std::size_t c = 0; c < least.size(); ++c) {
      const double more = (most[c] - least[c]) / 100;
      least[c] -= more, most[c] += more;
    }
  }
  Index outside(const Array& values) const {
    Index features = 0;
    for (std::size_t c = 0; c < least.size(); ++c) {
      bool out = false;
      for (Index r = 0; r < values.shape[1]; ++r) {
        const double value = values(0, r, static_cast<Index>(c));
        out = out || value < least[c] || value > most[c];
      }
      features += out ? 1 : 0;
    }
    return features;
  }
};

/// Of all positions within the length.
Ranges ranges_within(const Probe& probe, const Executor& on) {
  const Index length = probe.options().length, block = probe.block(length);
  std::vector<Ranges> parts(static_cast<std::size_t>((length + block - 1) / block));
  each_block(on, length, block, [&](Index b, Index from, Index rows) {
    parts[static_cast<std::size_t>(b)].add(values_at(probe, {0, length}, from, rows));
  });
  Ranges all;
  for (const Ranges& part : parts) all.add(part);
  all.widen();
  return all;
}

/// An error's text without its "[function] ".
std::string reason(const std::exception& error) {
  const std::string text = error.what();
  const std::size_t end = text.rfind('[', 0) == 0 ? text.find("] ") : std::string::npos;
  return end == std::string::npos ? text : text.substr(end + 2);
}

}  // namespace

Property check_unique(const Probe& probe, const Executor& on) {
  const Index n = probe.options().length;
  const char* what = probe.specimen.score_terms && probe.score_only && !probe.by_place ? "distances" : "positions";
  if (silent(values_at(probe, 0, 1))) return {"unique", Verdict::no, "no position has a value", 1};
  std::array<std::vector<Digest>, 3> rounded;
  rounded.fill(std::vector<Digest>(static_cast<std::size_t>(n)));
  each_block(on, n, probe.block(n), [&](Index, Index from, Index rows) {
    const Array values = values_at(probe, {0, n}, from, rows);
    for (Index r = 0; r < rows; ++r) {
      const std::array<Digest, 3> of_row = digests(values, r);
      for (std::size_t i = 0; i < 3; ++i) rounded[i][static_cast<std::size_t>(from + r)] = of_row[i];
    }
  });
  const Distinct f64 = distinct(rounded[0]), f32 = distinct(rounded[1]), bf16 = distinct(rounded[2]);
  std::string evidence = concat(n, " ", what, ": ", f64.count, " values in float64, ", f32.count, " in float32, ",
                                bf16.count, " in bfloat16");
  const Distinct& first = f32.one >= 0 ? f32 : bf16;
  if (first.one >= 0) {
    evidence += concat("; ", first.one, " and ", first.other, " are the same", f32.one >= 0 ? "" : " in bfloat16");
  }
  return {"unique", f32.count == n ? Verdict::yes : Verdict::no, evidence, static_cast<double>(f32.count)};
}

PastLength past_length(const Probe& probe, const Executor& on) {
  const Index length = probe.options().length, window = std::min<Index>(length, 64);
  if (silent(values_at(probe, 0, 1))) return {"nothing", "positions change nothing, near or far", 0};
  const Array last = values_at(probe, length - 1, 1);
  const Ranges ranges = ranges_within(probe, on);
  PastLength past;
  std::string seen;
  bool clamped = true;
  for (const Index times : {1, 2, 16}) {
    const std::string at = times == 1 ? "L" : concat(times, "L");
    try {
      const Array values = values_at(probe, times * length, window);
      clamped = clamped && all_the_same(values, last);
      const Index outside = ranges.outside(values);
      past.unseen = std::max(past.unseen, static_cast<double>(outside) / static_cast<double>(values.shape[2]));
      seen += concat(seen.empty() ? "" : ", ", at, ": ", outside, " of ", values.shape[2]);
    } catch (const std::logic_error& error) {
      return {"error", concat("L = ", length, ", error from ", at, ": ", reason(error)), 1};
    }
  }
  if (clamped) {
    past.what = "clamped";
    past.evidence = concat("L = ", length, "; at L, 2L and 16L the value of the last within L");
  } else {
    past.what = past.unseen > 0 ? "unseen values" : "seen values";
    past.evidence = concat("L = ", length, "; features outside the range seen within L, at ", seen);
  }
  return past;
}

Property check_extensible(const Probe& probe, const Executor& on) {
  if (const double span = probe.specimen.span; span > 0) {
    return {"extensible", Verdict::yes,
            concat("seen values: coordinates run from -", brief(span), " to ", brief(span),
                   " across an image of any size; more patches stand closer together"),
            0};
  }
  const PastLength past = past_length(probe, on);
  const Verdict verdict = past.what == "error"           ? Verdict::no
                          : past.what == "unseen values" ? Verdict::partly
                                                         : Verdict::yes;
  return {"extensible", verdict, past.what + ": " + past.evidence, past.unseen};
}

Property check_bounded(const Probe& probe, const Executor& on) {
  const Index length = probe.options().length;
  if (silent(values_at(probe, 0, 1))) return {"bounded", Verdict::not_applicable, "nothing to bound", nan};
  const double within = magnitude(probe, 0, length, on);
  const char* what = probe.specimen.score_terms ? "score" : probe.specimen.turn_rows ? "factor of a norm" : "norm";
  try {
    const double far = magnitude(probe, 16 * length, std::min<Index>(length, 64), on);
    const bool grows = far > 1.01 * within;
    return {"bounded", grows ? Verdict::no : Verdict::yes,
            concat("largest ", what, " ", brief(within), " within L = ", length, ", ", brief(far), " at 16L"),
            std::max(within, far)};
  } catch (const std::logic_error&) {
    return {"bounded", Verdict::yes,
            concat("largest ", what, " ", brief(within), " within L = ", length, ", no values past it"), within};
  }
}

namespace {

/// The least and the largest factor by which norms of the rows from … are multiplied.
std::pair<double, double> norm_factors(const Probe& probe, Index from, Index rows) {
  const Specimen& specimen = probe.specimen;
  const Array x = probe.various(probe.options().length, from, rows);
  std::pair<double, double> range{std::numeric_limits<double>::infinity(), 0};
  for (const Side side : {Side::query, Side::key}) {
    const Array y = placed(specimen, side, specimen.tokens(rows, from), x);
    for (Index h = 0; h < x.shape[0]; ++h) {
      for (Index t = 0; t < rows; ++t) {
        const double ratio = row_norm(y.head(h), t) / row_norm(x.head(h), t);
        range = {std::min(range.first, ratio), std::max(range.second, ratio)};
      }
    }
  }
  return range;
}

}  // namespace

Property check_norm(const Probe& probe, const Executor& on) {
  if (probe.score_only) return {"norm", Verdict::not_applicable, "leaves queries and keys as they are", nan};
  const Index n = probe.options().length, block = probe.block(n);
  std::vector<std::pair<double, double>> parts(static_cast<std::size_t>((n + block - 1) / block));
  each_block(on, n, block, [&](Index b, Index from, Index rows) {
    parts[static_cast<std::size_t>(b)] = norm_factors(probe, from, rows);
  });
  auto [least, most] = parts.front();
  for (const auto& [low, high] : parts) least = std::min(least, low), most = std::max(most, high);
  // A norm of dim products, each rounded a few times: far below 2^-40.
  const double off = std::max(std::abs(least - 1), std::abs(most - 1));
  if (off < 0x1p-40) {
    return {"norm", Verdict::yes, concat("norms change by at most ", brief(off), " of themselves"), off};
  }
  if (most - least < 0x1p-40) {
    return {"norm", Verdict::no, concat("every norm is multiplied by ", brief(most)), off};
  }
  return {"norm", Verdict::no, concat("norms are multiplied by ", brief(least), " to ", brief(most)), off};
}

Property check_shift_map(const Probe& probe) {
  const Specimen& specimen = probe.specimen;
  if (!specimen.input_rows) return {"shift map", Verdict::not_applicable, "not added to the input", nan};
  const Index length = probe.options().length, dim = probe.options().dim;
  constexpr std::array<Index, 3> offsets = {1, 7, 64};
  const Index shown = std::min(length, 4 * dim + offsets.back());
  if (specimen.is_image()) return {"shift map", Verdict::not_applicable, "its tokens are not in a line", nan};
  if (shown < 3 * dim + offsets.back()) {
    return {"shift map", Verdict::not_applicable, concat("a length of ", length, " is too short for dim ", dim), nan};
  }
  const Array rows = specimen.inputs(specimen.tokens(shown));
  double off = 0;
  for (const Index offset : offsets) off = std::max(off, shift_map(rows.head(0), offset).held_out);
  const double relative = off / magnitude(probe, 0, shown);
  // Slow pairs hardly move over the fitted rows, which costs digits; a map that does not exist is off by far more.
  return {"shift map", relative < 1e-6 ? Verdict::yes : Verdict::no,
          concat("a map fitted to every other of ", shown, " positions is off by ", brief(relative),
                 " of the norm on those between (offsets 1, 7, 64)"),
          relative};
}

}  // namespace bearing::inspect
