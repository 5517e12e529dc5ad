#pragma once

#include <bearing/export.hpp>
#include <bearing/view.hpp>
#include <optional>
#include <variant>
#include <vector>

namespace bearing {

// How a rotary encoding is stretched past the length it was trained on. Notation: θ_i = base^(−2i/r) for pair i of
// r = rotary_dim, wavelength λ_i = 2π/θ_i, factor s ≥ 1, trained_length L (`original_max_position_embeddings`).
// docs/encodings/rope_scaling.md has the sources and says where implementations disagree.

/// θ as it is.
struct NoScaling {
  bool operator==(const NoScaling&) const = default;
};

/// Position interpolation (arXiv 2306.15595): θ / s.
struct LinearScaling {
  double factor = 1;
  bool operator==(const LinearScaling&) const = default;
};

/// NTK-aware, static: base · s^(r/(r−2)), which leaves the first pair alone and divides the last by s.
struct NtkScaling {
  double factor = 1;
  bool operator==(const NtkScaling&) const = default;
};

/// NTK-aware with a base that grows with the sequence: base · (s·ℓ/L − (s−1))^(r/(r−2)), ℓ = max(seq_len, L). The
/// frequencies depend on seq_len, so keys cached at one length must be rebased when it grows (rope_rebase.hpp).
struct DynamicNtkScaling {
  double factor = 1;
  Index trained_length = 0;
  bool operator==(const DynamicNtkScaling&) const = default;
};

/// NTK with a given α (Hunyuan; its files call it "dynamic"): base · α^(r/(r−2)), at every length.
struct AlphaScaling {
  double alpha = 1;
  bool operator==(const AlphaScaling&) const = default;
};

/// NTK by parts, YaRN's forerunner: between L/β turns per trained length, blends linear into NTK over β, then into
/// the base frequencies over γ. Each range is {slow, fast} in turns completed within the trained length.
struct NtkByPartsScaling {
  double factor = 1;
  Index trained_length = 0;
  double beta_slow = 0.75, beta_fast = 1.25;
  double gamma_slow = 2, gamma_fast = 16;
  bool operator==(const NtkByPartsScaling&) const = default;
};

/// YaRN (arXiv 2309.00071). A pair that makes more than beta_fast turns within L keeps θ, one that makes fewer than
/// beta_slow gets θ/s, the rest are blended along a ramp over the pair index.
/// Attention factor a (cos and sin are multiplied by it): `attention_factor` if given; else, if both mscales are given
/// and not 0, m(mscale)/m(mscale_all_dim); else m(1); with m(t) = mscale_slope·t·ln s + 1 (1 for s ≤ 1).
struct YarnScaling {
  double factor = 1;
  Index trained_length = 0;
  double beta_fast = 32, beta_slow = 1;
  bool truncate = true;  ///< floor and ceil the ends of the ramp; gpt-oss does not
  std::optional<double> attention_factor = {}, mscale = {}, mscale_all_dim = {};
  double mscale_slope = 0.1;  ///< 0.07 in TeleChat3
  bool operator==(const YarnScaling&) const = default;
};

/// YaRN as DeepSeek uses it: a = `attention_factor` if given, else m(mscale)/m(mscale_all_dim), and the softmax scale
/// is multiplied by m(mscale_all_dim)² (read it from RopeFrequencies::softmax_scale_factor; attention must apply it).
struct DeepseekYarnScaling {
  double factor = 1;
  Index trained_length = 0;
  double beta_fast = 32, beta_slow = 1;
  double mscale = 1, mscale_all_dim = 0;
  std::optional<double> attention_factor = {};
  bool operator==(const DeepseekYarnScaling&) const = default;
};

/// LongRoPE (arXiv 2402.13753; Phi-3): θ_i / f_i with f the long factors if seq_len > L, else the short ones.
/// a = attention_factor if given, else the mscale of the list in use if given, else √(1 + ln s / ln L) for s > 1.
struct LongRopeScaling {
  std::vector<double> short_factor, long_factor;  ///< one per pair
  Index trained_length = 0;
  double factor = 1;  ///< s = max_position_embeddings / trained_length
  std::optional<double> attention_factor = {}, short_mscale = {}, long_mscale = {};
  bool operator==(const LongRopeScaling&) const = default;
};

/// Llama 3.1: λ < L/high_freq_factor keeps θ; λ > L/low_freq_factor gets θ/s; between, a linear blend in L/λ.
struct Llama3Scaling {
  double factor = 8, low_freq_factor = 1, high_freq_factor = 4;
  Index trained_length = 8192;
  bool operator==(const Llama3Scaling&) const = default;
};

/// p-RoPE (Gemma 4): over the whole head, exponents −2i/head_dim; only the first ⌊fraction·head_dim/2⌋ pairs turn,
/// the others have frequency 0; all are divided by the factor.
struct ProportionalScaling {
  double fraction = 1, factor = 1;
  bool operator==(const ProportionalScaling&) const = default;
};

/// The frequencies themselves, radians per token, one per pair: taken as they are, also learned ones. The base is
/// not used.
struct ExplicitFrequencies {
  std::vector<double> inv_freq;
  bool operator==(const ExplicitFrequencies&) const = default;
};

/// θ_i / divisor_i, one per pair (ggml's freq_factors, a GGUF file's rope_freqs tensor).
struct FrequencyDivisors {
  std::vector<double> divisors;
  bool operator==(const FrequencyDivisors&) const = default;
};

using RopeScaling = std::variant<NoScaling, LinearScaling, NtkScaling, DynamicNtkScaling, AlphaScaling,
                                 NtkByPartsScaling, YarnScaling, DeepseekYarnScaling, LongRopeScaling, Llama3Scaling,
                                 ProportionalScaling, ExplicitFrequencies, FrequencyDivisors>;

/// The name in Hugging Face's files, if there is one ("default", "linear", "dynamic", "yarn", "longrope", "llama3",
/// "proportional"), else this library's: "ntk", "alpha", "ntk-by-parts", "deepseek-yarn", "explicit", "divisors".
BEARING_EXPORT const char* scaling_name(const RopeScaling& scaling);

/// The length that the model was trained on before it was stretched, as the scaling states it; 0 if it states none.
BEARING_EXPORT Index trained_length(const RopeScaling& scaling);

/// Whether the frequencies depend on the sequence's length: dynamic NTK and LongRoPE.
BEARING_EXPORT bool depends_on_length(const RopeScaling& scaling);

}  // namespace bearing
