#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "config_report.hpp"
#include "pair_change.hpp"
#include "record_text.hpp"
#include "terminal.hpp"

// What a model's file says, in words: for a terminal and for a page.

namespace bearing::tool {
namespace {

std::string pairing_text(const Rope& rope, const RopeFrequencies& numbers) {
  const Index rotary_dim = numbers.rotary_dim;
  if (!numbers.blocks.empty()) return "half, within the block of each axis: its first half turns with its second";
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

std::string not_read(const OtherEncoding& other) {
  return "recognised by name, its numbers are not read" + (other.why.empty() ? "" : ": " + printable(other.why));
}

std::string length_text(Index tokens) { return tokens > 0 ? grouped(tokens) + " tokens" : "not stated"; }

/// "500,000 (rope_theta)"
std::string base_text(double base, const std::string& from) {
  return grouped(base) + (from.empty() ? "" : " (" + printable(from) + ")");
}

void add(std::vector<Fact>& facts, std::vector<Fact> more) {
  for (Fact& fact : more) facts.push_back(std::move(fact));
}

void add_regions(std::vector<Fact>& facts, const ModelRegions& regions, Index seq_len) {
  const Index chunk = regions.chunks.chunk_size, local = regions.chunks.local_size;
  facts.push_back(
      {"regions", fmt::format("dual chunk: chunks of {}, distances up to {}", grouped(chunk - local), grouped(chunk))});
  if (regions.original_length == 0) return;
  facts.push_back(
      {"softmax scale", fmt::format("times max(1, 0.1 ln(length / {}) + 1)", grouped(regions.original_length)) +
                            (seq_len > 0 ? ": " + factor_text(regions.softmax_factor(seq_len)) : "")});
}

std::string chunks_text(const Layer& layer) {
  const std::string way = layer.window_after > 0 ? ", both directions" : "";
  const Index before = layer.chunks_before;
  const std::string more = before < 0 ? ", and all before" : before > 0 ? fmt::format(", and {} before", before) : "";
  return fmt::format("chunks of {}{}{}", grouped(layer.window), way, more);
}

std::string window_text(const Layer& layer) {
  if (layer.window == 0) return "";
  if (layer.type == "chunked_attention") return ", " + chunks_text(layer);
  if (layer.window_after == 0) return fmt::format(", window {}", grouped(layer.window));
  return fmt::format(", window of {} tokens before and {} after", grouped(layer.window - 1),
                     grouped(layer.window_after));
}

/// The file's word. Linear attention has no softmax, and is one still.
std::string attention_text(const Layer& layer) {
  const std::string type = printable(layer.type);
  const bool none = !layer.attends() && layer.type != "linear_attention";
  return (none ? "no attention (" + type + ")" : type) + window_text(layer);
}

/// Why a layer has no encoding.
const char* no_position_text(const Layer& layer, const Model& model) {
  if (layer.type == "moe" || layer.type == "mlp") return "none: it mixes no tokens";
  if (layer.type == "conv") return "none: it looks at neighbours, in their order";
  if (!layer.attends()) return "none: it takes tokens one after the other, in their order";
  return model.inputs.empty() ? "none (NoPE): queries and keys are used as they are"
                              : "none of its own: they are in the input";
}

}  // namespace

std::string layers_text(const std::vector<Index>& layers) {
  return fmt::format("layer{} {}", layers.size() == 1 ? "" : "s", ranges(layers));
}

std::vector<std::vector<std::string>> pair_rows(const GroupReport& group, Pairs pairs) {
  constexpr Index most = 32, head = 15, tail = 16;  // with the line that stands for the middle: 32 rows
  const RopeFrequencies& numbers = *group.frequencies;
  const bool with_change = pair_runs(numbers).size() > 1 || numbers.change.front() != PairChange::kept;
  const Index n = numbers.pairs();
  const std::string_view counted = position_unit(lengths_of({}, group.group.layer), numbers.axes);
  const char* unit = counted == "units" ? "rad/unit" : counted == "patches" ? "rad/patch" : "rad/token";
  std::vector<std::vector<std::string>> rows{{"pair", unit, "wavelength"}};
  if (with_change) rows[0].push_back("change");
  if (numbers.axes > 1) rows[0].push_back("axis");
  for (Index i = 0; i < n; ++i) {
    if (pairs == Pairs::elided && n > most && i == head) {
      std::vector<std::string> gap(rows[0].size());
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

const GroupReport* same_table(const GroupReport& group, const ConfigReport& report) {
  for (const GroupReport& other : report.groups) {
    if (&other == &group) return nullptr;
    if (!other.frequencies) continue;
    const RopeFrequencies &a = *other.frequencies, &b = *group.frequencies;
    if (a.inv_freq == b.inv_freq && a.change == b.change && a.axes == b.axes && a.axis == b.axis) return &other;
  }
  return nullptr;
}

std::vector<Fact> record_facts(const Record& record) {
  std::vector<Fact> facts;
  if (!record) return facts;
  for (const MemberInfo& member : record.type().members) {
    const Value value = record.get(member.name);
    if (std::holds_alternative<std::monostate>(value)) continue;
    if (const Record* inner = std::get_if<Record>(&value)) {
      add(facts, record_facts(*inner));
      continue;
    }
    std::string name = member.name;
    std::replace(name.begin(), name.end(), '_', ' ');
    facts.push_back({name, value_text(value)});
  }
  return facts;
}

std::vector<Fact> rope_facts(const Rope& rope, const RopeFrequencies& numbers, Index seq_len,
                             const std::string& base_from) {
  std::vector<Fact> facts;
  facts.push_back({"pairing", pairing_text(rope, numbers)});
  facts.push_back({"dimensions", dimensions_text(numbers)});
  if (numbers.axes > 1) facts.push_back({"axes", axes_text(rope.axes, numbers.axes)});
  facts.push_back({"base", base_text(rope.base, base_from)});
  facts.push_back({"scaling", scaling_text(rope)});
  if (depends_on_length(rope.scaling)) {
    const Index length = seq_len > 0 ? seq_len : trained_length(rope.scaling);
    facts.push_back({"numbers for", fmt::format("{} tokens", grouped(length))});
  }
  facts.push_back({"attention factor", factor_text(numbers.attention_factor)});
  facts.push_back({"softmax factor", factor_text(numbers.softmax_scale_factor)});
  facts.push_back({"pairs", runs_text(numbers)});
  return facts;
}

namespace {

/// Of a head; 0: the file does not say.
std::string dimensions_of(Index head_dim) {
  return head_dim > 0 ? fmt::format("{} dimensions", head_dim) : "dimensions not stated";
}

}  // namespace

std::vector<Fact> model_facts(const ConfigReport& report) {
  const Model& model = report.model;
  const auto layers = static_cast<Index>(model.layers.size());
  std::vector<Fact> facts;
  facts.push_back(
      {"model", fmt::format("{}, {}", model.model_type.empty() ? "type not stated" : printable(model.model_type),
                            counted(layers, "layer"))});
  facts.push_back({"heads", model.heads == 0 ? "not stated for the whole model"
                                             : fmt::format("{} query, {} key/value, {}", model.heads, model.kv_heads,
                                                           dimensions_of(model.head_dim))});
  facts.push_back({"trained length", length_text(model.trained_length)});
  facts.push_back({"context length", length_text(model.context_length)});
  if (report.reach > 0 && report.reach != model.context_length) {
    facts.push_back({"scaled length", length_text(report.reach)});
  }
  if (model.regions) add_regions(facts, *model.regions, report.seq_len);
  return facts;
}

std::string tower_title(const Model& tower) {
  const auto layers = static_cast<Index>(tower.layers.size());
  std::string title =
      printable(tower.part) + ": " + (tower.model_type.empty() ? "type not stated" : printable(tower.model_type));
  title += ", " + counted(layers, "layer");
  if (tower.heads > 0) title += fmt::format(", {} of {}", counted(tower.heads, "head"), dimensions_of(tower.head_dim));
  return title;
}

std::string input_name(const ModelInput& input) {
  return fmt::format("input{}{}", input.label.empty() ? "" : fmt::format(" ({})", input.label),
                     input.part.empty() ? "" : " of the " + input.part);
}

std::string input_title(const ModelInput& input) {
  return fmt::format("{}: {}", input_name(input), printable(encoding_name(input.encoding)));
}

std::vector<Fact> input_facts(const ModelInput& input) {
  std::vector<Fact> facts;
  if (input.first_position != 0) facts.push_back({"first position", grouped(input.first_position)});
  if (!input.positions.empty()) facts.push_back({"position", input.positions});
  if (input.length > 0) facts.push_back({"length", grouped(input.length)});
  if (const auto* other = std::get_if<OtherEncoding>(&input.encoding)) {
    facts.push_back({"positions", not_read(*other)});
  }
  add(facts, record_facts(record_of(input.encoding)));
  return facts;
}

std::string group_title(const LayerGroup& group) {
  const Layer& layer = group.layer;
  const std::string encoding = std::holds_alternative<Rope>(layer.encoding) ? "rotary"
                               : std::holds_alternative<NoPosition>(layer.encoding)
                                   ? "no encoding"
                                   : printable(encoding_name(layer.encoding));
  return fmt::format("{}{}{}: {}", layer.part, layer.part.empty() ? "" : " ", layers_text(group.layers), encoding);
}

std::vector<Fact> group_facts(const GroupReport& group, const ConfigReport& report) {
  const Layer& layer = group.group.layer;
  std::vector<Fact> facts = {{"attention", attention_text(layer)}};
  if (!layer.positions.empty()) facts.push_back({"position", layer.positions});
  if (layer.grid.width > 0) {
    facts.push_back({"trained image", fmt::format("{} x {} patches", layer.grid.height, layer.grid.width)});
  }
  if (layer.temperature) facts.push_back({"temperature", "queries times " + layer.temperature->formula()});
  if (const Rope* rope = std::get_if<Rope>(&layer.encoding)) {
    add(facts, rope_facts(*rope, *group.frequencies, report.seq_len, layer.base_from));
  }
  if (const auto* other = std::get_if<OtherEncoding>(&layer.encoding)) facts.push_back({"positions", not_read(*other)});
  if (std::holds_alternative<NoPosition>(layer.encoding)) {
    facts.push_back({"positions", no_position_text(layer, report.model)});
  }
  add(facts, record_facts(record_of(layer.encoding)));
  if (layer.values) {
    const bool same = layer.encoding == LayerEncoding(*layer.values);
    facts.push_back(
        {"values", same ? "turned as keys are, and their sum is turned back" : "turned, and their sum is turned back"});
  }
  for (const LayerEncoding& further : layer.also) {
    facts.push_back({"and also", encoding_name(further)});
    if (const Rope* rope = std::get_if<Rope>(&further)) add(facts, rope_facts(*rope, resolve(*rope, report.seq_len)));
    add(facts, record_facts(record_of(further)));
  }
  return facts;
}

std::string warning_text(const ConfigWarning& warning) {
  return (warning.pointer.empty() ? "" : printable(warning.pointer) + ": ") + printable(warning.text);
}

}  // namespace bearing::tool
