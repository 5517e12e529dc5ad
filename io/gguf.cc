#include <bearing/gguf.hpp>

#include <algorithm>
#include <bearing/error.hpp>

#include "gguf_reader.hpp"
#include "mapped_file.hpp"

namespace bearing {
namespace {

using gguf::File;
using gguf::Kind;

/// The number that all layers with heads have; 0 if they differ.
Index common(const std::vector<Index>& of_layers) {
  Index number = 0;
  for (const Index n : of_layers) {
    if (n == 0 || n == number) continue;
    if (number != 0) return 0;
    number = n;
  }
  return number;
}

std::string type_of(const File& file, const Kind& kind) {
  if (kind.recurrent) return "recurrent";
  if (kind.feeds_forward) return file.data.has("expert_count") ? "moe" : "mlp";
  if (!kind.attends) return "no_attention";
  if (!kind.slides) return "full_attention";
  return file.row.sliding.when == gguf::Slides::chunks_of_8192 ? "chunked_attention" : "sliding_attention";
}

Index numbers_in(const LayerEncoding& encoding) {
  const auto* rope = std::get_if<Rope>(&encoding);
  if (rope == nullptr) return 0;
  const auto* divisors = std::get_if<FrequencyDivisors>(&rope->scaling);
  const auto* factors = std::get_if<LongRopeScaling>(&rope->scaling);
  return std::ssize(rope->axes.pairs) + (divisors == nullptr ? 0 : std::ssize(divisors->divisors)) +
         (factors == nullptr ? 0 : 2 * std::ssize(factors->long_factor));
}

/// Layers of one kind are read once.
class Layers {
 public:
  explicit Layers(const File& file) : file_(file), exponent_(gguf::alibi_exponent(file)) {}

  Layer layer(std::size_t i) {
    const Kind& kind = file_.kinds[i];
    const Index heads = exponent_ > 0 ? file_.heads[i] : 0;
    const auto known = std::find_if(read_.begin(), read_.end(),
                                    [&](const Read& one) { return one.kind == kind && one.heads == heads; });
    if (known != read_.end()) return copy(known->layer);
    Layer layer{.encoding = NoPosition{}, .type = type_of(file_, kind), .window = kind.slides ? file_.window : 0};
    if (kind.slides && file_.row.sliding.both_ways) {
      layer.window_after = file_.window / 2;
      layer.window = layer.window_after + 1;
    }
    if (kind.turns) {
      gguf::read_rope(file_, kind, layer);
    } else if (kind.attends && exponent_ > 0) {
      layer.encoding = Alibi::published(heads, exponent_);
    }
    layer.temperature = gguf::read_temperature(file_, kind);
    read_.push_back({kind, heads, layer});
    return copy(layer);
  }

 private:
  struct Read {
    Kind kind;
    Index heads;
    Layer layer;
  };

  const Layer& copy(const Layer& layer) {
    const auto* alibi = std::get_if<Alibi>(&layer.encoding);
    copied_ += numbers_in(layer.encoding) + (alibi == nullptr ? 0 : std::ssize(alibi->slopes));
    if (copied_ > gguf::most_copied_numbers) {
      file_.data.fail("block_count", "must be smaller for so many numbers per layer");
    }
    return layer;
  }

  const File& file_;
  double exponent_;
  Index copied_ = 0;
  std::vector<Read> read_ = {};
};

Index trained(const File& file, const Model& model) {
  for (const Layer& layer : model.layers) {
    const auto* rope = std::get_if<Rope>(&layer.encoding);
    if (rope == nullptr) continue;
    if (const Index length = trained_length(rope->scaling)) return length;
  }
  if (const Index original = gguf::original_length(file)) return original;
  const bool stretched = std::any_of(model.layers.begin(), model.layers.end(), [](const Layer& layer) {
    const auto* rope = std::get_if<Rope>(&layer.encoding);
    return rope != nullptr && !std::holds_alternative<NoScaling>(rope->scaling) &&
           !std::holds_alternative<ProportionalScaling>(rope->scaling);
  });
  return stretched ? 0 : file.context;
}

Model read(gguf::Source& source) {
  const gguf::Header header = gguf::parse_header(source);
  json::Notes notes(source.name());
  const gguf::Metadata data(source, header, notes);
  File file{.data = data, .row = gguf::find_row(data)};
  gguf::read_sizes(file);
  gguf::read_kinds(file);
  Model model;
  model.file = source.name();
  model.model_type = data.architecture();
  model.heads = common(file.heads);
  model.kv_heads = common(file.kv_heads);
  model.head_dim = file.head_dim;
  model.context_length = file.context;
  if (file.is(gguf::buckets)) {
    gguf::read_buckets(file, model);
  } else {
    Layers layers(file);
    for (std::size_t i = 0; i < file.kinds.size(); ++i) model.layers.push_back(layers.layer(i));
  }
  gguf::read_inputs(file, model);
  model.trained_length = trained(file, model);
  if (!data.flag("attention.causal").value_or(true)) model.task = "understand";
  gguf::warn(file, model);
  model.warnings = notes.take();
  return model;
}

}  // namespace

bool is_gguf_file(const std::string& path) {
  try {
    const MappedFile file(path);
    return is_gguf(file.read(0, std::min<std::uint64_t>(file.size(), 4)));
  } catch (const ConfigError&) {
    return false;  // whoever opens it says why
  }
}

Model read_gguf(const std::string& path) {
  const MappedFile file(path);
  gguf::Source source(file);
  return read(source);
}

Model parse_gguf(std::string_view bytes, const std::string& name) {
  gguf::Source source(bytes, name);
  return read(source);
}

}  // namespace bearing
