#include <algorithm>
#include <bearing/error.hpp>
#include <bearing/load.hpp>
#include <bearing/safetensors.hpp>
#include <cmath>
#include <filesystem>
#include <map>

#include "json_file.hpp"
#include "load_tables.hpp"

namespace bearing {
namespace {

/// The encoding that serves a spec, and its table's name if it has one.
struct Kind {
  std::string_view name;
  bool learned;
};
Kind kind_of(const Alibi&) { return {"AlibiBias", false}; }
Kind kind_of(const Sinusoidal&) { return {"SinusoidalInputs", false}; }
Kind kind_of(const Rope&) { return {"RotaryRows", false}; }
Kind kind_of(const Learned&) { return {"LearnedInputs", true}; }
Kind kind_of(const T5&) { return {"T5Bias", true}; }
Kind kind_of(const Swin&) { return {"SwinBias", true}; }
Kind kind_of(const BertRelative&) { return {"BertRelativeTerm", true}; }
template <class Spec>
Kind kind_of(const Spec&) {
  return {"", true};
}

std::string shape_text(const std::vector<Index>& shape) {
  std::string out = "[";
  for (const Index extent : shape) out += (out.size() > 1 ? ", " : "") + std::to_string(extent);
  return out + "]";
}

class Loader {
 public:
  Loader(Model& model, Weights& weights) : model_(model), weights_(weights), names_(weights.names()) {}

  template <class Encoding>
  LoadedEncoding input(const Encoding& encoding, const std::string& part) {
    return std::visit(
        [&]<class Spec>(const Spec& spec) {
          LoadedEncoding out = of_spec(spec, part);
          if (out.encoding != nullptr && kind_of(spec).learned) give_tables(out, {});
          return out;
        },
        encoding);
  }

  /// One for each group of layers, or for each layer where each has a table of its own.
  void layers(const LayerGroup& group, std::vector<LoadedEncoding>& to) {
    std::visit(
        [&]<class Spec>(const Spec& spec) {
          LoadedEncoding out = of_spec(spec, group.layer.part);
          out.layers = group.layers;
          if (out.encoding == nullptr || !kind_of(spec).learned) return to.push_back(std::move(out));
          std::map<std::string, std::vector<Index>> owners;  // layers by the tensor that they use
          std::vector<std::string> order;
          for (const Index layer : group.layers) {
            const std::string tensor = tensor_of(out, layer);
            if (owners[tensor].empty()) order.push_back(tensor);
            owners[tensor].push_back(layer);
          }
          for (const std::string& tensor : order) {
            LoadedEncoding one = out;
            one.layers = owners[tensor];
            give_tables(one, tensor);
            to.push_back(std::move(one));
          }
        },
        group.layer.encoding);
  }

  void check_inv_freq();

 private:
  template <class Spec>
  LoadedEncoding of_spec(const Spec& spec, const std::string& part) {
    if constexpr (std::is_same_v<Spec, NoPosition>) {
      return {.spec = {}, .part = part};
    } else if constexpr (std::is_same_v<Spec, OtherEncoding>) {
      return {.spec = {}, .part = part, .missing = spec.name + " is known by its name alone: its numbers are not read"};
    } else {
      LoadedEncoding out{.spec = Record::of(spec), .part = part};
      const Kind kind = kind_of(spec);
      const load::TableName* row = kind.learned ? load::find_table(model_.model_type, kind.name, part) : nullptr;
      if (kind.name.empty() || (kind.learned && row == nullptr)) {
        out.missing = "the weights of " + json::quoted(model_.model_type) + " hold no table that " +
                      out.spec.type().name + " takes as it is";
      } else if (row != nullptr && !part.empty() && !has_part(part)) {
        out.missing = "the weights have no " + part;
      } else {
        out.encoding = registry().encoding(kind.name);
      }
      return out;
    }
  }

  /// Whether any tensor belongs to the encoder, or to the decoder.
  bool has_part(const std::string& part) const {
    return std::any_of(names_.begin(), names_.end(), [&](const std::string& name) {
      return name.starts_with(part + ".") || name.find("." + part + ".") != name.npos;
    });
  }

  const std::vector<load::Match>& tables_of(const LoadedEncoding& of);
  std::string tensor_of(const LoadedEncoding& of, Index layer);
  void give_tables(LoadedEncoding& to, const std::string& tensor);
  LoadedParameter parameter(const LoadedEncoding& of, const ParameterInfo& info, const StoredTensor& tensor) const;
  std::vector<Index> expected(const LoadedEncoding& of, const ParameterInfo& info, const std::vector<Index>& got) const;

  Model& model_;
  Weights& weights_;
  std::vector<std::string> names_;
  std::map<std::string, std::vector<load::Match>> found_;  // by kind and part
};

const std::vector<load::Match>& Loader::tables_of(const LoadedEncoding& of) {
  const std::string key = of.encoding->name + ' ' + of.part;
  if (const auto at = found_.find(key); at != found_.end()) return at->second;
  const std::string_view patterns = load::find_table(model_.model_type, of.encoding->name, of.part)->tensors;
  std::vector<load::Match> all = load::matches(names_, patterns);
  if (all.empty()) {
    throw ConfigError(weights_.path() + ": must have a tensor " + json::quoted(patterns) + ", the table of " +
                      of.encoding->name + ", got none");
  }
  if (all.front().prefix != all.back().prefix) {
    throw ConfigError(weights_.path() + ": must have one tensor that is the table of " + of.encoding->name + ", got " +
                      json::quoted(all.front().name) + " and " + json::quoted(all.back().name));
  }
  return found_[key] = std::move(all);
}

/// One table serves all layers of a part, or each layer has its own.
std::string Loader::tensor_of(const LoadedEncoding& of, Index layer) {
  const std::vector<load::Match>& all = tables_of(of);
  if (all.size() == 1) return all[0].name;
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

void Loader::give_tables(LoadedEncoding& to, const std::string& tensor) {
  std::string name = tensor;
  if (name.empty()) {
    const std::vector<load::Match>& all = tables_of(to);
    if (all.size() != 1) {
      throw ConfigError(weights_.path() + ": must have one table of " + to.encoding->name + ", got " +
                        std::to_string(all.size()) + " tensors such as " + json::quoted(all[0].name));
    }
    name = all[0].name;
  }
  to.parameters.push_back(parameter(to, to.encoding->parameters.at(0), weights_.at(name)));
}

/// The shape that the config asks for; an extent that it does not tell is the tensor's.
std::vector<Index> Loader::expected(const LoadedEncoding& of, const ParameterInfo& info,
                                    const std::vector<Index>& got) const {
  // Swin's heads differ from stage to stage: the file states those of none.
  const bool states_heads = model_.heads > 0 && of.spec.as<Swin>() == nullptr;
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
  const std::vector<load::Match> found = load::matches(weights.names(), "lerope.alpha rotary_emb.alpha");
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
    loader.layers(group, out.layers);
    const auto add = [&](const auto& spec, const char* encoding) {
      out.layers.push_back({.spec = Record::of(spec),
                            .encoding = registry().encoding(encoding),
                            .layers = group.layers,
                            .part = group.layer.part});
    };
    if (group.layer.temperature) add(*group.layer.temperature, "TemperatureRows");
    if (group.layer.values) add(*group.layer.values, "RotaryValues");
  }
  loader.check_inv_freq();
  return out;
}

}  // namespace bearing
