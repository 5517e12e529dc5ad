#pragma once

#include <bearing/load.hpp>
#include <bearing/safetensors.hpp>
#include <string>
#include <vector>

// DeBERTa's tables. A layer makes them from one table of distances, which all layers share, and its own projections.

namespace bearing::load {

/// What config.json says of them beside the spec.
struct DebertaConfig {
  Deberta spec;
  Index heads = 0;
  bool first_version = false;  ///< "deberta": its projections have other names, and keys have no bias
  bool shares = false;         ///< share_att_key: the content's projections serve
  bool normed = false;         ///< norm_rel_ebd: a layer norm over the table
  double norm_epsilon = 1e-7;
};

/// The spec's config, from the text of config.json.
DebertaConfig deberta_config(const Deberta& spec, const Model& model, const std::string& path);

/// "key" and "query" [heads, 2 span, dim] of a layer, those that the spec has. Throws ConfigError for a tensor that is
/// not there or is there twice, or has another shape.
std::vector<LoadedParameter> deberta_tables(Weights& weights, const std::vector<std::string>& names,
                                            const DebertaConfig& config, Index layer);

}  // namespace bearing::load
