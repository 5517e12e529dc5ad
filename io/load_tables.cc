#include "load_tables.hpp"

#include <algorithm>
#include <iterator>
#include <optional>

namespace bearing::load {
namespace {

// The names are those of transformers' modules, as save_pretrained() writes them.
constexpr TableName rows[] = {
    {"gpt2 gpt-sw3 gpt_neo gpt_bigcode imagegpt", "LearnedInputs", "", "wpe.weight"},
    {"openai-gpt", "LearnedInputs", "", "positions_embed.weight"},
    {"bert big_bird distilbert mobilebert electra albert roberta xlm-roberta xlm-roberta-xl camembert "
     "longformer mpnet esm deberta deberta-v2 lilt align_text_model altclip_text_model bert-generation "
     "blip_text_model bridgetower_text_model bros chinese_clip_text_model clap_text_model convbert "
     "data2vec-text dpr eomt ernie flava_text_model fnet git ibert instructblip_qformer "
     "instructblipvideo_qformer layoutlm layoutlmv2 layoutlmv3 luke lxmert markuplm megatron-bert mra "
     "nystromformer rembert roberta-prelayernorm roc_bert splinter squeezebert tapas videomt visual_bert "
     "xmod yoso",
     "LearnedInputs", "", "embeddings.position_embeddings.weight"},
    {"moonshine_streaming", "LearnedInputs", "cross-attention", "decoder.pos_emb.weight | pos_emb.weight"},
    {"opt", "LearnedInputs", "", "decoder.embed_positions.weight"},
    {"biogpt", "LearnedInputs", "", "embed_positions.weight"},
    {"bart mbart blenderbot blenderbot-small bigbird_pegasus mvp plbart led", "LearnedInputs", "encoder",
     "encoder.embed_positions.weight"},
    {"bart mbart blenderbot blenderbot-small bigbird_pegasus mvp plbart led whisper", "LearnedInputs", "decoder",
     "decoder.embed_positions.weight"},
    {"trocr", "LearnedInputs", "decoder", "embed_positions.weight"},
    {"prophetnet", "LearnedInputs", "encoder", "encoder.position_embeddings.weight"},
    {"prophetnet", "LearnedInputs", "decoder", "decoder.position_embeddings.weight"},
    {"xlm flaubert", "LearnedInputs", "", "position_embeddings.weight"},
    {"canine", "LearnedInputs", "", "char_embeddings.char_position_embeddings.weight"},
    {"clvp_decoder", "LearnedInputs", "", "position_embeds_layer.weight"},
    {"semantic", "LearnedInputs", "", "semantic.position_embeds_layer.weight | position_embeds_layer.weight"},
    {"coarse_acoustics", "LearnedInputs", "",
     "coarse_acoustics.position_embeds_layer.weight | position_embeds_layer.weight"},
    {"fine_acoustics", "LearnedInputs", "",
     "fine_acoustics.position_embeds_layer.weight | position_embeds_layer.weight"},
    {"cohere_asr", "LearnedInputs", "", "decoder.pos_emb.weight"},
    {"audioflamingo3_encoder moss_transcribe_diarize_audio qwen2_audio_encoder voxtral_encoder pp_formulanet_text",
     "LearnedInputs", "", "embed_positions.weight"},
    // Composites have a text's and an image's under the same name, in objects of their own.
    {"aimv2_text_model clip_text_model clipseg_text_model groupvit_text_model metaclip_2_text_model "
     "owlv2_text_model owlvit_text_model siglip2_text_model siglip_text_model xclip_text_model",
     "LearnedInputs", "", "text_model.embeddings.position_embedding.weight | embeddings.position_embedding.weight"},
    {"aimv2_vision_model altclip_vision_model chinese_clip_vision_model clip_vision_model "
     "clipseg_vision_model cosmos3_edge_vision git_vision_model glm4v_moe_vision glm4v_vision "
     "glm_image_vision hunyuan_vl_vision hy_v4_vl_vision idefics2_vision idefics3_vision idefics_vision "
     "inkling2_vision "
     "janus_vision_model kosmos_2_vision_model metaclip_2_vision_model minicpm_ocr_vision "
     "minicpmv4_6_vision minicpmv4_7_vision ovis2_vision owlv2_vision_model owlvit_vision_model "
     "paddleocr_vl_vision phi4_multimodal_vision siglip2_vision_model siglip_vision_model smolvlm_vision "
     "step3p5_vision unlimited_ocr_vision_encoder xclip_vision_model",
     "LearnedInputs", "", "vision_model.embeddings.position_embedding.weight | embeddings.position_embedding.weight"},
    {"bridgetower_vision_model", "LearnedInputs", "", "visual.embeddings.position_embedding.weight"},
    {"vit deit dinov2 beit data2vec-vision swin swinv2 dinov2_with_registers dpt flava_image_model "
     "groupvit_vision_model ijepa internvl_vision qianfan_ocr_vision sam3_vit_model timesformer "
     "tipsv2_vision_model vit_msn",
     "LearnedInputs", "", "embeddings.position_embeddings"},
    {"blip_2_vision_model blip_vision_model instructblip_vision_model instructblipvideo_vision_model radio",
     "LearnedInputs", "", "embeddings.position_embedding"},
    {"cohere_compass_vision qwen3_5_moe_vision qwen3_5_vision qwen3_omni_moe_vision_encoder "
     "qwen3_vl_moe_vision qwen3_vl_vision qwen4_exp_vision",
     "LearnedInputs", "", "pos_embed.weight"},
    {"muse_glimmer_vision muse_spark_vision", "LearnedInputs", "", "patch_embedder.position_embedding_table.weight"},
    {"gemma4_vision", "LearnedInputs", "", "patch_embedder.position_embedding_table", "", Arranged::first_of_two},
    {"gemma4_vision", "LearnedInputs", "", "patch_embedder.position_embedding_table", "", Arranged::second_of_two, 1},
    {"llama4_vision_model", "LearnedInputs", "", "positional_embedding_vlm"},
    {"molmo2_vision", "LearnedInputs", "", "positional_embedding"},
    {"mgp-str", "LearnedInputs", "", "embeddings.pos_embed"},
    {"sam_vision_model sam_hq_vision_model got_ocr2_vision deepseek_ocr2_sam_vision_model "
     "unlimited_ocr_sam_vision_model slanext_vision pp_formulanet_vision pp_chart2table_vision",
     "LearnedInputs", "", "pos_embed", "", Arranged::joined},
    {"kimi_k25_vision", "LearnedInputs", "", "patch_embed.pos_emb.position_embeddings", "", Arranged::joined},
    {"sam3_lite_text_text_model", "LearnedInputs", "", "embeddings.position_embedding.position_embedding", "",
     Arranged::joined},
    {"pix2struct_vision_model kosmos_2_5_vision_model", "LearnedInputs", "", "embeddings.row_embedder.weight"},
    {"pix2struct_vision_model kosmos_2_5_vision_model", "LearnedInputs", "", "embeddings.column_embedder.weight", "",
     Arranged::as_it_is, 1},
    {"timesformer", "LearnedInputs", "", "embeddings.time_embeddings", "", Arranged::as_it_is, 1},
    {"vilt", "LearnedInputs", "", "embeddings.text_embeddings.position_embeddings.weight"},
    {"vilt", "LearnedInputs", "", "embeddings.position_embeddings", "", Arranged::as_it_is, 1},
    {"visual_bert", "LearnedInputs", "", "embeddings.visual_position_embeddings.weight", "", Arranged::as_it_is, 1},
    {"layoutlm layoutlmv2", "LearnedInputs", "", "embeddings.x_position_embeddings.weight", "", Arranged::as_it_is, 1},
    {"layoutlm layoutlmv2", "LearnedInputs", "", "embeddings.y_position_embeddings.weight", "", Arranged::as_it_is, 2},
    {"layoutlm layoutlmv2", "LearnedInputs", "", "embeddings.h_position_embeddings.weight", "", Arranged::as_it_is, 3},
    {"layoutlm layoutlmv2", "LearnedInputs", "", "embeddings.w_position_embeddings.weight", "", Arranged::as_it_is, 4},
    {"layoutlmv3", "LearnedInputs", "", "pos_embed", "", Arranged::as_it_is, 1},
    {"layoutlmv3", "LearnedInputs", "", "embeddings.x_position_embeddings.weight", "", Arranged::as_it_is, 2},
    {"layoutlmv3", "LearnedInputs", "", "embeddings.y_position_embeddings.weight", "", Arranged::as_it_is, 3},
    {"layoutlmv3", "LearnedInputs", "", "embeddings.h_position_embeddings.weight", "", Arranged::as_it_is, 4},
    {"layoutlmv3", "LearnedInputs", "", "embeddings.w_position_embeddings.weight", "", Arranged::as_it_is, 5},
    {"t5 mt5 umt5 switch_transformers pop2piano", "T5Bias", "encoder",
     "encoder.block.*.layer.0.SelfAttention.relative_attention_bias.weight"},
    {"longt5", "T5Bias", "encoder",
     "encoder.block.*.layer.0.LocalSelfAttention.relative_attention_bias.weight "
     "encoder.block.*.layer.0.TransientGlobalSelfAttention.relative_attention_bias.weight"},
    {"t5 mt5 umt5 longt5 switch_transformers pop2piano", "T5Bias", "decoder",
     "decoder.block.*.layer.0.SelfAttention.relative_attention_bias.weight"},
    {"mpnet", "T5Bias", "", "encoder.relative_attention_bias.weight"},
    {"swin", "SwinBias", "", "encoder.layers.*.blocks.*.attention.self.relative_position_bias_table"},
    {"beit data2vec-vision", "SwinBias", "",
     "encoder.layer.*.attention.attention.relative_position_bias.relative_position_bias_table "
     "encoder.relative_position_bias.relative_position_bias_table"},
    {"bert roberta xlm-roberta xlm-roberta-xl camembert electra albert esm", "BertRelativeTerm", "",
     "encoder.layer.*.attention.self.distance_embedding.weight"},
    {"wav2vec2-bert", "BertRelativeTerm", "", "encoder.layers.*.self_attn.distance_embedding.weight"},
    {"seamless_m4t_v2", "BertRelativeTerm", "speech encoder",
     "speech_encoder.encoder.layers.*.self_attn.distance_embedding.weight"},
    {"sam_vision_model sam_hq_vision_model", "SamTerm", "", "layers.*.attn.rel_pos_h", "height_table"},
    {"sam_vision_model sam_hq_vision_model", "SamTerm", "", "layers.*.attn.rel_pos_w", "width_table"},
    {"swinv2", "SwinBias", "", "encoder.layers.*.blocks.*.attention.self.continuous_position_bias_mlp.0.weight", "w1"},
    {"swinv2", "SwinBias", "", "encoder.layers.*.blocks.*.attention.self.continuous_position_bias_mlp.0.bias", "b1"},
    {"swinv2", "SwinBias", "", "encoder.layers.*.blocks.*.attention.self.continuous_position_bias_mlp.2.weight", "w2"},
    {"mistral_large4_text mistral_large4", "TemperatureRows", "",
     "layers.*.self_attn.softmax_scaling.scale layers.*.attention.ssmax_scaling.s", "scale"},
    {"mistral_large4_text mistral_large4", "TemperatureRows", "",
     "layers.*.self_attn.softmax_scaling.bias layers.*.attention.ssmax_scaling.b", "bias"},
    {"wavlm", "GatedT5Bias", "", "encoder.layers.*.attention.rel_attn_embed.weight", "table"},
    // The projection is [rank, extent], and the learned scale of what is projected stands for `r` (Inkling 2).
    {"inkling_text inkling2_text inkling2_loop_text", "RelativeLogitsTerm", "",
     "layers.*.self_attn.rel_logits_proj.proj layers.*.attn.rel_logits_proj.proj "
     "layers.*.self_attn.relative_position_bias.proj",
     "table", Arranged::transposed},
    {"inkling2_text inkling2_loop_text", "RelativeLogitsTerm", "",
     "layers.*.self_attn.rel_l2_clip.scale layers.*.attn.rel_l2_clip.scale "
     "layers.*.self_attn.relative_position_bias.norm.scale",
     "r"},
    // The names of transformers 4, which had this model. Without untie_r all layers share the two vectors.
    {"transfo-xl", "TransformerXLTerm", "", "layers.*.dec_attn.r_net.weight", "w_r"},
    {"transfo-xl", "TransformerXLTerm", "", "layers.*.dec_attn.r_w_bias | r_w_bias", "u"},
    {"transfo-xl", "TransformerXLTerm", "", "layers.*.dec_attn.r_r_bias | r_r_bias", "v"},
    {"xlnet", "TransformerXLTerm", "", "layer.*.rel_attn.r", "w_r", Arranged::flat_transposed},
    {"xlnet", "TransformerXLTerm", "", "layer.*.rel_attn.r_w_bias", "u"},
    {"xlnet", "TransformerXLTerm", "", "layer.*.rel_attn.r_r_bias", "v"},
    {"xlnet", "XlnetSegmentTerm", "", "layer.*.rel_attn.seg_embed"},
    {"xlnet", "XlnetSegmentTerm", "", "layer.*.rel_attn.r_s_bias", "r_s"},
    {"parakeet_encoder nemotron_asr_streaming_encoder", "TransformerXLTerm", "",
     "layers.*.self_attn.relative_k_proj.weight", "w_r", Arranged::sines_first},
    {"parakeet_encoder nemotron_asr_streaming_encoder", "TransformerXLTerm", "", "layers.*.self_attn.bias_u", "u"},
    {"parakeet_encoder nemotron_asr_streaming_encoder", "TransformerXLTerm", "", "layers.*.self_attn.bias_v", "v"},
    {"wav2vec2-bert wav2vec2-conformer", "TransformerXLTerm", "", "encoder.layers.*.self_attn.linear_pos.weight", "w_r",
     Arranged::sines_first},
    {"wav2vec2-bert wav2vec2-conformer", "TransformerXLTerm", "", "encoder.layers.*.self_attn.pos_bias_u", "u"},
    {"wav2vec2-bert wav2vec2-conformer", "TransformerXLTerm", "", "encoder.layers.*.self_attn.pos_bias_v", "v"},
    {"seamless_m4t", "TransformerXLTerm", "speech encoder",
     "speech_encoder.encoder.layers.*.self_attn.linear_pos.weight", "w_r", Arranged::sines_first},
    {"seamless_m4t", "TransformerXLTerm", "speech encoder", "speech_encoder.encoder.layers.*.self_attn.pos_bias_u",
     "u"},
    {"seamless_m4t", "TransformerXLTerm", "speech encoder", "speech_encoder.encoder.layers.*.self_attn.pos_bias_v",
     "v"},
    // UDOP's bias of the text shares its table with the first layer's own, and files keep one of the two.
    {"udop", "T5AxisBias", "encoder",
     "encoder.relative_bias.biases.0.relative_attention_bias.weight | "
     "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"},
    {"udop", "T5AxisBias", "encoder", "encoder.relative_bias.biases.1.relative_attention_bias.weight", "",
     Arranged::as_it_is, 1},
    {"udop", "T5AxisBias", "encoder", "encoder.relative_bias.biases.2.relative_attention_bias.weight", "",
     Arranged::as_it_is, 2},
    {"udop", "T5Bias", "decoder", "decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"},
    {"udop", "LearnedInputs", "encoder", "encoder.cell_2d_embedding.x_position_embeddings.weight"},
    {"udop", "LearnedInputs", "encoder", "encoder.cell_2d_embedding.y_position_embeddings.weight", "",
     Arranged::as_it_is, 1},
    {"udop", "LearnedInputs", "encoder", "encoder.cell_2d_embedding.x_position_embeddings.weight", "",
     Arranged::as_it_is, 2},
    {"udop", "LearnedInputs", "encoder", "encoder.cell_2d_embedding.y_position_embeddings.weight", "",
     Arranged::as_it_is, 3},
    {"layoutlmv2 layoutlmv3", "T5AxisBias", "", "encoder.rel_pos_bias.weight", "", Arranged::transposed},
    {"layoutlmv2 layoutlmv3", "T5AxisBias", "", "encoder.rel_pos_x_bias.weight", "", Arranged::transposed, 1},
    {"layoutlmv2 layoutlmv3", "T5AxisBias", "", "encoder.rel_pos_y_bias.weight", "", Arranged::transposed, 2},
    {"vits", "ShawTerm", "", "encoder.layers.*.attention.emb_rel_k", "key"},
    {"vits", "ShawTerm", "", "encoder.layers.*.attention.emb_rel_v", "value"},
    // Both count query minus key. SpeechT5 has no row for its farthest key before the query.
    {"speecht5", "ShawTerm", "encoder", "embed_positions.pe_k.weight", "key", Arranged::reversed_short},
    {"granite_speech_encoder granite_speech_plus_encoder granite_speech5_encoder", "ShawTerm", "",
     "layers.*.attn.rel_pos_emb.weight layers.*.self_attn.rel_pos_emb.weight", "key", Arranged::reversed},
};

std::vector<std::string_view> words(std::string_view text) {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    if (end > 0) out.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

/// Reads the name backwards against the pattern; nothing unless it fits.
std::optional<Match> match(std::string_view name, std::string_view pattern) {
  Match found;
  std::size_t at = name.size();
  for (std::size_t i = pattern.size(); i-- > 0;) {
    if (pattern[i] != '*') {
      if (at == 0 || name[--at] != pattern[i]) return {};
      continue;
    }
    long number = 0, digit = 1;
    const std::size_t end = at;
    while (at > 0 && end - at < 6 && name[at - 1] >= '0' && name[at - 1] <= '9') {
      number += digit * (name[--at] - '0');
      digit *= 10;
    }
    if (at == end) return {};
    found.numbers.insert(found.numbers.begin(), number);
  }
  if (at > 0 && name[at - 1] != '.') return {};
  found.name = name;
  found.prefix = name.substr(0, at);
  return found;
}

}  // namespace

const TableName* find_table(std::string_view model_type, std::string_view kind, std::string_view part,
                            std::string_view parameter, int place) {
  const auto at = std::find_if(std::begin(rows), std::end(rows), [&](const TableName& row) {
    const auto types = words(row.types);
    return row.kind == kind && row.part == part && row.parameter == parameter && row.place == place &&
           std::find(types.begin(), types.end(), model_type) != types.end();
  });
  return at == std::end(rows) ? nullptr : at;
}

std::vector<Match> matches(const std::vector<std::string>& names, std::string_view patterns) {
  std::vector<Match> all;
  for (const std::string_view pattern : words(patterns)) {
    if (pattern == "|") {
      if (!all.empty()) break;
      continue;
    }
    for (const std::string& name : names) {
      if (auto found = match(name, pattern)) all.push_back(std::move(*found));
    }
  }
  std::sort(all.begin(), all.end(), [](const Match& a, const Match& b) {
    return a.prefix != b.prefix ? a.prefix < b.prefix : a.numbers < b.numbers;
  });
  return all;
}

}  // namespace bearing::load
