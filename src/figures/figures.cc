#include <algorithm>
#include <bearing/error.hpp>
#include <bearing/figures.hpp>

#include "figures/kinds.hpp"
#include "lasting.hpp"
#include "text.hpp"

namespace bearing::inspect {

using text::concat;

const std::vector<FigureKind>& figure_kinds() {
  static const auto& all = lasting(std::vector<FigureKind>{
      heatmap_kind(),         //
      curves_kind(),          //
      similarity_kind(),      //
      decay_kind(),           //
      walk_kind(),            //
      hands_kind(),           //
      wavelengths_kind(),     //
      buckets_kind(),         //
      offset_kind(),          //
      correlations_kind(),    //
#ifndef BEARING_DRAWING_ONLY  // they run attention
      masks_kind(),           //
      feature_kind(),         //
#endif
  });
  return all;
}

const FigureKind* find_figure_kind(std::string_view name) {
  for (const FigureKind& kind : figure_kinds()) {
    if (kind.name == name) return &kind;
  }
  return nullptr;
}

namespace {

/// The options that were given, by name.
std::vector<const char*> given(const FigureOptions& options) {
  std::vector<const char*> names;
  const auto add = [&](const char* name, bool is) {
    if (is) names.push_back(name);
  };
  add("heads", options.heads != 0), add("dim", options.dim != 0), add("length", options.length != 0);
  add("seed", options.seed != 1), add("what", !options.what.empty());
  add("positions", !options.positions.empty()), add("dims", !options.dims.empty());
  add("head", options.head.has_value()), add("offset", options.offset.has_value());
  add("causal", options.causal.has_value()), add("window", options.window != 0), add("sinks", options.sinks != 0);
  add("packed", !options.packed.empty()), add("words", options.words.has_value());
  add("w_q", options.w_q.has_value()), add("w_k", options.w_k.has_value());
  return names;
}

void check_not_negative(const FigureOptions& options) {
  const auto check = [](const char* name, Index size) {
    if (size < 0) throw RangeError(concat("[figure] ", name, ": must be at least 0, got ", size));
  };
  check("heads", options.heads), check("dim", options.dim), check("length", options.length);
  check("head", options.head.value_or(0)), check("window", options.window), check("sinks", options.sinks);
  for (const Index length : options.packed) check("packed", length);
}

void check_options(const FigureKind& kind, std::size_t encodings, const FigureOptions& options) {
  const auto n = static_cast<Index>(encodings);
  if (n < kind.fewest || n > kind.most) {
    throw ShapeError(kind.fewest == kind.most ? concat("[figure] encodings: ", kind.name, " takes ", kind.fewest,
                                                       " encoding", kind.fewest == 1 ? "" : "s", ", got ", n)
                                              : concat("[figure] encodings: ", kind.name, " takes ", kind.fewest,
                                                       " to ", kind.most, " encodings, got ", n));
  }
  for (const char* name : given(options)) {
    if (std::find(kind.takes.begin(), kind.takes.end(), name) != kind.takes.end()) continue;
    std::string taken;
    for (const std::string& one : kind.takes) taken += (taken.empty() ? "" : ", ") + one;
    throw RangeError(taken.empty() ? concat("[figure] ", name, ": ", kind.name, " takes no options")
                                   : concat("[figure] ", name, ": ", kind.name, " takes ", taken, " only"));
  }
  check_not_negative(options);
}

}  // namespace

Figure figure(std::string_view kind, std::span<const Subject> encodings, const FigureOptions& options) {
  const FigureKind* found = find_figure_kind(kind);
  if (found == nullptr) {
    std::string all;
    for (const FigureKind& one : figure_kinds()) all += (all.empty() ? "" : ", ") + one.name;
    throw RangeError(concat("[figure] kind: must be one of ", all, ", got ", kind));
  }
  check_options(*found, encodings.size(), options);
  Figure made = found->make(encodings, options);
  made.kind = found->name;
  return made;
}

}  // namespace bearing::inspect
