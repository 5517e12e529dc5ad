#include <algorithm>
#include <bearing/error.hpp>
#include <bearing/load.hpp>
#include <bearing/safetensors.hpp>
#include <bearing/say.hpp>
#include <cmath>
#include <filesystem>
#include <map>

#include "hf_inputs.hpp"
#include "json_file.hpp"
#include "load_arranged.hpp"
#include "load_computed.hpp"
#include "load_deberta.hpp"
#include "load_frequencies.hpp"
#include "load_lilt.hpp"
#include "load_sinusoids.hpp"
#include "load_tables.hpp"

namespace bearing {
namespace {

/// The encoding that serves a spec, and what computes one of its parameters from others; null where there is none.
struct Served {
  const EncodingInfo* encoding = nullptr;
  const ComputedInfo* computed = nullptr;
};
Served served_by(const Record& spec) {
  const Description* description = spec ? description_of(spec) : nullptr;
  if (description == nullptr) return {};
  const ComputedInfo* computed = description->computed;
  return {computed != nullptr ? computed->encoding : description->encoding, computed};
}

/// All parameters that weights may hold: the encoding's own, with those that one of them is computed from in its place.
std::vector<const ParameterInfo*> parameters_of(const Served& kind) {
  std::vector<const ParameterInfo*> all;
  if (kind.computed != nullptr) {
    for (const ParameterInfo& one : kind.computed->from) all.push_back(&one);
  }
  for (const ParameterInfo& one : kind.encoding->parameters) {
    if (kind.computed == nullptr || one.name != kind.computed->gives) all.push_back(&one);
  }
  return all;
}

std::string shape_text(const std::vector<Index>& shape) {
  std::string out = "[";
  for (const Index extent : shape) {
    out += (out.size() > 1 ? ", " : "") + (extent == Extent::any ? "any" : std::to_string(extent));
  }
  return out + "]";
}

/// Empty where there is no spec.
template <class Encoding>
Record record_of(const Encoding& encoding) {
  return std::visit(
      []<class Spec>(const Spec& spec) -> Record {
        if constexpr (std::is_same_v<Spec, NoPosition> || std::is_same_v<Spec, OtherEncoding>) {
          return {};
        } else {
          return Record::of(spec);
        }
      },
      encoding);
}

/// Of distances for which rows are computed, each way; Transformer-XL stops counting at 1,000. With rows of 1,024
/// numbers these are 128 MiB.
constexpr Index most_clamped = Index{1} << 14;

std::string missing_of(const OtherEncoding& other) {
  return other.name + " is known by its name alone: its numbers are not read";
}

/// How composites call the module of a part: "decoder", "patch_encoder" for the patch model (DepthPro).
std::string module_of(std::string part) {
  if (const std::size_t comma = part.rfind(", "); comma != part.npos) part.erase(0, comma + 2);
  if (part.ends_with(" model")) part.replace(part.size() - 6, 6, " encoder");
  std::replace(part.begin(), part.end(), ' ', '_');
  return part;
}

/// A parameter, and where the weights have it.
struct Sought {
  const ParameterInfo* info;
  const load::TableName* row;
};

/// An encoding before its tables are there. The weights may hold it for each layer.
struct Placed : LoadedEncoding {
  int place = 0;  ///< as TableName's
  std::vector<Sought> sought = {};
};

class Loader {
 public:
  Loader(Model& model, Weights& weights, Index length)
      : model_(model), weights_(weights), length_(length), names_(weights.names()) {}

  LoadedEncoding input(const InputSpec& encoding, const std::string& part, int place) {
    if (model_.model_type == "lilt" && place > 0) return lilt_input(encoding, place);
    Placed out = of_spec(record_of(encoding), part, place);
    if (const auto* other = std::get_if<OtherEncoding>(&encoding)) out.missing = missing_of(*other);
    if (out.encoding != nullptr) give_tables(out, 0);
    return out;
  }

  /// One for each group of layers, or for each layer where each has tables of its own. `place` counts the layers' own
  /// encodings.
  void layers(const LayerEncoding& encoding, const LayerGroup& group, int place, std::vector<LoadedEncoding>& to) {
    layers(record_of(encoding), group, place, to);
    if (const auto* other = std::get_if<OtherEncoding>(&encoding)) to.back().missing = missing_of(*other);
  }
  void layers(const Record& spec, const LayerGroup& group, int place, std::vector<LoadedEncoding>& to);

