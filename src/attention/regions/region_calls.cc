#include "attention/regions/region_calls.hpp"

#include <algorithm>
#include <cmath>

#include "attention/shared/visibility.hpp"
#include "terms/checks.hpp"
#include "text.hpp"

namespace bearing {

using text::concat;

namespace {

std::string said(const std::optional<Index>& edge) { return edge ? concat(*edge) : "no limit"; }

/// Throws RangeError unless regions tile all distances, in order.
void check_regions(const char* function, std::span<const Region> regions) {
  const auto fail = [&](auto&&... what) { throw RangeError(concat("[", function, "] regions: ", what...)); };
  if (regions.empty()) fail("must be at least one, got none");
  if (regions.front().band.from)
    fail("must leave no hole: the first band has no beginning, got ", *regions.front().band.from);
  if (regions.back().band.to) fail("must leave no hole: the last band has no end, got ", *regions.back().band.to);
  for (std::size_t n = 1; n < regions.size(); ++n) {
    const Band &before = regions[n - 1].band, &band = regions[n].band;
    if (band.chunk != before.chunk) {
      fail("must have the same chunks, got ", before.chunk, " in region ", n - 1, " and ", band.chunk, " in region ",
           n);
    }
    if (band.from && band.to && *band.to < *band.from) {
      fail("must end no earlier than they begin, got ", *band.from, " to ", *band.to, " for region ", n);
    }
    if (before.to && before.to == band.from) continue;
    const bool overlap = !before.to || !band.from || *band.from < *before.to;
    fail("must neither overlap nor leave holes: region ", n, " must begin where region ", n - 1, " ends, at ",
         said(before.to), ", got ", said(band.from), overlap ? ": they overlap" : ": there is a hole");
  }
}

void check_placing(const char* function, const char* side, std::size_t n, const Placing& placing) {
  if (placing.period >= 0 && placing.group >= 1 && std::isfinite(placing.step) && std::isfinite(placing.offset) &&
      !(placing.most && std::isnan(*placing.most))) {
    return;
  }
  throw RangeError(concat("[", function,
                          "] regions: must have a period of at least 0, a group of at least 1, a finite "
                          "step and offset, and a number as the most, got ",
                          placing.period, ", ", placing.group, ", ", placing.step, ", ", placing.offset, " and ",
                          placing.most.value_or(HUGE_VAL), " for the ", side, " of region ", n));
}

/// Throws ShapeError or RangeError for what regions decide themselves, or cannot serve.
template <class T>
void check_rest(const char* function, const AttentionInputs<T>& in, const TermList<Compute<T>>& terms,
                const Band& band) {
  if (in.q_turned_at || in.k_turned_at) {
    throw ShapeError(concat("[", function, "] ", in.q_turned_at ? "q" : "k",
                            "_turned_at: must be empty, as the regions say where rows are turned"));
  }
  const Index axes = std::max(in.q_positions.axes(), in.k_positions.axes());
  if (axes != 1) {
    throw ShapeError(concat("[", function, "] positions: must have one axis, got ", axes));
  }
  if (band != Band{}) {
    throw RangeError(concat("[", function, "] band: must be empty, as each region has its own, got ", said(band.from),
                            " to ", said(band.to)));
  }
  check_list(function, terms);
  if (std::none_of(terms.begin(), terms.end(), [](const Term<Compute<T>>& term) { return term.turn != nullptr; })) {
    throw RangeError(concat("[", function,
                            "] encodings: must have one that turns queries and keys, as RoPE does: regions say where "
                            "it turns them, and nothing else, got ",
                            terms.size, " of other kinds"));
  }
  for (const Term<Compute<T>>& term : terms) {
    if (!term.whole_rows) continue;
    throw RangeError(
        concat("[", function, "] encodings: must not look at whole rows (CoPE), of which a region is a ", "part"));
  }
}

}  // namespace

template <class T>
RegionCalls<T>::RegionCalls(const char* function, const AttentionInputs<T>& in, std::span<const Region> regions,
                            const TermList<A>& terms, const AttentionOptions<A>& options) {
  check_regions(function, regions);
  check_rest(function, in, terms, options.band);
  const AttentionCall<A> whole(function, in, {}, options);  // shapes and positions, before these are read
  const Problem& problem = whole.problem;
  for (std::size_t n = 0; n < regions.size(); ++n) {
    const Region& region = regions[n];
    check_placing(function, "queries", n, region.q);
    check_placing(function, "keys", n, region.k);
    AttentionInputs<T> inputs = in;
    AttentionOptions<A> given = options;
    given.band = region.band;
    if (n > 0) given.sinks = {};
    inputs.q_turned_at = place(region.q, in.q_positions, problem.batch, problem.q_len);
    const bool again = n > 0 && region.k == regions[n - 1].k;
    inputs.k_turned_at =
        again ? parts_.back().in.k_turned_at : place(region.k, in.k_positions, problem.batch, problem.k_len);
    parts_.emplace_back(function, inputs, terms, given);
  }
}

/// Whether any query sees a key, as far as runs of keys tell.
template <class T>
bool RegionCalls<T>::sees(const AttentionCall<A>& call) {
  const Visibility visibility(call.problem, call.options);
  for (Index b = 0; b < call.problem.batch; ++b) {
    for (Index i = call.problem.q_len; i-- > 0;) {
      if (!visibility.of(b, i).empty()) return true;
    }
  }
  return false;
}

/// Empty where rows stay.
template <class T>
std::optional<Positions> RegionCalls<T>::place(const Placing& placing, const Positions& at, Index batch, Index time) {
  if (placing == Placing{}) return {};
  const Index sequences = at.is_offset() ? 1 : batch;
  std::vector<double>& to = positions_.emplace_back();
  to.reserve(static_cast<std::size_t>(sequences * time));
  for (Index b = 0; b < sequences; ++b) {
    for (Index t = 0; t < time; ++t) to.push_back(placing(at.real(0, b, t)));
  }
  if (at.is_offset()) return Positions(dense<const double>(to.data(), time));
  return Positions(dense<const double>(to.data(), batch, time));
}

#define BEARING_INSTANTIATE(T) template class RegionCalls<T>;
BEARING_EACH_NUMBER(BEARING_INSTANTIATE)
#undef BEARING_INSTANTIATE

}  // namespace bearing
