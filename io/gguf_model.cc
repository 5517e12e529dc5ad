#include <algorithm>
#include <bearing/error.hpp>
#include <bearing/gguf.hpp>
#include <cmath>
#include <utility>
#include <vector>

#include "gguf_architectures.hpp"
#include "json_file.hpp"

// A whole model's rotary part for llama.cpp, read again before it is given.

namespace bearing {
namespace {

using gguf::Architecture;

/// llama.cpp's names where they are not transformers' own (conversion/*.py of llama-cpp-python 0.3.36).
struct Name {
  std::string_view model_type, architecture;
};
constexpr Name names[] = {
    {"mistral", "llama"},
    {"mixtral", "llama"},
    {"gpt_neox", "gptneox"},
    {"phi", "phi2"},
    {"phimoe", "phimoe"},
    {"qwen2_moe", "qwen2moe"},
    {"qwen3_moe", "qwen3moe"},
    {"qwen3_next", "qwen3next"},
    {"gemma3_text", "gemma3"},
    {"gpt_oss", "gpt-oss"},
    {"cohere", "command-r"},
    {"deepseek_v2", "deepseek2"},
    {"deepseek_v3", "deepseek2"},
    {"llama4_text", "llama4"},
    {"hunyuan_v1_dense", "hunyuan-dense"},
    {"minimax_m2", "minimax-m2"},
    {"exaone_moe", "exaone-moe"},
    {"olmo3", "olmo2"},
};

class Writer {
 public:
  /// An empty architecture: that of the model's type.
  Writer(const Model& model, const std::string& given)
      : model_(model),
        out_{.architecture = given.empty() ? gguf_architecture_of(model.model_type) : given, .part = {}},
        row_(find(model, out_.architecture, !given.empty())) {}

  GgufModel write() {
    refuse_what_is_not_said();
    const Layer& main = first(false);
    out_.part = part_of(turned(std::get<Rope>(main.encoding)));
    put_whole("block_count", std::ssize(model_.layers));
    if (model_.context_length > 0) put_whole("context_length", model_.context_length);
    put_whole("attention.head_count", model_.heads);
    // Latent attention: all heads share the compressed keys.
    put_whole("attention.head_count_kv", row_.is(gguf::scores_scaled) ? 1 : model_.kv_heads);
    write_sliding();
    if (const std::string why = difference(); !why.empty()) {
      if (row_.sliding.when == gguf::Slides::never) fail(why);
      write_pattern();
      if (const std::string still = difference(); !still.empty()) fail(why);
    }
    if (permuted_) {
      out_.warnings.push_back(
          {"general.architecture",
           "llama.cpp's code for " + out_.architecture +
               " turns neighbours, the model turns halves: "
               "the rows of the weights of queries and keys must be reordered, as its converter does"});
    }
    if (!model_.towers.empty()) out_.warnings.push_back({"", "the other parts of the model are not written"});
    return std::move(out_);
  }

 private:
  static const Architecture& find(const Model& model, const std::string& name, bool given) {
    if (name.empty()) {
      throw ConfigError(model.file + ": must be of a model_type whose architecture in llama.cpp is known, got " +
                        json::quoted(model.model_type) + ": give the architecture");
    }
    const Architecture* row = gguf::find_architecture(name);
    if (row == nullptr) {
      throw ConfigError("[gguf_model] architecture: must be one that llama.cpp has, got " + json::quoted(name));
    }
    if (row->turns_in_one_way()) return *row;
    throw ConfigError((given ? "[gguf_model] architecture: must be one that"
                             : model.file + ": must be of a model_type whose code in llama.cpp") +
                      " turns queries and keys in one way, got " + json::quoted(name));
  }

  [[noreturn]] void fail(const std::string& text) const {
    throw ConfigError(model_.file + ": must be a model that llama.cpp's code for " + out_.architecture +
                      " turns in the same way, got " + text);
  }

