#include <algorithm>
#include <cmath>

#include "hf_reader.hpp"

namespace bearing::hf {

using json::Object;

namespace {

/// The keys that any type may have beside its own.
bool common_key(std::string_view key) {
  constexpr std::string_view keys[] = {"rope_type", "type", "rope_theta", "mrope_section", "mrope_interleaved",
                                       "partial_rotary_factor",
                                       // read, and reported as not part of the encoding
                                       "llama_4_scaling_beta"};
  return std::find(std::begin(keys), std::end(keys), key) != std::end(keys);
}

/// Of Phi-3's class.
constexpr Index usual_original = 4096;

/// Reads one type's parameters and remembers which it asked for: the rest does nothing, and gets a warning.
class Reader {
 public:
  Reader(const Config& config, const Parameters& parameters, std::string type)
      : config_(config), parameters_(parameters), type_(std::move(type)) {}

  double factor() const {
    const auto given = parameters_.number(ask("factor"), factor_range);
    if (!given) parameters_.missing("factor", "a number of at least 1, for rope_type " + type_);
    check_factor(*given);
    return *given;
  }

  /// The factor or, without one, what the file promises over what the model was trained on.
  double factor_or_ratio(Index trained) const {
    if (const auto given = parameters_.number(ask("factor"), factor_range)) {
      check_factor(*given);
      check_ratio(*given, trained);
      return *given;
    }
    if (config_.positions == 0) parameters_.missing("factor", "or max_position_embeddings, to work it out");
    return static_cast<double>(config_.positions) / static_cast<double>(trained);
  }

  double factor_or_one() const {
    const double given = parameters_.number(ask("factor"), factor_range).value_or(1);
    check_factor(given);
    return given;
  }

  void check_ratio(double factor, Index trained) const {
    if (config_.positions == 0 || config_.positions == trained) return;
    const double ratio = static_cast<double>(config_.positions) / static_cast<double>(trained);
    if (std::abs(ratio - factor) <= 1e-9 * factor) return;
    parameters_.warn("factor", json::shortest(factor) +
                                   " counts, but max_position_embeddings over the trained length is " +
                                   json::shortest(ratio));
  }

  Index trained_length() const {
    constexpr std::string_view key = "original_max_position_embeddings";
    const auto inside = parameters_.integer(ask(key), 1, most_positions);
    const auto top = config_.file.integer(key, 1, most_positions);
    if (inside && top && *inside != *top) {
      config_.file.warn(
          key, std::to_string(*top) + " counts; " + parameters_.pointer(key) + " says " + std::to_string(*inside));
    }
    if (top) return *top;
    if (inside) {
      if (config_.family.is(top_level_original) && *inside != usual_original) {
        parameters_.warn(key, std::to_string(*inside) + " counts, but " + config_.code() +
                                  " reads this key at the top level alone and takes " + std::to_string(usual_original));
      }
      return *inside;
    }
    if (config_.family.is(top_level_original)) return usual_original;
    if (config_.positions == 0) parameters_.missing(key, "or max_position_embeddings");
    parameters_.warn(key,
                     "not in the file; max_position_embeddings = " + std::to_string(config_.positions) + " is used");
    return config_.positions;
  }

  std::optional<double> number(std::string_view key, json::Range range) const {
    return parameters_.number(ask(key), range);
  }
  std::optional<bool> flag(std::string_view key) const { return parameters_.flag(ask(key)); }

  std::vector<double> per_pair(std::string_view key, Index pairs) const {
    const Object* part = parameters_.with(ask(key));
    if (part == nullptr) parameters_.missing(key, std::to_string(pairs) + " numbers, for rope_type " + type_);
    std::vector<double> values = *part->numbers(key, most_head_dim / 2, factor_range);
    if (std::ssize(values) != pairs) {
      part->wrong(key, std::to_string(pairs) + " numbers, one per pair" +
                           config_.defaults_among({"head_dim", "hidden_size", "num_attention_heads"}));
    }
    return values;
  }

  /// Everything that is there and was not asked for.
  void warn_about_the_rest() const {
    for (const Object& part : parameters_.parts()) {
      for (std::string_view key : part.keys()) {
        if (common_key(key) || !part.has(key) || std::find(asked_.begin(), asked_.end(), key) != asked_.end()) continue;
        part.warn(key, "ignored for rope_type " + type_, json::Weight::slight);
      }
    }
  }

