#include "hf_families.hpp"

// The model types that came later than those of hf_families.cc, and 1-D rotary encoders of sound and video. Facts and
// defaults are those of Hugging Face transformers 5.24.0; python/tests/models holds them to its source.

namespace bearing::hf {
namespace {

constexpr const char* higgs_scaling =
    R"({"rope_type": "llama3", "rope_theta": 500000, "factor": 32, "original_max_position_embeddings": 1024,
        "low_freq_factor": 0.125, "high_freq_factor": 0.5})";
constexpr const char* privacy_scaling =
    R"({"rope_type": "yarn", "factor": 32, "beta_fast": 32, "beta_slow": 1, "truncate": false,
        "original_max_position_embeddings": 4096})";
constexpr const char* cosmos_scaling =
    R"({"rope_type": "default", "rope_theta": 100000000, "mrope_section": [24, 20, 20]})";
constexpr const char* gemma_scaling =
    R"({"sliding_attention": {"rope_type": "default", "rope_theta": 10000},
        "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1000000}})";
constexpr const char* two_bases =
    R"({"sliding_attention": {"rope_type": "default", "rope_theta": 10000},
        "full_attention": {"rope_type": "default", "rope_theta": 1000000}})";
constexpr const char* laguna_scaling =
    R"({"sliding_attention": {"rope_type": "default", "rope_theta": 10000},
        "full_attention": {"rope_type": "default", "partial_rotary_factor": 0.5, "rope_theta": 500000}})";
constexpr const char* lfm3_scaling =
    R"({"sliding_attention": {"rope_type": "default", "rope_theta": 10000},
        "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.5, "rope_theta": 1000000}})";
constexpr const char* mellum_scaling =
    R"({"sliding_attention": {"rope_type": "default", "rope_theta": 10000},
        "full_attention": {"rope_type": "default", "rope_theta": 500000}})";
constexpr const char* mimo_scaling =
    R"({"sliding_attention": {"rope_type": "default", "partial_rotary_factor": 0.334, "rope_theta": 10000},
        "full_attention": {"rope_type": "default", "partial_rotary_factor": 0.334, "rope_theta": 5000000}})";
constexpr const char* dory_scaling =
    R"({"sliding_attention": {"rope_type": "default", "rope_theta": 10000},
        "full_attention": {"rope_type": "default", "rope_theta": 10000000}})";
constexpr const char* neomme_scaling =
    R"({"sliding_attention": {"rope_type": "default", "rope_theta": 10000},
        "full_attention": {"rope_type": "default", "partial_rotary_factor": 0.25, "rope_theta": 1000000}})";
constexpr const char* ultrabert_scaling =
    R"({"sliding_attention": {"rope_type": "default", "rope_theta": 10000},
        "full_attention": {"rope_type": "default", "rope_theta": 2560000}})";
constexpr const char* beam_scaling =
    R"({"sliding_attention": {"rope_type": "default", "rope_theta": 10000}, "full_attention": null})";
constexpr const char* mistral_large4_scaling =
    R"({"rope_type": "yarn", "rope_theta": 10000, "factor": 2048, "original_max_position_embeddings": 512,
        "beta_fast": 32, "beta_slow": 1, "attention_factor": 1})";
constexpr const char* muse_spark_scaling = R"({"rope_type": "default", "rope_theta": 500000})";
constexpr const char* moonshine_scaling =
    R"({"rope_type": "default", "rope_theta": 10000, "partial_rotary_factor": 0.8})";
constexpr const char* transcribe_scaling =
    R"({"rope_type": "default", "rope_theta": 10000, "partial_rotary_factor": 0.5})";
constexpr const char* zaya_scaling =
    R"({"hybrid_sliding": {"rope_type": "default", "partial_rotary_factor": 0.5, "rope_theta": 10000},
        "hybrid": {"rope_type": "default", "partial_rotary_factor": 0.5, "rope_theta": 5000000}})";

