#include <algorithm>
#include <bearing/encodings/rope.hpp>
#include <bearing/say.hpp>
#include <map>

#include "hf_named.hpp"
#include "hf_reader.hpp"
#include "lasting.hpp"

// Which model types have which encoding: what the reader makes of a file that says its model_type and nothing else.

namespace bearing {
namespace {

/// The name in the catalog; a layer without an encoding counts where nothing is on the input.
template <class Spec>
std::string catalog_name(const Spec& spec) {
  if constexpr (std::is_same_v<Spec, NoPosition>) {
    return "nope";
  } else if constexpr (std::is_same_v<Spec, OtherEncoding>) {
    const Description* named = inspect::find(spec.name == "none" ? "nope" : spec.name);
    return named == nullptr ? spec.name : named->name;
  } else {
    // Any base and order of the pairs is that of a RoPE on two axes; the one in the catalog has the base of one paper.
    if constexpr (std::is_same_v<Spec, Rope>) {
      if (pair_axes(spec.axes, spec.turned()).axes == 2) return "rope_axial";
    }
    const Description* named = description_of(Record::of(spec));
    return named == nullptr ? "" : named->name;
  }
}

std::vector<std::string> encodings_of(const Model& model) {
  std::vector<std::string> names;
  const hf::Named* row = hf::find_named(model.model_type);
  const auto add = [&](const auto& encoding) {
    if (row != nullptr && row->differs && std::holds_alternative<OtherEncoding>(encoding)) return;
    const std::string name = std::visit([](const auto& spec) { return catalog_name(spec); }, encoding);
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  };
  for (const ModelInput& input : model.inputs) add(input.encoding);
  const auto turns = [](const Layer& layer) { return layer.values.has_value(); };
  if (std::any_of(model.layers.begin(), model.layers.end(), turns)) names.emplace_back("rotary_values");
  const auto none = [](const Layer& layer) { return std::holds_alternative<NoPosition>(layer.encoding); };
  const bool nothing = model.inputs.empty() && std::all_of(model.layers.begin(), model.layers.end(), none);
  for (const LayerGroup& group : layer_groups(model)) {
    if (nothing || !none(group.layer)) add(group.layer.encoding);
  }
  return names;
}

using Types = std::map<std::string, std::vector<std::string>, std::less<>>;

Types types_by_encoding() {
  Types all;
  for (const std::string_view type : hf::model_types()) {
    try {
      const Model model = parse_hf_config("{\"model_type\": \"" + std::string(type) + "\"}");
      for (const std::string& name : encodings_of(model)) all[name].emplace_back(type);
    } catch (const ConfigError&) {  // it needs more than its name
    }
  }
  return all;
}

}  // namespace

std::vector<std::string> model_types_of(std::string_view encoding) {
  static const auto& types = lasting(types_by_encoding());
  const auto found = types.find(encoding);
  return found == types.end() ? std::vector<std::string>() : found->second;
}

}  // namespace bearing
