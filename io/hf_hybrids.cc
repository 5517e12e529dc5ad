#include <algorithm>
#include <iterator>

#include "hf_reader.hpp"

// Which layers of a hybrid model attend, where its file does not list a type for each. Facts: configuration_*.py of
// Hugging Face transformers 5.24.0.

namespace bearing::hf {
namespace {

using json::Object;
using Types = std::vector<std::string>;

enum class How {
  indices,  ///< a list of the layers that attend, from 0
  period,   ///< attn_layer_period and attn_layer_offset: one of each so many layers, as its pattern's
  letters,  ///< hybrid_override_pattern: a letter for each layer
  numbers,  ///< linear_attn_config: full_attn_layers and kda_layers, from 1
};

struct Hybrid {
  std::string_view model_type;
  How how;
  std::string_view key = {};     ///< of the indices
  const char* others = nullptr;  ///< what layers are that are not among the indices
};
constexpr Hybrid hybrids[] = {
    {"bamba", How::indices, "attn_layer_indices", linear_attention},
    {"jamba", How::period},
    {"kimi_linear", How::numbers},
    {"lfm2", How::indices, "full_attn_idxs", "conv"},
    {"nemotron_h", How::letters},
    {"zamba", How::period},
};

std::optional<Types> by_indices(const Config& config, const Hybrid& row) {
  const auto attending = config.file.integers(row.key, static_cast<std::size_t>(most_layers), 0, most_layers);
  if (!attending) return {};
  Types types(static_cast<std::size_t>(config.layers), row.others);
  for (const Index i : *attending) {
    if (i < config.layers) types[static_cast<std::size_t>(i)] = full_attention;
  }
  return types;
}

/// Where the file has neither key, the family's pattern says the same.
std::optional<Types> by_period(const Config& config) {
  const Object& file = config.file;
  if (!file.has("attn_layer_period") && !file.has("attn_layer_offset")) return {};
  Types types = types_by_pattern(config.family.pattern, config.layers, false);
  const std::string_view pattern = config.family.pattern;
  const std::size_t bar = pattern.find('|'), first = bar == pattern.npos ? 0 : bar;
  const std::string_view cycle = pattern.substr(bar == pattern.npos ? 0 : bar + 1);
  const auto usual = static_cast<Index>(cycle.find_first_not_of('L'));
  const Index period = file.integer("attn_layer_period", 1, most_period).value_or(std::ssize(cycle));
  const Index offset = file.integer("attn_layer_offset", 0, most_period).value_or(usual);
  if (offset >= period) {
    file.notes().fail(file.pointer("attn_layer_offset"), "must be below attn_layer_period = " + std::to_string(period) +
                                                             ", got " + std::to_string(offset));
  }
  const std::string attending = type_of_letter(cycle[static_cast<std::size_t>(usual)], false);
  for (std::size_t i = first; i < types.size(); ++i) {
    types[i] = static_cast<Index>(i - first) % period == offset ? attending : linear_attention;
  }
  return types;
}

const char* type_of_word(char word) {
  switch (word) {
    case 'M':
      return linear_attention;
    case 'E':
      return "moe";
    case '*':
      return full_attention;
    case '-':
      return "mlp";
    default:
      return nullptr;
  }
}

std::optional<Types> by_letters(const Config& config) {
  constexpr std::string_view key = "hybrid_override_pattern";
  const auto words = config.file.text(key);
  if (!words) return {};
  if (words->empty() || std::ssize(*words) > most_layers)
    config.file.wrong(key, "a string of 1 to " + std::to_string(most_layers) + " letters");
  Types types;
  for (const char word : *words) {
    const char* type = type_of_word(word);
    if (type == nullptr) config.file.wrong(key, "a string of the letters M, E, * and -");
    types.emplace_back(type);
  }
  return types;
}

std::optional<Types> by_numbers(const Config& config) {
  const auto given = config.file.object("linear_attn_config");
  if (!given) return {};
  const auto most = static_cast<std::size_t>(most_layers);
  const auto full = given->integers("full_attn_layers", most, 1, config.layers);
  const auto delta = given->integers("kda_layers", most, 1, config.layers);
  if (!full || !delta) return {};
  Types types(static_cast<std::size_t>(config.layers));
  for (const auto& [list, type] : {std::pair(&*full, full_attention), std::pair(&*delta, linear_attention)}) {
    for (const Index layer : *list) {
      std::string& of = types[static_cast<std::size_t>(layer - 1)];
      if (!of.empty() && of != type) given->wrong("kda_layers", "a list of no layer that full_attn_layers names");
      of = type;
    }
  }
  if (std::find(types.begin(), types.end(), "") != types.end()) {
    given->wrong("kda_layers", "a list of all layers from 1 to " + std::to_string(config.layers) +
                                   " that full_attn_layers does not name");
  }
  return types;
}

}  // namespace

std::optional<std::vector<std::string>> types_of_hybrid(const Config& config) {
  const auto* row = std::find_if(std::begin(hybrids), std::end(hybrids),
                                 [&](const Hybrid& one) { return one.model_type == config.family.model_type; });
  if (row == std::end(hybrids)) return {};
  switch (row->how) {
    case How::indices:
      return by_indices(config, *row);
    case How::period:
      return by_period(config);
    case How::letters:
      return by_letters(config);
    case How::numbers:
      return by_numbers(config);
  }
  return {};
}

}  // namespace bearing::hf
