#include "choose/situation.hpp"

#include <algorithm>
#include <bearing/encodings/rope.hpp>
#include <bearing/error.hpp>
#include <cmath>
#include <utility>

#include "choose/measure.hpp"
#include "text.hpp"

namespace bearing::inspect {

using text::concat;

namespace {

constexpr Index longest_length = Index{1} << 30;

/// Thrown for a number that the caller gave.
void check_range(const char* what, Index value, Index least, Index most) {
  if (value >= least && value <= most) return;
  throw RangeError(concat("[choose] ", what, ": must be from ", least, " to ", most, ", got ", value));
}

/// How many times as long a scaling makes sequences; 1 where it does not say.
double stretch(const RopeScaling& scaling) {
  return std::visit(
      [](const auto& of) {
        if constexpr (requires { of.factor; }) return std::max(1.0, of.factor);
        return 1.0;
      },
      scaling);
}

/// Heads of the model at hand and dimensions of a head, where it states them; else 0.
Sizes stated_sizes(const Subject& model) {
  Sizes sizes = model.sizes;
  const EncodingInfo* info = model.description.encoding;
  if (info == nullptr || !info->inputs) return sizes;
  // What is added to the input has a column for each dimension of all heads.
  const bool divides = sizes.heads > 0 && sizes.dim % sizes.heads == 0;
  return sizes.dim = divides ? sizes.dim / sizes.heads : 0, sizes;
}

/// Thrown for a size that the model at hand does not have.
void check_stated(const char* what, Index value, Index stated) {
  if (stated == 0 || value == stated) return;
  throw ShapeError(concat("[choose] ", what, ": must be ", stated, ", which the model has, got ", value));
}

/// The grid of patches that the encoding of the model at hand is for, at that length.
GridSize grid_at_hand(const Situation& s, Index length) {
  SpecimenOptions size = size_at_hand(s);
  size.length = length;
  return make(s.from->description, size).grid;
}

/// Patches of that grid, if it is of one size; else 0.
Index fixed_grid(const Situation& s) {
  const GridSize grid = grid_at_hand(s, 256);
  return grid == grid_at_hand(s, 1024) ? grid.height * grid.width : 0;
}

/// Coordinates of a position that the encoding of the model at hand looks at.
Index axes_at_hand(const Situation& s) {
  if (const std::optional<Rope> rope = rotary_at_hand(s)) return resolve(*rope, s.trained).axes;
  return grid_at_hand(s, std::clamp<Index>(s.trained, 16, 256)).width > 0 ? 2 : 1;
}

/// Whether the layer of the model at hand looks both ways, or its encoding is one for keys on both sides.
bool sees_both_sides(const Situation& s) {
  if (s.from->lengths.after > 0) return true;
  const Description& of = s.from->description;
  if (of.encoding == nullptr || !of.encoding->both_sides) return false;
  return of.encoding->both_sides(of.spec ? of.spec(size_at_hand(s)) : Record{});
}

/// Fills in the task, causal and axes, where they were left open. Throws as completed() does.
void settle_task(Situation& s) {
  const Index axes = s.from ? axes_at_hand(s) : 1;
  if (s.axes != 0) check_range("axes", s.axes, 1, std::max<Index>(axes, 2));
  if (!s.task) s.task = s.from ? task_at_hand(s).value_or(Task::generate) : Task::generate;
  if (!s.causal) s.causal = s.task == Task::generate;
  if (s.axes == 0) s.axes = s.task == Task::images && !rotary_at_hand(s) ? 2 : axes;
}

}  // namespace

std::optional<Task> task_at_hand(const Situation& s) {
  if (axes_at_hand(s) == 2) return Task::images;
  const std::vector<Answer>& words = task_answers();
  const auto said =
      std::find_if(words.begin(), words.end(), [&](const Answer& one) { return one.word == s.from->task; });
  if (said != words.end()) return static_cast<Task>(said - words.begin());
  return sees_both_sides(s) ? std::optional(Task::understand) : std::nullopt;
}

std::optional<Rope> rotary_at_hand(const Situation& s) {
  if (!s.from || !s.from->description.spec) return {};
  const Record spec =
      s.from->description.spec({.heads = s.heads, .dim = s.dim, .length = std::max<Index>(s.trained, 2)});
  const Rope* rope = spec.as<Rope>();
  return rope == nullptr ? std::nullopt : std::optional(*rope);
}

bool spans_image(const Situation& s) { return s.from && s.from->lengths.span > 0 && rotary_at_hand(s); }

bool counts_by_side(const Situation& s) {
  const std::optional<Rope> rope = spans_image(s) ? std::nullopt : rotary_at_hand(s);
  return rope && resolve(*rope, std::max<Index>(s.trained, 2)).axes == 2;
}

Index along_axis(const Situation& s, Index tokens) {
  if (!counts_by_side(s)) return tokens;
  const GridSize& grid = s.from->lengths.grid;
  const auto longer = static_cast<double>(std::max(grid.height, grid.width));
  const double patches = grid.width > 0 ? static_cast<double>(grid.height * grid.width) : 1;
  const double side = std::sqrt(static_cast<double>(tokens) / patches) * (grid.width > 0 ? longer : 1);
  return static_cast<Index>(std::llround(side));
}

std::string along_axis_text(const Situation& s, Index tokens) {
  return concat(along_axis(s, tokens), counts_by_side(s) ? " patches of a side" : " tokens");
}

Index reach(const Situation& s) {
  const std::optional<Rope> rope = rotary_at_hand(s);
  double times = rope ? stretch(rope->scaling) : 1;
  if (counts_by_side(s)) times *= times;
  const auto scaled = static_cast<Index>(std::llround(static_cast<double>(s.trained) * times));
  // A file's length may be stretched already; then its scaling says from where, or nobody knows.
  const bool from_there = s.longest == 0 || (rope && trained_length(rope->scaling) > 1);
  return std::max(s.longest, from_there ? scaled : s.trained);
}

bool is_longer(const Situation& s) {
  return s.window == 0 && !spans_image(s) && along_axis(s, s.wanted) > along_axis(s, reach(s));
}

double wanted_stretch(const Situation& s) {
  return static_cast<double>(along_axis(s, s.wanted)) /
         static_cast<double>(std::max<Index>(along_axis(s, s.trained), 1));
}

Situation completed(Situation s) {
  if (s.longest == 0 || s.trained != 0) check_range("trained", s.trained, 2, longest_length);
  check_range("longest", s.longest, 0, longest_length);
  check_range("window", s.window, 0, longest_length);
  if (s.wanted == 0) s.wanted = std::max(s.longest, s.trained);
  check_range("wanted", s.wanted, 2, longest_length);
  check_range("heads", s.heads, 1, 1024);
  check_range("dim", s.dim, 4, 1024);
  if (s.dim % 4 != 0) throw ShapeError(concat("[choose] dim: must be a multiple of 4, got ", s.dim));
  if (s.from) {
    const Sizes stated = stated_sizes(*s.from);
    check_stated("heads", s.heads, stated.heads);
    check_stated("dim", s.dim, stated.dim);
  }
  check_range("memory", s.memory, 0, Index{1} << 50);
  settle_task(s);
  if (const std::optional<Rope> rope = rotary_at_hand(s)) {
    const Index stated = trained_length(rope->scaling);  // before it was stretched
    if (stated > 1) s.trained = counts_by_side(s) ? stated * stated : stated, s.assumed = false;
  }
  if (s.trained == 0 && is_longer(s)) {
    throw RangeError(
        concat("[choose] trained: must be given, as the model's file does not say how many tokens it was "
               "trained on before it was stretched to ",
               s.longest));
  }
  return s;
}

std::string filled(std::string text, const Situation& s) {
  const double span = s.from ? s.from->lengths.span : 0;
  const std::pair<const char*, std::string> words[] = {{"{trained} tokens", along_axis_text(s, s.trained)},
                                                       {"{reach} tokens", along_axis_text(s, reach(s))},
                                                       {"{wanted} tokens", along_axis_text(s, s.wanted)},
                                                       {"{span}", concat(std::round(span * 1000) / 1000)},
                                                       {"{trained}", concat(s.trained)},
                                                       {"{reach}", concat(reach(s))},
                                                       {"{window}", concat(s.window)},
                                                       {"{wanted}", concat(s.wanted)},
                                                       {"{factor}", concat(wanted_stretch(s))}};
  for (const auto& [word, with] : words) {
    for (std::size_t at; (at = text.find(word)) != text.npos;) text.replace(at, std::string_view(word).size(), with);
  }
  return text;
}

void take_model(Situation& s, Subject model) {
  const Sizes& sizes = model.sizes;
  const RopeLengths& lengths = model.lengths;
  s.assumed = lengths.longest <= 1 && sizes.length <= 1;
  if (lengths.longest > 1) {
    const Index seen = lengths.chunks_before < 0 ? 0 : lengths.window * (lengths.chunks_before + 1);
    s.longest = lengths.longest, s.window = seen <= lengths.longest ? seen : 0;
    s.trained = lengths.trained;
  } else if (sizes.length > 1) {
    s.trained = sizes.length;
  }
  const Sizes stated = stated_sizes(model);
  if (sizes.heads > 0) s.heads = sizes.heads;
  if (sizes.dim > 0) s.dim = stated.dim > 0 ? stated.dim : sizes.dim;
  s.from = std::move(model);
  if (lengths.longest <= 1 && sizes.length <= 1 && !rotary_at_hand(s)) {
    if (const Index patches = fixed_grid(s); patches > 0) s.trained = patches, s.assumed = false;
  }
}

}  // namespace bearing::inspect
