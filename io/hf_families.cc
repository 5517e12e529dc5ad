#include "hf_families.hpp"

#include <algorithm>
#include <iterator>

#include "hf_reader.hpp"

namespace bearing::hf {
namespace {

constexpr const char* gpt_oss_scaling =
    R"({"rope_type": "yarn", "factor": 32, "beta_fast": 32, "beta_slow": 1, "truncate": false,
        "original_max_position_embeddings": 4096})";
constexpr const char* ministral3_scaling =
    R"({"rope_type": "yarn", "rope_theta": 1000000, "factor": 16, "original_max_position_embeddings": 16384,
        "beta_fast": 32, "beta_slow": 1, "mscale": 1, "mscale_all_dim": 1, "llama_4_scaling_beta": 0.1})";
constexpr const char* mistral4_scaling =
    R"({"rope_type": "yarn", "rope_theta": 10000, "factor": 128, "original_max_position_embeddings": 8192,
        "beta_fast": 32, "beta_slow": 1, "mscale": 1, "mscale_all_dim": 1, "llama_4_scaling_beta": 0.1})";
constexpr const char* apertus_scaling =
    R"({"rope_type": "llama3", "rope_theta": 12000000, "factor": 8, "original_max_position_embeddings": 8192,
        "low_freq_factor": 1, "high_freq_factor": 4})";
constexpr const char* cwm_scaling =
    R"({"rope_type": "llama3", "rope_theta": 1000000, "factor": 16, "original_max_position_embeddings": 8192,
        "low_freq_factor": 1, "high_freq_factor": 4})";
constexpr const char* gemma4_scaling =
    R"({"sliding_attention": {"rope_type": "default", "rope_theta": 10000},
        "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1000000}})";

