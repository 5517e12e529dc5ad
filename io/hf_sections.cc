#include <algorithm>
#include <array>
#include <iterator>
#include <numeric>

#include "hf_reader.hpp"

// Which axis of a position turns which pair: M-RoPE's sections, and NeoMME's rows and columns.

namespace bearing::hf {
namespace {

/// Sections that a model's code takes where the file has none: the defaults of its rotary module in Hugging Face
/// transformers 5.24.0.
struct UsualSections {
  std::string_view model_type;
  std::array<Index, 3> pairs;
};
constexpr UsualSections usual_sections[] = {
    {"qwen2_vl_text", {16, 24, 24}},       {"qwen2_5_vl_text", {16, 24, 24}},
    {"qwen2_5_omni_text", {16, 24, 24}},   {"qwen2_5_omni_talker", {16, 24, 24}},
    {"qwen3_5_text", {11, 11, 10}},        {"qwen3_5_moe_text", {11, 11, 10}},
    {"qwen3_omni_moe_text", {24, 20, 20}}, {"qwen3_omni_moe_talker_text", {24, 20, 20}},
    {"qwen3_vl_text", {24, 20, 20}},       {"qwen3_vl_moe_text", {24, 20, 20}},
    {"qwen4_exp_text", {11, 11, 10}},      {"cohere_compass_text", {24, 20, 20}},
    {"cosmos3_edge_text", {24, 20, 20}},   {"ernie4_5_vl_moe_text", {22, 22, 20}},
    {"glm4v_text", {8, 12, 12}},           {"glm4v_moe_text", {8, 12, 12}},
    {"glm_image_text", {8, 12, 12}},       {"glm_ocr_text", {8, 12, 12}},
    {"hy_v4_vl_text", {12, 10, 10}},       {"paddleocr_vl_text", {16, 24, 24}},
};

/// The class' own sections, if they fit the pairs that turn; none otherwise. Interleaved ones always do: every third
/// pair is an axis' own, as long as there are pairs and its section lasts, and time has all others.
std::vector<Index> sections_of_class(const Config& config, Index pairs) {
  const auto* row = std::find_if(std::begin(usual_sections), std::end(usual_sections),
                                 [&](const UsualSections& one) { return one.model_type == config.family.model_type; });
  if (row == std::end(usual_sections)) return {};
  if (config.family.is(interleaved_sections) && pairs >= 3) {
    const Index height = std::min(row->pairs[1], (pairs + 1) / 3), width = std::min(row->pairs[2], pairs / 3);
    return {pairs - height - width, height, width};
  }
  if (std::accumulate(row->pairs.begin(), row->pairs.end(), Index{0}) != pairs) return {};
  return {row->pairs.begin(), row->pairs.end()};
}

std::string text_of(const std::vector<Index>& pairs) {
  std::string text;
  for (const Index n : pairs) text += (text.empty() ? "[" : ", ") + std::to_string(n);
  return text + "]";
}

/// ERNIE 4.5 VL: its sections are height, width, time; height and width alternate, time has the slowest pairs.
RopeAxes ernie_axes(const std::vector<Index>& sections) {
  constexpr Index time = 0, height = 1, width = 2;
  std::vector<Index> axis;
  for (Index i = 0; i < sections[0]; ++i) axis.insert(axis.end(), {height, width});
  axis.insert(axis.end(), static_cast<std::size_t>(sections[2]), time);
  return RopeAxes::listed(std::move(axis));
}

/// NeoMME: the axes take turns pair by pair.
RopeAxes alternating(Index pairs) {
  std::vector<Index> axis;
  for (Index pair = 0; pair < pairs; ++pair) axis.push_back(pair % 2);
  return RopeAxes::listed(std::move(axis));
}

/// The file's sections or, without them, the class'; none where neither fits.
std::vector<Index> read_sections(const Config& config, const json::Object* part, Index count) {
  if (part == nullptr) {
    std::vector<Index> usual = sections_of_class(config, count);
    const std::string taken =
        usual.empty() ? "one axis, which is right for text alone" : text_of(usual) + ", as in " + config.code();
    config.file.warn("rope_scaling", "no mrope_section is given: " + taken,
                     usual.empty() ? json::Weight::usual : json::Weight::slight);
    return usual;
  }
  std::vector<Index> pairs = *part->integers("mrope_section", 4, 1, most_head_dim / 2);
  if (pairs.empty() || std::accumulate(pairs.begin(), pairs.end(), Index{0}) != count) {
    part->wrong("mrope_section", "1 to 4 numbers of pairs that add up to " + std::to_string(count) +
                                     config.defaults_among({"head_dim", "hidden_size", "num_attention_heads"}));
  }
  return pairs;
}

}  // namespace

RopeAxes read_axes(const Config& config, const Parameters& parameters, Index rotary_dim) {
  const Family& family = config.family;
  if (family.is(alternating_axes)) return alternating(rotary_dim / 2);
  const json::Object* part = parameters.with("mrope_section");
  const bool used = family.is(sections) || family.is(interleaved_sections) || family.is(ernie_sections);
  if (!used && (part == nullptr || config.known)) {
    if (part != nullptr) part->warn("mrope_section", "ignored for model_type " + config.model_type);
    return {};
  }
  const std::vector<Index> pairs = read_sections(config, part, rotary_dim / 2);
  if (pairs.empty()) return {};
  if (family.is(ernie_sections)) {
    if (pairs.size() != 3 || pairs[0] != pairs[1]) part->wrong("mrope_section", "3 numbers, the first two equal");
    return ernie_axes(pairs);
  }
  const auto flag = parameters.flag("mrope_interleaved");
  const bool interleave = family.is(interleaved_sections) || (!config.known && flag.value_or(false));
  if (flag && *flag != interleave) parameters.warn("mrope_interleaved", "ignored for model_type " + config.model_type);
  RopeAxes axes = interleave ? RopeAxes::interleaved(pairs) : RopeAxes::sections(pairs);
  try {
    pair_axes(axes, rotary_dim);
  } catch (const ShapeError& error) {
    config.notes().fail(parameters.pointer("mrope_section"), error.what());
  }
  return axes;
}

}  // namespace bearing::hf
