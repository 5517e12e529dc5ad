#include <algorithm>
#include <bearing/error.hpp>
#include <cmath>
#include <limits>
#include <type_traits>

#include "gguf_architectures.hpp"
#include "gguf_header.hpp"
#include "json_file.hpp"

namespace bearing {
namespace {

using gguf::Architecture;
using gguf::Turn;

/// ggml's "does not turn", as Gemma 4's files have it.
constexpr double still = 1e30;

class RopeWriter {
 public:
  RopeWriter(const Rope& rope, const std::string& architecture)
      : rope_(rope), architecture_(architecture), row_(find(architecture)), numbers_(resolve(rope)) {}

  GgufRope write() {
    write_pairing();
    write_dimensions();
    write_axes();
    attention_ = rope_.attention_factor;
    base_ = rope_.base;
    std::visit([this](const auto& scaling) { write_scaling(scaling); }, rope_.scaling);
    if (row_.is(gguf::base_10000) && base_ != 10'000) refuse("has the base 10000, got " + json::shortest(base_));
    if (!row_.is(gguf::base_10000)) put("rope.freq_base", GgufType::f32, base_);
    if (static_cast<float>(attention_) != 1) {
      if (row_.is(gguf::unscaled)) refuse("has no attention factor");
      put("rope.scaling.attn_factor", GgufType::f32, attention_);
    }
    return std::move(out_);
  }

 private:
  static const Architecture& find(const std::string& name) {
    const Architecture* row = gguf::find_architecture(name);
    if (row == nullptr) throw ConfigError("[gguf_rope] architecture: must be known, got " + json::quoted(name));
    if (!row->turns_in_one_way()) {
      throw ConfigError("[gguf_rope] architecture: must be one that turns queries and keys in one way, got " +
                        json::quoted(name));
    }
    return *row;
  }

  [[noreturn]] void refuse(const std::string& text) const {
    throw ConfigError("[gguf_rope] rope: llama.cpp's code for " + architecture_ + ' ' + text);
  }

  using Stored = decltype(GgufEntry::value);
  void put(const std::string& key, GgufType type, Stored value) {
    out_.metadata.push_back({architecture_ + '.' + key, type, std::move(value)});
  }
  void put_factor(double factor) {
    if (row_.is(gguf::unscaled)) refuse("does not stretch");
    put("rope.scaling.factor", GgufType::f32, factor);
  }
  void put_type(const char* type) { put("rope.scaling.type", GgufType::string, std::string(type)); }
  void put_original(Index length) { put("rope.scaling.original_context_length", GgufType::u32, length); }

  bool in_sections() const {
    return row_.turn == Turn::sections || (row_.is(gguf::sections_if_given) && numbers_.axes > 1);
  }

  void write_pairing() const {
    const bool neighbours = row_.turn == Turn::neighbours && !in_sections();
    if (neighbours == (rope_.pairing == Pairing::interleaved)) return;
    refuse(std::string("turns ") + (neighbours ? "neighbours (interleaved)" : "halves") +
           ": permute the weights of queries and keys to that pairing first");
  }

  void write_dimensions() {
    const Index begin = row_.is(gguf::last_part) ? numbers_.head_dim - numbers_.rotary_dim : 0;
    if (numbers_.begin != begin) {
      refuse(std::string("turns the ") + (row_.is(gguf::last_part) ? "last" : "first") + " dimensions of a head");
    }
    if (row_.is(gguf::whole_head) && numbers_.rotary_dim != numbers_.head_dim) refuse("turns whole heads");
    const bool whole_key = row_.is(gguf::last_part) && row_.is(gguf::scores_scaled);
    put(whole_key ? "attention.key_length_mla" : "attention.key_length", GgufType::u32, numbers_.head_dim);
    put("rope.dimension_count", GgufType::u32, numbers_.rotary_dim * (row_.is(gguf::half_count) ? 2 : 1));
  }

  void write_axes() {
    const bool interleaved = row_.turn == Turn::interleaved;
    if (!interleaved && !in_sections()) {
      if (numbers_.axes > 1) refuse("turns all pairs by one position");
      return;
    }
    std::vector<std::int64_t> sections(rope_.axes.pairs.begin(), rope_.axes.pairs.end());
    const bool ordered = rope_.axes.order == (interleaved ? RopeAxes::Order::interleaved : RopeAxes::Order::contiguous);
    const bool shared = rope_.axes.frequencies == RopeAxes::Frequencies::shared;
    if (sections.empty() && !interleaved) {
      sections = {numbers_.pairs()};
    } else if (!ordered || !shared || sections.size() > 4 || (interleaved && sections.size() != 3)) {
      refuse(interleaved ? "deals the pairs out to three axes in turn" : "deals the pairs out to axes in sections");
    }
    sections.resize(4, 0);
    put("rope.dimension_sections", GgufType::i32, std::move(sections));
  }

  // One for each scaling.

  void write_scaling(const NoScaling&) { put_type("none"); }
  void write_scaling(const LinearScaling& scaling) {
    put_type("linear");
    put_factor(scaling.factor);
  }
  void write_scaling(const NtkScaling& scaling) { raise_base(scaling.factor); }
  void write_scaling(const AlphaScaling& scaling) {
    if (!row_.is(gguf::alpha)) return raise_base(scaling.alpha);
    put_type("none");
    put("rope.scaling.alpha", GgufType::f32, scaling.alpha);
  }
  void write_scaling(const DynamicNtkScaling&) {
    refuse("cannot change frequencies with the length of a sequence, as dynamic NTK does");
  }
  void write_scaling(const NtkByPartsScaling&) { write_divisors(); }
  void write_scaling(const Llama3Scaling& scaling) {
    write_divisors();
    put_original(scaling.trained_length);
  }
  void write_scaling(const ExplicitFrequencies&) { write_divisors(); }
  void write_scaling(const FrequencyDivisors&) { write_divisors(); }
  void write_scaling(const ProportionalScaling&) { write_divisors(); }

  void write_scaling(const YarnScaling& scaling) {
    if (row_.is(gguf::scores_scaled)) refuse("scales scores as DeepSeek does: give a DeepseekYarnScaling");
    write_ramp(scaling);
    if (!scaling.truncate) refuse("takes the floor and the ceiling of the ramp's ends (truncate)");
    // YaRN's own factor, m(mscale)/m(mscale_all_dim) and a slope other than 0.1 all end up in one number.
    // ggml multiplies by m(1) itself.
    attention_ = numbers_.attention_factor / (1 + 0.1 * std::log(std::max(1.0, scaling.factor)));
  }

  void write_scaling(const DeepseekYarnScaling& scaling) {
    const bool tenth = row_.is(gguf::log_times_tenth), any = architecture_ == "deepseek2";
    const bool equal = scaling.mscale == scaling.mscale_all_dim && scaling.mscale_all_dim != 0;
    const bool usual = scaling.attention_factor.value_or(1) == 1 && rope_.attention_factor == 1;
    if (!tenth || !equal || !usual || (!any && scaling.mscale != 1)) {
      refuse(any ? "wants mscale and mscale_all_dim alike, and no other attention factor"
                 : "does not scale scores as DeepSeek does, except with mscale and mscale_all_dim of 1 (deepseek32)");
    }
    write_ramp(scaling);
    put("rope.scaling.yarn_log_multiplier", GgufType::f32, 0.1 * scaling.mscale_all_dim);
  }

  void write_scaling(const LongRopeScaling& scaling) {
    if (!row_.is(gguf::factors) && !row_.is(gguf::factors_if_longrope)) refuse("does not read LongRoPE's factors");
    if (scaling.short_mscale.value_or(1) != scaling.long_mscale.value_or(1)) {
      refuse("has one attention factor for both of LongRoPE's lists");
    }
    put_type("longrope");
    put_original(scaling.trained_length);
    attention_ = numbers_.attention_factor;
    out_.tensors.push_back({"rope_factors_long.weight", {scaling.long_factor.begin(), scaling.long_factor.end()}});
    out_.tensors.push_back({"rope_factors_short.weight", {scaling.short_factor.begin(), scaling.short_factor.end()}});
  }

  template <class Yarn>
  void write_ramp(const Yarn& scaling) {
    put_type("yarn");
    put_factor(scaling.factor);
    put_original(scaling.trained_length);
    const double usual_fast = row_.is(gguf::reads_ramp) ? 8 : 32;
    if (row_.is(gguf::reads_betas)) {
      put("rope.scaling.yarn_beta_fast", GgufType::f32, scaling.beta_fast);
      put("rope.scaling.yarn_beta_slow", GgufType::f32, scaling.beta_slow);
    } else if (scaling.beta_fast != usual_fast || scaling.beta_slow != 1) {
      refuse("has beta_fast 32 and beta_slow 1");
    }
  }

  /// Static NTK is a larger base.
  void raise_base(double by) {
    put_type("none");
    const auto n = static_cast<double>(numbers_.rotary_dim);
    base_ = rope_.base * std::pow(by, n / (n - 2));
  }

  /// Any frequencies at all, as what the usual ones are divided by.
  void write_divisors() {
    if (!row_.is(gguf::freqs)) refuse("does not read rope_freqs.weight, which would hold such frequencies");
    Rope plain = rope_;
    plain.scaling = NoScaling{};
    const RopeFrequencies usual = resolve(plain);
    GgufFactors factors{"rope_freqs.weight", {}};
    for (std::size_t i = 0; i < usual.inv_freq.size(); ++i) {
      const double divisor = numbers_.inv_freq[i] == 0 ? still : usual.inv_freq[i] / numbers_.inv_freq[i];
      if (!(divisor > 0) || divisor > static_cast<double>(std::numeric_limits<float>::max())) {
        refuse("divides frequencies by numbers above 0, got " + json::shortest(divisor));
      }
      factors.values.push_back(static_cast<float>(divisor));
    }
    out_.tensors.push_back(std::move(factors));
    put_type("none");
    attention_ = numbers_.attention_factor;
  }

  const Rope& rope_;
  std::string architecture_;
  const Architecture& row_;
  RopeFrequencies numbers_;
  double attention_ = 1, base_ = 10'000;
  GgufRope out_ = {};
};

std::string joined(const auto& numbers, auto&& text) {
  std::string out;
  for (const auto number : numbers) out += (out.empty() ? "" : ", ") + text(number);
  return out;
}

std::string value_text(const GgufEntry& entry) {
  return std::visit(
      [](const auto& value) -> std::string {
        using Value = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<Value, std::string>) {
          return value;
        } else if constexpr (std::is_same_v<Value, double>) {
          return json::shortest(value);
        } else if constexpr (std::is_same_v<Value, std::int64_t>) {
          return std::to_string(value);
        } else {
          return joined(value, [](std::int64_t n) { return std::to_string(n); });
        }
      },
      entry.value);
}

}  // namespace

GgufRope gguf_rope(const Rope& rope, const std::string& architecture) { return RopeWriter(rope, architecture).write(); }

std::string to_text(const GgufRope& part) {
  std::string out;
  for (const GgufEntry& entry : part.metadata) {
    const auto* list = std::get_if<std::vector<std::int64_t>>(&entry.value);
    const std::string length = list == nullptr ? "" : '[' + std::to_string(list->size()) + ']';
    out += entry.key + ' ' + gguf::type_name(entry.type) + length + ' ' + value_text(entry) + '\n';
  }
  for (const GgufFactors& tensor : part.tensors) {
    out += tensor.name + " f32[" + std::to_string(tensor.values.size()) + "] " +
           joined(tensor.values, [](float x) { return json::shortest(static_cast<double>(x)); }) + '\n';
  }
  return out;
}

}  // namespace bearing
