#include <bearing/hf_spelling.hpp>
#include <bearing/io.hpp>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

// Any bytes as a config.json: a model or a ConfigError, and no encoding of that model has a frequency that is not a
// number. Seeds: tests/corpus/hf_config, tests/corpus/dialects.

namespace {

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

void check(const bearing::RopeFrequencies& frequencies) {
  for (double theta : frequencies.inv_freq) {
    if (!std::isfinite(theta)) fail("a frequency is not finite");
  }
  if (!std::isfinite(frequencies.attention_factor) || !std::isfinite(frequencies.softmax_scale_factor)) {
    fail("a factor is not finite");
  }
}

void check(const bearing::Rope& rope) {
  if (rope.head_dim > 256) return;  // the 150-bit powers of more pairs would only cost time
  for (bearing::Index seq_len : {bearing::Index{0}, bearing::max_position}) {
    try {
      check(bearing::resolve(rope, seq_len));
    } catch (const bearing::ShapeError&) {
    } catch (const bearing::RangeError&) {
    }
  }
  const std::string json = to_json(rope);
  if (to_json(bearing::parse_rope(json)) != json) fail("a spec's JSON does not read back");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const bearing::Model model = bearing::parse_hf_config(text);
    if (model.layers.empty()) fail("a model without layers");
    for (const bearing::LayerGroup& group : layer_groups(model)) {
      if (const auto* rope = std::get_if<bearing::Rope>(&group.layer.encoding)) check(*rope);
    }
  } catch (const bearing::ConfigError&) {
  }
  for (const bearing::HfSpelling spelling : {bearing::HfSpelling::v4, bearing::HfSpelling::v5}) {
    try {
      const std::string written = bearing::spell_hf_config(text, spelling).text;
      if (bearing::spell_hf_config(written, spelling).text != written) fail("spelled twice is not spelled once");
    } catch (const bearing::ConfigError&) {
    }
  }
  try {
    check(bearing::parse_rope(text));
  } catch (const bearing::ConfigError&) {
  }
  return 0;
}
