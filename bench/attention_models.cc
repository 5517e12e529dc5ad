#include "attention_models.hpp"

#include "described.hpp"

namespace bearing::bench {
namespace {

Sizes sizes_of(const AttentionShape& s) {
  return {.batch = s.batch,
          .heads = s.heads,
          .kv_heads = s.kv_heads,
          .q_len = s.q_len,
          .k_len = s.k_len,
          .dim = s.dim,
          .value_dim = s.dim};
}

/// Rows of a table that each query or key meets, added up: all of them, or as many as there are tokens to see.
double rows_met(Index rows, bool causal, const AttentionShape& s) {
  double met = 0;
  for (Index i = 0; i < s.q_len; ++i) {
    met += static_cast<double>(std::min(rows, causal ? i + 1 + s.k_len - s.q_len : s.k_len));
  }
  return met;
}

}  // namespace

Encoded encode(const std::string& name, const AttentionShape& shape) {
  if (name == "none") return {};
  const auto made = std::make_shared<const Described>(name, sizes_of(shape));
  return Encoded{made, made->terms()};
}

double own_products(const std::string& name, const AttentionShape& shape) {
  if (name == "none") return 0;
  const Described encoding(name, sizes_of(shape));
  const EncodingInfo& info = encoding.info();
  if (info.form == Form::positions && !encoding.parameters().empty()) return pairs_left("full", shape);
  if (info.form != Form::rows_by_index) return 0;
  const bool causal = info.causal && info.causal(encoding.spec());
  double products = 0;
  for (const Described::Parameter& table : encoding.parameters()) {
    if (table.shape.size() < 2 || table.info->extents.size() < 2) continue;
    const std::string& rows = table.info->extents[table.shape.size() - 2].name;
    if (rows != "heads") products += rows_met(table.shape[table.shape.size() - 2], causal, shape);
  }
  return products;
}

double pairs_left(const std::string& name, const AttentionShape& shape) {
  const auto q = static_cast<double>(shape.q_len), k = static_cast<double>(shape.k_len);
  if (name == "full") return q * k;
  const double all = q * (q + 1) / 2;
  if (name == "causal" || q <= 512) return all;
  return all - (q - 512) * (q - 511) / 2;
}

}  // namespace bearing::bench