// model_type, pairing, base, fraction of the head that turns,
//   {hidden, layers, heads, kv heads, head_dim, positions}, layers, period, window, traits, scaling, base in 5.24.0,
//   rotary_dim, pattern
// clang-format off
const Family families[] = {
    // Llama and what follows it
    {"llama", half, 10'000, 1, {4096, 32, 32, 0, 0, 2048}},
    {"code_llama", half, 10'000, 1, {4096, 32, 32, 0, 0, 2048}, Mix::full, 0, 0, remote_code},
    {"Yi", half, 5'000'000, 1, {4096, 32, 32, 0, 0, 2048}, Mix::full, 0, 0, remote_code},
    {"internlm", half, 10'000, 1, {4096, 32, 32, 0, 0, 2048}, Mix::full, 0, 0, remote_code},
    {"internlm2", half, 10'000, 1, {4096, 32, 32, 0, 0, 2048}, Mix::full, 0, 0, remote_code},
    {"internlm3", half, 10'000, 1, {4096, 48, 32, 2, 128, 32768}, Mix::full, 0, 0, remote_code},
    {"baichuan", half, 10'000, 1, {4096, 32, 32, 0, 0, 2048}, Mix::full, 0, 0, alibi_if_large | remote_code},
    {"minicpm", half, 10'000, 1, {4096, 32, 32, 0, 0, 2048}, Mix::full, 0, 0, remote_code},
    {"mistral", half, 10'000, 1, {4096, 32, 32, 8, 0, 131072}, Mix::all_slide, 0, 4096},
    {"mixtral", half, 1'000'000, 1, {4096, 32, 32, 8, 0, 131072}, Mix::all_slide},
    {"ministral", half, 10'000, 1, {4096, 32, 32, 8, 0, 131072}, Mix::all_slide, 0, 4096},
    {"ministral3", half, 10'000, 1, {4096, 34, 32, 8, 128, 262144}, Mix::all_slide, 0, 0, 0, ministral3_scaling},
    {"starcoder2", half, 10'000, 1, {3072, 30, 24, 2, 0, 4096}, Mix::all_slide},
    {"granite", half, 10'000, 1, {4096, 32, 32, 0, 0, 2048}},
    {"granitemoe", half, 10'000, 1, {4096, 32, 32, 0, 0, 2048}},
    {"granitemoeshared", half, 10'000, 1, {4096, 32, 32, 0, 0, 2048}},
    {"granitemoehybrid", half, 10'000, 1, {4096, 32, 32, 0, 0, 2048}, Mix::full, 0, 0, rotary_if_named,
     nullptr, 0, 0, "L"},
    {"olmo", half, 10'000, 1, {4096, 32, 32, 0, 0, 2048}},
    {"olmo2", half, 10'000, 1, {4096, 32, 32, 0, 0, 2048}},
    {"olmo3", half, 10'000, 1, {4096, 32, 32, 0, 0, 2048},
     Mix::full_every_last, 4, 4096, scale_full_only, nullptr, 500'000},
    {"olmoe", half, 10'000, 1, {2048, 16, 16, 0, 0, 4096}},
    {"flex_olmo", half, 500'000, 1, {4096, 32, 32, 0, 0, 4096}},
    {"arcee", half, 10'000, 1, {2560, 32, 32, 0, 0, 4096}},
    {"apertus", half, 12'000'000, 1, {4096, 32, 32, 0, 0, 65536}, Mix::full, 0, 0, 0, apertus_scaling},
    {"apertus1p5_text", half, 12'000'000, 1, {4096, 32, 32, 0, 0, 65536}, Mix::full, 0, 0, 0, apertus_scaling},
    {"bitnet", half, 500'000, 1, {2560, 30, 20, 5, 0, 2048}},
    {"seed_oss", half, 10'000, 1, {4096, 64, 80, 8, 128, 524288}},
    {"smollm3", half, 2'000'000, 1, {2048, 36, 16, 4, 0, 32768}, Mix::no_rope_list, 4},
    {"diffllama", half, 10'000, 1, {2048, 16, 32, 0, 0, 2048}},
    {"doge", half, 10'000, 1, {1024, 32, 8, 0, 0, 2048}},
    {"dots1", half, 10'000, 1, {4608, 62, 32, 32, 0, 2048}, Mix::slide_from, 62, 4096},
    {"cwm", half, 1'000'000, 1, {6144, 64, 48, 8, 128, 131072}, Mix::full_every_first, 4, 8192, 0, cwm_scaling},
    {"chameleon", half, 10'000, 1, {4096, 32, 32, 32, 0, 4096}},
    {"emu3_text_model", half, 1'000'000, 1, {4096, 32, 32, 8, 0, 9216}},
    {"mllama_text_model", half, 500'000, 1, {4096, 40, 32, 8, 0, 131072}},
    {"hy_v3", half, 11'158'840, 1, {4096, 80, 64, 8, 128, 131072}},
    {"jais2", half, 10'000, 1, {3328, 32, 26, 0, 0, 8192}},
    {"eurobert", half, 10'000, 1, {768, 12, 12, 0, 0, 8192}},
    {"nomic_bert", half, 1000, 1, {768, 12, 12, 0, 0, 2048}},
    {"nanochat", half, 10'000, 1, {768, 12, 6, 0, 0, 2048}, Mix::full, 0, 0, negative_angles},
    {"jetmoe", half, 10'000, 1, {2048, 12, 0, 16, 128, 4096}},
    {"dbrx", half, 10'000, 1, {2048, 24, 16, 1, 0, 2048}},
    {"lfm2", half, 1'000'000, 1, {2560, 32, 32, 8, 0, 128000}},
    {"lfm2_moe", half, 1'000'000, 1, {2048, 32, 32, 8, 0, 128000}},
    {"minimax", half, 1'000'000, 1, {4096, 32, 32, 8, 0, 131072}, Mix::linear_even_first},
    {"minimax_m2", half, 5'000'000, 1, {3072, 62, 48, 8, 128, 196608}, Mix::full, 0, 0, partial_heads},
    // Llama 4 turns neighbours, as Meta's own code does
    {"llama4_text", interleaved, 500'000, 1, {5120, 48, 40, 8, 128, 131072},
     Mix::no_rope_list, 4, 8192, tuned_without_rope},
    // Qwen
    {"qwen", half, 10'000, 1, {4096, 32, 32, 0, 128, 8192},
     Mix::full, 0, 0, log_past_seq_length | remote_code},
    {"qwen2", half, 10'000, 1, {4096, 32, 32, 32, 0, 32768}, Mix::slide_from, 28, 4096},
    {"qwen2_moe", half, 10'000, 1, {2048, 24, 16, 16, 0, 32768}, Mix::slide_even_below, 28, 4096},
    {"qwen2_vl_text", half, 1'000'000, 1, {8192, 80, 64, 8, 0, 32768}, Mix::slide_from, 80, 4096, sections},
    {"qwen2_5_vl_text", half, 1'000'000, 1, {8192, 80, 64, 8, 0, 32768}, Mix::slide_from, 80, 4096, sections},
    {"qwen2_5_omni_text", half, 1'000'000, 1, {3584, 28, 28, 4, 0, 32768}, Mix::slide_from, 28, 32768, sections},
    {"qwen3", half, 10'000, 1, {4096, 32, 32, 32, 128, 32768}, Mix::slide_from, 28, 4096},
    {"qwen3_moe", half, 10'000, 1, {2048, 24, 32, 4, 0, 32768}, Mix::all_slide_if_on, 0, 4096},
    {"qwen3_next", half, 10'000, 0.25, {2048, 48, 16, 2, 256, 32768}, Mix::linear_but_last, 4, 0, partial_heads},
    {"qwen3_5_text", half, 10'000, 0.25, {4096, 32, 16, 4, 256, 32768},
     Mix::linear_but_last, 4, 0, interleaved_sections | partial_heads},
    {"qwen3_5_moe_text", half, 10'000, 0.25, {2048, 40, 16, 2, 256, 32768},
     Mix::linear_but_last, 4, 0, interleaved_sections | partial_heads},
    {"qwen3_vl_text", half, 5'000'000, 1, {4096, 32, 32, 32, 128, 128000},
     Mix::full, 0, 0, interleaved_sections, nullptr, 500'000},
    {"qwen3_vl_moe_text", half, 5'000'000, 1, {2048, 24, 16, 16, 0, 128000},
     Mix::full, 0, 0, interleaved_sections, nullptr, 500'000},
    {"qwen3_omni_moe_text", half, 1'000'000, 1, {2048, 28, 28, 4, 0, 32768}, Mix::full, 0, 0, interleaved_sections},
    // Phi
    {"phi", half, 10'000, 0.5, {2048, 24, 32, 0, 0, 2048}, Mix::full, 0, 0, partial_heads},
    {"phi3", half, 10'000, 1, {3072, 32, 32, 0, 0, 4096}, Mix::all_slide, 0, 0, top_level_original | partial_heads},
    {"phi4_multimodal", half, 10'000, 1, {3072, 32, 32, 8, 0, 131072},
     Mix::all_slide, 0, 0, top_level_original | partial_heads},
    {"phimoe", half, 1'000'000, 1, {4096, 32, 32, 8, 0, 131072}, Mix::all_slide},
    // Gemma
    {"gemma", half, 10'000, 1, {3072, 28, 16, 16, 256, 8192}},
    {"gemma2", half, 10'000, 1, {2304, 26, 8, 4, 256, 8192}, Mix::full_every_last, 2, 4096},
    {"gemma3_text", half, 1'000'000, 1, {2304, 26, 8, 4, 256, 131072}, Mix::full_every_last, 6, 4096, local_base},
    {"gemma3n_text", half, 1'000'000, 1, {2048, 35, 8, 2, 256, 32768}, Mix::full_every_last, 5, 512, local_base},
    {"gemma4_text", half, 10'000, 1, {2304, 30, 8, 4, 256, 131072},
     Mix::full_every_last, 6, 512, global_heads, gemma4_scaling},
    {"gemma4_unified_text", half, 10'000, 1, {2304, 30, 8, 4, 256, 262144},
     Mix::full_every_last, 6, 1024, global_heads, gemma4_scaling},
    {"vaultgemma", half, 10'000, 1, {2304, 26, 8, 4, 256, 8192}, Mix::full_every_last, 2, 4096},
    // GPT-J and GPT-NeoX, where the two pairings come from
    {"gptj", interleaved, 10'000, 1, {4096, 28, 16, 0, 0, 2048},
     Mix::full, 0, 0, partial_heads | fixed_angles, nullptr, 0, 64},
    {"codegen", interleaved, 10'000, 1, {4096, 28, 16, 0, 0, 2048},
     Mix::full, 0, 0, partial_heads | fixed_angles, nullptr, 0, 64},
    {"roformer", interleaved, 10'000, 1, {768, 12, 12, 0, 0, 1536}, Mix::full, 0, 0, fixed_angles},
    {"gpt_neox", half, 10'000, 0.25, {6144, 44, 64, 0, 0, 2048}, Mix::full, 0, 0, partial_heads},
    {"gpt_neox_japanese", half, 10'000, 1, {2560, 32, 32, 0, 0, 2048}, Mix::full, 0, 0, partial_heads},
    {"falcon", half, 10'000, 1, {4544, 32, 71, 0, 0, 2048}, Mix::full, 0, 0, alibi_flag},
    {"RefinedWeb", half, 10'000, 1, {4544, 32, 71, 0, 0, 2048}, Mix::full, 0, 0, alibi_flag | remote_code},
    {"RefinedWebModel", half, 10'000, 1, {4544, 32, 71, 0, 0, 2048}, Mix::full, 0, 0, alibi_flag | remote_code},
    {"falcon_h1", half, 100'000, 1, {4096, 32, 32, 8, 0, 8192}, Mix::full, 0, 0, 0, nullptr, 10'000, 0, "H"},
    {"stablelm", half, 10'000, 0.25, {2560, 32, 32, 32, 0, 4096}, Mix::full, 0, 0, partial_heads},
    {"stablelm_epoch", half, 10'000, 0.25, {2560, 32, 32, 32, 0, 4096}, Mix::full, 0, 0, remote_code},
    {"persimmon", half, 25'000, 0.5, {4096, 36, 64, 0, 0, 16384}, Mix::full, 0, 0, partial_heads, nullptr, 10'000},
    {"fuyu", half, 25'000, 0.5, {4096, 36, 64, 0, 0, 16384}, Mix::full, 0, 0, partial_heads},
    {"nemotron", half, 10'000, 0.5, {6144, 32, 48, 0, 0, 4096}, Mix::full, 0, 0, partial_heads},
    {"gpt_oss", half, 150'000, 1, {2880, 36, 64, 8, 64, 131072}, Mix::full_every_last, 2, 128, 0, gpt_oss_scaling},
    // Cohere
    {"cohere", interleaved, 10'000, 1, {8192, 40, 64, 0, 0, 8192}, Mix::full, 0, 0, 0, nullptr, 500'000},
    {"cohere2", interleaved, 10'000, 1, {8192, 40, 64, 0, 0, 8192},
     Mix::full_every_last, 4, 4096, rope_on_sliding_only},
    {"cohere2_moe", interleaved, 10'000, 1, {8192, 40, 64, 0, 128, 8192},
     Mix::full_every_last, 4, 4096, rope_on_sliding_only | unread_scaling},
    // EXAONE, AFM
    {"exaone", half, 500'000, 1, {4096, 32, 32, 8, 0, 4096}},
    {"exaone4", half, 10'000, 1, {4096, 32, 32, 32, 0, 2048}, Mix::full_every_last, 4, 4096, rope_on_sliding_only},
    {"exaone_moe", half, 10'000, 1, {4096, 32, 32, 32, 0, 2048}, Mix::full_every_last, 4, 4096, rope_on_sliding_only},
    {"afmoe", half, 10'000, 1, {2048, 32, 16, 0, 128, 16384}, Mix::full_every_last, 4, 1024, rope_on_sliding_only},
    // GLM
    {"chatglm", interleaved, 10'000, 0.5, {4096, 28, 32, 0, 128, 2048},
     Mix::full, 0, 0, half_of_channels | remote_code},
    {"glm", interleaved, 10'000, 0.5, {4096, 40, 32, 2, 128, 131072}, Mix::full, 0, 0, partial_heads},
    {"glm4", interleaved, 10'000, 0.5, {4096, 40, 32, 2, 128, 131072}, Mix::full, 0, 0, partial_heads},
    {"glm4_moe", half, 10'000, 0.5, {4096, 46, 96, 8, 0, 131072},
     Mix::full, 0, 0, partial_heads | rounded_heads},
    {"sarvam_moe", half, 8'000'000, 1, {4096, 19, 64, 4, 64, 131072}, Mix::full, 0, 0, partial_heads},
    {"glm4v_text", interleaved, 10'000, 1, {4096, 40, 32, 2, 0, 32768}, Mix::full, 0, 0, sections | partial_heads},
    {"glm4v_moe_text", half, 10'000, 0.5, {4096, 46, 96, 8, 0, 65536}, Mix::full, 0, 0, sections | partial_heads},
    {"glm_ocr_text", interleaved, 10'000, 1, {1024, 16, 16, 8, 0, 131072}, Mix::full, 0, 0, sections | partial_heads},
    {"helium", interleaved, 100'000, 1, {2560, 24, 20, 20, 128, 4096}},
    // ERNIE
    {"ernie4_5", interleaved, 500'000, 1, {1024, 18, 16, 2, 128, 131072}},
    {"ernie4_5_moe", interleaved, 500'000, 1, {2560, 28, 20, 4, 0, 131072}},
    {"ernie4_5_vl_moe_text", interleaved, 500'000, 1, {2560, 28, 20, 4, 0, 131072}, Mix::full, 0, 0, ernie_sections},
    // Hunyuan
    {"hunyuan", half, 10'000, 1, {4096, 32, 32, 0, 0, 2048}, Mix::full, 0, 0, remote_code},
    {"hunyuan_v1_dense", half, 10'000, 1, {4096, 32, 32, 0, 0, 2048}},
    {"hunyuan_v1_moe", half, 10'000, 1, {4096, 32, 32, 0, 0, 2048}},
    // DeepSeek and other latent attention
    {"deepseek_v2", interleaved, 10'000, 1.0 / 3, {4096, 32, 32, 0, 192, 2048}, Mix::full, 0, 0, mla},
    {"deepseek_v3", interleaved, 10'000, 1.0 / 3, {7168, 61, 128, 128, 192, 4096}, Mix::full, 0, 0, mla},
    {"deepseek_v32", interleaved, 10'000, 1.0 / 3, {7168, 61, 128, 128, 192, 163840}, Mix::full, 0, 0, mla | indexed},
    {"sarvam_mla", interleaved, 10'000, 1.0 / 3, {4096, 32, 64, 0, 192, 4096}, Mix::full, 0, 0, mla},
    {"kimi_k2", interleaved, 10'000, 1.0 / 3, {7168, 61, 128, 128, 192, 4096}, Mix::full, 0, 0, mla | remote_code},
    {"longcat_flash", interleaved, 10'000'000, 1.0 / 3, {6144, 56, 64, 0, 192, 131072}, Mix::full, 0, 0, mla},
    {"glm4_moe_lite", interleaved, 10'000, 0.25, {2048, 47, 20, 20, 256, 202752},
     Mix::full, 0, 0, mla | partial_heads},
    {"glm_moe_dsa", interleaved, 10'000, 0.25, {6144, 78, 64, 64, 256, 202752}, Mix::full, 0, 0, mla | indexed},
    {"mistral4", interleaved, 10'000, 0.5, {4096, 36, 32, 32, 128, 1048576},
     Mix::full, 0, 0, mla | part_of_head, mistral4_scaling},
    {"youtu", interleaved, 10'000, 1.0 / 3, {2048, 32, 16, 16, 192, 131072}, Mix::full, 0, 0, mla},
    {"minicpm3", half, 10'000, 1.0 / 3, {2560, 62, 40, 40, 96, 32768}, Mix::full, 0, 0, mla},
    // Encoders
    {"esm", half, 10'000, 1, {768, 12, 12, 0, 0, 1026}, Mix::full, 0, 0, rotary_if_named | unscaled},
    {"modernbert", half, 160'000, 1, {768, 22, 12, 0, 0, 8192}, Mix::full_every_first, 3, 128, modern_bases},
    {"modernbert-decoder", half, 160'000, 1, {768, 22, 12, 0, 0, 8192}, Mix::full_every_first, 3, 128, modern_bases},
};
// clang-format on

// Files of multimodal models name the whole model where their text_config does not name itself.
struct Alias {
  std::string_view model_type, text;
};
constexpr Alias aliases[] = {
    {"qwen2_vl", "qwen2_vl_text"},
    {"qwen2_5_vl", "qwen2_5_vl_text"},
    {"qwen2_5_omni", "qwen2_5_omni_text"},
    {"qwen2_5_omni_thinker", "qwen2_5_omni_text"},
    {"qwen3_vl", "qwen3_vl_text"},
    {"qwen3_vl_moe", "qwen3_vl_moe_text"},
    {"qwen3_5", "qwen3_5_text"},
    {"qwen3_5_moe", "qwen3_5_moe_text"},
    {"qwen3_omni_moe", "qwen3_omni_moe_text"},
    {"qwen3_omni_moe_thinker", "qwen3_omni_moe_text"},
    {"gemma3", "gemma3_text"},
    {"gemma3n", "gemma3n_text"},
    {"gemma4", "gemma4_text"},
    {"gemma4_unified", "gemma4_unified_text"},
    {"paligemma", "gemma"},
    {"llama4", "llama4_text"},
    {"mllama", "mllama_text_model"},
    {"emu3", "emu3_text_model"},
    {"mistral3", "mistral"},
    {"pixtral", "mistral"},
    {"voxtral", "llama"},
    {"llava", "llama"},
    {"llava_next", "llama"},
    {"idefics2", "mistral"},
    {"idefics3", "llama"},
    {"smolvlm", "llama"},
    {"internvl", "qwen2"},
    {"aya_vision", "cohere2"},
    {"cohere2_vision", "cohere2"},
    {"glm4v", "glm4v_text"},
    {"glm4v_moe", "glm4v_moe_text"},
    {"Glm4vMoe_text", "glm4v_moe_text"},
    {"glm_ocr", "glm_ocr_text"},
    {"ernie4_5_vl_moe", "ernie4_5_vl_moe_text"},
    {"EvollaModel", "evolla"},
    {"kimi_k25", "kimi_k2"},
    {"kimi_vl", "deepseek_v3"},
};

}  // namespace

const Family* find_family(std::string_view model_type) {
  for (const Alias& alias : aliases) {
    if (alias.model_type == model_type) model_type = alias.text;
  }
  const auto* family = std::find_if(std::begin(families), std::end(families),
                                    [&](const Family& f) { return f.model_type == model_type; });
  if (family != std::end(families)) return family;
  const auto newer = newer_families();
  const auto one =
      std::find_if(newer.begin(), newer.end(), [&](const Family& f) { return f.model_type == model_type; });
  return one == newer.end() ? nullptr : &*one;
}

void add_rotary_types(std::vector<std::string_view>& to) {
  for (const Family& family : families) to.push_back(family.model_type);
  for (const Family& family : newer_families()) to.push_back(family.model_type);
}

}  // namespace bearing::hf
