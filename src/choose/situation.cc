#include "choose/situation.hpp"

#include <algorithm>
#include <bearing/error.hpp>
#include <cmath>
#include <utility>

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

}  // namespace

std::optional<Rope> rotary_at_hand(const Situation& s) {
  if (!s.from || !s.from->description.spec) return {};
  const Record spec =
      s.from->description.spec({.heads = s.heads, .dim = s.dim, .length = std::max<Index>(s.trained, 2)});
  const Rope* rope = spec.as<Rope>();
  return rope == nullptr ? std::nullopt : std::optional(*rope);
}

Index reach(const Situation& s) {
  const std::optional<Rope> rope = rotary_at_hand(s);
  const double times = rope ? stretch(rope->scaling) : 1;
  const auto scaled = static_cast<Index>(std::llround(static_cast<double>(s.trained) * times));
  // A file's length may be stretched already; then its scaling says from where, or nobody knows.
  const bool from_there = s.longest == 0 || (rope && trained_length(rope->scaling) > 1);
  return std::max(s.longest, from_there ? scaled : s.trained);
}

bool is_longer(const Situation& s) { return s.window == 0 && s.wanted > reach(s); }

Situation completed(Situation s) {
  if (s.longest == 0 || s.trained != 0) check_range("trained", s.trained, 2, longest_length);
  check_range("longest", s.longest, 0, longest_length);
  check_range("window", s.window, 0, longest_length);
  if (s.wanted == 0) s.wanted = std::max(s.longest, s.trained);
  check_range("wanted", s.wanted, 2, longest_length);
  check_range("heads", s.heads, 1, 1024);
  check_range("dim", s.dim, 4, 1024);
  if (s.dim % 4 != 0) throw ShapeError(concat("[choose] dim: must be a multiple of 4, got ", s.dim));
  check_range("memory", s.memory, 0, Index{1} << 50);
  if (s.axes == 0) s.axes = s.task == Task::images ? 2 : 1;
  check_range("axes", s.axes, 1, 2);
  if (const std::optional<Rope> rope = rotary_at_hand(s)) {
    if (const Index stated = trained_length(rope->scaling); stated > 1) s.trained = stated;  // before it was stretched
  }
  if (s.trained == 0 && is_longer(s)) {
    throw RangeError(
        concat("[choose] trained: must be given, as the model's file does not say how many tokens it was "
               "trained on before it was stretched to ",
               s.longest));
  }
  if (!s.causal) s.causal = s.task == Task::generate;
  return s;
}

std::string filled(std::string text, const Situation& s) {
  const std::pair<const char*, std::string> words[] = {
      {"{trained}", concat(s.trained)},
      {"{reach}", concat(reach(s))},
      {"{window}", concat(s.window)},
      {"{wanted}", concat(s.wanted)},
      {"{factor}", concat(static_cast<double>(s.wanted) / static_cast<double>(std::max<Index>(s.trained, 1)))}};
  for (const auto& [word, with] : words) {
    for (std::size_t at; (at = text.find(word)) != text.npos;) text.replace(at, std::string_view(word).size(), with);
  }
  return text;
}

void take_model(Situation& s, Subject model) {
  const Sizes& sizes = model.sizes;
  const RopeLengths& lengths = model.lengths;
  const EncodingInfo* info = model.description.encoding;
  if (lengths.longest > 1) {
    s.longest = lengths.longest, s.window = lengths.window <= lengths.longest ? lengths.window : 0;
    s.trained = lengths.trained;
  } else if (sizes.length > 1) {
    s.trained = sizes.length;
  }
  if (sizes.heads > 0) s.heads = sizes.heads;
  if (sizes.dim > 0) s.dim = sizes.dim;
  // What is added to the input has a column for each dimension of all heads.
  const bool columns = info != nullptr && info->inputs && sizes.heads > 0;
  if (columns && sizes.dim % sizes.heads == 0) s.dim = sizes.dim / sizes.heads;
  s.from = std::move(model);
}

}  // namespace bearing::inspect
