#include <algorithm>

#include "gguf_reader.hpp"

namespace bearing::gguf {
namespace {

constexpr std::string_view pattern_key = "attention.sliding_window_pattern";
constexpr Index usual_window = 4'096, chunk = 8'192;
constexpr Index most_width = Index{1} << 32;  // of a feed-forward layer

Index read_window(const File& file) {
  const Metadata& data = file.data;
  constexpr std::string_view key = "attention.sliding_window";
  const Slides when = file.row.sliding.when;
  const auto given = when == Slides::never ? std::nullopt : data.integer(key, 0, most_positions);
  switch (when) {
    case Slides::never:
      return 0;
    case Slides::needed:
      return given ? *given : data.needed(key, 1, most_positions);
    case Slides::if_given:
      return given.value_or(0);
    case Slides::or_4096:
      return given.value_or(usual_window);
    case Slides::always_4096:
      return given.value_or(0) > 0 ? usual_window : 0;
    case Slides::exaone4:
      return file.layers == 64 ? given.value_or(usual_window) : 0;
    case Slides::chunks_of_8192:
      return given == Index{0} ? 0 : chunk;
  }
  return 0;
}

/// Which layers slide: the file's list, or of each n all but one.
void read_sliding(File& file) {
  const Metadata& data = file.data;
  if (!file.slides()) return;
  if (data.is_array(pattern_key)) {
    const auto slides = *data.integers(pattern_key, 0, 1);
    if (std::ssize(slides) < file.layers) {
      data.fail(pattern_key, "must have an entry for each of " + std::to_string(file.layers) + " layers, got " +
                                 std::to_string(slides.size()));
    }
    for (std::size_t i = 0; i < file.kinds.size(); ++i) file.kinds[i].slides = slides[i] != 0;
    return;
  }
  Index period = file.row.sliding.period;
  if (period == listed) data.fail(pattern_key, "must be there: an array that says of each layer whether it slides");
  if (period > 0) period = data.integer(pattern_key, 0, most_layers).value_or(period);
  for (std::size_t i = 0; i < file.kinds.size(); ++i) {
    const Index at = period > 0 ? static_cast<Index>(i) % period : 0;
    file.kinds[i].slides = period == 0 || (file.row.sliding.full_first ? at != 0 : at < period - 1);
  }
}

void read_recurrent(File& file) {
  const Metadata& data = file.data;
  if (file.is(recurrent_but_nth)) {
    const auto given = data.per_layer("attention.recurrent_layers", file.blocks, 0, 1);
    const Index usual = file.is(eighth_attends) ? 8 : 4;
    const Index n = data.integer("full_attention_interval", 1, most_layers).value_or(usual);
    for (std::size_t i = 0; i < file.kinds.size(); ++i) {
      file.kinds[i].recurrent = given ? (*given)[i] != 0 : (static_cast<Index>(i) + 1) % n != 0;
    }
  }
  const auto widths =
      file.is(feeds_forward) ? data.per_layer("feed_forward_length", file.blocks, 0, most_width) : std::nullopt;
  for (std::size_t i = 0; i < file.kinds.size(); ++i) {
    Kind& kind = file.kinds[i];
    kind.feeds_forward = widths && (*widths)[i] > 0 && file.kv_heads[i] == 0;
    if (file.is(recurrent_without_kv)) kind.recurrent = file.kv_heads[i] == 0 && !kind.feeds_forward;
    kind.attends = !kind.recurrent && file.heads[i] > 0 && file.kv_heads[i] > 0;
  }
}

/// rope.scaling.finetuned, which Granite's code takes as "does it turn".
bool switched_off(const File& file) {
  return file.is(finetuned_switch) && !file.data.flag("rope.scaling.finetuned").value_or(true);
}

void read_turning(File& file) {
  const Metadata& data = file.data;
  const Index dense = data.integer("leading_dense_block_count", 0, most_layers).value_or(0);
  const auto pattern = data.integers("attention.rope_pattern", 0, 1);
  if (pattern && !file.is(pattern_without)) {
    data.fail("attention.rope_pattern", "must not be there: llama.cpp reads it for granite_swa alone");
  }
  if (pattern && std::ssize(*pattern) < file.layers) {
    data.fail("attention.rope_pattern", "must have an entry for each of " + std::to_string(file.layers) + " layers");
  }
  const bool large = file.is(alibi_if_40_layers) && file.layers == 40;
  for (std::size_t i = 0; i < file.kinds.size(); ++i) {
    Kind& kind = file.kinds[i];
    const auto layer = static_cast<Index>(i);
    kind.turns = kind.attends && file.row.turn != Turn::none && !large && !switched_off(file);
    if (file.is(full_without) && file.slides())
      kind.turns = kind.turns && (kind.slides || (file.is(dense_with) && layer < dense));
    // AFM leaves out every fourth layer whether layers slide or not; Llama 4 only if they do.
    const bool counted = file.row.sliding.when != Slides::chunks_of_8192 || file.slides();
    if (file.is(fourth_without) && counted) kind.turns = kind.turns && (layer + 1) % 4 != 0;
    // A step as long as the model is its code's word for "none".
    if (file.is(first_without) && file.slides() && file.layers != 4) kind.turns = kind.turns && layer % 4 != 0;
    if (pattern) kind.turns = kind.turns && (*pattern)[i] != 0;
  }
}

void read_compressed(File& file) {
  if (!file.is(compressed)) return;
  constexpr std::string_view key = "attention.compress_ratios";
  const auto ratios = file.data.integers(key, 0, most_positions);
  if (!ratios || std::ssize(*ratios) < file.layers) {
    file.data.fail(key, "must be there, with a number for each of " + std::to_string(file.layers) + " layers");
  }
  for (std::size_t i = 0; i < file.kinds.size(); ++i) file.kinds[i].compressed = (*ratios)[i] != 0;
}

}  // namespace

void read_kinds(File& file) {
  file.kinds.resize(static_cast<std::size_t>(file.layers));
  if (file.is(alibi_if_40_layers) && file.layers != 32 && file.layers != 40) {
    file.data.fail("block_count", "must be 32 or 40 for baichuan: llama.cpp has no code for others, got " +
                                      std::to_string(file.layers));
  }
  file.window = read_window(file);
  read_recurrent(file);
  read_sliding(file);
  // LFM2's recurrent layers do not slide.
  for (Kind& kind : file.kinds) kind.slides = kind.slides && kind.attends;
  read_compressed(file);
  read_turning(file);
}

}  // namespace bearing::gguf
