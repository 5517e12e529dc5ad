#include "hf_reader.hpp"

// DeepSeek-V4. Every layer sees a window of keys; layers of two types see compressed keys too, one for every so many
// tokens, and turn by another base, which alone is scaled. Keys are values: values turn, and their sum is turned back.

namespace bearing::hf {
namespace {

constexpr const char* sparse = "compressed_sparse_attention";
constexpr const char* heavy = "heavily_compressed_attention";

/// How many tokens a compressed key stands for, as the file has it or its class.
Index rate_of(const Config& config, const std::string& type) {
  const bool is_sparse = type == sparse;
  const Index usual = is_sparse ? 4 : 128;
  const auto older = config.file.integer(is_sparse ? "compress_rate_csa" : "compress_rate_hca", 1, most_positions);
  const auto rates = config.file.object("compress_rates");
  if (older) return *older;
  return rates ? rates->integer(type, 1, most_positions).value_or(usual) : usual;
}

/// Whether rope_parameters has a dictionary for each base.
bool has_both(const Config& config) {
  for (std::string_view key : {"rope_parameters", "rope_scaling"}) {
    const auto all = config.file.object(key);
    if (!all) continue;
    const rapidjson::Value *main = all->find("main"), *compress = all->find("compress");
    return main != nullptr && main->IsObject() && compress != nullptr && compress->IsObject();
  }
  return false;
}

/// The part of a head that turns, where rope_parameters does not say it for each base.
double fraction_of(const Config& config) {
  if (const auto said = config.file.number("partial_rotary_factor", {1e-6, 1})) return *said;
  const auto dims = config.file.integer("qk_rope_head_dim", 2, config.head_dim);
  return dims ? static_cast<double>(*dims) / static_cast<double>(config.head_dim) : config.family.fraction;
}

}  // namespace

std::optional<std::vector<std::string>> types_by_ratio(const Config& config) {
  constexpr std::string_view key = "compress_ratios";
  const auto ratios = config.file.integers(key, static_cast<std::size_t>(most_layers), 0, most_positions);
  if (!ratios) return {};
  if (std::ssize(*ratios) < config.layers) {
    config.file.wrong(key, "at least " + std::to_string(config.layers) + " numbers, one per layer" +
                               config.defaults_among({"num_hidden_layers"}));
  }
  std::vector<std::string> types;
  for (Index i = 0; i < config.layers; ++i) {  // layers of multi-token prediction may follow
    const Index ratio = (*ratios)[static_cast<std::size_t>(i)];
    if (ratio != 0 && ratio != 4 && ratio != 128) {
      config.notes().fail(config.file.pointer(key) + "/" + std::to_string(i),
                          "must be 0, 4 or 128, which " + config.code() + " knows, got " + std::to_string(ratio));
    }
    types.emplace_back(ratio == 0 ? sliding_attention : ratio == 4 ? sparse : heavy);
  }
  return types;
}

std::string_view compressed_label(std::string_view layer_type) {
  return layer_type == sliding_attention ? "main" : "compress";
}

void read_compressed(const Config& config, std::vector<LayerRope>& layers) {
  for (const std::string& type : config.kinds) {
    if (type == sliding_attention || type == sparse || type == heavy) continue;
    std::string wanted = "of ";  // the optimiser of g++ 12 warns of a sum of texts here
    wanted.append(sliding_attention).append(", ").append(sparse).append(" or ").append(heavy);
    config.file.wrong("layer_types", wanted);
  }
  if (has_both(config)) return;
  const auto said = [&](std::string_view key, double usual) {
    const auto base = config.file.number(key, base_range);
    return base ? Base{*base, std::string(key)} : Base{usual, config.default_name()};
  };
  const Base main = said("rope_theta", config.family.base);
  const Base compress = said("compress_rope_theta", usual_compressed_base);
  const double fraction = fraction_of(config);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    layers[i].base = config.types[i] == sliding_attention ? main : compress;
    layers[i].fraction = fraction;
  }
}

std::map<std::string, std::string> positions_of_compressed(const Config& config) {
  std::map<std::string, std::string> positions;
  if (!config.family.is(compressed)) return positions;
  for (const std::string& type : config.kinds) {
    if (type == sliding_attention) continue;
    std::string& says = positions[type];
    says = "its index; compressed key i stands at " + std::to_string(rate_of(config, type)) + " i";
    if (config.window > 0) says += ", beside a window of " + std::to_string(config.window);
  }
  return positions;
}

void finish_compressed(const std::map<std::string, std::string>& positions, Layer& layer) {
  if (const Rope* rope = std::get_if<Rope>(&layer.encoding)) layer.values = *rope;
  if (const auto at = positions.find(layer.type); at != positions.end()) layer.positions = at->second;
}

void warn_about_the_indexer(const Config& config) {
  if (!config.kinds.contains(sparse)) return;
  const Index dim = config.file.integer("index_head_dim", 1, most_head_dim).value_or(128);
  config.file.warn("index_head_dim", std::string("the indexer of ") + sparse +
                                         " layers turns the last dimensions of its " + std::to_string(dim) +
                                         " by the angles of these layers, neighbours in pairs; it is not listed");
}

}  // namespace bearing::hf
