#include "load_frequencies.hpp"

#include <bearing/error.hpp>
#include <cmath>

#include "json_file.hpp"
#include "load_tables.hpp"

namespace bearing::load {

void check_inv_freq(Model& model, Weights& weights) {
  const std::vector<Match> stored = matches(weights.names(), "inv_freq");
  if (stored.empty()) return;
  std::vector<std::vector<double>> computed;
  for (const LayerGroup& group : layer_groups(model)) {
    if (const Rope* rope = std::get_if<Rope>(&group.layer.encoding)) computed.push_back(resolve(*rope).inv_freq);
  }
  if (computed.empty()) return;
  const StoredTensor& tensor = weights.at(stored.front().name);
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
  model.warnings.push_back({"", text});
}

void take_log_factors(Model& model, Weights& weights) {
  const std::string_view names = "lerope.alpha rotary_emb.alpha";
  const std::vector<Match> found = matches(weights.names(), names);
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

}  // namespace bearing::load