  void refuse_what_is_not_said() const {
    if (model_.regions) fail("regions of one softmax");
    for (const ModelInput& input : model_.inputs) fail("an input with " + encoding_name(input.encoding));
    for (std::size_t i = 0; i < model_.layers.size(); ++i) {
      const Layer& layer = model_.layers[i];
      const std::string at = "layer " + std::to_string(i);
      if (layer.values) fail(at + ", which turns values");
      if (!layer.also.empty() || !layer.part.empty()) fail(at + ", of a model with several encodings");
      const bool said =
          std::holds_alternative<Rope>(layer.encoding) || std::holds_alternative<NoPosition>(layer.encoding);
      if (!said) fail(at + ", which has " + encoding_name(layer.encoding));
    }
  }

  /// A layer that turns, with a window or without one if there is any.
  const Layer* find_layer(bool slides) const {
    const auto at = std::find_if(model_.layers.begin(), model_.layers.end(), [&](const Layer& layer) {
      return (layer.window > 0) == slides && std::holds_alternative<Rope>(layer.encoding);
    });
    return at == model_.layers.end() ? nullptr : &*at;
  }
  const Layer& first(bool slides) const {
    const Layer* found = find_layer(slides);
    if (found == nullptr) found = find_layer(!slides);
    if (found == nullptr) fail("no layer that turns");
    return *found;
  }

  /// As it turns after the converter's reordering.
  Rope turned(Rope rope) {
    if (row_.is(gguf::permuted) && row_.turn == gguf::Turn::neighbours && rope.pairing == Pairing::half) {
      permuted_ = true;
      rope.pairing = Pairing::interleaved;
    }
    return rope;
  }

  /// Its errors name the model's file: nobody gave this spec.
  GgufRope part_of(const Rope& rope) const {
    try {
      return gguf_rope(rope, out_.architecture);
    } catch (const ConfigError& error) {
      constexpr std::string_view argument = "[gguf_rope] rope: ";
      const std::string text = error.what();
      throw ConfigError(model_.file + ": " + (text.starts_with(argument) ? text.substr(argument.size()) : text));
    }
  }

  void put(const std::string& key, GgufType type, decltype(GgufEntry::value) value) {
    out_.part.metadata.push_back({out_.architecture + '.' + key, type, std::move(value)});
  }
  void put_whole(const std::string& key, Index value) { put(key, GgufType::u32, std::int64_t{value}); }

  void write_sliding() {
    const auto slides = [](const Layer& layer) { return layer.window > 0; };
    const auto at = std::find_if(model_.layers.begin(), model_.layers.end(), slides);
    if (at == model_.layers.end()) return;
    put_whole("attention.sliding_window", at->window_after > 0 ? 2 * at->window_after : at->window);
    if (row_.sliding.period == gguf::listed) write_pattern();
    const Layer* turns = find_layer(true);
    if (turns == nullptr || find_layer(false) == nullptr || row_.sliding.base == gguf::Base::main) return;
    const Rope& rope = std::get<Rope>(turns->encoding);
    put("rope.freq_base_swa", GgufType::f32, rope.base);
    if (!row_.sliding.own_dims) return;
    const RopeFrequencies numbers = resolve(rope);
    put_whole("attention.key_length_swa", numbers.head_dim);
    put_whole("rope.dimension_count_swa", numbers.rotary_dim);
  }

  void write_pattern() {
    const std::string key = "attention.sliding_window_pattern";
    std::vector<std::int64_t> pattern;
    for (const Layer& layer : model_.layers) pattern.push_back(layer.window > 0 ? 1 : 0);
    put(key, GgufType::boolean, std::move(pattern));
  }

  /// What the file that was written says in another way; "" if nothing.
  std::string difference() {
    const Model back = parse_gguf(gguf_bytes(out_), model_.file);
    if (back.layers.size() != model_.layers.size()) return std::to_string(model_.layers.size()) + " layers";
    for (std::size_t i = 0; i < back.layers.size(); ++i) {
      const std::string what = difference(model_.layers[i], back.layers[i]);
      if (!what.empty()) return "layer " + std::to_string(i) + ": " + what;
    }
    return "";
  }

