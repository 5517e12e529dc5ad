#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "config_report.hpp"
#include "record_text.hpp"
#include "terminal.hpp"

namespace bearing::tool {
namespace {

constexpr std::size_t label_width = 20;  // "  attention factor  "

const char* name_of(PairChange change) {
  return change == PairChange::kept ? "kept" : change == PairChange::blended ? "blended" : "scaled";
}

std::string labelled(const char* label, std::string_view text, const Style& style) {
  // A label that leaves no gap has a line of its own.
  const bool fits = std::string_view(label).size() < label_width - 2;
  return fmt::format("  {:<{}}", label, fits ? label_width - 2 : 0) +
         (fits ? "" : '\n' + std::string(label_width, ' ')) + wrapped(text, style.width, label_width);
}

std::string pairing_text(const Rope& rope, Index rotary_dim) {
  if (rope.pairing == Pairing::half) {
    return fmt::format("half: i and i + {} turn together [ccccssss]", rotary_dim / 2);
  }
  return "interleaved: 2i and 2i + 1 turn together [cscscscs]";
}

std::string dimensions_text(const RopeFrequencies& numbers) {
  if (numbers.rotary_dim == numbers.head_dim) return fmt::format("all {} of a head", numbers.head_dim);
  return fmt::format("{} to {} of a head's {}", numbers.begin, numbers.begin + numbers.rotary_dim - 1,
                     numbers.head_dim);
}

/// "factor 8", "truncate no", "short_factor (48 numbers)"
std::string member_text(const std::string& name, const Value& value) {
  const Values* all = std::get_if<Values>(&value);
  return all != nullptr ? fmt::format("{} ({} numbers)", name, all->size()) : name + ' ' + value_text(value);
}

std::string scaling_text(const Rope& rope) {
  std::string out = std::holds_alternative<NoScaling>(rope.scaling) ? "none" : scaling_name(rope.scaling);
  const Record scaling = std::get<Record>(Record::of(rope).get("scaling"));
  const char* separator = ": ";
  for (const MemberInfo& member : scaling.type().members) {
    const Value value = scaling.get(member.name);
    if (std::holds_alternative<std::monostate>(value)) continue;
    out += separator + member_text(member.name, value);
    separator = ", ";
  }
  return out;
}

std::string axes_text(const RopeAxes& axes, Index count) {
  if (axes.order == RopeAxes::Order::listed) return fmt::format("{}, listed pair by pair", count);
  const char* order = axes.order == RopeAxes::Order::interleaved             ? "interleaved"
                      : axes.frequencies == RopeAxes::Frequencies::restarted ? "in sections, frequencies afresh in each"
                      : axes.frequencies == RopeAxes::Frequencies::strided
                          ? "in sections, frequencies dealt out in turn"
                          : "in sections";
  return fmt::format("{} of {} pairs, {}", count, fmt::join(axes.pairs, " + "), order);
}

/// "0-28 kept, 29-34 blended, 35-63 scaled"
std::string runs_text(const RopeFrequencies& numbers) {
  std::string out;
  for (const PairRun& run : pair_runs(numbers)) {
    out += out.empty() ? "" : ", ";
    out += run.first == run.last ? fmt::format("{}", run.first) : fmt::format("{}-{}", run.first, run.last);
    out += fmt::format(" {}", name_of(run.change));
  }
  return out;
}

/// Six significant digits for what is turned per token, whole tokens from 1,000 up.
std::string wavelength_text(double tokens) {
  if (!std::isfinite(tokens)) return "never";
  if (tokens < 1000) return fmt::format("{:.2f}", tokens);
  return tokens < 1e12 ? grouped(std::round(tokens)) : fmt::format("{:.4g}", tokens);
}

/// Six digits are for people; JSON has all.
std::string factor_text(double factor) { return fmt::format("{:.6g}", factor); }

using Cells = std::vector<std::string>;

/// The rows of the table of pairs, its heading first; a long table without its middle.
std::vector<Cells> pair_rows(const GroupReport& group, Pairs pairs) {
  constexpr Index most = 32, head = 15, tail = 16;  // with the line that stands for the middle: 32 rows
  const RopeFrequencies& numbers = *group.frequencies;
  const bool with_change = pair_runs(numbers).size() > 1 || numbers.change.front() != PairChange::kept;
  const Index n = numbers.pairs();
  std::vector<Cells> rows{{"pair", "rad/token", "wavelength"}};
  if (with_change) rows[0].push_back("change");
  if (numbers.axes > 1) rows[0].push_back("axis");
  for (Index i = 0; i < n; ++i) {
    if (pairs == Pairs::elided && n > most && i == head) {
      Cells gap(rows[0].size());
      gap[0] = "...", gap[1] = fmt::format("{} more", n - head - tail), gap[2] = "with --all";
      rows.push_back(gap);
      i = n - tail;
    }
    const auto at = static_cast<std::size_t>(i);
    rows.push_back(
        {fmt::format("{}", i), fmt::format("{:.6g}", numbers.inv_freq[at]), wavelength_text(group.wavelength[at])});
    if (with_change) rows.back().push_back(name_of(numbers.change[at]));
    if (numbers.axes > 1) rows.back().push_back(fmt::format("{}", numbers.axis[at]));
  }
  return rows;
}

/// As many blocks side by side as the width allows, read downwards first.
std::string table_text(const std::vector<Cells>& rows, const Style& style) {
  const std::size_t columns = rows[0].size();
  std::vector<std::size_t> widths(columns);
  for (const Cells& row : rows) {
    for (std::size_t c = 0; c < columns; ++c) widths[c] = std::max(widths[c], row[c].size());
  }
  std::size_t block_width = 2 * (columns - 1);
  for (std::size_t width : widths) block_width += width;
  constexpr std::size_t indent = 2, gap = 4;
  const std::size_t fitting = (style.width - indent + gap) / (block_width + gap);
  const std::size_t blocks = std::clamp<std::size_t>(fitting, 1, (rows.size() + 6) / 8);  // no block of under 8 rows
  const std::size_t height = (rows.size() - 1 + blocks - 1) / blocks;
  const auto cells_text = [&](const Cells& row) {
    std::string line;
    for (std::size_t c = 0; c < columns; ++c) {
      // Words stand left, numbers right.
      line += c == 0 ? "" : "  ";
      line +=
          rows[0][c] == "change" ? fmt::format("{:<{}}", row[c], widths[c]) : fmt::format("{:>{}}", row[c], widths[c]);
    }
    return line;
  };
  std::string out;
  for (std::size_t y = 0; y <= height; ++y) {
    std::string line(indent, ' ');
    for (std::size_t b = 0; b < blocks; ++b) {
      const std::size_t row = y == 0 ? 0 : 1 + b * height + (y - 1);
      if (row >= rows.size()) continue;
      line += (b == 0 ? "" : std::string(gap, ' ')) + cells_text(rows[row]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += (y == 0 ? bold(style, line) : line) + '\n';
  }
  return out;
}

/// An earlier group whose table of pairs is this one's; null if there is none.
const GroupReport* same_table(const GroupReport& group, const ConfigReport& report) {
  for (const GroupReport& other : report.groups) {
    if (&other == &group) return nullptr;
    if (!other.frequencies) continue;
    const RopeFrequencies &a = *other.frequencies, &b = *group.frequencies;
    if (a.inv_freq == b.inv_freq && a.change == b.change && a.axes == b.axes && a.axis == b.axis) return &other;
  }
  return nullptr;
}

std::string rope_text(const Rope& rope, const GroupReport& group, const ConfigReport& report, const Style& style,
                      Pairs pairs) {
  const RopeFrequencies& numbers = *group.frequencies;
  std::string out = labelled("pairing", pairing_text(rope, numbers.rotary_dim), style);
  out += labelled("dimensions", dimensions_text(numbers), style);
  if (numbers.axes > 1) out += labelled("axes", axes_text(rope.axes, numbers.axes), style);
  out += labelled("base", grouped(rope.base) + " (rope_theta)", style);
  out += labelled("scaling", scaling_text(rope), style);
  if (depends_on_length(rope.scaling)) {
    const Index length = report.seq_len > 0 ? report.seq_len : trained_length(rope.scaling);
    out += labelled("numbers for", fmt::format("{} tokens", grouped(length)), style);
  }
  out += labelled("attention factor", factor_text(numbers.attention_factor), style);
  out += labelled("softmax factor", factor_text(numbers.softmax_scale_factor), style);
  out += labelled("pairs", runs_text(numbers), style);
  if (const GroupReport* other = same_table(group, report)) {
    return out + labelled("table",
                          "that of layer" + std::string(other->group.layers.size() == 1 ? " " : "s ") +
                              ranges(other->group.layers),
                          style);
  }
  return out + '\n' + table_text(pair_rows(group, pairs), style);
}

/// One line for each member of a spec, and of a spec in it; JSON's names with blanks.
std::string members_text(const Record& record, const Style& style) {
  std::string out;
  if (!record) return out;
  for (const MemberInfo& member : record.type().members) {
    const Value value = record.get(member.name);
    if (std::holds_alternative<std::monostate>(value)) continue;
    if (const Record* inner = std::get_if<Record>(&value)) {
      out += members_text(*inner, style);
      continue;
    }
    std::string name = member.name;
    std::replace(name.begin(), name.end(), '_', ' ');
    out += labelled(name.c_str(), value_text(value), style);
  }
  return out;
}

std::string input_text(const ModelInput& input, const Style& style) {
  const std::string title = fmt::format("input{}{}: {}", input.part.empty() ? "" : " of the ", input.part,
                                        printable(encoding_name(input.encoding)));
  std::string out = "\n" + bold(style, wrapped(title, style.width, 2));
  if (input.first_position != 0) out += labelled("first position", grouped(input.first_position), style);
  if (std::holds_alternative<OtherEncoding>(input.encoding)) {
    return out + labelled("positions", "recognised by name, its numbers are not read", style);
  }
  return out + members_text(record_of(input.encoding), style);
}

std::string group_text(const GroupReport& group, const ConfigReport& report, const Style& style, Pairs pairs) {
  const Layer& layer = group.group.layer;
  const Rope* rope = std::get_if<Rope>(&layer.encoding);
  const bool none = std::holds_alternative<NoPosition>(layer.encoding);
  const std::string encoding = rope != nullptr ? "rotary"
                               : none          ? "no encoding"
                                               : printable(encoding_name(layer.encoding));
  const std::string title =
      fmt::format("{}{}layer{} {}: {}", layer.part, layer.part.empty() ? "" : " ",
                  group.group.layers.size() == 1 ? "" : "s", ranges(group.group.layers), encoding);
  std::string out = "\n";
  out += bold(style, wrapped(title, style.width, 2));
  std::string attention = printable(layer.type);
  if (layer.window > 0) attention += fmt::format(", window {}", grouped(layer.window));
  out += labelled("attention", attention, style);
  if (layer.temperature) out += labelled("temperature", "queries times " + layer.temperature->formula(), style);
  if (rope != nullptr) return out + rope_text(*rope, group, report, style, pairs);
  if (std::holds_alternative<OtherEncoding>(layer.encoding)) {
    return out + labelled("positions", "not rotary: recognised by name, its numbers are not read", style);
  }
  if (none && report.model.inputs.empty()) {
    return out + labelled("positions", "none (NoPE): queries and keys are used as they are", style);
  }
  if (none) return out + labelled("positions", "none of its own: they are in the input", style);
  return out + members_text(record_of(layer.encoding), style);
}

std::string length_text(Index tokens) { return tokens > 0 ? grouped(tokens) + " tokens" : "not stated"; }

}  // namespace

std::string to_text(const ConfigReport& report, const Style& style, Pairs pairs) {
  const Model& model = report.model;
  std::string out = bold(style, printable(model.file)) + '\n';
  const auto layers = static_cast<Index>(model.layers.size());
  out +=
      labelled("model",
               fmt::format("{}, {} layer{}", model.model_type.empty() ? "type not stated" : printable(model.model_type),
                           layers, layers == 1 ? "" : "s"),
               style);
  out += labelled("heads",
                  model.heads == 0 ? "not stated for the whole model"
                                   : fmt::format("{} query, {} key/value, {} dimensions", model.heads, model.kv_heads,
                                                 model.head_dim),
                  style);
  out += labelled("trained length", length_text(model.trained_length), style);
  out += labelled("context length", length_text(model.context_length), style);
  if (report.reach > 0 && report.reach != model.context_length) {
    out += labelled("scaled length", length_text(report.reach), style);
  }
  for (const ModelInput& input : model.inputs) out += input_text(input, style);
  for (const GroupReport& group : report.groups) out += group_text(group, report, style, pairs);
  for (const ConfigWarning& warning : report.warnings) {
    const std::string where = warning.pointer.empty() ? "" : printable(warning.pointer) + ": ";
    const std::string text = wrapped(where + printable(warning.text), style.width, 9);
    if (&warning == report.warnings.data()) out += '\n';
    out += yellow(style, "warning: ");
    out += text;
  }
  return out;
}

}  // namespace bearing::tool
