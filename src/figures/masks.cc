#include <algorithm>
#include <array>
#include <bearing/attention.hpp>
#include <bearing/error.hpp>
#include <cmath>
#include <numeric>

#include "figures/kinds.hpp"
#include "figures/parts.hpp"

// Which keys a query sees, and why others are hidden. Attention itself is asked: with the identity as values, its
// output is not 0 where a key is seen. A hidden key's reason is the first rule that hides it when it stands alone.

namespace bearing::inspect {
namespace {

constexpr Index longest = 1024;  ///< a square matrix is an output of attention

/// What hides keys.
struct Rules {
  bool causal = true;
  bool assumed = false;                    ///< a file says neither that it is causal nor that it is not
  Index window = 0, after = 0, sinks = 0;  ///< keys up to a query, with it, and after it
  Index chunk = 0, chunks_before = 0;      ///< a query's own chunk, and those before it that it sees; −1: all
  std::vector<Index> starts = {};          ///< of packed sequences and of the padding, and the end; empty: one sequence
  Index existing = 0;                      ///< tokens that are no padding
};

/// Where tokens stand: counted anew in each packed sequence.
std::vector<Index> positions_of(const Rules& rules, Index length) {
  std::vector<Index> positions(static_cast<std::size_t>(length));
  std::iota(positions.begin(), positions.end(), 0);
  for (std::size_t s = 0; s + 1 < rules.starts.size(); ++s) {
    for (Index t = rules.starts[s]; t < rules.starts[s + 1]; ++t) {
      positions[static_cast<std::size_t>(t)] = t - rules.starts[s];
    }
  }
  return positions;
}

/// A square of truth values: query i sees key j.
struct Seen {
  Index length;
  std::vector<double> weights;
  bool operator()(Index i, Index j) const { return weights[static_cast<std::size_t>(i * length + j)] > 0; }
};

/// What attention sees under these rules; of `only_sinks`, which of the first keys alone.
Seen seen_by_attention(const Rules& rules, const std::vector<Index>& positions, bool only_sinks, const Executor& on) {
  const auto n = static_cast<Index>(positions.size());
  const std::vector<double> zeros(positions.size());
  std::vector<double> identity(positions.size() * positions.size());
  for (std::size_t i = 0; i < positions.size(); ++i) identity[i * positions.size() + i] = 1;
  const auto mask = std::make_unique<bool[]>(positions.size());
  for (std::size_t j = 0; j < positions.size(); ++j) mask[j] = !only_sinks || positions[j] < rules.sinks;
  const std::array<Index, 1> existing{rules.existing > 0 ? rules.existing : n};
  const View<const Index, 1> starts = dense(rules.starts.data(), static_cast<Index>(rules.starts.size()));
  const Positions at(dense(positions.data(), n));
  AttentionOptions<double> options{.mask = rules.causal ? Mask::causal : Mask::none};
  if (rules.window > 0 && !only_sinks) options.window = {rules.window - 1, rules.after};
  if (rules.chunk > 0) options.band = {.from = 0, .to = {}, .chunk = rules.chunk};
  if (rules.chunk > 0 && rules.chunks_before >= 0) options.band.to = rules.chunks_before + 1;
  options.k_lengths = dense(existing.data(), 1);
  options.key_mask = dense(static_cast<const bool*>(mask.get()), 1, n);
  if (!rules.starts.empty()) options.q_starts = options.k_starts = starts;
  Seen sees{n, std::vector<double>(identity.size())};
  attention<double, double>({.q = bhtd(zeros.data(), 1, 1, n, 1),
                             .k = bhtd(zeros.data(), 1, 1, n, 1),
                             .v = bhtd<const double>(identity.data(), 1, 1, n, n),
                             .q_positions = at,
                             .k_positions = at},
                            bhtd(sees.weights.data(), 1, 1, n, n), {}, {}, options, on);
  return sees;
}

enum Reason { seen, after_the_query, out_of_window, padding, other_sequence, sink, other_chunk };
constexpr std::array<const char*, 7> reasons{"seen",           "after the query", "out of the window", "padding",
                                             "other sequence", "seen, a sink",    "other chunk"};

/// The reason of each cell.
std::vector<Reason> reasons_of(const Rules& rules, const std::vector<Index>& positions, const Executor& on) {
  const auto n = static_cast<Index>(positions.size());
  const auto alone = [&](const Rules& one) { return seen_by_attention(one, positions, false, on); };
  const Seen near = alone(rules);
  const Seen first = seen_by_attention(rules, positions, true, on);
  const Seen real = alone({.causal = false, .existing = rules.existing});
  const Seen own = alone({.causal = false, .starts = rules.starts});
  const Seen before = alone({.causal = rules.causal});
  std::vector<Reason> cells;
  for (Index i = 0; i < n; ++i) {
    for (Index j = 0; j < n; ++j) {
      const bool pads = (rules.existing > 0 && i >= rules.existing) || !real(i, j);
      const Reason reason = near(i, j)                       ? seen
                            : rules.sinks > 0 && first(i, j) ? sink
                            : pads                           ? padding
                            : !own(i, j)                     ? other_sequence
                            : !before(i, j)                  ? after_the_query
                            : rules.chunk > 0                ? other_chunk
                                                             : out_of_window;
      cells.push_back(reason);
    }
  }
  return cells;
}

/// Whether queries see keys after them: by what the file's model is for, the layer, or the spec.
bool looks_both_ways(const Subject& subject) {
  const std::string& task = subject.task;
  if (!task.empty()) return task != "generate";
  const Description& of = subject.description;
  return of.encoding != nullptr && of.encoding->both_sides && of.encoding->both_sides(of.spec({}));
}

/// Whether nothing says on which side of a query its keys lie: neither what the file's model is for, nor a window, nor
/// the spec.
bool leaves_sides_open(const Subject& subject, const RopeLengths& layer) {
  if (!subject.name.starts_with('@') || !subject.task.empty() || layer.window != 0) return false;
  const EncodingInfo* info = subject.description.encoding;
  if (info == nullptr) return true;
  const Record spec = subject.description.spec({});
  return !info->both_sides && !(info->causal && info->causal(spec));
}

/// The window that is asked for, on both sides of a query, else that of the encoding's layer, or its chunk.
void set_window(std::span<const Subject> encodings, const FigureOptions& options, Rules& rules) {
  const bool asked = options.window != 0 || encodings.empty();
  const RopeLengths layer = asked ? RopeLengths{.window = options.window} : encodings[0].lengths;
  const bool both = layer.after > 0 || std::any_of(encodings.begin(), encodings.end(), looks_both_ways);
  rules.causal = options.causal.value_or(!both);
  rules.assumed = !options.causal && !both && !encodings.empty() && leaves_sides_open(encodings[0], layer);
  if (layer.chunked) {
    rules.chunk = layer.window, rules.chunks_before = layer.chunks_before;
    return;
  }
  rules.window = layer.window;
  rules.after = layer.after > 0 ? layer.after : std::max<Index>(layer.window - 1, 0);
}

Rules rules_of(std::span<const Subject> encodings, const FigureOptions& options, Index length) {
  Rules rules{.sinks = options.sinks};
  set_window(encodings, options, rules);
  if (options.window < 0) throw RangeError(text::concat("[figure] window: must be at least 0, got ", options.window));
  if (options.sinks < 0 || (options.sinks > 0 && rules.window == 0)) {
    throw RangeError(text::concat("[figure] sinks: must be at least 0, and come with a window, got ", options.sinks));
  }
  if (options.packed.empty()) return rules;
  rules.starts = {0};
  for (const Index one : options.packed) {
    if (one < 1 || one > length - rules.starts.back()) {
      throw RangeError(
          text::concat("[figure] packed: must be lengths of 1 or more whose sum is at most ", length, ", got ", one));
    }
    rules.starts.push_back(rules.starts.back() + one);
  }
  rules.existing = rules.starts.back();
  if (rules.existing < length) rules.starts.push_back(length);
  return rules;
}

/// Axes of keys and queries; of packed sequences it has some of their positions.
Panel square(const Rules& rules, const std::vector<Index>& positions) {
  const double last = static_cast<double>(positions.size()) - 0.5;
  const std::string what = rules.starts.empty() ? "" : ", by its position";
  Panel panel{.x = {"key" + what, -0.5, last}, .y = {"query" + what, last, -0.5}, .round = true};
  for (std::size_t s = 0; s + 1 < rules.starts.size(); ++s) {
    const Index first = rules.starts[s], count = rules.starts[s + 1] - first;
    for (const Index at : {first, first + count / 2}) {
      const Tick tick{static_cast<double>(at), std::to_string(positions[static_cast<std::size_t>(at)])};
      if (at == first || count >= 6) panel.x.ticks.push_back(tick);
    }
  }
  panel.y.ticks = panel.x.ticks;
  return panel;
}

/// The cells with those reasons alone that occur. Keys after the query are left blank: whatever the colours, half of a
/// causal mask is then seen to be hidden.
Cells categories(const std::vector<Reason>& found, Index length) {
  Cells cells{.rows = length, .cols = length, .map = ColourMap::categories};
  std::array<double, reasons.size()> number{};
  for (std::size_t r = 0; r < reasons.size(); ++r) {
    number[r] = std::nan("");
    const bool any = std::find(found.begin(), found.end(), static_cast<Reason>(r)) != found.end();
    if (any && r == after_the_query) cells.title = "blank: after the query";
    if (!any || r == after_the_query) continue;
    number[r] = static_cast<double>(cells.categories.size());
    cells.categories.push_back(reasons[r]);
  }
  for (const Reason reason : found) cells.values.push_back(number[reason]);
  cells.high = std::max(1.0, static_cast<double>(cells.categories.size()) - 1);
  return cells;
}

/// What the encoding makes of a query and a key with one content, whatever they see of each other: of a bias, the bias.
Array scores_of(const Shown& shown, const std::vector<Index>& positions, const Executor& on) {
  const Specimen& s = shown.specimen;
  const auto n = static_cast<Index>(positions.size());
  const Tokens at = s.is_image() ? s.tokens(n) : Tokens(positions);
  Array content(s.options.heads, n, s.options.dim);
  if (s.turn_rows || s.score_terms) {
    Normal normal(s.options.seed);
    const Array one = normal.array(s.options.heads, 1, s.options.dim);
    for (Index h = 0; h < s.options.heads; ++h) {
      for (Index t = 0; t < n; ++t) {
        for (Index d = 0; d < s.options.dim; ++d) content(h, t, d) = std::copysign(1, one(h, 0, d));
      }
    }
  }
  if (s.score_terms && !s.turn_rows && !s.input_rows) return s.scores(at, at, content, content, on);
  return s.logits(at, at, content, content, on);
}

Panel score_panel(const Shown& shown, Panel panel, const std::vector<Reason>& found,
                  const std::vector<Index>& positions, const FigureOptions& options) {
  const Specimen& s = shown.specimen;
  if (!s.input_rows && !s.turn_rows && !s.score_terms) nothing_to_show(shown, "must have scores");
  const Index h = options.head.value_or(0), n = static_cast<Index>(positions.size());
  if (h < 0 || h >= s.options.heads) {
    throw RangeError(text::concat("[figure] head: must be from 0 to ", s.options.heads - 1, ", got ", h));
  }
  const Array scores = scores_of(shown, positions, options.on);
  const bool bias = !s.input_rows && !s.turn_rows;
  Cells cells{.rows = n, .cols = n, .title = bias ? "bias" : "logit"};
  Range range;
  for (Index i = 0; i < n; ++i) {
    for (Index j = 0; j < n; ++j) {
      const Reason reason = found[static_cast<std::size_t>(i * n + j)];
      cells.values.push_back(reason == seen || reason == sink ? scores(h, i, j) : std::nan(""));
    }
  }
  range.reach(cells.values);
  cells.low = range.low, cells.high = range.high > range.low ? range.high : range.low + 1;
  panel.title = text::concat(shown.name(), s.options.heads > 1 ? text::concat(", head ", h) : "");
  panel.cells = std::move(cells);
  return panel;
}

std::string counts_of(const std::vector<Reason>& found) {
  std::string said;
  for (std::size_t r = 0; r < reasons.size(); ++r) {
    const auto count = std::count(found.begin(), found.end(), static_cast<Reason>(r));
    if (count > 0) said += text::concat(said.empty() ? "" : "; ", reasons[r], ": ", count);
  }
  return said;
}

std::string window_text(const Rules& rules) {
  if (rules.chunk > 0) {
    const Index before = rules.chunks_before;
    const std::string more = before < 0   ? " and all before"
                             : before > 0 ? text::concat(" and ", before, " before")
                                          : "";
    return text::concat(", chunks of ", rules.chunk, more);
  }
  if (rules.window == 0) return "";
  if (rules.causal || rules.after == rules.window - 1) return text::concat(", window ", rules.window);
  return text::concat(", window of ", rules.window - 1, " before and ", rules.after, " after");
}

Figure masks(std::span<const Subject> encodings, const FigureOptions& options) {
  const Index packed = std::accumulate(options.packed.begin(), options.packed.end(), Index{0});
  Index length = options.length > 0 ? options.length : packed > 0 ? packed : 32;
  const std::vector<Shown> shown = examples(encodings, options, {.heads = 8, .dim = 64, .length = length});
  if (!shown.empty()) length = shown[0].specimen.options.length;
  const std::string note = shown.empty() ? "" : length_note(shown[0].asked, length);
  if (length < 1 || length > longest) {
    throw RangeError(text::concat("[figure] length: must be from 1 to ", longest, " for masks, got ", length));
  }
  const Rules rules = rules_of(encodings, options, length);
  const std::vector<Index> positions = positions_of(rules, length);
  const std::vector<Reason> found = reasons_of(rules, positions, options.on);
  Figure figure{.title = rules.causal ? "What a query sees: causal" : "What a query sees: both directions"};
  if (rules.assumed) figure.title += " (assumed)";
  figure.title += window_text(rules);
  if (rules.sinks > 0) figure.title += text::concat(", ", rules.sinks, rules.sinks == 1 ? " sink" : " sinks");
  if (!rules.starts.empty())
    figure.title +=
        text::concat(", ", std::ssize(options.packed), std::ssize(options.packed) == 1 ? " sequence" : " sequences");
  Panel panel = square(rules, positions);
  const Panel empty = panel;
  panel.title = "mask";
  panel.cells = categories(found, length);
  figure.text = text::concat("Cells of ", length, " queries by ", length, " keys. ", counts_of(found), ".");
  figure.panels.push_back(std::move(panel));
  for (const Shown& one : shown) {
    figure.panels.push_back(score_panel(one, empty, found, positions, options));
    const Cells& cells = *figure.panels.back().cells;
    figure.text += text::concat(" ", one.name(), " gives the seen cells ", short_number(cells.low), " to ",
                                short_number(cells.high), ".");
  }
  if (rules.assumed) {
    figure.text +=
        " The file does not say whether keys after a query are seen: causal is assumed, and the option causal decides.";
  }
  if (!note.empty()) figure.text += text::concat(" ", shown[0].name(), ": ", note, ".");
  figure.columns = columns_for(figure.panels.size());
  return figure;
}

}  // namespace

FigureKind masks_kind() {
  return {"masks",
          "which keys a query sees, and why others are hidden",
          0,
          1,
          {"heads", "dim", "length", "seed", "head", "causal", "window", "sinks", "packed"},
          masks};
}

}  // namespace bearing::inspect
