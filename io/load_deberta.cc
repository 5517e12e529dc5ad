#include "load_deberta.hpp"

#include <bearing/error.hpp>
#include <cmath>

#include "json_file.hpp"
#include "load_matrix.hpp"

namespace bearing::load {
namespace {

/// Each row less its mean, over its deviation, times weight plus bias.
void norm_rows(Matrix& table, const Matrix& weight, const Matrix& bias, double epsilon) {
  const auto count = static_cast<double>(table.columns);
  for (Index i = 0; i < table.rows; ++i) {
    double* x = table.row(i);
    double mean = 0, square = 0;
    for (Index c = 0; c < table.columns; ++c) mean += x[c] / count;
    for (Index c = 0; c < table.columns; ++c) square += (x[c] - mean) * (x[c] - mean) / count;
    const double deviation = std::sqrt(square + epsilon);
    for (Index c = 0; c < table.columns; ++c)
      x[c] = (x[c] - mean) / deviation * weight.numbers[static_cast<std::size_t>(c)] +
             bias.numbers[static_cast<std::size_t>(c)];
  }
}

/// table · weightᵀ + bias, cut into heads: [heads, rows, dim].
Tensor projected(const Matrix& table, const Matrix& weight, const std::vector<double>& bias, Index heads) {
  const Index dim = weight.rows / heads;
  std::vector<float> out(static_cast<std::size_t>(weight.rows * table.rows));
  for (Index feature = 0; feature < weight.rows; ++feature) {
    const double* w = weight.row(feature);
    const double start = bias.empty() ? 0 : bias[static_cast<std::size_t>(feature)];
    const Index head = feature / dim, d = feature % dim;
    for (Index i = 0; i < table.rows; ++i) {
      const double* x = table.row(i);
      double sum = start;
      for (Index c = 0; c < table.columns; ++c) sum += w[c] * x[c];
      out[static_cast<std::size_t>((head * table.rows + i) * dim + d)] = static_cast<float>(sum);
    }
  }
  return {{heads, table.rows, dim}, std::move(out)};
}

/// What a layer's projection of the table is called, without ".weight".
std::string projection_name(const DebertaConfig& config, bool key) {
  if (config.first_version) return key ? "pos_proj" : "pos_q_proj";
  return (config.shares ? "" : "pos_") + std::string(key ? "key_proj" : "query_proj");
}

}  // namespace

DebertaConfig deberta_config(const Deberta& spec, const Model& model, const std::string& path) {
  json::Notes notes(path);
  const json::Document document(json::read_text(path), notes);
  const json::Object file(document.root(), "", notes);
  DebertaConfig config{.spec = spec, .heads = model.heads, .first_version = model.model_type == "deberta"};
  if (config.heads == 0) file.missing("num_attention_heads", "a whole number from 1 to 65536");
  if (config.first_version) return config;
  config.shares = file.flag("share_att_key").value_or(false);
  config.normed = file.text("norm_rel_ebd").value_or("none").find("layer_norm") != std::string::npos;
  config.norm_epsilon = file.number("layer_norm_eps", json::positive).value_or(config.norm_epsilon);
  return config;
}

std::vector<LoadedParameter> deberta_tables(Weights& weights, const std::vector<std::string>& names,
                                            const DebertaConfig& config, Index layer) {
  const MatrixReader reader(weights, names);
  Matrix table = reader.read("encoder.rel_embeddings.weight", 2 * config.spec.span(), 0);
  if (config.normed) {
    norm_rows(table, reader.read("encoder.LayerNorm.weight", table.columns, 1),
              reader.read("encoder.LayerNorm.bias", table.columns, 1), config.norm_epsilon);
  }
  std::vector<LoadedParameter> made;
  for (const bool key : {true, false}) {
    if (key ? !config.spec.c2p() : !config.spec.p2c()) continue;
    const std::string name =
        "encoder.layer." + std::to_string(layer) + ".attention.self." + projection_name(config, key);
    const Matrix weight = reader.read(name + ".weight", 0, table.columns);
    if (weight.rows % config.heads != 0) {
      throw ConfigError(weights.path() + ": tensor " + json::quoted(weight.tensor) + ": must have a multiple of " +
                        std::to_string(config.heads) + " rows, one part for each head that config.json says, got " +
                        std::to_string(weight.rows));
    }
    std::vector<double> bias;
    if (!config.first_version || !key) bias = reader.read(name + ".bias", weight.rows, 1).numbers;
    made.push_back({key ? "key" : "query", weight.tensor, projected(table, weight, bias, config.heads)});
  }
  return made;
}

}  // namespace bearing::load