 private:
  Placed of_spec(const Record& spec, const std::string& part, int place) const;
  void spread(const Placed& out, const LayerGroup& group, std::vector<LoadedEncoding>& to);
  void xlnet_layers(const Xlnet& spec, const LayerGroup& group, int place, std::vector<LoadedEncoding>& to);
  void seek(Placed& of, const Served& kind) const;

  /// Whether any tensor belongs to the encoder, or to the decoder.
  /// Names have "speech_encoder" for the "speech encoder".
  bool has_part(std::string part) const {
    if (part == "cross-attention") part = "decoder";  // which holds what meets the encoder's rows
    std::replace(part.begin(), part.end(), ' ', '_');
    return std::any_of(names_.begin(), names_.end(), [&](const std::string& name) {
      return name.starts_with(part + ".") || name.find("." + part + ".") != name.npos;
    });
  }

  void keep_own_part(std::vector<load::Match>& all) const;
  const std::vector<load::Match>& tables_of(const Placed& of, const Sought& sought);
  std::string tensor_of(const Placed& of, const Sought& sought, Index layer);
  std::string tensors_of(const Placed& of, Index layer);
  void give_tables(Placed& to, Index layer);
  std::optional<DistanceRange> distances_of(const LoadedEncoding& of) const;
  LoadedEncoding lilt_input(const InputSpec& encoding, int place);
  void deberta_layers(const Deberta& spec, const LayerGroup& group, std::vector<LoadedEncoding>& to);
  LoadedParameter parameter(const LoadedEncoding& of, const Sought& sought, const StoredTensor& tensor) const;
  Sizes sizes_of(const LoadedEncoding& of) const;
  std::vector<Index> expected(const LoadedEncoding& of, const ParameterInfo& info, const std::vector<Index>& got) const;

