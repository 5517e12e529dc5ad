#include <array>
#include <string_view>

#include "hf_reader.hpp"

// What a model is for, by the name of its class. transformers names a class after what stands on top of the model
// (models/auto/modeling_auto.py of 5.24). Endings that encoders and decoders share say nothing here: classes for
// sequences, tokens and answers, and all for conditional generation.

namespace bearing::hf {
namespace {

struct Ending {
  std::string_view ending, task;
};
constexpr std::array<Ending, 12> endings{{
    {"ForCausalLM", "generate"},
    {"LMHeadModel", "generate"},
    {"ForMaskedLM", "understand"},
    {"ForImageClassification", "images"},
    {"ForMaskedImageModeling", "images"},
    {"ForObjectDetection", "images"},
    {"ForSemanticSegmentation", "images"},
    {"ForUniversalSegmentation", "images"},
    {"ForDepthEstimation", "images"},
    {"ForCTC", "speech"},
    {"ForAudioFrameClassification", "speech"},
    {"ForXVector", "speech"},
}};

/// Classes that are not what their ending says: XLM's and Flaubert's fill gaps, XLNet's sees both sides, and ImageGPT
/// reads pixels one by one.
bool otherwise(std::string_view name) {
  return name.ends_with("WithLMHeadModel") || name == "XLNetLMHeadModel" || name.starts_with("ImageGPT");
}

}  // namespace

std::string task_of(const json::Object& file) {
  const rapidjson::Value* all = file.find("architectures");
  if (all == nullptr || !all->IsArray() || all->Empty() || !(*all)[0].IsString()) return "";
  const std::string_view name((*all)[0].GetString(), (*all)[0].GetStringLength());
  if (otherwise(name)) return "";
  for (const Ending& one : endings) {
    if (name.ends_with(one.ending)) return std::string(one.task);
  }
  return "";
}

}  // namespace bearing::hf
