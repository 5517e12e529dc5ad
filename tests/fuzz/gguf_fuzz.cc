#include <bearing/gguf.hpp>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

// Any bytes as a GGUF file: a model or a ConfigError, and no encoding of that model has a frequency that is not a
// number. What a model's rotary encodings are written as reads back. Seeds: tests/corpus/gguf.

namespace {

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

void check(const bearing::RopeFrequencies& frequencies) {
  for (const double theta : frequencies.inv_freq) {
    if (!std::isfinite(theta)) fail("a frequency is not finite");
  }
  if (!std::isfinite(frequencies.attention_factor) || !std::isfinite(frequencies.softmax_scale_factor)) {
    fail("a factor is not finite");
  }
}

void check(const bearing::Rope& rope, const std::string& architecture) {
  if (rope.head_dim > 256) return;  // the 150-bit powers of more pairs would only cost time
  try {
    check(bearing::resolve(rope));
    check(bearing::resolve(rope, bearing::max_position));
    if (to_text(bearing::gguf_rope(rope, architecture)).empty()) fail("a rope is written as nothing");
  } catch (const bearing::ShapeError&) {
  } catch (const bearing::RangeError&) {
  } catch (const bearing::ConfigError&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const bearing::Model model = bearing::parse_gguf({reinterpret_cast<const char*>(data), size});
    if (model.layers.empty()) fail("a model without layers");
    for (const bearing::LayerGroup& group : layer_groups(model)) {
      if (const auto* rope = std::get_if<bearing::Rope>(&group.layer.encoding)) check(*rope, model.model_type);
    }
  } catch (const bearing::ConfigError&) {
  }
  return 0;
}