  Model& model_;
  Weights& weights_;
  Index length_;
  std::vector<std::string> names_;
  std::map<const load::TableName*, std::vector<load::Match>> found_;
  std::map<std::string, std::vector<Index>> own_layers_;  // by part
};

void Loader::layers(const Record& spec, const LayerGroup& group, int place, std::vector<LoadedEncoding>& to) {
  if (const Deberta* deberta = spec ? spec.as<Deberta>() : nullptr) return deberta_layers(*deberta, group, to);
  if (const Xlnet* xlnet = spec ? spec.as<Xlnet>() : nullptr) return xlnet_layers(*xlnet, group, place, to);
  Placed out = of_spec(spec, group.layer.part, place);
  out.layers = group.layers;
  if (out.encoding == nullptr || out.sought.empty()) return to.push_back(std::move(out));
  spread(out, group, to);
}

/// Layers that use the same tensors share an encoding.
void Loader::spread(const Placed& out, const LayerGroup& group, std::vector<LoadedEncoding>& to) {
  std::map<std::string, std::vector<Index>> owners;  // layers by the tensors that they use
  std::vector<std::string> order;
  for (const Index layer : group.layers) {
    const std::string tensors = tensors_of(out, layer);
    if (owners[tensors].empty()) order.push_back(tensors);
    owners[tensors].push_back(layer);
  }
  Placed without_layers = out;
  without_layers.layers = {};
  for (const std::string& tensors : order) {
    Placed one = without_layers;
    one.layers = owners[tensors];
    give_tables(one, one.layers.front());
    to.push_back(std::move(one));
  }
}

/// Its term by distance, and its term by segment, which has no spec.
void Loader::xlnet_layers(const Xlnet& spec, const LayerGroup& group, int place, std::vector<LoadedEncoding>& to) {
  layers(Record::of(TransformerXL{.clamp_len = spec.clamp_len, .direction = spec.direction}), group, place, to);
  Placed segments;
  segments.encoding = registry().encoding("XlnetSegmentTerm");
  segments.layers = group.layers, segments.part = group.layer.part, segments.place = place;
  seek(segments, {.encoding = segments.encoding});
  spread(segments, group, to);
}

Placed Loader::of_spec(const Record& spec, const std::string& part, int place) const {
  Placed out;
  out.spec = spec, out.part = part, out.place = place;
  if (!spec) return out;
  if (const auto* t5 = spec.as<T5Axis>()) out.place = static_cast<int>(static_cast<Index>(t5->axis));
  const Served kind = served_by(spec);
  out.encoding = kind.encoding;
  if (kind.encoding != nullptr) seek(out, kind);
  const bool known = kind.encoding != nullptr && std::none_of(out.sought.begin(), out.sought.end(),
                                                              [](const Sought& one) { return one.row == nullptr; });
  if (!known) {
    out.missing = "the weights of " + json::quoted(model_.model_type) + " hold no table that " + spec.type().name +
                  " takes as it is";
  } else if (!out.sought.empty() && !part.empty() && !has_part(part)) {
    out.missing = "the weights have no " + part;
  } else if (kind.computed != nullptr && kind.computed->by_distance && !distances_of(out)) {
    out.missing = kind.computed->gives + " is computed for the distances of a call: load() needs a length";
  }
  if (!out.missing.empty()) out.encoding = nullptr;
  return out;
}

/// What the weights must hold, and what the model computes for each call. A parameter that may be left out is there if
/// its name is known.
void Loader::seek(Placed& of, const Served& kind) const {
  for (const ParameterInfo* info : parameters_of(kind)) {
    const load::TableName* row =
        load::find_table(model_.model_type, kind.encoding->name, of.part, info->name, of.place);
    if (row == nullptr && info == kind.encoding->parameters.data()) {
      row = load::find_table(model_.model_type, kind.encoding->name, of.part, "", of.place);
    }
    const bool needed = info->wanted ? info->wanted(of.spec) : !info->optional && !info->beside_spec;
    if (needed && !info->learned) of.per_call.push_back(info->name);
    if (row != nullptr || (needed && info->learned)) of.sought.push_back({info, row});
  }
}

/// Of a composite whose parts are models of one kind, the tensors of this part.
void Loader::keep_own_part(std::vector<load::Match>& all) const {
  const std::string own = '.' + module_of(model_.part) + '.';
  const auto of_another = [&](const load::Match& one) { return ('.' + one.prefix).find(own) == std::string::npos; };
  if (!std::all_of(all.begin(), all.end(), of_another)) std::erase_if(all, of_another);
}

const std::vector<load::Match>& Loader::tables_of(const Placed& of, const Sought& sought) {
  if (const auto at = found_.find(sought.row); at != found_.end()) return at->second;
  std::vector<load::Match> all = load::matches(names_, sought.row->tensors);
  keep_own_part(all);
  if (all.empty()) {
    throw ConfigError(weights_.path() + ": must have a tensor " + json::quoted(sought.row->tensors) + ", the " +
                      (of.encoding->parameters.size() == 1 ? "table" : sought.info->name) + " of " + of.encoding->name +
                      ", got none");
  }
  if (all.front().prefix != all.back().prefix) {
    throw ConfigError(weights_.path() + ": must have one tensor that is the table of " + of.encoding->name + ", got " +
                      json::quoted(all.front().name) + " and " + json::quoted(all.back().name));
  }
  return found_[sought.row] = std::move(all);
}

/// One table serves an input or all layers of a part, or each layer has its own.
std::string Loader::tensor_of(const Placed& of, const Sought& sought, Index layer) {
  const std::vector<load::Match>& all = tables_of(of, sought);
  if (all.size() == 1) return all[0].name;
  if (of.layers.empty()) {
    throw ConfigError(weights_.path() + ": must have one table of " + of.encoding->name + ", got " +
                      std::to_string(all.size()) + " tensors such as " + json::quoted(all[0].name));
  }
  std::vector<Index>& own = own_layers_[of.part];
  if (own.empty()) {
    for (std::size_t i = 0; i < model_.layers.size(); ++i) {
      if (model_.layers[i].part == of.part) own.push_back(static_cast<Index>(i));
    }
  }
  const auto before = static_cast<std::size_t>(std::lower_bound(own.begin(), own.end(), layer) - own.begin());
  const std::size_t count = own.size();
  if (all.size() != count) {
    throw ConfigError(weights_.path() + ": must have one table for " +
                      (of.part.empty() ? "the model" : "the " + of.part) + " or one for each of its " +
                      std::to_string(count) + " layers, as " + model_.file + " says, got " +
                      std::to_string(all.size()) + " tensors such as " + json::quoted(all[0].name));
  }
  return all[before].name;
}

std::string Loader::tensors_of(const Placed& of, Index layer) {
  std::string all;
  for (const Sought& one : of.sought) all.append(all.empty() ? "" : " ").append(tensor_of(of, one, layer));
  return all;
}

void Loader::give_tables(Placed& to, Index layer) {
  for (const Sought& one : to.sought) {
    LoadedParameter read = parameter(to, one, weights_.at(tensor_of(to, one, layer)));
    (one.info->learned ? to.parameters : to.factors).push_back(std::move(read));
  }
  const Served kind = served_by(to.spec);
  if (kind.computed == nullptr) return;
  load::compute_parameter(to, *kind.computed, sizes_of(to), distances_of(to).value_or(DistanceRange{}));
}

/// Those that an encoding by distance is made for: up to where it stops counting them, or in texts of the length asked
/// for. The model's own length does not count: rows for 5000 frames each way are many.
std::optional<DistanceRange> Loader::distances_of(const LoadedEncoding& of) const {
  const TransformerXL* xl = of.spec.as<TransformerXL>();
  if (xl == nullptr) return {};
  if (xl->clamp_len > most_clamped) {
    throw ConfigError(model_.file + ": /clamp_len: must be at most " + std::to_string(most_clamped) +
                      " for rows to be computed, got " + std::to_string(xl->clamp_len));
  }
  const Index farthest = xl->clamp_len > 0 ? xl->clamp_len : length_ - 1;
  if (farthest < 0) return {};
  return DistanceRange{-farthest, xl->direction == TransformerXLDirection::causal ? 0 : farthest};
}

LoadedEncoding Loader::lilt_input(const InputSpec& encoding, int place) {
  LoadedEncoding out{.spec = record_of(encoding), .encoding = registry().encoding("LearnedInputs")};
  load::LiltTable table = load::lilt_table(weights_, names_, place);
  const ParameterInfo& info = out.encoding->parameters.front();
  const std::vector<Index> wanted = expected(out, info, table.shape);
  if (table.shape != wanted) {
    weights_.at(table.tensor)
        .fail("must make a table of the shape " + shape_text(wanted) + " that " + model_.file + " says, got " +
              shape_text(table.shape));
  }
  out.parameters.push_back({info.name, table.tensor, Tensor{std::move(table.shape), std::move(table.numbers)}});
  return out;
}

void Loader::deberta_layers(const Deberta& spec, const LayerGroup& group, std::vector<LoadedEncoding>& to) {
  const load::DebertaConfig config = load::deberta_config(spec, model_, model_.file);
  for (const Index layer : group.layers) {
    to.push_back({.spec = Record::of(spec),
                  .encoding = registry().encoding("DebertaTerm"),
                  .parameters = load::deberta_tables(weights_, names_, config, layer),
                  .layers = {layer},
                  .part = group.layer.part});
  }
}

/// Heads of both versions of Swin differ from stage to stage: the file states those of none.
Sizes Loader::sizes_of(const LoadedEncoding& of) const {
  const bool states_heads = of.spec.as<Swin>() == nullptr && of.spec.as<SwinV2>() == nullptr;
  return {.heads = states_heads ? model_.heads : 0, .dim = model_.head_dim};
}

/// The shape that the config asks for; an extent that it does not tell is the tensor's.
std::vector<Index> Loader::expected(const LoadedEncoding& of, const ParameterInfo& info,
                                    const std::vector<Index>& got) const {
  const Sizes sizes = sizes_of(of);
  std::vector<Index> shape;
  for (std::size_t axis = 0; axis < info.extents.size(); ++axis) {
    const Extent& extent = info.extents[axis];
    Index size = extent.size(of.spec, sizes);
    if (size == Extent::any && extent.name == "heads" && sizes.heads > 0) size = sizes.heads;
    if (extent.or_one && axis < got.size() && got[axis] == 1) size = 1;
    if (size == Extent::any && axis < got.size()) size = got[axis];
    shape.push_back(size);
  }
  return shape;
}

LoadedParameter Loader::parameter(const LoadedEncoding& of, const Sought& sought, const StoredTensor& tensor) const {
  const load::Arranged how = sought.row->arranged;
  const std::vector<Extent>& extents = sought.info->extents;
  std::vector<Index> got = load::arranged_shape(how, tensor.shape, sizes_of(of).heads);
  if (got.size() + 1 == extents.size() && extents[0].or_one) got.insert(got.begin(), 1);  // all heads share it
  // Vision models keep a batch of one.
  if (got.size() == extents.size() + 1 && got[0] == 1) got.erase(got.begin());
  const bool factor = !sought.info->learned;  // of what the model computes: [heads, rank]
  if (factor) got = tensor.shape;
  // Sliding layers may have other heads than config.json's first key of them says.
  const std::vector<Index> wanted =
      factor ? std::vector<Index>{got.empty() ? 0 : got[0], of.parameters.back().numbers.shape.back()}
             : expected(of, *sought.info, got);
  if (got != wanted) {
    std::string axes;
    for (const Extent& extent : extents) axes += (axes.empty() ? "" : ", ") + extent.name;
    tensor.fail("must have the shape " + shape_text(wanted) + " (" + (factor ? "heads, rank" : axes) + ") that " +
                model_.file + " says" + load::arranged_text(how) + ", got " + shape_text(tensor.shape));
  }
  std::vector<float> numbers = tensor.numbers<float>();
  const auto bad = std::find_if(numbers.begin(), numbers.end(), [](float x) { return !std::isfinite(x); });
  if (bad != numbers.end()) {
    tensor.fail("must hold finite numbers, got " + std::to_string(*bad) + " as number " +
                std::to_string(bad - numbers.begin()));
  }
  numbers = load::arranged(how, tensor.shape, std::move(numbers));
  return {sought.info->name, tensor.name, Tensor{std::move(got), std::move(numbers)}};
}

/// A table whose rows are not what is added to an image's patches.
void warn_of_resampled(Model& model) {
  for (const ModelInput& input : model.inputs) {
    if (!hf::is_resampled(input.positions)) continue;
    model.warnings.push_back(
        {"", "a row of the table is what is added to a patch only on the table's own grid: a position is the " +
                 input.positions});
  }
}

/// A model or a tower, and the towers beside it.
LoadedModel load_part(Model model, Weights& weights, Index length) {
  LoadedModel out{.model = std::move(model)};
  Loader loader(out.model, weights, length);
  std::map<std::string, int> places;
  for (const ModelInput& input : out.model.inputs) {
    out.inputs.push_back(loader.input(input.encoding, input.part, places[input.part]++));
  }
  warn_of_resampled(out.model);
  load::check_sinusoids(out.model, weights);
  for (const LayerGroup& group : layer_groups(out.model)) {
    int place = 0;
    loader.layers(group.layer.encoding, group, place, out.layers);
    for (const LayerEncoding& further : group.layer.also) loader.layers(further, group, ++place, out.layers);
    if (group.layer.temperature) loader.layers(Record::of(*group.layer.temperature), group, 0, out.layers);
    if (group.layer.values) {  // a Rope that acts elsewhere than one in `encoding` does
      out.layers.push_back({.spec = Record::of(*group.layer.values),
                            .encoding = registry().encoding("RotaryValues"),
                            .layers = group.layers,
                            .part = group.layer.part});
    }
  }
  for (const Model& tower : out.model.towers) {
    try {
      out.towers.push_back(load_part(tower, weights, length));
    } catch (const ConfigError& error) {
      out.towers.push_back({.model = tower, .missing = error.what()});
    }
  }
  return out;
}

}  // namespace

LoadedModel load_model(const std::string& folder, Index length) {
  Model model = read_hf_config((std::filesystem::path(folder) / "config.json").string());
  Weights weights(folder);
  load::take_log_factors(model, weights);
  LoadedModel out = load_part(std::move(model), weights, length);
  load::check_inv_freq(out.model, weights);
  return out;
}

}  // namespace bearing