  /// A window as long as the context hides nothing.
  Index hiding(Index window) const { return model_.context_length > 0 && window >= model_.context_length ? 0 : window; }

  std::string difference(const Layer& wanted, const Layer& got) {
    const auto said = [](const std::string& ours, const std::string& theirs) {
      return ours + " where its code has " + theirs;
    };
    if (wanted.encoding.index() != got.encoding.index()) {
      return said(encoding_name(wanted.encoding), encoding_name(got.encoding));
    }
    if (hiding(wanted.window) != hiding(got.window)) {
      return said("a window of " + std::to_string(wanted.window), std::to_string(got.window));
    }
    if (wanted.window_after != got.window_after) {
      return said("a window that ends " + std::to_string(wanted.window_after) + " tokens after the query",
                  std::to_string(got.window_after));
    }
    if (wanted.temperature != got.temperature) {
      const auto name = [](const auto& of) { return of ? "a temperature of " + of->formula() : "no temperature"; };
      return said(name(wanted.temperature), name(got.temperature));
    }
    const Rope* rope = std::get_if<Rope>(&wanted.encoding);
    if (rope == nullptr) return "";
    // Wide numbers take their time, and most layers turn as one before them.
    const std::pair<Rope, Rope> both = {turned(*rope), std::get<Rope>(got.encoding)};
    if (both.first == both.second || std::find(alike_.begin(), alike_.end(), both) != alike_.end()) return "";
    std::string what = difference(both.first, both.second);
    if (what.empty()) alike_.push_back(both);
    return what;
  }

  static std::string difference(const Rope& wanted, const Rope& got) {
    const RopeFrequencies a = resolve(wanted), b = resolve(got);
    // Float32 rounds a base or a divisor once, and a base's power to the exponent 1 at most.
    const auto near = [](double x, double y) { return std::abs(x - y) <= 0x1p-22 * std::abs(x); };
    if (wanted.pairing != got.pairing) return "another pairing";
    if (a.head_dim != b.head_dim || a.begin != b.begin || a.rotary_dim != b.rotary_dim || a.axis != b.axis) {
      return "other dimensions that turn";
    }
    for (std::size_t i = 0; i < a.inv_freq.size(); ++i) {
      if (near(a.inv_freq[i], b.inv_freq[i]) || (a.inv_freq[i] == 0 && std::abs(b.inv_freq[i]) < 1e-29)) continue;
      return "a frequency of " + json::shortest(a.inv_freq[i]) + " for pair " + std::to_string(i) +
             " where its code has " + json::shortest(b.inv_freq[i]);
    }
    const double ours[] = {a.attention_factor, a.softmax_scale_factor},
                 theirs[] = {b.attention_factor, b.softmax_scale_factor};
    for (int i = 0; i < 2; ++i) {
      if (near(ours[i], theirs[i])) continue;
      return std::string(i == 0 ? "an attention factor of " : "a softmax factor of ") + json::shortest(ours[i]) +
             " where its code has " + json::shortest(theirs[i]);
    }
    return "";
  }

  const Model& model_;
  GgufModel out_;
  const Architecture& row_;
  bool permuted_ = false;
  std::vector<std::pair<Rope, Rope>> alike_ = {};  // what the model and its code have, and turns alike
};

}  // namespace

std::string gguf_architecture_of(std::string_view model_type) {
  const auto* at =
      std::find_if(std::begin(names), std::end(names), [&](const Name& one) { return one.model_type == model_type; });
  if (at != std::end(names)) return std::string(at->architecture);
  return gguf::find_architecture(model_type) == nullptr ? "" : std::string(model_type);
}

GgufModel gguf_model(const Model& model, const std::string& architecture) {
  return Writer(model, architecture).write();
}

}  // namespace bearing