constexpr double third = 1.0 / 3;
constexpr const char* zamba_layers = "LLLLLLHLLLLLHLLLLLHLLLLLHLLLLLHLLLLLHLLLLLHLLLLHLLLHLL";

// Shapes: {hidden, layers, heads, kv heads, head_dim, positions}.
// clang-format off
constexpr Family newer_rows[] = {
    // One rotation for all layers
    {.model_type = "aria_text", .pairing = half, .shape = {4096, 32, 32, 0, 0, 2048}},
    {.model_type = "deepseek_ocr2_text", .pairing = half, .shape = {4096, 32, 32, 0, 0, 2048}},
    {.model_type = "deepseek_ocr2_encoder", .pairing = half, .shape = {4096, 32, 32, 32, 0, 32768},
     .mix = Mix::slide_from, .period = 28, .window = 4096},
    {.model_type = "gradium_phonon_tts", .pairing = half, .shape = {768, 6, 12, 0, 0, 8192}},
    {.model_type = "pocket_tts", .pairing = half, .shape = {1024, 6, 16, 0, 0, 8192}},
    {.model_type = "esmc", .pairing = half, .shape = {2560, 80, 40, 0, 0, 2048}},
    {.model_type = "granite4_vision_text", .pairing = half, .shape = {4096, 32, 32, 0, 0, 2048}},
    {.model_type = "granite_docling_text", .pairing = half, .shape = {1024, 28, 16, 4, 0, 32768}},
    {.model_type = "gte", .pairing = half, .base = 160'000, .shape = {768, 12, 12, 0, 0, 8192}},
    {.model_type = "higgs_audio_v2", .pairing = half, .base = 500'000, .shape = {3072, 28, 24, 8, 128, 2048},
     .scaling = higgs_scaling},
    {.model_type = "hrm_text", .pairing = half, .shape = {1536, 128, 12, 0, 0, 2048}},
    {.model_type = "hyperclovax", .pairing = half, .shape = {4096, 32, 32, 0, 0, 2048}},
    {.model_type = "iquestcoder", .pairing = half, .shape = {5120, 80, 40, 8, 0, 131072}},
    {.model_type = "jina_embeddings_v3", .pairing = half, .base = 20'000, .shape = {1024, 24, 16, 0, 0, 8194}},
    {.model_type = "minimax_m3_vl_text", .pairing = half, .base = 5'000'000, .shape = {6144, 60, 64, 4, 128, 524288},
     .traits = partial_heads},
    {.model_type = "moshi", .pairing = half, .shape = {4096, 32, 32, 0, 0, 3000}, .mix = Mix::all_slide,
     .window = 3000},
    {.model_type = "moshi_depth", .pairing = half, .shape = {1024, 6, 16, 0, 0, 9}, .mix = Mix::all_slide, .window = 8,
     .traits = unrotated},
    {.model_type = "csm", .pairing = half, .base = 500'000, .shape = {2048, 16, 32, 8, 0, 2048}},
    {.model_type = "csm_depth_decoder_model", .pairing = half, .base = 500'000, .shape = {1024, 4, 8, 2, 0, 33}},
    {.model_type = "kyutai_speech_to_text", .pairing = half, .shape = {2048, 48, 32, 0, 0, 750}, .mix = Mix::all_slide,
     .window = 375},
    {.model_type = "idefics", .pairing = half, .shape = {4096, 32, 32, 0, 0, 2048}},
    {.model_type = "evolla", .pairing = half, .base = 500'000, .shape = {4096, 32, 32, 8, 0, 8192}},
    {.model_type = "solar_open", .pairing = half, .base = 1'000'000, .shape = {4096, 48, 64, 8, 128, 131072},
     .traits = partial_heads},
    {.model_type = "timesfm2_5", .pairing = half, .shape = {1280, 20, 16, 0, 0, 16384}},
    {.model_type = "unlimited_ocr_text", .pairing = half, .shape = {1280, 12, 10, 0, 0, 32768}, .window = 128,
     .pattern = "R"},
    {.model_type = "voxtral_realtime_text", .pairing = half, .shape = {4096, 32, 32, 8, 0, 131072},
     .mix = Mix::all_slide, .window = 4096},
    {.model_type = "muse_glimmer_assistant", .pairing = half, .base = 500'000, .shape = {6656, 5, 32, 8, 128, 131072},
     .mix = Mix::all_slide, .window = 2048},
    {.model_type = "openai_privacy_filter", .pairing = interleaved, .base = 150'000,
     .shape = {640, 8, 14, 2, 64, 131072}, .mix = Mix::all_slide, .window = 128, .scaling = privacy_scaling},
    {.model_type = "blt_local_encoder", .pairing = interleaved, .base = 500'000, .shape = {1024, 1, 16, 0, 0, 24576}},
    {.model_type = "blt_local_decoder", .pairing = interleaved, .base = 500'000, .shape = {1024, 9, 16, 0, 0, 24576}},
    {.model_type = "blt_global_transformer", .pairing = interleaved, .base = 500'000,
     .shape = {2048, 25, 16, 0, 0, 4096}},
    {.model_type = "blt_patcher", .pairing = interleaved, .shape = {768, 14, 12, 0, 0, 8192}, .mix = Mix::all_slide,
     .window = 512},
    {.model_type = "t5_gemma_module", .pairing = half, .shape = {2304, 26, 8, 4, 256, 8192},
     .mix = Mix::full_every_last, .period = 2, .window = 4096},
    // M-RoPE
    {.model_type = "cosmos3_edge_text", .pairing = half, .base = 100'000'000, .shape = {2048, 28, 16, 8, 128, 131072},
     .traits = interleaved_sections, .scaling = cosmos_scaling},
    {.model_type = "glm_image_text", .pairing = half, .shape = {4096, 40, 32, 2, 0, 131072},
     .traits = sections | partial_heads},
    {.model_type = "paddleocr_vl_text", .pairing = half, .base = 500'000, .shape = {1024, 18, 16, 2, 128, 131072},
     .traits = sections},
    {.model_type = "qwen2_5_omni_talker", .pairing = half, .base = 1'000'000, .shape = {3584, 28, 28, 4, 128, 32768},
     .mix = Mix::slide_from, .period = 28, .window = 32768, .traits = sections},
    {.model_type = "qwen3_omni_moe_talker_text", .pairing = half, .shape = {1024, 20, 16, 2, 0, 32768},
     .traits = interleaved_sections},
    {.model_type = "qwen3_omni_moe_talker_code_predictor", .pairing = half, .shape = {1024, 5, 16, 8, 128, 32768}},
    {.model_type = "qwen4_exp_text", .pairing = half, .shape = {2048, 40, 16, 2, 256, 32768},
     .mix = Mix::linear_but_last, .period = 4, .traits = interleaved_sections | partial_heads | indexed},
    {.model_type = "cohere_compass_text", .pairing = half, .shape = {8192, 40, 64, 0, 0, 8192}, .window = 4096,
     .traits = interleaved_sections | groups},
    {.model_type = "hunyuan_vl_text", .pairing = half, .shape = {4096, 32, 32, 0, 0, 2048}, .traits = two_angles},
    // Layers of several kinds
    {.model_type = "bamba", .pairing = half, .fraction = 0.5, .shape = {4096, 32, 32, 8, 0, 262144},
     .traits = partial_heads | class_fractions, .pattern = "L"},
    {.model_type = "zamba2", .pairing = half, .shape = {2560, 54, 32, 0, 160, 4096}, .traits = rotary_if_memory,
     .pattern = zamba_layers},
    {.model_type = "jamba", .pairing = half, .shape = {4096, 32, 32, 8, 0, 262144}, .traits = unrotated,
     .pattern = "LLLLFLLL"},
    {.model_type = "zamba", .pairing = half, .shape = {3712, 76, 16, 16, 0, 4096}, .traits = unrotated | double_heads,
     .pattern = "LLH|LLLLHL"},
    {.model_type = "nemotron_h", .pairing = half, .shape = {4096, 4, 32, 8, 128, 4096},
     .traits = unrotated | counts_its_list, .pattern = "LEFM"},
    {.model_type = "kimi_linear", .pairing = interleaved, .fraction = third,
     .shape = {2304, 27, 32, 32, 192, 1048576}, .traits = mla | unrotated, .pattern = "L|LLLF"},
    {.model_type = "olmo_hybrid", .pairing = half, .shape = {3840, 32, 30, 0, 0, 65536}, .mix = Mix::linear_but_last,
     .period = 4, .traits = none_if_null_base},
    {.model_type = "recurrent_gemma", .pairing = half, .fraction = 0.5, .shape = {2560, 26, 10, 0, 0, 0},
     .window = 2048, .traits = partial_heads | attention_slides, .pattern = "LLS"},
    {.model_type = "flint", .pairing = half, .shape = {2048, 49, 32, 4, 128, 262144}, .window = 513,
     .traits = rope_on_sliding_only, .pattern = "FF|SSSF$F"},
    {.model_type = "lara_mini", .pairing = half, .shape = {1024, 34, 16, 4, 128, 131072}, .window = 512,
     .traits = rope_on_sliding_only, .pattern = "LSLFS"},
    {.model_type = "kolibri1", .pairing = half, .shape = {2560, 50, 48, 4, 128, 262144}, .mix = Mix::full_every_last,
     .period = 5, .window = 513, .traits = rope_on_sliding_only},
    {.model_type = "granite_swa", .pairing = half, .shape = {2560, 24, 20, 4, 0, 8192}, .mix = Mix::full_every_first,
     .period = 4, .window = 128, .traits = listed_bases},
    {.model_type = "granitemoe_swa", .pairing = half, .shape = {4096, 32, 32, 0, 0, 2048},
     .mix = Mix::full_every_first, .period = 4, .window = 128, .traits = listed_bases},
    {.model_type = "muse_glimmer_text", .pairing = half, .shape = {6656, 52, 32, 2, 128, 131072}, .window = 2048,
     .traits = listed_nope, .pattern = "<SSSF"},
    {.model_type = "muse_spark_text", .pairing = half, .shape = {8192, 62, 128, 16, 0, 1048576},
     .window = 2048, .traits = listed_nope, .scaling = muse_spark_scaling, .pattern = "<SSSF"},
    {.model_type = "molmo2_text", .pairing = half, .shape = {4096, 36, 32, 8, 128, 36864}, .traits = scaled_layers},
    {.model_type = "step3p5", .pairing = half, .shape = {4096, 45, 64, 8, 128, 128000},
     .traits = typed_lists | groups | partial_heads},
    // Parameters per layer type
    {.model_type = "beam", .pairing = half, .shape = {5120, 52, 48, 8, 128, 8192}, .window = 512,
     .traits = groups | power_without_rope, .scaling = beam_scaling, .pattern = "SSSSSF$F"},
    {.model_type = "dory", .pairing = half, .shape = {2560, 36, 16, 4, 256, 8192}, .mix = Mix::full_every_last,
     .period = 4, .window = 1024, .traits = groups | lists_blocks, .scaling = dory_scaling},
    {.model_type = "diffusion_gemma_text", .pairing = half, .shape = {2304, 30, 8, 4, 256, 131072},
     .mix = Mix::full_every_last, .period = 6, .window = 512, .traits = global_heads, .scaling = gemma_scaling},
    {.model_type = "embedding_gemma2_text", .pairing = half, .shape = {512, 24, 4, 2, 256, 262144},
     .mix = Mix::full_every_last, .period = 6, .window = 512, .traits = global_heads, .scaling = two_bases},
    {.model_type = "t5gemma2_text", .pairing = half, .base = 1'000'000, .shape = {2304, 26, 8, 4, 256, 131072},
     .mix = Mix::full_every_last, .period = 6, .window = 4096, .traits = local_base},
    {.model_type = "t5gemma2_decoder", .pairing = half, .base = 1'000'000, .shape = {2304, 26, 8, 4, 256, 131072},
     .mix = Mix::full_every_last, .period = 6, .window = 4096, .traits = local_base},
    {.model_type = "laguna", .pairing = half, .shape = {2048, 40, 48, 8, 128, 131072}, .window = 512,
     .traits = groups | partial_heads, .scaling = laguna_scaling},
    {.model_type = "lfm3", .pairing = half, .shape = {2048, 24, 16, 4, 0, 128000}, .window = 256, .traits = groups,
     .scaling = lfm3_scaling, .pattern = "CC|FCSC"},
    {.model_type = "mellum", .pairing = half, .shape = {2304, 28, 32, 4, 128, 131072}, .window = 1024,
     .traits = groups, .scaling = mellum_scaling},
    {.model_type = "mimo_v2_flash", .pairing = half, .fraction = 0.334, .shape = {4096, 48, 64, 4, 192, 131072},
     .window = 129,
     .traits = groups | partial_heads | window_of_others, .scaling = mimo_scaling, .pattern = "FSSSSF|SSSSSF"},
    {.model_type = "neomme", .pairing = half, .shape = {1024, 17, 16, 4, 0, 16384}, .window = 256,
     .traits = groups | partial_heads | alternating_axes | class_fractions, .scaling = neomme_scaling, .pattern = "SSSSSF$F"},
    {.model_type = "ultrabert", .pairing = half, .shape = {4096, 32, 32, 0, 0, 32768}, .mix = Mix::full_every_last,
     .period = 3, .window = 128, .traits = groups, .scaling = ultrabert_scaling},
    {.model_type = "zaya", .pairing = half, .shape = {2048, 40, 8, 2, 128, 131072}, .traits = groups | partial_heads,
     .scaling = zaya_scaling, .pattern = "H"},
    // Compressed keys, values that turn
    {.model_type = "deepseek_v4", .pairing = interleaved, .fraction = 0.125,
     .shape = {4096, 43, 64, 1, 512, 1048576}, .window = 128, .traits = compressed | partial_heads,
     .pattern = "KK|KP"},
    // Latent attention
    {.model_type = "mistral_large4_text", .pairing = interleaved, .fraction = 0.5,
     .shape = {6144, 72, 64, 64, 128, 1048576}, .mix = Mix::no_rope_list, .period = 4, .traits = mla | learned_factors,
     .scaling = mistral_large4_scaling, .pattern = "I"},
    {.model_type = "axk1", .pairing = interleaved, .fraction = third, .shape = {7168, 61, 64, 0, 192, 32768},
     .traits = mla},
    {.model_type = "axk2", .pairing = interleaved, .fraction = third, .shape = {2048, 48, 32, 0, 96, 131072},
     .traits = mla, .pattern = "I"},
    {.model_type = "bailing_hybrid", .pairing = interleaved, .base = 6'000'000, .fraction = third,
     .shape = {2560, 42, 32, 0, 192, 262144}, .mix = Mix::linear_but_last, .period = 6, .traits = mla},
    {.model_type = "dots3_note_text", .pairing = interleaved, .base = 80'000'000, .fraction = third,
     .shape = {5120, 46, 128, 0, 192, 524288}, .window = 512, .traits = mla | sliding_sizes | groups,
     .pattern = "II|SSSI"},
    {.model_type = "hy_v4", .pairing = half, .fraction = 0.25, .shape = {2816, 34, 32, 0, 256, 262144}, .traits = mla,
     .pattern = "I"},
    {.model_type = "hy_v4_vl_text", .pairing = interleaved, .fraction = 0.25, .shape = {6144, 78, 64, 0, 256, 262144},
     .traits = mla | interleaved_sections, .pattern = "I"},
    {.model_type = "glm5_next_text", .pairing = interleaved, .fraction = 0, .shape = {4096, 45, 64, 0, 256, 1048576},
     .traits = mla | unrotated | indexed, .pattern = "LLLI"},
    // Encoders and decoders of sound and video
    {.model_type = "moonshine_streaming", .pairing = interleaved, .shape = {320, 6, 8, 0, 0, 4096},
     .traits = partial_heads, .scaling = moonshine_scaling},
    {.model_type = "dia_encoder", .pairing = half, .shape = {1024, 12, 16, 0, 128, 1024}},
    {.model_type = "dia_decoder", .pairing = half, .shape = {2048, 18, 16, 4, 128, 3072}},
    {.model_type = "glmasr_encoder", .pairing = half, .fraction = 0.5, .shape = {1280, 32, 20, 0, 0, 1500},
     .traits = partial_heads},
    {.model_type = "dots3_note_audio_encoder", .pairing = half, .fraction = 0.5, .shape = {1280, 32, 20, 0, 0, 6000},
     .traits = partial_heads},
    {.model_type = "lasr_encoder", .pairing = half, .shape = {512, 17, 8, 0, 0, 10000}},
    {.model_type = "voxtral_realtime_encoder", .pairing = half, .shape = {1280, 32, 32, 0, 64, 1500},
     .mix = Mix::all_slide, .window = 750},
    {.model_type = "qwen3_omni_moe_code2wav", .pairing = half, .shape = {1024, 8, 16, 0, 0, 8000},
     .mix = Mix::all_slide, .window = 72},
    {.model_type = "mimi", .pairing = half, .shape = {512, 8, 8, 0, 0, 8000}, .mix = Mix::all_slide, .window = 250},
    {.model_type = "mimi_encoder", .pairing = half, .shape = {512, 8, 8, 0, 0, 8000}, .mix = Mix::all_slide,
     .window = 250},
    {.model_type = "mimi_decoder", .pairing = half, .shape = {512, 8, 8, 0, 0, 8000}, .mix = Mix::all_slide,
     .window = 250},
    {.model_type = "pocket_tts_audio_tokenizer", .pairing = half, .shape = {512, 2, 8, 0, 0, 8000},
     .mix = Mix::all_slide, .window = 250},
    {.model_type = "pocket_tts_audio_tokenizer_encoder", .pairing = half, .shape = {512, 2, 8, 0, 0, 8000},
     .mix = Mix::all_slide, .window = 250},
    {.model_type = "pocket_tts_audio_tokenizer_decoder", .pairing = half, .shape = {512, 2, 8, 0, 0, 8000},
     .mix = Mix::all_slide, .window = 250},
    {.model_type = "moonshine", .pairing = interleaved, .fraction = 0.9, .shape = {288, 6, 8, 0, 0, 512},
     .traits = partial_heads | two_parts},
    {.model_type = "nemotron3_5_transcribe_word_timestamp", .pairing = half,
     .shape = {1280, 2, 16, 0, 0, 5000}, .traits = partial_heads, .scaling = transcribe_scaling},
    {.model_type = "nemotron3_5_transcribe_asr_audio", .pairing = half,
     .shape = {1280, 32, 10, 0, 0, 5000}, .traits = partial_heads, .scaling = transcribe_scaling},
    {.model_type = "nemotron3_diarization_audio", .pairing = half, .shape = {512, 31, 8, 0, 0, 5000},
     .traits = partial_heads},
    {.model_type = "pe_audio_encoder", .pairing = interleaved, .base = 20'000, .shape = {1792, 6, 14, 0, 0, 10000}},
    {.model_type = "pe_video_encoder", .pairing = interleaved, .base = 20'000, .shape = {1792, 6, 14, 0, 0, 10000}},
    {.model_type = "pe_audio_video_encoder", .pairing = interleaved, .base = 20'000,
     .shape = {1792, 6, 14, 0, 0, 10000}},
};
// clang-format on

}  // namespace

std::span<const Family> newer_families() { return newer_rows; }

}  // namespace bearing::hf
