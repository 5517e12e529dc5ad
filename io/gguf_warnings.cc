#include <algorithm>
#include <limits>
#include <numeric>

#include "gguf_reader.hpp"

namespace bearing::gguf {
namespace {

bool rotates(const Model& model) {
  return std::any_of(model.layers.begin(), model.layers.end(),
                     [](const Layer& layer) { return std::holds_alternative<Rope>(layer.encoding); });
}

std::string code_of(const File& file) { return "llama.cpp's code for " + file.data.architecture(); }

void about_base(const File& file) {
  const Metadata& data = file.data;
  if (!data.has("rope.freq_base") && !file.is(base_10000)) {
    data.warn("rope.freq_base", "not in the file: llama.cpp takes 10000, whatever the model was trained with");
  }
  // Llama 3.1 and those after it: base 500000 and a long context, which they reach with factors alone.
  const bool like_llama3 = file.is(freqs) && data.number("rope.freq_base", json::finite) == 500'000 &&
                           file.context > 8'192 && !data.has("rope.scaling.factor");
  if (like_llama3 && data.tensor("rope_freqs.weight") == nullptr) {
    data.notes().warn("rope_freqs.weight",
                      "not in the file: base and context are those of Llama 3.1, whose scaling is in this tensor; "
                      "without it the model is not stretched");
  }
}

void about_scaling(const File& file) {
  const Metadata& data = file.data;
  const double factor = data.number("rope.scaling.factor", json::finite).value_or(1);
  const std::string type = data.word("rope.scaling.type").value_or("");
  if (type.empty() && factor != 1 && factor != 0) {
    data.warn("rope.scaling.type",
              "not in the file: llama.cpp takes linear, and the factor is " + json::shortest(factor));
  }
  if (type == "yarn" && original_length(file) == 0) {
    data.warn("rope.scaling.original_context_length",
              "not in the file: llama.cpp takes context_length, with which no pair is left as it was trained if that "
              "is the stretched length");
  }
  if (file.is(unscaled) && factor != 1 && factor != 0) {
    data.warn("rope.scaling.factor", "not used: " + code_of(file) + " does not stretch");
  }
}

/// One key, two meanings: 0.1·mscale_all_dim in DeepSeek's files, mscale_all_dim in Mistral's.
void about_multiplier(const File& file) {
  const Metadata& data = file.data;
  constexpr std::string_view key = "rope.scaling.yarn_log_multiplier";
  const auto given = data.number(key, {-1e6, 1e6});
  if (!given || *given == 0) return;
  const std::string written = json::shortest(*given);
  if (!file.is(log_times_tenth) && !file.is(log_plain)) {
    data.warn(key, written + " is not used: " + code_of(file) + " does not read it");
  }
  if (file.is(log_times_tenth) && *given > 0.2) {
    data.warn(key, written + " is taken as 0.1 times mscale_all_dim, which makes it " + json::shortest(*given * 10) +
                       ": the file may mean mscale_all_dim itself, as files of mistral3 do");
  }
  if (file.is(log_plain) && *given < 0.2) {
    data.warn(key, written +
                       " is taken as mscale_all_dim itself: the file may mean a tenth of it, as files of "
                       "deepseek2 do");
  }
}

void about_switch(const File& file) {
  if (!file.is(finetuned_switch) || file.data.flag("rope.scaling.finetuned").value_or(true)) return;
  file.data.warn("rope.scaling.finetuned", "false: for this architecture llama.cpp takes it as \"does not turn\"");
}

/// Keys that llama.cpp does not read for an architecture, although they say something else than its code does.
void about_unread(const File& file) {
  const Metadata& data = file.data;
  const auto unread = [&](std::string_view key, double usual) {
    const auto given = data.number(key, json::finite);
    if (!given || *given == usual || *given == -1) return;
    data.warn(key, json::shortest(*given) + " is not used: " + code_of(file) + " takes " + json::shortest(usual));
  };
  if (!file.is(reads_betas)) {
    unread("rope.scaling.yarn_beta_fast", 32);
    unread("rope.scaling.yarn_beta_slow", 1);
  }
  if (!file.is(reads_ramp)) {
    unread("rope.scaling.yarn_ext_factor", 1);
    unread("rope.scaling.yarn_attn_factor", 1);
  }
  const auto own = data.number("rope.freq_base_swa", json::finite);
  const bool ignored = !file.slides() || file.row.sliding.base == Base::main || file.is(compressed);
  if (own && ignored && own != data.number("rope.freq_base", json::finite).value_or(10'000)) {
    data.warn("rope.freq_base_swa",
              json::shortest(*own) + " is not used: " + code_of(file) + " has one base for all " + "layers that turn");
  }
  if (file.is(temperature_unused) && data.has("attention.temperature_length")) {
    data.warn("attention.temperature_length", "not used: llama.cpp reads it and leaves queries as they are");
  }
  const bool in_sections = file.is(freqs) && turn_of(file) == Turn::sections;
  if ((file.is(freqs_unused) || in_sections) && data.tensor("rope_freqs.weight") != nullptr) {
    data.notes().warn("rope_freqs.weight", "not used: " + code_of(file) + " reads it and turns without it");
  }
}

/// A window that the file has and llama.cpp's code does not.
void about_window(const File& file) {
  const Metadata& data = file.data;
  constexpr std::string_view key = "attention.sliding_window";
  if (!data.has(key)) return;
  constexpr Index any = std::numeric_limits<Index>::max();
  const Index given = data.is_array(key) ? 1 : *data.integer(key, -any, any);
  const bool hides = given > 0 && (file.context == 0 || given < file.context);
  if (!hides || given == file.window) return;
  data.warn(key, "not used: " + code_of(file) +
                     (file.slides() ? " takes " + std::to_string(file.window) : " attends without a window"));
}

void about_sections(const File& file, const Model& model) {
  const Metadata& data = file.data;
  constexpr std::string_view key = "rope.dimension_sections";
  if (!data.has(key)) return;
  const Turn turn = turn_of(file);
  if (turn != Turn::sections && turn != Turn::interleaved) {
    data.warn(key, "not used: " + code_of(file) + " turns all pairs by one position, which is the same for text");
    return;
  }
  const auto at = std::find_if(model.layers.begin(), model.layers.end(),
                               [](const Layer& layer) { return std::holds_alternative<Rope>(layer.encoding); });
  if (turn != Turn::interleaved || at == model.layers.end()) return;
  const std::vector<Index>& sections = std::get<Rope>(at->encoding).axes.pairs;
  const Index pairs = std::accumulate(sections.begin(), sections.end(), Index{0});
  std::string fourth;
  for (Index i = 0; i < pairs; ++i) {
    if (i < 3 * sections[static_cast<std::size_t>(i % 3)]) continue;
    fourth += (fourth.empty() ? "" : ", ") + std::to_string(i);
  }
  if (!fourth.empty()) {
    data.warn(key, "ggml turns pairs " + fourth + " by a fourth position, which is 0; they are given to the first " +
                       "axis here, as where the model was trained");
  }
}

void about_architecture(const File& file) {
  const Metadata& data = file.data;
  if (file.blocks != file.layers) {
    data.warn("nextn_predict_layers", "the last " + std::to_string(file.blocks - file.layers) +
                                          " of the blocks predict further tokens and are not shown");
  }
  if (file.is(compressed)) {
    data.notes().warn("general.architecture",
                      "deepseek4: keys serve as values too, so values turn and the output is turned back; compressed "
                      "keys stand at multiples of their ratio. The encoding shown is that of queries and keys",
                      json::Weight::grave);
  }
  if (file.is(permuted)) {
    data.notes().warn("general.architecture",
                      data.architecture() +
                          ": converters reorder the rows of queries and keys, so neighbours turn "
                          "here where halves turn in the model's own code; only the weights tell "
                          "whether a file was converted so",
                      json::Weight::slight);
  }
}

}  // namespace

void warn(const File& file, const Model& model) {
  about_unread(file);
  about_window(file);
  about_switch(file);
  if (rotates(model)) {
    about_base(file);
    about_scaling(file);
    about_multiplier(file);
    about_sections(file, model);
  }
  about_architecture(file);
}

}  // namespace bearing::gguf
