#include <algorithm>
#include <iterator>

#include "hf_reader.hpp"

// What a window of w tokens means in a model's code. Decoders see the query and the w - 1 tokens before it. Encoders
// see tokens on both sides, and each of them counts otherwise. Facts: the masks that Hugging Face transformers 5.24.0
// makes; python/tests/models/test_windows.py holds these rows to them.

namespace bearing::hf {
namespace {

enum class Sight {
  back,       ///< the query and w - 1 tokens before it
  both,       ///< w tokens before the query and w after it
  halves,     ///< w / 2 on each side
  wider,      ///< w / 2 + 1 on each side
  uneven,     ///< (w + 1) / 2 with the query and before it, w / 2 after it
  half_back,  ///< the query and w / 2 - 1 tokens before it
};

enum class When {
  always,
  in_encoder,  ///< of its two parts
  if_true,     ///< with use_bidirectional_attention: true
  if_all,      ///< with use_bidirectional_attention: "all"
};

/// Types that see otherwise than back, and when.
struct Row {
  std::string_view model_type;
  Sight sight;
  When when = When::always;
};
constexpr Row rows[] = {
    {"embedding_gemma2_text", Sight::both},
    {"gemma3_text", Sight::halves, When::if_true},
    {"gemma4_text", Sight::wider, When::if_all},
    {"gemma4_unified_text", Sight::wider, When::if_all},
    {"modernbert", Sight::halves},
    {"modernbert-decoder", Sight::half_back},
    {"neomme", Sight::both},
    {"openai_privacy_filter", Sight::both},
    {"t5_gemma_module", Sight::both, When::in_encoder},
    {"t5gemma2_text", Sight::uneven},
    {"ultrabert", Sight::both},
};

bool holds(When when, const Config& config) {
  constexpr std::string_view key = "use_bidirectional_attention";
  switch (when) {
    case When::always:
      return true;
    case When::in_encoder:
      return config.part == "encoder";
    case When::if_true:
      return config.file.flag(key).value_or(false);
    case When::if_all: {
      const rapidjson::Value* value = config.file.find(key);
      return value != nullptr && value->IsString() && config.file.text(key) == "all";
    }
  }
  return false;
}

Sight sight_of(const Config& config) {
  const auto* row = std::find_if(std::begin(rows), std::end(rows),
                                 [&](const Row& one) { return one.model_type == config.model_type; });
  return row != std::end(rows) && holds(row->when, config) ? row->sight : Sight::back;
}

}  // namespace

void see_as_its_code_does(const Config& config, Layer& layer) {
  const Index w = layer.window;
  if (w == 0) return;
  switch (sight_of(config)) {
    case Sight::back:
      return;
    case Sight::both:
      layer.window = w + 1, layer.window_after = w;
      return;
    case Sight::halves:
      layer.window = w / 2 + 1, layer.window_after = w / 2;
      return;
    case Sight::wider:
      layer.window = w / 2 + 2, layer.window_after = w / 2 + 1;
      return;
    case Sight::uneven:
      layer.window = (w + 1) / 2, layer.window_after = w / 2;
      return;
    case Sight::half_back:
      layer.window = std::max<Index>(w / 2, 1);
      return;
  }
}

}  // namespace bearing::hf
