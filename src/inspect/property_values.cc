#include <algorithm>
#include <bearing/half.hpp>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <stdexcept>

#include "inspect/probes.hpp"
#include "text.hpp"

// Properties of what a position becomes: unique, extensible, bounded, norm, shift map.

namespace bearing::inspect {

using text::concat;

namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

/// Rows that are the same after rounding: how many differ, and the first two that do not.
struct Distinct {
  Index count = 0, one = -1, other = -1;
};

template <class Round>
Distinct distinct_rows(const Array& rows, Round&& round) {
  std::map<std::vector<double>, Index> seen;
  Distinct d;
  for (Index r = 0; r < rows.shape[1]; ++r) {
    std::vector<double> row;
    for (Index c = 0; c < rows.shape[2]; ++c) row.push_back(round(rows(0, r, c)));
    const auto [same, added] = seen.emplace(std::move(row), r);
    if (!added && d.one < 0) d.one = same->second, d.other = r;
  }
  d.count = static_cast<Index>(seen.size());
  return d;
}

bool silent(const Array& values) { return values.shape[2] == 0; }

bool all_the_same(const Array& values, const Array& last) {
  for (Index r = 0; r < values.shape[1]; ++r) {
    for (Index c = 0; c < values.shape[2]; ++c) {
      if (values(0, r, c) != last(0, 0, c)) return false;
    }
  }
  return true;
}

/// The range of each feature within the length, widened by a hundredth: whole positions miss the very ends of a wave.
struct Ranges {
  std::vector<double> least, most;

  explicit Ranges(const Array& values) {
    for (Index c = 0; c < values.shape[2]; ++c) {
      double low = values(0, 0, c), high = low;
      for (Index r = 1; r < values.shape[1]; ++r) {
        low = std::min(low, values(0, r, c)), high = std::max(high, values(0, r, c));
      }
      least.push_back(low - (high - low) / 100), most.push_back(high + (high - low) / 100);
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

/// An error's text without its "[function] ".
std::string reason(const std::exception& error) {
  const std::string text = error.what();
  const std::size_t end = text.rfind('[', 0) == 0 ? text.find("] ") : std::string::npos;
  return end == std::string::npos ? text : text.substr(end + 2);
}

}  // namespace

Property check_unique(const Probe& probe) {
  const Index n = probe.options().length;
  const Array values = values_at(probe, 0, n);
  const char* what = probe.specimen.score_terms && probe.score_only ? "distances" : "positions";
  if (silent(values)) return {"unique", Verdict::no, "no position has a value", 1};
  const Distinct f64 = distinct_rows(values, [](double x) { return x; });
  const Distinct f32 = distinct_rows(values, [](double x) { return static_cast<double>(static_cast<float>(x)); });
  const Distinct bf16 = distinct_rows(
      values, [](double x) { return static_cast<double>(static_cast<float>(Bfloat16(static_cast<float>(x)))); });
  std::string evidence = concat(n, " ", what, ": ", f64.count, " values in float64, ", f32.count, " in float32, ",
                                bf16.count, " in bfloat16");
  const Distinct& first = f32.one >= 0 ? f32 : bf16;
  if (first.one >= 0) {
    evidence += concat("; ", first.one, " and ", first.other, " are the same", f32.one >= 0 ? "" : " in bfloat16");
  }
  return {"unique", f32.count == n ? Verdict::yes : Verdict::no, evidence, static_cast<double>(f32.count)};
}

PastLength past_length(const Probe& probe) {
  const Index length = probe.options().length, window = std::min<Index>(length, 64);
  const Array within = values_at(probe, 0, length);
  if (silent(within)) return {"nothing", "positions change nothing, near or far", 0};
  const Array last = values_at(probe, length - 1, 1);
  const Ranges ranges(within);
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

Property check_extensible(const Probe& probe) {
  const PastLength past = past_length(probe);
  const Verdict verdict = past.what == "error"           ? Verdict::no
                          : past.what == "unseen values" ? Verdict::partly
                                                         : Verdict::yes;
  return {"extensible", verdict, past.what + ": " + past.evidence, past.unseen};
}

Property check_bounded(const Probe& probe) {
  const Index length = probe.options().length;
  if (silent(values_at(probe, 0, 1))) return {"bounded", Verdict::not_applicable, "nothing to bound", nan};
  const double within = magnitude(probe, 0, length);
  const char* what = probe.specimen.score_terms ? "score" : probe.specimen.turn_rows ? "factor of a norm" : "norm";
  try {
    const double far = magnitude(probe, 16 * length, std::min<Index>(length, 64));
    const bool grows = far > 1.01 * within;
    return {"bounded", grows ? Verdict::no : Verdict::yes,
            concat("largest ", what, " ", brief(within), " within L = ", length, ", ", brief(far), " at 16L"),
            std::max(within, far)};
  } catch (const std::logic_error&) {
    return {"bounded", Verdict::yes,
            concat("largest ", what, " ", brief(within), " within L = ", length, ", no values past it"), within};
  }
}

Property check_norm(const Probe& probe) {
  const Specimen& specimen = probe.specimen;
  if (probe.score_only) return {"norm", Verdict::not_applicable, "leaves queries and keys as they are", nan};
  const Index n = probe.options().length;
  const Array x = probe.various(n);
  double least = std::numeric_limits<double>::infinity(), most = 0;
  for (const Side side : {Side::query, Side::key}) {
    Array y = x;
    if (specimen.input_rows) {
      const Array p = specimen.inputs(specimen.tokens(n));
      for (std::size_t e = 0; e < y.values.size(); ++e) y.values[e] += p.values[e % p.values.size()];
    }
    if (specimen.turn_rows) y = specimen.turn(side, specimen.tokens(n), y);
    for (Index h = 0; h < x.shape[0]; ++h) {
      for (Index t = 0; t < n; ++t) {
        const double ratio = row_norm(y.head(h), t) / row_norm(x.head(h), t);
        least = std::min(least, ratio), most = std::max(most, ratio);
      }
    }
  }
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
  if (specimen.width > 0) return {"shift map", Verdict::not_applicable, "its tokens are not in a line", nan};
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
