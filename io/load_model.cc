#include <algorithm>
#include <bearing/error.hpp>
#include <bearing/load.hpp>
#include <bearing/safetensors.hpp>
#include <bearing/say.hpp>
#include <cmath>
#include <filesystem>
#include <map>

#include "json_file.hpp"
#include "load_deberta.hpp"
#include "load_tables.hpp"

namespace bearing {
namespace {

/// The encoding that serves a spec, and what computes one of its parameters from others; null where there is none.
struct Kind {
  const EncodingInfo* encoding = nullptr;
  const ComputedInfo* computed = nullptr;
};
Kind kind_of(const Record& spec) {
  const Description* description = description_of(spec);
  if (description == nullptr) return {};
  const ComputedInfo* computed = description->computed;
  // What depends on the distances of a call is not made here.
  if (computed != nullptr && computed->by_distance) return {};
  return {computed != nullptr ? computed->encoding : description->encoding, computed};
}

/// What the weights must hold: the encoding's own parameters, or what one of them is computed from.
std::vector<const ParameterInfo*> parameters_of(const Kind& kind, const Record& spec) {
  std::vector<const ParameterInfo*> all;
  for (const ParameterInfo& one : kind.computed != nullptr ? kind.computed->from : kind.encoding->parameters) {
    const bool there = one.wanted ? one.wanted(spec) : !one.optional && !one.beside_spec;
    if (there) all.push_back(&one);
  }
  return all;
}

std::string shape_text(const std::vector<Index>& shape) {
  std::string out = "[";
  for (const Index extent : shape) out += (out.size() > 1 ? ", " : "") + std::to_string(extent);
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

std::string missing_of(const OtherEncoding& other) {
  return other.name + " is known by its name alone: its numbers are not read";
}

class Loader {
 public:
  Loader(Model& model, Weights& weights) : model_(model), weights_(weights), names_(weights.names()) {}

  LoadedEncoding input(const InputSpec& encoding, const std::string& part) {
    LoadedEncoding out = of_spec(record_of(encoding), part);
    if (const auto* other = std::get_if<OtherEncoding>(&encoding)) out.missing = missing_of(*other);
    if (out.encoding != nullptr) give_tables(out, 0);
    return out;
  }

  /// One for each group of layers, or for each layer where each has tables of its own.
  void layers(const Record& spec, const LayerGroup& group, std::vector<LoadedEncoding>& to) {
    if (const Deberta* deberta = spec ? spec.as<Deberta>() : nullptr) return deberta_layers(*deberta, group, to);
    LoadedEncoding out = of_spec(spec, group.layer.part);
    out.layers = group.layers;
    if (out.encoding == nullptr || !has_tables(out)) return to.push_back(std::move(out));
    std::map<std::string, std::vector<Index>> owners;  // layers by the tensors that they use
    std::vector<std::string> order;
    for (const Index layer : group.layers) {
      const std::string tensors = tensors_of(out, layer);
      if (owners[tensors].empty()) order.push_back(tensors);
      owners[tensors].push_back(layer);
    }
    for (const std::string& tensors : order) {
      LoadedEncoding one = out;
      one.layers = owners[tensors];
      give_tables(one, one.layers.front());
      to.push_back(std::move(one));
    }
  }

  void check_inv_freq();

 private:
  LoadedEncoding of_spec(const Record& spec, const std::string& part) {
    LoadedEncoding out{.spec = spec, .part = part};
    if (!spec) return out;
    const Kind kind = kind_of(spec);
    out.encoding = kind.encoding;
    const bool known = kind.encoding != nullptr && (!has_tables(out) || find_row(out, *parameters_of(kind, spec)[0]));
    if (!known) {
      out.missing = "the weights of " + json::quoted(model_.model_type) + " hold no table that " +
                    out.spec.type().name + " takes as it is";
    } else if (has_tables(out) && !part.empty() && !has_part(part)) {
      out.missing = "the weights have no " + part;
    }
    if (!out.missing.empty()) out.encoding = nullptr;
    return out;
  }

  bool has_tables(const LoadedEncoding& of) const { return !parameters_of(kind_of(of.spec), of.spec).empty(); }

  /// Whether any tensor belongs to the encoder, or to the decoder.
  bool has_part(const std::string& part) const {
    return std::any_of(names_.begin(), names_.end(), [&](const std::string& name) {
      return name.starts_with(part + ".") || name.find("." + part + ".") != name.npos;
    });
  }

  const load::TableName* find_row(const LoadedEncoding& of, const ParameterInfo& info) const;
  const std::vector<load::Match>& tables_of(const LoadedEncoding& of, const ParameterInfo& info);
  std::string tensor_of(const LoadedEncoding& of, const ParameterInfo& info, Index layer);
  std::string tensors_of(const LoadedEncoding& of, Index layer);
  void give_tables(LoadedEncoding& to, Index layer);
  void compute(LoadedEncoding& to, const ComputedInfo& computed) const;
  void deberta_layers(const Deberta& spec, const LayerGroup& group, std::vector<LoadedEncoding>& to);
  LoadedParameter parameter(const LoadedEncoding& of, const ParameterInfo& info, const StoredTensor& tensor) const;
  std::vector<Index> expected(const LoadedEncoding& of, const ParameterInfo& info, const std::vector<Index>& got) const;

  Model& model_;
  Weights& weights_;
  std::vector<std::string> names_;
  std::map<std::string, std::vector<load::Match>> found_;  // by kind and part
};

/// The row of a parameter, by its name or, for the first, without one.
const load::TableName* Loader::find_row(const LoadedEncoding& of, const ParameterInfo& info) const {
  const std::string_view kind = of.encoding->name;
  const load::TableName* row = load::find_table(model_.model_type, kind, of.part, info.name);
  const bool first = &info == of.encoding->parameters.data();
  return row != nullptr || !first ? row : load::find_table(model_.model_type, kind, of.part, "");
}

const std::vector<load::Match>& Loader::tables_of(const LoadedEncoding& of, const ParameterInfo& info) {
  const std::string key = of.encoding->name + ' ' + of.part + ' ' + info.name;
  if (const auto at = found_.find(key); at != found_.end()) return at->second;
  const load::TableName* row = find_row(of, info);
  const std::string_view patterns = row == nullptr ? info.name : row->tensors;
  std::vector<load::Match> all = row == nullptr ? std::vector<load::Match>() : load::matches(names_, patterns);
  if (all.empty()) {
    throw ConfigError(weights_.path() + ": must have a tensor " + json::quoted(patterns) + ", the " +
                      (of.encoding->parameters.size() == 1 ? "table" : info.name) + " of " + of.encoding->name +
                      ", got none");
  }
  if (all.front().prefix != all.back().prefix) {
    throw ConfigError(weights_.path() + ": must have one tensor that is the table of " + of.encoding->name + ", got " +
                      json::quoted(all.front().name) + " and " + json::quoted(all.back().name));
  }
  return found_[key] = std::move(all);
}

/// One table serves an input or all layers of a part, or each layer has its own.
std::string Loader::tensor_of(const LoadedEncoding& of, const ParameterInfo& info, Index layer) {
  const std::vector<load::Match>& all = tables_of(of, info);
  if (all.size() == 1) return all[0].name;
  if (of.layers.empty()) {
    throw ConfigError(weights_.path() + ": must have one table of " + of.encoding->name + ", got " +
                      std::to_string(all.size()) + " tensors such as " + json::quoted(all[0].name));
  }
  std::size_t before = 0, count = 0;
  for (std::size_t i = 0; i < model_.layers.size(); ++i) {
    if (model_.layers[i].part != of.part) continue;
    if (i < static_cast<std::size_t>(layer)) ++before;
    ++count;
  }
  if (all.size() != count) {
    throw ConfigError(weights_.path() + ": must have one table for " +
                      (of.part.empty() ? "the model" : "the " + of.part) + " or one for each of its " +
                      std::to_string(count) + " layers, as " + model_.file + " says, got " +
                      std::to_string(all.size()) + " tensors such as " + json::quoted(all[0].name));
  }
  return all[before].name;
}

std::string Loader::tensors_of(const LoadedEncoding& of, Index layer) {
  std::string all;
  for (const ParameterInfo* info : parameters_of(kind_of(of.spec), of.spec)) {
    all += (all.empty() ? "" : " ") + tensor_of(of, *info, layer);
  }
  return all;
}

void Loader::give_tables(LoadedEncoding& to, Index layer) {
  const Kind kind = kind_of(to.spec);
  for (const ParameterInfo* info : parameters_of(kind, to.spec)) {
    to.parameters.push_back(parameter(to, *info, weights_.at(tensor_of(to, *info, layer))));
  }
  if (kind.computed != nullptr) compute(to, *kind.computed);
}

/// Puts the parameter that is computed in the place of those that it is computed from.
void Loader::compute(LoadedEncoding& to, const ComputedInfo& computed) const {
  std::vector<ParameterMemory> from;
  for (const LoadedParameter& one : to.parameters) {
    ParameterMemory memory;
    memory.value = std::get<std::vector<float>>(one.numbers.numbers).data();
    memory.shape = one.numbers.shape;
    memory.stride.assign(memory.shape.size(), 1);
    for (std::size_t axis = memory.shape.size(); axis-- > 1;)
      memory.stride[axis - 1] = memory.stride[axis] * memory.shape[axis];
    from.push_back(std::move(memory));
  }
  ComputedCall call{.spec = to.spec, .sizes = {}, .distances = {}};
  for (const LoadedParameter& one : to.parameters) {
    const auto info = std::find_if(computed.from.begin(), computed.from.end(),
                                   [&](const ParameterInfo& other) { return other.name == one.name; });
    for (std::size_t axis = 0; axis < info->extents.size(); ++axis) {
      if (info->extents[axis].name == "heads") call.sizes.heads = one.numbers.shape[axis];
    }
  }
  std::vector<Index> shape = computed.shape(call);
  Index count = 1;
  for (const Index extent : shape) count *= extent;
  std::vector<float> numbers(static_cast<std::size_t>(count));
  computed.compute_f32(call, from, numbers.data());
  const std::string tensor = to.parameters.back().tensor;
  to.spec = computed.spec_of(call);
  to.parameters = {{computed.gives, tensor, Tensor{std::move(shape), std::move(numbers)}}};
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

/// The shape that the config asks for; an extent that it does not tell is the tensor's.
std::vector<Index> Loader::expected(const LoadedEncoding& of, const ParameterInfo& info,
                                    const std::vector<Index>& got) const {
  // Heads of both versions of Swin differ from stage to stage: the file states those of none.
  const bool states_heads = model_.heads > 0 && of.spec.as<Swin>() == nullptr && of.spec.as<SwinV2>() == nullptr;
  const Sizes sizes{.heads = states_heads ? model_.heads : 0, .dim = model_.head_dim};
  std::vector<Index> shape;
  for (std::size_t axis = 0; axis < info.extents.size(); ++axis) {
    const Extent& extent = info.extents[axis];
    Index size = extent.size(of.spec, sizes);
    if (size == Extent::any && extent.name == "heads" && states_heads) size = model_.heads;
    if (size == Extent::any && axis < got.size()) size = got[axis];
    shape.push_back(size);
  }
  return shape;
}

LoadedParameter Loader::parameter(const LoadedEncoding& of, const ParameterInfo& info,
                                  const StoredTensor& tensor) const {
  std::vector<Index> got = tensor.shape;
  // Vision models keep a batch of one.
  if (got.size() == info.extents.size() + 1 && got[0] == 1) got.erase(got.begin());
  const std::vector<Index> wanted = expected(of, info, got);
  if (got != wanted) {
    std::string axes;
    for (const Extent& extent : info.extents) axes += (axes.empty() ? "" : ", ") + extent.name;
    tensor.fail("must have the shape " + shape_text(wanted) + " (" + axes + ") that " + model_.file + " says, got " +
                shape_text(tensor.shape));
  }
  std::vector<float> numbers = tensor.numbers<float>();
  const auto bad = std::find_if(numbers.begin(), numbers.end(), [](float x) { return !std::isfinite(x); });
  if (bad != numbers.end()) {
    tensor.fail("must hold finite numbers, got " + std::to_string(*bad) + " as number " +
                std::to_string(bad - numbers.begin()));
  }
  return {info.name, tensor.name, Tensor{std::move(got), std::move(numbers)}};
}

/// Old checkpoints hold the frequencies that their config gave when they were saved.
void Loader::check_inv_freq() {
  const std::vector<load::Match> stored = load::matches(names_, "inv_freq");
  if (stored.empty()) return;
  std::vector<std::vector<double>> computed;
  for (const LayerGroup& group : layer_groups(model_)) {
    if (const Rope* rope = std::get_if<Rope>(&group.layer.encoding)) computed.push_back(resolve(*rope).inv_freq);
  }
  if (computed.empty()) return;
  const StoredTensor& tensor = weights_.at(stored.front().name);
  const std::vector<double> numbers = tensor.numbers<double>();
  const double tolerance =
      tensor.type.bits >= 32 ? 0x1p-18 : 0x1p-7;  // float32's arithmetic, or one rounding to 16 bits
  const auto pair_apart = [&](const std::vector<double>& theta) {
    std::size_t i = 0;
    while (i < theta.size() && std::abs(numbers[i] - theta[i]) <= tolerance * theta[i]) ++i;
    return i;
  };
  for (const std::vector<double>& theta : computed) {
    if (theta.size() == numbers.size() && pair_apart(theta) == theta.size()) return;
  }
  const std::vector<double>& theta = computed.front();
  std::string text = "the weights' " + tensor.name + " has " + std::to_string(numbers.size()) +
                     " frequencies, the config gives " + std::to_string(theta.size());
  if (theta.size() == numbers.size()) {
    const std::size_t i = pair_apart(theta);
    text = "the weights' " + tensor.name + " has " + json::shortest(numbers[i]) + " for pair " + std::to_string(i) +
           ", the config gives " + json::shortest(theta[i]) + ": the config's are taken";
  }
  model_.warnings.push_back({"", text});
}

/// What LeRoPE's weights multiply the frequencies of every rotating layer by: e^alpha, a number for each pair.
void take_log_factors(Model& model, Weights& weights) {
  const std::string_view names = "lerope.alpha rotary_emb.alpha";
  const std::vector<load::Match> found = load::matches(weights.names(), names);
  if (found.empty() && model.model_type == "mistral_large4_text") {
    throw ConfigError(weights.path() + ": must have a tensor " + json::quoted(names) +
                      ", the learned factors of the frequencies, got none");
  }
  if (found.empty()) return;
  const StoredTensor& tensor = weights.at(found.front().name);
  if (found.size() > 1) tensor.fail("must be the only one of its kind, got " + json::quoted(found[1].name) + " too");
  const std::vector<double> factors = tensor.numbers<double>();
  for (const double factor : factors) {
    if (!std::isfinite(factor)) tensor.fail("must hold finite numbers, got " + std::to_string(factor));
  }
  for (Layer& layer : model.layers) {
    Rope* rope = std::get_if<Rope>(&layer.encoding);
    if (rope == nullptr) continue;
    const auto pairs = static_cast<std::size_t>(resolve(*rope).pairs());
    if (factors.size() != pairs) {
      tensor.fail("must have " + std::to_string(pairs) + " numbers, one for each pair that " + model.file +
                  " says, got " + std::to_string(factors.size()));
    }
    rope->log_factors = factors;
  }
}

}  // namespace

LoadedModel load_model(const std::string& folder) {
  LoadedModel out{.model = read_hf_config((std::filesystem::path(folder) / "config.json").string())};
  Weights weights(folder);
  take_log_factors(out.model, weights);
  Loader loader(out.model, weights);
  for (const ModelInput& input : out.model.inputs) out.inputs.push_back(loader.input(input.encoding, input.part));
  for (const LayerGroup& group : layer_groups(out.model)) {
    loader.layers(record_of(group.layer.encoding), group, out.layers);
    if (const auto* other = std::get_if<OtherEncoding>(&group.layer.encoding)) {
      out.layers.back().missing = missing_of(*other);
    }
    if (group.layer.temperature) loader.layers(Record::of(*group.layer.temperature), group, out.layers);
    if (group.layer.values) {  // a Rope that acts elsewhere than one in `encoding` does
      out.layers.push_back({.spec = Record::of(*group.layer.values),
                            .encoding = registry().encoding("RotaryValues"),
                            .layers = group.layers,
                            .part = group.layer.part});
    }
  }
  loader.check_inv_freq();
  return out;
}

}  // namespace bearing
