#include <algorithm>
#include <cmath>

#include "gguf_reader.hpp"

namespace bearing::gguf {
namespace {

constexpr json::Range factor_range{1e-6, 1e12};
constexpr const char* freqs_name = "rope_freqs.weight";
constexpr const char* long_name = "rope_factors_long.weight";
constexpr const char* short_name = "rope_factors_short.weight";
/// What ggml is given for a pair that does not turn: Gemma 4's files have 1e30.
constexpr double still = 1e20;

/// What the file says of scaling, in llama.cpp's order: keys, defaults, then what single architectures change.
struct Stated {
  std::string type = "linear";
  double factor = 1;
  double attention = 1;  ///< rope.scaling.attn_factor
  bool ramp = false;     ///< YaRN's ramp between turned and stretched pairs
};

double read_factor(const File& file) {
  // ggml takes 0 for "not scaled".
  constexpr json::Range or_zero{0, factor_range.most};
  for (const std::string_view key : {"rope.scaling.factor", "rope.scale_linear"}) {
    const auto factor = file.data.number(key, or_zero);
    if (!factor) continue;
    if (*factor != 0 && *factor < factor_range.least) file.data.fail(key, "must be 0 or a number from 1e-6 to 1e12");
    return *factor == 0 ? 1 : *factor;
  }
  return 1;
}

/// yarn_ext_factor, of which the ramp is a part or the whole, or none.
bool read_ramp(const File& file, const std::string& type) {
  if (!file.is(reads_ramp)) return type == "yarn";
  const auto given = file.data.number("rope.scaling.yarn_ext_factor", json::finite);
  if (!given || *given < 0) return type == "yarn";
  if (*given != 0 && *given != 1) {
    file.data.fail("rope.scaling.yarn_ext_factor",
                   "must be 0 or 1: a ramp that counts in part is not known here, got " + json::shortest(*given));
  }
  return *given == 1;
}

Stated read_stated(const File& file) {
  const Metadata& data = file.data;
  Stated stated;
  stated.type = data.word("rope.scaling.type").value_or("linear");
  if (stated.type != "none" && stated.type != "linear" && stated.type != "yarn" && stated.type != "longrope") {
    data.fail("rope.scaling.type", "must be none, linear, yarn or longrope, got " + json::quoted(stated.type));
  }
  stated.factor = read_factor(file);
  stated.attention = data.number("rope.scaling.attn_factor", {1e-6, 1e6}).value_or(1);
  stated.ramp = read_ramp(file, stated.type);
  if (stated.type == "none" && !stated.ramp && stated.factor != 1) {
    // llama.cpp drops the factor in full layers alone.
    if (file.slides() && file.row.sliding.scale == Scale::inherits) {
      data.fail("rope.scaling.type", "must not be none beside a factor: sliding layers would still be stretched");
    }
    data.warn("rope.scaling.type", "none: the factor " + json::shortest(stated.factor) + " is not used");
    stated.factor = 1;
  }
  if (!stated.ramp && file.is(reads_ramp)) {
    stated.attention *= data.number("rope.scaling.yarn_attn_factor", {1e-6, 1e6}).value_or(1);
  }
  return stated;
}

/// mscale_all_dim, which architectures write in two ways; 0: not given, or not read.
double read_mscale(const File& file) {
  if (!file.is(log_times_tenth) && !file.is(log_plain)) return 0;
  const double given = file.data.number("rope.scaling.yarn_log_multiplier", {-1e6, 1e6}).value_or(0);
  if (file.is(log_plain)) return given;
  return std::round(given * 1e7) / 1e6;  // times 10, without what rounding to decimals left over
}

/// m(t) = 0.1·t·ln s + 1
double magnitude(double factor, double t) { return factor <= 1 ? 1 : 0.1 * t * std::log(factor) + 1; }

RopeScaling yarn(const File& file, const Stated& stated) {
  const Metadata& data = file.data;
  double fast = file.is(reads_ramp) ? 8 : 32, slow = 1;
  if (file.is(reads_betas)) {
    fast = data.number("rope.scaling.yarn_beta_fast", {1e-6, 1e6}).value_or(fast);
    slow = data.number("rope.scaling.yarn_beta_slow", {1e-6, 1e6}).value_or(slow);
  }
  const Index original = original_length(file);
  const Index trained = original > 0 ? original : file.context;
  if (trained == 0) data.fail("rope.scaling.original_context_length", "must be there if context_length is not");
  const double mscale_all = read_mscale(file);
  const bool both = file.is(mscale_alike) && mscale_all != 1;
  if (!file.is(scores_scaled)) {
    // What llama.cpp hands ggml for DeepSeek-V4 takes YaRN's own factor back.
    const std::optional<double> given = file.is(compressed) ? std::optional<double>(1) : std::nullopt;
    YarnScaling scaling{.factor = stated.factor, .trained_length = trained, .beta_fast = fast, .beta_slow = slow};
    scaling.attention_factor = given;
    if (mscale_all != 0) scaling.mscale = both ? mscale_all : 1, scaling.mscale_all_dim = mscale_all;
    return scaling;
  }
  DeepseekYarnScaling scaling{.factor = stated.factor, .trained_length = trained, .beta_fast = fast, .beta_slow = slow};
  const double over = magnitude(stated.factor, mscale_all == 0 || both ? mscale_all : 1);
  const double under = mscale_all == 0 ? 1 : magnitude(stated.factor, mscale_all);
  const double turned = mscale_all == 0 ? magnitude(stated.factor, 1) : over / under;
  const double scores = turned * stated.attention * magnitude(stated.factor, mscale_all);
  scaling.mscale = scaling.mscale_all_dim = mscale_all;
  if (turned * stated.attention != 1) {
    // The softmax scale has the square of m(mscale_all_dim): the number for which it is what llama.cpp computes.
    const double slope = 0.1 * std::log(stated.factor);
    scaling.attention_factor = turned;
    scaling.mscale_all_dim = slope > 0 ? (scores - 1) / slope : 0;
    scaling.mscale = scaling.mscale_all_dim;
  }
  return scaling;
}

/// Without a tensor nothing; with factors of 1 and then of "does not turn" what Gemma 4's config says.
RopeScaling divided(const File& file, const Rope& rope, const Stated& stated, std::vector<double> divisors) {
  const Index pairs = std::ssize(divisors);
  const auto turning = std::find_if(divisors.begin(), divisors.end(), [](double d) { return d != 1; });
  const auto kept = static_cast<double>(turning - divisors.begin());
  const double fraction = kept / static_cast<double>(pairs);
  const bool whole = std::floor(fraction * static_cast<double>(rope.head_dim) / 2) == kept;  // as ProportionalScaling
  const bool rest_still = std::all_of(turning, divisors.end(), [](double d) { return d >= still; });
  if (stated.ramp) {
    file.data.notes().fail(freqs_name, "must not stand beside yarn: both at once are not known here");
  }
  if (rest_still && whole && kept > 0 && turning != divisors.end() && rope.rotary_dim == rope.head_dim) {
    return ProportionalScaling{.fraction = fraction, .factor = stated.factor};
  }
  if (turning == divisors.end() && stated.factor == 1) return NoScaling{};
  for (double& divisor : divisors) divisor *= stated.factor;
  return FrequencyDivisors{std::move(divisors)};
}

std::optional<std::vector<double>> read_freqs(const File& file, const Kind& kind, Index pairs) {
  const bool applies =
      file.is(freqs) && !(kind.slides && file.is(freqs_of_full_layers)) && turn_of(file) != Turn::sections;
  if (file.data.tensor(freqs_name) == nullptr || !applies) {
    const bool known = file.is(freqs) || file.is(freqs_unused);
    if (file.data.tensor(freqs_name) != nullptr && !known) {
      file.data.notes().fail(
          freqs_name, "must not be there: llama.cpp's code for " + file.data.architecture() + " does not read it");
    }
    return {};
  }
  // Step 3.5's tensor has numbers for the layers that turn most dimensions; the others use the first of them.
  const Index most = file.is(half_count) ? std::max(file.turned, file.sliding_turned) / 2 : pairs;
  auto numbers = file.data.factors(freqs_name, pairs, most);
  numbers->resize(static_cast<std::size_t>(pairs));
  return numbers;
}

bool reads_factors(const File& file, const Stated& stated) {
  return file.is(factors) || (file.is(factors_if_longrope) && stated.type == "longrope");
}

std::optional<RopeScaling> long_rope(const File& file, const Stated& stated, Index pairs) {
  const Metadata& data = file.data;
  const bool either = data.tensor(long_name) != nullptr || data.tensor(short_name) != nullptr;
  if (!either || !reads_factors(file, stated)) {
    if (either) {
      data.notes().fail(data.tensor(long_name) != nullptr ? long_name : short_name,
                        "must not be there: llama.cpp's code for " + data.architecture() + " does not read it" +
                            (file.is(factors_if_longrope) ? " unless rope.scaling.type is longrope" : ""));
    }
    if (stated.type == "longrope" && reads_factors(file, stated)) {
      data.notes().fail(long_name, "must be there: rope.scaling.type is longrope");
    }
    return {};
  }
  auto of_long = data.factors(long_name, pairs, pairs), of_short = data.factors(short_name, pairs, pairs);
  if (!of_long || !of_short) data.notes().fail(of_long ? short_name : long_name, "must be there beside the other one");
  if (stated.ramp) data.notes().fail(long_name, "must not stand beside yarn: both at once are not known here");
  const Index original = original_length(file);
  LongRopeScaling scaling;
  scaling.trained_length = original > 0 ? original : file.context;
  if (scaling.trained_length == 0) {
    data.fail("rope.scaling.original_context_length", "must be there if context_length is not");
  }
  for (double& factor : *of_long) factor *= stated.factor;
  for (double& factor : *of_short) factor *= stated.factor;
  scaling.long_factor = std::move(*of_long);
  scaling.short_factor = std::move(*of_short);
  scaling.factor = std::max(1.0, static_cast<double>(file.context) / static_cast<double>(scaling.trained_length));
  scaling.attention_factor = stated.attention;
  return scaling;
}

/// Hunyuan VL's α, NTK at every length.
bool read_alpha(const File& file, const Stated& stated, Rope& rope) {
  const auto alpha_key = "rope.scaling.alpha";
  const double given = file.data.number(alpha_key, {0, 1e12}).value_or(0);
  if (given == 0) return false;
  if (!file.is(alpha)) {
    file.data.fail(alpha_key, "must be 0: llama.cpp's code for " + file.data.architecture() + " does not use it");
  }
  if (stated.factor != 1 || stated.ramp) file.data.fail(alpha_key, "must not stand beside another scaling");
  rope.scaling = AlphaScaling{given};
  return true;
}

Stated of_layer(const File& file, const Kind& kind, Stated stated) {
  if (file.is(compressed)) stated.attention = 1;
  const bool other = file.is(compressed) ? !kind.compressed : kind.slides && file.row.sliding.scale != Scale::inherits;
  if (!other) return stated;
  stated.factor = 1;
  stated.ramp = false;
  if (file.row.sliding.scale == Scale::plain) stated.attention = 1;
  return stated;
}

}  // namespace

Index original_length(const File& file) {
  return file.data.integer("rope.scaling.original_context_length", 0, most_positions).value_or(0);
}

void read_scaling(const File& file, const Kind& kind, Rope& rope) {
  if (file.is(unscaled)) return;
  const Index pairs = rope.rotary_dim / 2;
  const Stated stated = of_layer(file, kind, read_stated(file));
  if (auto scaling = long_rope(file, stated, pairs)) {
    rope.scaling = std::move(*scaling);
    return;
  }
  rope.attention_factor = stated.attention;
  if (read_alpha(file, stated, rope)) return;
  if (auto divisors = read_freqs(file, kind, pairs)) {
    rope.scaling = divided(file, rope, stated, std::move(*divisors));
  } else if (stated.ramp && stated.factor != 1) {
    rope.scaling = yarn(file, stated);
  } else if (stated.factor != 1) {
    rope.scaling = LinearScaling{stated.factor};
  }
}

}  // namespace bearing::gguf
