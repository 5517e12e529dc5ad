#include <algorithm>

#include "gguf_reader.hpp"

namespace bearing::gguf {
namespace {

constexpr double usual_base = 10'000;
constexpr json::Range base_range{.least = 1, .most = 1e100, .above = true};

/// A base, and where it comes from.
struct Said {
  double base = usual_base;
  std::string from = "default of llama.cpp";
};

std::optional<Said> said_at(const Metadata& data, std::string_view key) {
  const auto base = data.number(key, base_range);
  return base ? std::optional(Said{*base, std::string(key)}) : std::nullopt;
}

Said read_base(const File& file, const Kind& kind) {
  if (file.is(base_10000)) return {};
  const Metadata& data = file.data;
  Said main = said_at(data, "rope.freq_base").value_or(Said{});
  if (file.is(compressed)) {
    constexpr std::string_view key = "attention.compress_rope_freq_base";
    const auto compressed = said_at(data, key);
    if (!compressed) data.fail(key, "must be there");
    return kind.compressed ? *compressed : main;
  }
  if (!kind.slides) return main;
  const auto own = said_at(data, "rope.freq_base_swa");
  switch (file.row.sliding.base) {
    case Base::main:
      return main;
    case Base::own:
      return own.value_or(Said{});
    case Base::inherits:
      return own.value_or(main);
    case Base::needed:
      if (!own) data.fail("rope.freq_base_swa", "must be there");
      return *own;
  }
  return main;
}

}  // namespace

Turn turn_of(const File& file) {
  if (!file.is(sections_if_given)) return file.row.turn;
  const auto sections = file.data.integers("rope.dimension_sections", 0, most_head_dim);
  if (!sections) return file.row.turn;
  const bool two = sections->size() >= 2 && (*sections)[0] > 0 && (*sections)[1] > 0;
  const bool any =
      file.is(draft_model) && std::any_of(sections->begin(), sections->end(), [](Index n) { return n != 0; });
  return two || any ? Turn::sections : file.row.turn;
}

void read_rope(const File& file, const Kind& kind, Layer& layer) {
  const Turn turn = turn_of(file);
  const Said said = read_base(file, kind);
  Rope rope{.head_dim = kind.slides ? file.sliding_head_dim : file.head_dim,
            .rotary_dim = kind.slides ? file.sliding_turned : file.turned,
            .base = said.base,
            .pairing = turn == Turn::neighbours ? Pairing::interleaved : Pairing::half};
  if (file.is(last_part) && rope.rotary_dim < rope.head_dim) rope.part = RotaryPart::last();
  const Index pairs = rope.rotary_dim / 2;
  if (turn == Turn::sections || turn == Turn::interleaved) rope.axes = read_sections(file, pairs);
  read_scaling(file, kind, rope);
  layer.encoding = std::move(rope);
  layer.base_from = said.from;
}

}  // namespace bearing::gguf