  const Config& config() const { return config_; }
  const Parameters& parameters() const { return parameters_; }

 private:
  std::string_view ask(std::string_view key) const {
    asked_.push_back(key);
    return key;
  }
  void check_factor(double factor) const {
    if (factor < 1) parameters_.warn("factor", "is below 1, which shortens the context instead of stretching it");
  }

  const Config& config_;
  const Parameters& parameters_;
  std::string type_;
  mutable std::vector<std::string_view> asked_;
};

constexpr json::Range turns_range{1e-6, 1e9};

RopeScaling read_deepseek_yarn(const Reader& reader) {
  DeepseekYarnScaling yarn;
  yarn.trained_length = reader.trained_length();
  yarn.factor = reader.factor_or_ratio(yarn.trained_length);
  yarn.beta_fast = reader.number("beta_fast", turns_range).value_or(32);
  yarn.beta_slow = reader.number("beta_slow", turns_range).value_or(1);
  const auto mscale = reader.number("mscale", {0, 100}), all_dim = reader.number("mscale_all_dim", {0, 100});
  if (mscale && !all_dim) {
    reader.parameters().warn("mscale",
                             "without mscale_all_dim: used here, as in DeepSeek's own code; transformers ignores it");
  }
  if (all_dim && !mscale) {
    reader.parameters().warn("mscale_all_dim",
                             "without mscale: cos and sin are divided by its factor, as in DeepSeek's "
                             "own code; transformers does not divide");
  }
  yarn.mscale = mscale.value_or(1);
  yarn.mscale_all_dim = all_dim.value_or(0);
  yarn.attention_factor = reader.number("attention_factor", {1e-6, 1e6});
  return yarn;
}

bool puts_inside(const Family& family) { return bases_per_type(family) || family.is(typed_lists); }

/// transformers looks for this key beside the dictionaries of layer types, and for all others inside of them.
void compare_truncation(const Reader& reader) {
  const Object* part = reader.parameters().with("truncate");
  if (part == nullptr || !reader.config().states_its_code()) return;
  const std::string home = part->pointer();
  // Where it takes parameters per layer type, it puts a flat rope_scaling inside of them.
  const bool inside = home.ends_with("/rope_scaling") && puts_inside(reader.config().family);
  if (!inside && (home.ends_with("/rope_parameters") || home.ends_with("/rope_scaling"))) return;
  part->warn("truncate",
             "false counts, but " + reader.config().code() +
                 " reads it only beside the dictionaries of layer types, and "
                 "rounds the ends of the ramp to whole pairs",
             json::Weight::grave);
}

RopeScaling read_yarn(const Reader& reader, double slope) {
  YarnScaling yarn;
  yarn.trained_length = reader.trained_length();
  yarn.factor = reader.factor_or_ratio(yarn.trained_length);
  // Zero counts as missing, as in Python's `or`.
  const double fast = reader.number("beta_fast", {0, 1e9}).value_or(0),
               slow = reader.number("beta_slow", {0, 1e9}).value_or(0);
  yarn.beta_fast = fast > 0 ? fast : 32;
  yarn.beta_slow = slow > 0 ? slow : 1;
  if (yarn.beta_fast < yarn.beta_slow) {
    reader.config().notes().fail(
        reader.parameters().pointer("beta_fast"),
        "must be at least beta_slow = " + json::shortest(yarn.beta_slow) + ", got " + json::shortest(yarn.beta_fast));
  }
  yarn.truncate = reader.flag("truncate").value_or(true);
  if (!yarn.truncate) compare_truncation(reader);
  yarn.attention_factor = reader.number("attention_factor", {1e-6, 1e6});
  yarn.mscale = reader.number("mscale", {0, 100});
  yarn.mscale_all_dim = reader.number("mscale_all_dim", {0, 100});
  if (!yarn.attention_factor && yarn.mscale.value_or(0) > 0 && yarn.mscale_all_dim.value_or(0) == 0) {
    reader.parameters().warn("mscale", "ignored without mscale_all_dim");
  }
  if (yarn.attention_factor && yarn.mscale) reader.parameters().warn("mscale", "ignored: attention_factor is given");
  yarn.mscale_slope = slope;
  return yarn;
}

RopeScaling read_longrope(const Reader& reader, Index rotary_dim) {
  LongRopeScaling scaling;
  scaling.trained_length = reader.trained_length();
  if (scaling.trained_length < 2) {
    reader.config().notes().fail(reader.parameters().pointer("original_max_position_embeddings"),
                                 "must be at least 2 for longrope, got 1");
  }
  scaling.factor = reader.factor_or_ratio(scaling.trained_length);
  scaling.short_factor = reader.per_pair("short_factor", rotary_dim / 2);
  scaling.long_factor = reader.per_pair("long_factor", rotary_dim / 2);
  scaling.attention_factor = reader.number("attention_factor", {1e-6, 1e6});
  scaling.short_mscale = reader.number("short_mscale", {1e-6, 1e6});
  scaling.long_mscale = reader.number("long_mscale", {1e-6, 1e6});
  return scaling;
}

RopeScaling read_llama3(const Reader& reader) {
  Llama3Scaling scaling;
  const auto needed = [&](std::string_view key) {
    const auto given = reader.number(key, {1e-6, 1e9});
    if (!given) reader.parameters().missing(key, "a number above 0, for rope_type llama3");
    return *given;
  };
  scaling.factor = reader.factor();
  scaling.low_freq_factor = needed("low_freq_factor");
  scaling.high_freq_factor = needed("high_freq_factor");
  scaling.trained_length = reader.trained_length();
  if (scaling.high_freq_factor < scaling.low_freq_factor) {
    reader.config().notes().fail(reader.parameters().pointer("high_freq_factor"),
                                 "must be at least low_freq_factor = " + json::shortest(scaling.low_freq_factor) +
                                     ", got " + json::shortest(scaling.high_freq_factor));
  }
  return scaling;
}

RopeScaling read_dynamic(const Reader& reader) {
  if (const auto alpha = reader.number("alpha", factor_range)) return AlphaScaling{*alpha};  // Hunyuan
  const Config& config = reader.config();
  if (config.positions == 0) config.file.missing("max_position_embeddings", "for rope_type dynamic");
  reader.parameters().warn("factor",
                           "dynamic: the frequencies depend on the sequence's length once it is over "
                           "max_position_embeddings, so keys cached before it grew no longer fit");
  return DynamicNtkScaling{reader.factor(), config.positions};
}

}  // namespace

RopeScaling read_scaling(const Config& config, const Parameters& parameters, Index rotary_dim) {
  if (parameters.empty()) return NoScaling{};
  std::string type = parameters.type();
  // Early files of Phi-3 called LongRoPE "su" and, for a while, "yarn".
  if (type == "su" || (type == "yarn" && config.family.is(top_level_original))) type = "longrope";

  const Reader reader(config, parameters, type);
  const auto read = [&]() -> RopeScaling {
    if (type == "default" || type == "mrope" || type == "none") return NoScaling{};
    if (type == "linear") return LinearScaling{reader.factor()};
    if (type == "dynamic") return read_dynamic(reader);
    if (type == "deepseek_yarn" || (type == "yarn" && config.family.is(mla))) return read_deepseek_yarn(reader);
    if (type == "yarn") return read_yarn(reader, 0.1);
    if (type == "telechat3-yarn") return read_yarn(reader, 0.07);
    if (type == "longrope") return read_longrope(reader, rotary_dim);
    if (type == "llama3") return read_llama3(reader);
    if (type == "proportional") {
      const auto beside = config.file.number("partial_rotary_factor", {0, 1});
      return ProportionalScaling{parameters.number("partial_rotary_factor", {0, 1}).value_or(beside.value_or(1)),
                                 reader.factor_or_one()};
    }
    const Object* part = parameters.with("rope_type");
    const std::string_view key = part != nullptr ? "rope_type" : "type";
    (part != nullptr ? part : parameters.with("type"))
        ->wrong(key, "default, linear, dynamic, yarn, longrope, llama3, proportional, mrope or deepseek_yarn");
  };
  RopeScaling scaling = read();
  reader.warn_about_the_rest();
  return scaling;
}

}  // namespace bearing::hf
