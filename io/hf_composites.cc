#include <algorithm>
#include <iterator>

#include "hf_towers.hpp"

// The composites of Hugging Face transformers 5.23.0: the objects of their files, and the model of each (sub_configs in
// configuration_*.py), as key=model_type. The first part is the main one; "=" stands for the file itself. What has no
// model of its own (a diffusion head, a quantiser's loss) is not here.

namespace bearing::hf {
namespace {

struct Composite {
  std::string_view model_type, parts;
};

// clang-format off
constexpr Composite composites[] = {
    {"aimv2", "text_config=aimv2_text_model vision_config=aimv2_vision_model"},
    {"align", "text_config=align_text_model vision_config=align_vision_model"},
    {"altclip", "text_config=altclip_text_model vision_config=altclip_vision_model"},
    {"aria", "text_config=aria_text vision_config=idefics3_vision"},
    {"audioflamingo3", "text_config=qwen2 audio_config=audioflamingo3_encoder"},
    {"aya_vision", "text_config=cohere2 vision_config=siglip_vision_model"},
    {"bark",
     "semantic_config=semantic coarse_acoustics_config=coarse_acoustics fine_acoustics_config=fine_acoustics "
     "codec_config=encodec"},
    {"blip", "text_config=blip_text_model vision_config=blip_vision_model"},
    {"blip-2", "text_config=opt vision_config=blip_2_vision_model qformer_config=blip_2_qformer"},
    {"blt",
     "patcher_config=blt_patcher encoder_config=blt_local_encoder decoder_config=blt_local_decoder "
     "global_config=blt_global_transformer"},
    {"bridgetower", "text_config=bridgetower_text_model vision_config=bridgetower_vision_model"},
    {"canary", "encoder_config=parakeet_encoder decoder_config=canary_decoder"},
    {"chameleon", "= vq_config=chameleon_vqgan"},
    {"chinese_clip", "text_config=chinese_clip_text_model vision_config=chinese_clip_vision_model"},
    {"chmv2", "backbone_config=dinov3_vit"},
    {"clap", "text_config=clap_text_model audio_config=clap_audio_model"},
    {"clip", "text_config=clip_text_model vision_config=clip_vision_model"},
    {"clipseg", "text_config=clipseg_text_model vision_config=clipseg_vision_model"},
    {"clvp", "text_config=clvp_encoder speech_config=clvp_encoder decoder_config=clvp_decoder"},
    {"cohere2_vision", "text_config=cohere2 vision_config=siglip_vision_model"},
    {"cohere_asr", "= encoder_config=parakeet_encoder"},
    {"cohere_compass", "text_config=cohere_compass_text vision_config=cohere_compass_vision"},
    {"colmodernvbert", "vlm_config=modernvbert"},
    {"colpali", "vlm_config=paligemma"},
    {"colqwen2", "vlm_config=qwen2_vl"},
    {"conditional_detr", "= backbone_config=timm_backbone"},
    {"cosmos3_edge", "text_config=cosmos3_edge_text vision_config=cosmos3_edge_vision"},
    {"cosmos3_omni", "text_config=qwen3_vl_text vision_config=qwen3_vl_vision"},
    {"csm", "= codec_config=mimi depth_decoder_config=csm_depth_decoder_model"},
    {"d_fine", "= backbone_config=hgnet_v2"},
    {"dab-detr", "= backbone_config=timm_backbone"},
    {"deepseek_ocr2", "text_config=deepseek_ocr2_text vision_config=deepseek_ocr2_vision"},
    {"deepseek_ocr2_vision", "sam_config=deepseek_ocr2_sam_vision_model encoder_config=deepseek_ocr2_encoder"},
    {"deepseek_vl", "text_config=llama vision_config=siglip_vision_model"},
    {"deepseek_vl_hybrid",
     "text_config=llama vision_config=siglip_vision_model high_res_vision_config=sam_vision_model"},
    {"deformable_detr", "= backbone_config=timm_backbone"},
    {"deimv2", "= backbone_config=hgnet_v2"},
    {"depth_anything", "backbone_config=dinov2"},
    {"depth_pro", "image_model_config=dinov2 patch_model_config=dinov2 fov_model_config=dinov2"},
    {"detr", "= backbone_config=timm_backbone"},
    {"dia", "encoder_config=dia_encoder decoder_config=dia_decoder"},
    {"diffusion_gemma", "text_config=diffusion_gemma_text vision_config=gemma4_vision"},
    {"dots3_note",
     "text_config=dots3_note_text vision_config=dots3_note_vision_encoder audio_config=dots3_note_audio_encoder"},
    {"dpt", "= backbone_config=bit"},
    {"edgetam",
     "vision_config=edgetam_vision_model prompt_encoder_config=edgetam_prompt_encoder "
     "mask_decoder_config=edgetam_mask_decoder"},
    {"edgetam_video",
     "= vision_config=sam2_vision_model mask_decoder_config=edgetam_video_mask_decoder "
     "prompt_encoder_config=edgetam_video_prompt_encoder"},
    {"edgetam_vision_model", "backbone_config=timm_wrapper"},
    {"embedding_gemma2", "text_config=embedding_gemma2_text vision_config=gemma4_vision audio_config=gemma4_audio"},
    {"emu3", "text_config=emu3_text_model vq_config=emu3_vqgan"},
    {"encoder-decoder", "decoder=bert encoder=bert"},
    {"ernie4_5_vl_moe", "text_config=ernie4_5_vl_moe_text vision_config=ernie4_5_vl_moe_vision"},
    {"esmfold2", "= esmc_config=esmc atom_encoder=esmfold2_atoms structure_head=esmfold2_structure"},
    {"esmfold2_structure", "diffusion_module=esmfold2_diffusion"},
    {"esmfold2_diffusion", "= atom_encoder=esmfold2_atoms"},
    {"evolla", "= protein_encoder_config=esm"},
    {"EvollaModel", "= protein_encoder_config=esm"},
    {"exaone4_5", "text_config=exaone4 vision_config=exaone4_5_vision"},
    {"fast_vlm", "text_config=qwen2 vision_config=timm_wrapper"},
    {"fastspeech2_conformer_with_hifigan",
     "model_config=fastspeech2_conformer vocoder_config=fastspeech2_conformer_hifigan"},
    {"flava",
     "text_config=flava_text_model image_config=flava_image_model multimodal_config=flava_multimodal_model "
     "image_codebook_config=flava_image_codebook"},
    {"florence2", "text_config=bart vision_config=florence_vision"},
    {"fun_asr_nano", "text_config=qwen3 audio_config=fun_asr_nano_encoder"},
    {"fuyu", "text_config=persimmon"},
    {"gemma3", "text_config=gemma3_text vision_config=siglip_vision_model"},
    {"gemma3n", "text_config=gemma3n_text vision_config=gemma3n_vision audio_config=gemma3n_audio"},
    {"gemma4", "text_config=gemma4_text vision_config=gemma4_vision audio_config=gemma4_audio"},
    {"gemma4_assistant", "text_config=gemma4_text"},
    {"gemma4_unified",
     "text_config=gemma4_unified_text vision_config=gemma4_unified_vision audio_config=gemma4_unified_audio"},
    {"gemma4_unified_assistant", "text_config=gemma4_unified_text"},
    {"git", "= vision_config=git_vision_model"},
    {"glm46v", "text_config=glm4v_text vision_config=glm4v_vision"},
    {"glm4v", "text_config=glm4v_text vision_config=glm4v_vision"},
    {"glm4v_moe", "text_config=glm4v_moe_text vision_config=glm4v_moe_vision"},
    {"glm5_next", "text_config=glm5_next_text vision_config=glm5_next_vision"},
    {"glm_image", "text_config=glm_image_text vision_config=glm_image_vision vq_config=glm_image_vqmodel"},
    {"glm_ocr", "text_config=glm_ocr_text vision_config=glm_ocr_vision"},
    {"glmasr", "text_config=llama audio_config=glmasr_encoder"},
    {"glmga", "text_config=glm4v_text vision_config=glm4v_vision"},
    {"got_ocr2", "text_config=qwen2 vision_config=got_ocr2_vision"},
    {"granite4_vision",
     "text_config=granite4_vision_text vision_config=clip_vision_model qformer_config=blip_2_qformer"},
    {"granite_docling", "text_config=granite_docling_text vision_config=granite_docling_vision"},
    {"granite_speech", "text_config=granite encoder_config=granite_speech_encoder projector_config=blip_2_qformer"},
    {"granite_speech5_ctc", "encoder_config=granite_speech5_encoder"},
    {"granite_speech_plus",
     "text_config=granite encoder_config=granite_speech_plus_encoder projector_config=blip_2_qformer"},
    {"grounding-dino", "= text_config=bert backbone_config=swin"},
    {"groupvit", "text_config=groupvit_text_model vision_config=groupvit_vision_model"},
    {"higgs_audio_v2_tokenizer", "acoustic_model_config=dac semantic_model_config=hubert"},
    {"hunyuan_vl", "text_config=hunyuan_vl_text vision_config=hunyuan_vl_vision"},
    {"hyperclovax_vision_v2", "text_config=hyperclovax vision_config=qwen2_5_vl_vision"},
    {"idefics", "= vision_config=idefics_vision perceiver_config=idefics_perciever"},
    {"idefics2", "text_config=mistral vision_config=idefics2_vision perceiver_config=idefics2_perceiver"},
    {"idefics3", "text_config=llama vision_config=idefics3_vision"},
    {"inkling2", "text_config=inkling2_text vision_config=inkling2_vision"},
    {"inkling_mm_model", "text_config=inkling_text vision_config=inkling_vision audio_config=inkling_audio"},
    {"instructblip", "text_config=opt vision_config=instructblip_vision_model qformer_config=instructblip_qformer"},
    {"instructblipvideo",
     "text_config=opt vision_config=instructblipvideo_vision_model qformer_config=instructblipvideo_qformer"},
    {"internvl", "text_config=qwen2 vision_config=internvl_vision"},
    {"janus", "text_config=llama vision_config=janus_vision_model vq_config=janus_vqgan"},
    {"jev", "text_config=qwen3_5_text"},
    {"kimi_k25", "text_config=deepseek_v3 vision_config=kimi_k25_vision"},
    {"kosmos-2", "text_config=kosmos_2_text_model vision_config=kosmos_2_vision_model"},
    {"kosmos-2.5", "text_config=kosmos_2_5_text_model vision_config=kosmos_2_5_vision_model"},
    {"kyutai_speech_to_text", "= codec_config=mimi"},
    {"lasr_ctc", "encoder_config=lasr_encoder"},
    {"lfm2_vl", "text_config=lfm2 vision_config=siglip2_vision_model"},
    {"lfm3_vl", "text_config=lfm3 vision_config=lfm3_vl_vision"},
    {"lightglue", "= keypoint_detector_config=superpoint"},
    {"lighton_ocr", "text_config=qwen3 vision_config=pixtral"},
    {"llama4", "text_config=llama4_text vision_config=llama4_vision_model"},
    {"llava", "text_config=llama vision_config=clip_vision_model"},
    {"llava_next", "text_config=llama vision_config=clip_vision_model"},
    {"llava_next_video", "text_config=llama vision_config=clip_vision_model"},
    {"llava_onevision", "text_config=qwen2 vision_config=siglip_vision_model"},
    {"lw_detr", "= backbone_config=lw_detr_vit"},
    {"mask2former", "= backbone_config=swin"},
    {"maskformer", "= backbone_config=swin decoder_config=detr"},
    {"metaclip_2", "text_config=metaclip_2_text_model vision_config=metaclip_2_vision_model"},
    {"minicpm_ocr", "text_config=qwen3_5_text vision_config=minicpm_ocr_vision"},
    {"minicpmv4_6", "text_config=qwen3_5_text vision_config=minicpmv4_6_vision"},
    {"minicpmv4_7", "text_config=qwen3_5_text vision_config=minicpmv4_7_vision"},
    {"minimax_m3_vl", "text_config=minimax_m3_vl_text vision_config=minimax_m3_vl_vision"},
    {"mistral3", "text_config=mistral vision_config=pixtral"},
    {"mistral_large4", "text_config=mistral_large4_text vision_config=pixtral"},
    {"mllama", "text_config=mllama_text_model vision_config=mllama_vision_model"},
    {"mm-grounding-dino", "= text_config=bert backbone_config=swin"},
    {"modernvbert", "text_config=modernbert vision_config=siglip_vision_model"},
    {"molmo2", "text_config=molmo2_text vision_config=molmo2_vision adapter_config=molmo2_adapter"},
    {"moonshine_streaming", "= encoder_config=moonshine_streaming_encoder"},
    {"moshi", "= audio_encoder_config=mimi depth_decoder_config=moshi_depth"},
    {"moss_transcribe_diarize", "text_config=qwen3 audio_config=moss_transcribe_diarize_audio"},
    {"muse_glimmer", "text_config=muse_glimmer_text vision_config=muse_glimmer_vision"},
    {"muse_spark", "text_config=muse_spark_text vision_config=muse_spark_vision audio_config=muse_spark_audio"},
    {"musicflamingo", "text_config=qwen2 audio_config=audioflamingo3_encoder"},
    {"musicgen", "decoder=musicgen_decoder text_encoder=t5 audio_encoder=encodec"},
    {"musicgen_melody", "decoder=musicgen_melody_decoder text_encoder=t5 audio_encoder=encodec"},
    {"nemo_speechlm",
     "text_config=nemotron_h audio_config=nemotron3_5_transcribe_audio "
     "word_timestamp_config=nemotron3_5_transcribe_word_timestamp"},
    {"nemotron3_5_asr", "encoder_config=nemotron_asr_streaming_encoder"},
    {"nemotron3_5_transcribe_audio",
     "asr_config=nemotron3_5_transcribe_asr_audio diarization_config=nemotron3_diarization"},
    {"nemotron3_diarization", "audio_config=nemotron3_diarization_audio"},
    {"nemotron_asr_streaming", "encoder_config=nemotron_asr_streaming_encoder"},
    {"nemotron_h_omni", "text_config=nemotron_h vision_config=radio audio_config="},
    {"neucodec", "= semantic_model_config=wav2vec2-bert"},
    {"nougat", "decoder=mbart encoder=donut-swin"},
    {"omdet-turbo", "= text_config=clip_text_model backbone_config=timm_backbone"},
    {"oneformer", "= backbone_config=swin"},
    {"ovis2", "text_config=qwen2 vision_config=ovis2_vision"},
    {"owlv2", "text_config=owlv2_text_model vision_config=owlv2_vision_model"},
    {"owlvit", "text_config=owlvit_text_model vision_config=owlvit_vision_model"},
    {"paddleocr_vl", "text_config=paddleocr_vl_text vision_config=paddleocr_vl_vision"},
    {"paligemma", "text_config=gemma vision_config=siglip_vision_model"},
    {"parakeet_ctc", "encoder_config=parakeet_encoder"},
    {"parakeet_rnnt", "encoder_config=parakeet_encoder"},
    {"pe_audio", "text_config=modernbert audio_config=pe_audio_encoder"},
    {"pe_audio_encoder", "= dac_config=dac"},
    {"pe_audio_video", "text_config=modernbert audio_video_config=pe_audio_video_encoder"},
    {"pe_audio_video_encoder", "= audio_config=pe_audio_encoder video_config=pe_video_encoder"},
    {"pe_video", "text_config=modernbert video_config=pe_video_encoder"},
    {"pe_video_encoder", "= vision_config=timm_wrapper"},
    {"perception_lm", "text_config=llama vision_config=timm_wrapper"},
    {"phi4_multimodal", "= vision_config=phi4_multimodal_vision audio_config=phi4_multimodal_audio"},
    {"pi0", "vlm_config=paligemma dit_config=gemma"},
    {"pix2struct", "text_config=pix2struct_text_model vision_config=pix2struct_vision_model"},
    {"pp_chart2table", "text_config=qwen2 vision_config=pp_chart2table_vision"},
    {"pp_doclayout_v2", "= backbone_config=hgnet_v2"},
    {"pp_doclayout_v3", "= backbone_config=hgnet_v2"},
    {"pp_doclayout_v4", "= backbone_config=hgnet_v2"},
    {"pp_formulanet", "text_config=pp_formulanet_text vision_config=pp_formulanet_vision"},
    {"pp_ocrv5_mobile_det", "backbone_config=pp_lcnet_v3"},
    {"pp_ocrv5_mobile_rec", "backbone_config=pp_lcnet_v3"},
    {"pp_ocrv5_server_det", "backbone_config=hgnet_v2"},
    {"pp_ocrv5_server_rec", "backbone_config=hgnet_v2"},
    {"pp_ocrv6_medium_det", "backbone_config=pp_lcnet_v4"},
    {"pp_ocrv6_small_det", "backbone_config=pp_lcnet_v4"},
    {"pp_ocrv6_small_rec", "backbone_config=pp_lcnet_v4"},
    {"pp_ocrv6_tiny_rec", "backbone_config=pp_lcnet_v4"},
    {"prompt_depth_anything", "backbone_config=dinov2"},
    {"qianfan_ocr", "text_config=qwen3 vision_config=qianfan_ocr_vision"},
    {"qwen2_5_omni",
     "thinker_config=qwen2_5_omni_thinker talker_config=qwen2_5_omni_talker "
     "token2wav_config=qwen2_5_omni_token2wav"},
    {"qwen2_5_omni_thinker",
     "text_config=qwen2_5_omni_text vision_config=qwen2_5_omni_vision_encoder "
     "audio_config=qwen2_5_omni_audio_encoder"},
    {"qwen2_5_omni_token2wav", "dit_config=qwen2_5_omni_dit bigvgan_config=qwen2_5_omni_bigvgan"},
    {"qwen2_5_vl", "text_config=qwen2_5_vl_text vision_config=qwen2_5_vl_vision"},
    {"qwen2_audio", "text_config=qwen2 audio_config=qwen2_audio_encoder"},
    {"qwen2_vl", "text_config=qwen2_vl_text vision_config=qwen2_vl_vision"},
    {"qwen3_5", "text_config=qwen3_5_text vision_config=qwen3_5_vision"},
    {"qwen3_5_moe", "text_config=qwen3_5_moe_text vision_config=qwen3_5_moe_vision"},
    {"qwen3_asr", "text_config=qwen3 audio_config=qwen3_asr_encoder"},
    {"qwen3_omni_moe",
     "thinker_config=qwen3_omni_moe_thinker talker_config=qwen3_omni_moe_talker "
     "code2wav_config=qwen3_omni_moe_code2wav"},
    {"qwen3_omni_moe_talker",
     "text_config=qwen3_omni_moe_talker_text code_predictor_config=qwen3_omni_moe_talker_code_predictor"},
    {"qwen3_omni_moe_thinker",
     "text_config=qwen3_omni_moe_text vision_config=qwen3_omni_moe_vision_encoder "
     "audio_config=qwen3_omni_moe_audio_encoder"},
    {"qwen3_vl", "text_config=qwen3_vl_text vision_config=qwen3_vl_vision"},
    {"qwen3_vl_moe", "text_config=qwen3_vl_moe_text vision_config=qwen3_vl_moe_vision"},
    {"qwen4_exp", "text_config=qwen4_exp_text vision_config=qwen4_exp_vision"},
    {"rag", "generator=bart question_encoder=dpr"},
    {"rf_detr", "= backbone_config=rf_detr_dinov2"},
    {"rt_detr", "= backbone_config=rt_detr_resnet"},
    {"rt_detr_v2", "= backbone_config=rt_detr_resnet"},
    {"sam",
     "vision_config=sam_vision_model prompt_encoder_config=sam_prompt_encoder "
     "mask_decoder_config=sam_mask_decoder"},
    {"sam2",
     "vision_config=sam2_vision_model prompt_encoder_config=sam2_prompt_encoder "
     "mask_decoder_config=sam2_mask_decoder"},
    {"sam2_video",
     "= vision_config=sam2_vision_model prompt_encoder_config=sam2_video_prompt_encoder "
     "mask_decoder_config=sam2_video_mask_decoder"},
    {"sam2_vision_model", "backbone_config=sam2_hiera_det_model"},
    {"sam3",
     "text_config=clip_text_model vision_config=sam3_vision_model geometry_encoder_config=sam3_geometry_encoder "
     "detr_encoder_config=sam3_detr_encoder detr_decoder_config=sam3_detr_decoder "
     "mask_decoder_config=sam3_mask_decoder"},
    {"sam3_lite_text",
     "text_config=sam3_lite_text_text_model vision_config=sam3_vision_model "
     "geometry_encoder_config=sam3_lite_text_geometry_encoder detr_encoder_config=sam3_lite_text_detr_encoder "
     "detr_decoder_config=sam3_lite_text_detr_decoder mask_decoder_config=sam3_lite_text_mask_decoder"},
    {"sam3_tracker",
     "vision_config=sam3_vision_model prompt_encoder_config=sam3_tracker_prompt_encoder "
     "mask_decoder_config=sam3_tracker_mask_decoder"},
    {"sam3_tracker_video",
     "= vision_config=sam3_vision_model prompt_encoder_config=sam3_tracker_video_prompt_encoder "
     "mask_decoder_config=sam3_tracker_video_mask_decoder"},
    {"sam3_video", "detector_config=sam3 tracker_config=sam3_tracker_video"},
    {"sam3_vision_model", "backbone_config=sam3_vit_model"},
    {"sam_hq",
     "vision_config=sam_hq_vision_model prompt_encoder_config=sam_hq_prompt_encoder "
     "mask_decoder_config=sam_hq_mask_decoder"},
    {"sapiens2", "= head_config=sapiens2_head"},
    {"shieldgemma2", "text_config=gemma3_text vision_config=siglip_vision_model"},
    {"siglip", "text_config=siglip_text_model vision_config=siglip_vision_model"},
    {"siglip2", "text_config=siglip2_text_model vision_config=siglip2_vision_model"},
    {"slanet", "= backbone_config=pp_lcnet"},
    {"slanext", "vision_config=slanext_vision"},
    {"smolvlm", "text_config=llama vision_config=smolvlm_vision"},
    {"speech-encoder-decoder", "decoder=bert encoder=wav2vec2"},
    {"step3p7", "text_config=step3p5 vision_config=step3p5_vision"},
    {"superglue", "= keypoint_detector_config=superpoint"},
    {"t5gemma", "decoder=t5_gemma_module encoder=t5_gemma_module"},
    {"t5gemma2", "decoder=t5gemma2_decoder encoder=t5gemma2_encoder"},
    {"t5gemma2_encoder", "text_config=t5gemma2_text vision_config=siglip_vision_model"},
    {"table-transformer", "= backbone_config=timm_backbone"},
    {"tipsv2", "text_config=tipsv2_text_model vision_config=tipsv2_vision_model"},
    {"tipsv2_dpt", "backbone_config=tipsv2_vision_model"},
    {"tvp", "= backbone_config=resnet"},
    {"ultravbert", "text_config=ultrabert vision_config=siglip_vision_model"},
    {"unlimited_ocr", "text_config=unlimited_ocr_text vision_config=unlimited_ocr_vision"},
    {"unlimited_ocr_vision", "sam_config=unlimited_ocr_sam_vision_model encoder_config=unlimited_ocr_vision_encoder"},
    {"upernet", "backbone_config=resnet"},
    {"uvdoc", "backbone_config=uvdoc_backbone"},
    {"vibevoice",
     "text_config=qwen2 diffusion_head_config=vibevoice_diffusion "
     "semantic_model_config=vibevoice_acoustic_tokenizer_encoder audio_config=vibevoice_acoustic_tokenizer"},
    {"vibevoice_asr",
     "text_config=qwen2 semantic_tokenizer_encoder_config=vibevoice_acoustic_tokenizer_encoder "
     "acoustic_tokenizer_encoder_config=vibevoice_acoustic_tokenizer_encoder"},
    {"video_llama_3", "text_config=qwen2 vision_config=video_llama_3_vision"},
    {"video_llava", "text_config=llama vision_config=clip_vision_model"},
    {"videoprism", "text_config=videoprism_text_model vision_config=videoprism_vision_model"},
    {"vipllava", "text_config=llama vision_config=clip_vision_model"},
    {"vision-encoder-decoder", "decoder=bert encoder=vit"},
    {"vision-text-dual-encoder", "text_config=bert vision_config=vit"},
    {"vitmatte", "backbone_config=vitdet"},
    {"vitpose", "backbone_config=vitpose_backbone"},
    {"voxtral", "text_config=llama audio_config=voxtral_encoder"},
    {"voxtral_realtime", "text_config=voxtral_realtime_text audio_config=voxtral_realtime_encoder"},
    {"xclip", "text_config=xclip_text_model vision_config=xclip_vision_model"},
    {"xcodec", "acoustic_model_config=dac semantic_model_config=hubert"},
    {"xcodec2", "= semantic_model_config=wav2vec2-bert"},
    {"zoedepth", "backbone_config=beit"},
    {"parakeet_tdt", "encoder_config=parakeet_encoder"},
};
// clang-format on

}  // namespace

std::vector<CompositePart> composite_parts(std::string_view model_type) {
  const auto* row = std::find_if(std::begin(composites), std::end(composites),
                                 [&](const Composite& one) { return one.model_type == model_type; });
  std::vector<CompositePart> parts;
  if (row == std::end(composites)) return parts;
  for (std::string_view rest = row->parts; !rest.empty();) {
    const std::string_view word = rest.substr(0, rest.find(' '));
    rest.remove_prefix(std::min(rest.size(), word.size() + 1));
    const std::size_t equals = word.find('=');
    parts.push_back({row->model_type, word.substr(0, equals), word.substr(equals + 1)});
  }
  return parts;
}

void read_between(const json::Object& file, Model& model) {
  if (file.text("model_type").value_or("") != "musicflamingo") return;
  const char* why =
      "rows of sound turn in front of the language model, halves of the first part of their width: by the number of "
      "their window and their place in it, both times the time in seconds";
  model.inputs.push_back({.encoding = OtherEncoding{"rope", why}});
  file.warn("model_type", std::string("its numbers are not read: ") + why, json::Weight::grave);
}

}  // namespace bearing::hf
