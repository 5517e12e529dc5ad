#include "hf_named.hpp"

#include <algorithm>
#include <iterator>

namespace bearing::hf {
namespace {

constexpr const char* convolution =
    "a grouped convolution over neighbouring frames gives the position: it is a layer of the model, and no encoding of "
    "positions";
constexpr const char* attention_added =
    "sinusoids of rows and columns are added to queries and keys of every layer, not to the input";
constexpr const char* chunks =
    "queries meet projected sinusoids of their distance inside chunks of frames with a context to either side";
constexpr const char* fourier_prompts =
    "points and boxes enter as sines and cosines of their coordinates times random frequencies, which are in the "
    "weights";
constexpr const char* fourier_added =
    "the prompt encoder's Fourier features of the patches are added to queries and keys of every layer";
constexpr const char* boxes_in_attention =
    "sinusoids of boxes and points are added to queries, and boxes give a bias of the scores";
constexpr const char* box_centres =
    "sinusoids of a box's centre, projected with its sizes, join the tokens of boxes and points";
constexpr const char* jointly =
    "one rotation by row and column runs over all heads together, so that each head turns by frequencies of its own";
constexpr const char* key_points = "coordinates and scores of key points go through a network and join the input";
constexpr const char* timm = "the architecture is timm's: its arguments say what the positions are";
constexpr const char* hiera = "a small table is resized to the whole map, and a second one is repeated in every window";
constexpr const char* overlapping = "the table has a row per patch of the spectrogram, and patches overlap";
constexpr const char* levit =
    "a learned number per head for each pair of absolute offsets, keys and queries on different grids";
constexpr const char* values_too =
    "halves of the first dimensions turn, at least 32, with base 10000: queries, keys and values alike, and what "
    "values "
    "add up to is not turned back";
constexpr const char* first_head = "neighbours turn with base 10000 in the first head alone, and no other head turns";
constexpr const char* stages = "each stage has a learned table of its own";

// clang-format off
constexpr Named named_rows[] = {
    // Speech
    {"wav2vec2", "convolution", convolution},
    {"hubert", "convolution", convolution},
    {"data2vec-audio", "convolution", convolution},
    {"sew", "convolution", convolution},
    {"omniasr_audio", "convolution", convolution},
    {"unispeech", "convolution", convolution},
    {"unispeech-sat", "convolution", convolution},
    {"sew-d", "deberta", "a convolution over frames comes before DeBERTa's layers, which see every squeeze_factor-th"},
    {"clvp_encoder", "rope", values_too, true},
    {"qwen2_5_omni_dit", "rope", first_head, true},
    {"gemma3n_audio", "transformer_xl", chunks, true},
    {"gemma4_audio", "transformer_xl", chunks, true},
    {"fastspeech2_conformer", "transformer_xl", "its encoder shifts rows of distances as ESPnet's older code does", true},
    {"phi4_multimodal_audio", "t5", "a learned number for each distance, clipped, and no wider buckets", true},
    {"fun_asr_nano_encoder", "sinusoidal", "sinusoids of the stacked features, from position 1"},
    {"audio-spectrogram-transformer", "learned", overlapping},
    // Text and time
    {"bros", "sinusoidal", "sinusoids of the differences between two boxes are projected and meet the query", true},
    {"cpmant", "t5", "buckets depend on the segments of query and key", true},
    {"prophetnet", "t5", "the decoder's buckets are looked up by a projection of each query", true},
    {"funnel", "transformer_xl", "sequences are pooled between blocks, and distances with them"},
    {"reformer", "learned", "two tables, of rows and of columns of axial_pos_shape, which are joined"},
    {"layoutxlm", "t5_axis", "as LayoutLMv2; it has no code of its own"},
    {"decision_transformer", "learned", "the table's rows are time steps of an episode"},
    {"patchtst", "learned", "positional_encoding_type says whether the table is random or made of sinusoids"},
    {"timesfm", "sinusoidal", "positions begin after the padding of each series"},
    {"patchtsmixer", "learned", "only with use_positional_encoding, as a table that is random or made of sinusoids"},
    {"perceiver", "fourier", "the input's preprocessor says which positions are encoded"},
    // Images
    {"pixio", "learned", "n_cls_tokens rows stand before those of the patches"},
    {"vitdet", "learned", "the table has the size of pretrain_image_size; relative tables are optional"},
    {"yolos", "learned", "detection tokens have rows of the table, and middle layers may have tables of their own"},
    {"hiera", "learned", hiera},
    {"videoprism_vision_model", "learned", "a table of patches, of tubelet_size, and one of frames"},
    {"tvp", "learned", "one table for the text, and three for rows, columns and frames"},
    {"seggpt", "sam", "Segment Anything's tables over a prompt above its image, and a learned table of the input"},
    {"lw_detr_vit", "learned", "the table has the size of pretrain_image_size, and is cut into windows"},
    {"rf_detr_dinov2", "learned", "the table is cut into windows, each with a class token"},
    {"vitpose_backbone", "learned", "the class token's row of the table is added to every patch's"},
    {"gemma4_unified_vision", "learned", "a table for columns and rows of patches, of mm_posemb_size"},
    {"dinat", "swin", "a learned number per head for each offset inside a dilated neighbourhood", true},
    {"superglue", "learned", key_points},
    {"esmfold2", "bucket_bias", "numbers of clipped offsets between residues and between chains join the features of pairs, "
                                "which become biases; its atoms are parts of their own"},
    {"esmfold2_diffusion", "dense_bias", "its layers see tokens, whose features of pairs become biases; its atoms are a "
                                         "part of their own"},
    {"lightglue", "rope", "coordinates of key points, projected by learned weights, are the angles"},
    {"vivit", "learned", "the table has a row per tubelet of tubelet_size frames, rows and columns"},
    {"pvt", "learned", stages},
    {"mllama_vision_model", "learned", "a table of patches and one of tiles and their aspect ratio, mixed by a learned "
                                       "gate"},
    {"granite_docling_vision", "learned", "the tower has a table of patches, its connector two of sinusoids"},
    {"sam2_hiera_det_model", "learned", hiera},
    {"swin2sr", "swin_v2", "the table is Swin V2's, for a padded map of any size"},
    {"clap_audio_model", "swin", "the spectrogram is folded into a square of spec_size before it is cut into patches"},
    {"levit", "bucket_bias", levit},
    {"detr", "sinusoidal_2d", attention_added},
    {"conditional_detr", "sinusoidal_2d", attention_added},
    {"dab-detr", "sinusoidal_2d", attention_added},
    {"deformable_detr", "sinusoidal_2d", attention_added},
    {"table-transformer", "sinusoidal_2d", attention_added},
    {"grounding-dino", "sinusoidal_2d", attention_added},
    {"mm-grounding-dino", "sinusoidal_2d", attention_added},
    {"omdet-turbo", "sinusoidal_2d", attention_added},
    {"maskformer", "sinusoidal_2d", attention_added},
    {"mask2former", "sinusoidal_2d", attention_added},
    {"oneformer", "sinusoidal_2d", attention_added},
    {"rt_detr", "sinusoidal_2d", attention_added},
    {"deimv2", "sinusoidal_2d", attention_added},
    {"pp_doclayout_v2", "sinusoidal_2d", attention_added},
    {"pp_doclayout_v3", "sinusoidal_2d", attention_added},
    {"pp_doclayout_v4", "sinusoidal_2d", attention_added},
    {"rt_detr_v2", "sinusoidal_2d", attention_added},
    {"d_fine", "sinusoidal_2d", attention_added},
    {"sam_prompt_encoder", "fourier", fourier_prompts},
    {"sam_hq_prompt_encoder", "fourier", fourier_prompts},
    {"sam2_prompt_encoder", "fourier", fourier_prompts},
    {"sam2_video_prompt_encoder", "fourier", fourier_prompts},
    {"sam3_tracker_prompt_encoder", "fourier", fourier_prompts},
    {"sam3_tracker_video_prompt_encoder", "fourier", fourier_prompts},
    {"edgetam_prompt_encoder", "fourier", fourier_prompts},
    {"edgetam_video_prompt_encoder", "fourier", fourier_prompts},
    {"sam_mask_decoder", "fourier", fourier_added},
    {"sam_hq_mask_decoder", "fourier", fourier_added},
    {"sam2_mask_decoder", "fourier", fourier_added},
    {"sam2_video_mask_decoder", "fourier", fourier_added},
    {"sam3_tracker_mask_decoder", "fourier", fourier_added},
    {"sam3_tracker_video_mask_decoder", "fourier", fourier_added},
    {"edgetam_mask_decoder", "fourier", fourier_added},
    {"edgetam_video_mask_decoder", "fourier", fourier_added},
    {"sam3_detr_encoder", "sinusoidal_2d", attention_added},
    {"sam3_lite_text_detr_encoder", "sinusoidal_2d", attention_added},
    {"lw_detr", "sinusoidal_2d", attention_added},
    {"rf_detr", "sinusoidal_2d", attention_added},
    {"efficientloftr", "rope", jointly},
    {"sam3_geometry_encoder", "sinusoidal_2d", box_centres},
    {"sam3_lite_text_geometry_encoder", "sinusoidal_2d", box_centres},
    {"sam3_detr_decoder", "sinusoidal_2d", boxes_in_attention},
    {"sam3_lite_text_detr_decoder", "sinusoidal_2d", boxes_in_attention},
    {"timm_backbone", "unknown", timm},
    {"timm_wrapper", "unknown", timm},
    {"gemma3n_vision", "unknown", timm},
    // Nothing: recurrence or causal masks tell the order
    {"mamba", "none"},
    {"mamba2", "none"},
    {"falcon_mamba", "none"},
    {"rwkv", "none"},
    {"xlstm", "none"},
    // Nothing: convolutions or pooling over neighbours tell where things are
    {"align_vision_model", "none"},
    {"apertus1p5_vision_tokenizer", "none"},
    {"bit", "none"},
    {"convnext", "none"},
    {"convnextv2", "none"},
    {"cvt", "none"},
    {"dac", "none"},
    {"gemma4_unified_audio", "none"},
    {"inkling_audio", "none"},
    {"inkling_vision", "none"},
    {"moonshine_streaming_encoder", "none"},
    {"muse_spark_audio", "none"},
    {"sapiens2_head", "none"},
    {"slanet", "none"},
    {"neucodec", "none"},  // it turns by the number of the head, the same for query and key: that cancels
    {"xcodec2", "none"},   // as neucodec
    {"vibevoice_diffusion", "none"},  // its sinusoids are of the diffusion's time step
    {"dinov3_convnext", "none"},
    {"efficientnet", "none"},
    {"emu3_vqgan", "none"},
    {"chameleon_vqgan", "none"},
    {"janus_vqgan", "none"},
    {"glm_image_vqmodel", "none"},
    {"encodec", "none"},
    {"fastspeech2_conformer_hifigan", "none"},
    {"flava_image_codebook", "none"},
    {"florence_vision", "none"},
    {"focalnet", "none"},
    {"glpn", "none"},
    {"hgnet_v2", "none"},
    {"mobilenet_v1", "none"},
    {"mobilenet_v2", "none"},
    {"mobilevit", "none"},
    {"mobilevitv2", "none"},
    {"poolformer", "none"},
    {"pp_lcnet", "none"},
    {"pp_lcnet_v3", "none"},
    {"pp_lcnet_v4", "none"},
    {"pvt_v2", "none"},
    {"regnet", "none"},
    {"resnet", "none"},
    {"rt_detr_resnet", "none"},
    {"segformer", "none"},
    {"speecht5_hifigan", "none"},
    {"superpoint", "none"},
    {"swiftformer", "none"},
    {"textnet", "none"},
    {"univnet", "none"},
    {"uvdoc_backbone", "none"},
    {"wavtokenizer", "none"},
    {"wavtokenizer_encoder", "none"},
    {"vibevoice_acoustic_tokenizer", "none"},
    {"vibevoice_acoustic_tokenizer_decoder", "none"},
    {"vibevoice_acoustic_tokenizer_encoder", "none"},
    {"qwen2_5_omni_bigvgan", "none"},
    // Nothing: learned queries read the others' tokens
    {"blip_2_qformer", "none"},
    {"idefics2_perceiver", "none"},
    {"idefics_perciever", "none"},
    {"flava_multimodal_model", "none"},
    {"molmo2_adapter", "none"},
    {"sam3_mask_decoder", "none"},
    {"sam3_lite_text_mask_decoder", "none"},
};
// clang-format on

}  // namespace

std::span<const Named> named_types() { return named_rows; }

const Named* find_named(std::string_view model_type) {
  const auto* row = std::find_if(std::begin(named_rows), std::end(named_rows),
                                 [&](const Named& one) { return one.model_type == model_type; });
  return row == std::end(named_rows) ? nullptr : row;
}

}  // namespace bearing::hf
