#include <fmt/format.h>

#include <algorithm>
#include <bearing/error.hpp>

#include "arguments.hpp"
#include "commands.hpp"
#include "config_report.hpp"
#include "terminal.hpp"

namespace bearing::tool {
namespace {

struct Options {
  std::string file, seq_len, layer;
  bool json = false, all = false;
};

RopeLengths lengths_of(const Model& model, const Layer& layer, const Rope& rope, Index seq_len) {
  const Index trained = model.trained_length > 0 ? model.trained_length : trained_length(rope.scaling);
  // Inside a window no two tokens are further apart than the window, however long the sequence: no new angles.
  const bool bounded = layer.window > 0 && layer.window <= trained;
  return {.trained = bounded ? 0 : trained,
          .longest = std::max({trained, model.context_length, seq_len}),
          .seq_len = seq_len};
}

std::string layers_text(const std::vector<Index>& layers) {
  return fmt::format("layer{} {}", layers.size() == 1 ? "" : "s", ranges(layers));
}

/// Calls body(rope) for a group that rotates; a spec that cannot be becomes an error of the file.
template <class Body>
void with_rope(const ConfigReport& report, const LayerGroup& group, Body&& body) {
  const Rope* rope = std::get_if<Rope>(&group.layer.encoding);
  if (rope == nullptr) return;
  try {
    body(*rope);
  } catch (const std::logic_error& error) {  // ShapeError, RangeError
    throw ConfigError(fmt::format("{}: {}: {}", report.model.file, layers_text(group.layers), error.what()));
  }
}

/// What is said of several groups is said once; the layers are named unless it is true of all that rotate.
void add_warnings(ConfigReport& report) {
  struct Said {
    std::string text;
    std::vector<Index> layers;
  };
  std::vector<Said> all;
  std::size_t rotating = 0;
  for (const GroupReport& shown : report.groups) {
    with_rope(report, shown.group, [&](const Rope& rope) {
      const std::vector<Index>& layers = shown.group.layers;
      rotating += layers.size();
      for (const std::string& text :
           rope_warnings(rope, lengths_of(report.model, shown.group.layer, rope, report.seq_len))) {
        auto said = std::find_if(all.begin(), all.end(), [&](const Said& other) { return other.text == text; });
        if (said == all.end()) said = all.insert(all.end(), {text, {}});
        said->layers.insert(said->layers.end(), layers.begin(), layers.end());
      }
    });
  }
  for (Said& said : all) {
    std::sort(said.layers.begin(), said.layers.end());
    const bool everywhere = said.layers.size() == rotating;
    report.warnings.push_back({"", everywhere ? said.text : layers_text(said.layers) + ": " + said.text});
  }
}

ConfigReport make_report(const Options& options) {
  ConfigReport report;
  if (!options.seq_len.empty()) report.seq_len = parse_index("--seq-len", options.seq_len, 1, max_position);
  report.model = read_hf_config(options.file);
  const auto layers = static_cast<Index>(report.model.layers.size());
  Index layer = -1;
  if (!options.layer.empty()) layer = parse_index("--layer", options.layer, 0, layers - 1);
  report.warnings = report.model.warnings;
  for (LayerGroup& group : layer_groups(report.model)) {
    if (layer >= 0 && std::find(group.layers.begin(), group.layers.end(), layer) == group.layers.end()) continue;
    GroupReport& shown = report.groups.emplace_back(GroupReport{std::move(group), {}, {}});
    with_rope(report, shown.group, [&](const Rope& rope) {
      shown.frequencies = resolve(rope, report.seq_len);
      shown.wavelength = wavelengths(*shown.frequencies);
    });
  }
  add_warnings(report);
  return report;
}

}  // namespace

std::string ranges(const std::vector<Index>& numbers) {
  std::string out;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    out += fmt::format("{}{}", out.empty() ? "" : ", ", numbers[i]);
    if (last > i) out += fmt::format("-{}", numbers[last]);
    i = last + 1;
  }
  return out;
}

Action add_config_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("config", "Show what a model's config.json does with positions");
  const auto options = std::make_shared<Options>();
  command->add_option("FILE", options->file, "A Hugging Face config.json")->required()->type_name("");
  command->add_option("--seq-len", options->seq_len, "Length in tokens for dynamic NTK and LongRoPE")->type_name("N");
  command->add_option("--layer", options->layer, "Only the group of layers that holds this one")->type_name("I");
  command->add_flag("--all", options->all, "Every pair: long tables are cut otherwise");
  command->add_flag("--json", options->json, "JSON, in full precision, of a stable schema");
  command->footer(
      "Prints each distinct encoding of the layers: its type, pairing, base and\n"
      "scaling, the frequency and wavelength of each pair, the factors that\n"
      "attention needs, and warnings.\n"
      "\n"
      "Examples:\n"
      "  bearing config config.json\n"
      "  bearing config config.json --seq-len 131072 --layer 5 --all\n"
      "  bearing config config.json --json > encoding.json");
  return [options] {
    const ConfigReport report = make_report(*options);
    print(options->json ? to_json(report) : to_text(report, output_style(), options->all ? Pairs::all : Pairs::elided));
  };
}

}  // namespace bearing::tool
