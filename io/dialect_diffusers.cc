#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "dialects.hpp"
#include "hf_reader.hpp"
#include "lasting.hpp"

// Transformers of diffusion models, as diffusers writes their files: _class_name says which code reads them. A token
// is a patch of a picture or a video, and its position has an axis for each coordinate. Facts: transformer_*.py of
// diffusers 0.42.1. What the positions are is made by picture_positions().

namespace bearing::dialects {
namespace {

using hf::plain_size;
using json::Object;

struct Family;
using Reader = LayerEncoding (*)(const Object& file, const Family& family, Index head_dim);

struct Family {
  std::string_view name;
  Index heads, head_dim;
  std::vector<std::pair<const char*, Index>> layers;  ///< keys that count layers, and the class' defaults
  const char* positions;
  Reader encoding;
  const char* width = nullptr;  ///< the key of all heads' dimensions, in files that do not give those of one
};

/// Each axis has a run of frequencies of its own; neighbours turn together.
Rope axial(std::vector<Index> dims, double base) {
  const Index whole = std::accumulate(dims.begin(), dims.end(), Index{0});
  for (Index& dim : dims) dim /= 2;
  return {.head_dim = whole,
          .rotary_dim = whole,
          .base = base,
          .pairing = Pairing::interleaved,
          .axes = RopeAxes::axial(std::move(dims))};
}

double base_of(const Object& file, double usual) { return file.number("rope_theta", hf::base_range).value_or(usual); }

/// Dimensions of each axis as the file has them; they fill a head.
LayerEncoding listed(const Object& file, std::string_view key, const std::vector<Index>& usual, Index head_dim,
                     double base) {
  std::vector<Index> dims = file.integers(key, 4, 2, hf::most_head_dim).value_or(usual);
  const bool even = std::all_of(dims.begin(), dims.end(), [](Index dim) { return dim % 2 == 0; });
  if (!even || dims.size() != usual.size() || std::accumulate(dims.begin(), dims.end(), Index{0}) != head_dim) {
    const std::string wanted = "must be " + std::to_string(usual.size()) + " even numbers that add up to the head's " +
                               std::to_string(head_dim) + " dimensions";
    file.notes().fail(file.pointer(key), wanted + (file.has(key) ? ", got others" : ", got the class' own"));
  }
  return axial(std::move(dims), base);
}

LayerEncoding flux(const Object& file, const Family&, Index head_dim) {
  return listed(file, "axes_dims_rope", {16, 56, 56}, head_dim, 10'000);
}

LayerEncoding bria(const Object& file, const Family&, Index head_dim) {
  return listed(file, "axes_dims_rope", {16, 56, 56}, head_dim, base_of(file, 10'000));
}

LayerEncoding flux2(const Object& file, const Family&, Index head_dim) {
  return listed(file, "axes_dims_rope", {32, 32, 32, 32}, head_dim, base_of(file, 2000));
}

LayerEncoding z_image(const Object& file, const Family&, Index head_dim) {
  return listed(file, "axes_dims", {32, 48, 48}, head_dim, base_of(file, 256));
}

LayerEncoding hunyuan_video(const Object& file, const Family&, Index head_dim) {
  return listed(file, "rope_axes_dim", {16, 56, 56}, head_dim, base_of(file, 256));
}

/// Two axes; three in a file that says so.
LayerEncoding hunyuan_image(const Object& file, const Family&, Index head_dim) {
  const auto given = file.integers("rope_axes_dim", 4, 2, hf::most_head_dim);
  const std::vector<Index> usual =
      given && given->size() == 3 ? std::vector<Index>{16, 56, 56} : std::vector<Index>{64, 64};
  return listed(file, "rope_axes_dim", usual, head_dim, base_of(file, 256));
}

LayerEncoding lumina2(const Object& file, const Family&, Index head_dim) {
  return listed(file, "axes_dim_rope", {32, 32, 32}, head_dim, 10'000);
}

LayerEncoding kandinsky5(const Object& file, const Family&, Index head_dim) {
  return listed(file, "axes_dims", {16, 24, 24}, head_dim, 10'000);
}

/// The axes turn a head, or the first half of it. The class' own two axes do not serve its three coordinates.
LayerEncoding hidream(const Object& file, const Family&, Index head_dim) {
  const std::vector<Index> dims =
      file.integers("axes_dims_rope", 4, 2, hf::most_head_dim).value_or(std::vector<Index>{});
  const Index whole = std::accumulate(dims.begin(), dims.end(), Index{0});
  const bool even = std::all_of(dims.begin(), dims.end(), [](Index dim) { return dim % 2 == 0; });
  if (dims.size() != 3 || !even || (whole != head_dim && 2 * whole != head_dim)) {
    file.notes().fail(file.pointer("axes_dims_rope"), "must be 3 even numbers that add up to the head's " +
                                                          std::to_string(head_dim) + " dimensions or to half of them" +
                                                          (dims.empty() ? ", got none" : ", got others"));
  }
  Rope rope = axial(dims, 10'000);
  rope.head_dim = head_dim;
  return rope;
}

[[noreturn]] void wrong_head(const Object& file, const std::string& wanted, Index head_dim) {
  file.notes().fail(file.pointer("attention_head_dim"), "must be " + wanted + ", got " + std::to_string(head_dim));
}

LayerEncoding wan(const Object& file, const Family&, Index head_dim) {
  const Index side = head_dim / 6 * 2;
  if (side < 2 || head_dim % 2 != 0) wrong_head(file, "an even number of at least 6", head_dim);
  return axial({head_dim - 2 * side, side, side}, 10'000);
}

LayerEncoding cogvideox(const Object& file, const Family&, Index head_dim) {
  if (head_dim % 16 != 0) wrong_head(file, "a multiple of 16", head_dim);
  return axial({head_dim / 4, head_dim / 8 * 3, head_dim / 8 * 3}, 10'000);
}

/// Halves turn together.
LayerEncoding cogview4(const Object& file, const Family&, Index head_dim) {
  if (head_dim % 4 != 0) wrong_head(file, "a multiple of 4", head_dim);
  Rope rope = axial({head_dim / 2, head_dim / 2}, 10'000);
  rope.pairing = Pairing::half;
  return rope;
}

/// Columns come first.
LayerEncoding hunyuan_dit(const Object& file, const Family&, Index head_dim) {
  if (head_dim % 4 != 0) wrong_head(file, "a multiple of 4", head_dim);
  return axial({head_dim / 2, head_dim / 2}, 10'000);
}

/// Halves turn together within each axis' third of a head.
LayerEncoding allegro(const Object& file, const Family&, Index head_dim) {
  if (head_dim % 6 != 0) wrong_head(file, "a multiple of 6", head_dim);
  Rope rope = axial({head_dim / 3, head_dim / 3, head_dim / 3}, 10'000);
  rope.pairing = Pairing::half;
  rope.axes.halves = RopeAxes::Halves::axis;
  return rope;
}

LayerEncoding mochi(const Object&, const Family&, Index) {
  return OtherEncoding{"rope_mixed", "each head has learned frequencies of its own on each axis, in pos_frequencies"};
}

/// What is added to the patches alone tells where they stand.
LayerEncoding nothing(const Object&, const Family&, Index) { return NoPosition{}; }

/// Halves turn together, and each axis has a factor of NTK's kind: frames are stretched, rows and columns in some.
LayerEncoding cosmos(const Object& file, const Family&, Index head_dim) {
  const Index side = head_dim / 6 * 2, frames = head_dim - 2 * side;
  if (side < 4 || head_dim % 2 != 0) wrong_head(file, "an even number of at least 12", head_dim);
  Rope rope = axial({frames, side, side}, 10'000);
  rope.pairing = Pairing::half;
  rope.axes.ntk_factors = file.numbers("rope_scale", 3, {1e-3, 1e6}).value_or(std::vector<double>{2, 1, 1});
  if (rope.axes.ntk_factors.size() != 3) file.wrong("rope_scale", "3 numbers: of frames, rows and columns");
  return rope;
}

/// One run of frequencies for all heads together, shared by the axes, which take its pairs in turn. What is left over
/// stands before them and does not turn.
LayerEncoding ltx(const Object& file, const Family& family, Index head_dim) {
  const Index heads = file.integer("num_attention_heads", 1, hf::most_heads).value_or(family.heads);
  const Index whole = heads * head_dim, count = whole / 6;
  if (whole % 2 != 0 || count < 1 || whole > hf::most_head_dim) {
    wrong_head(file, "such that all heads together have an even number of dimensions from 6 to 65536", head_dim);
  }
  ExplicitFrequencies frequencies;
  for (Index i = 0; i < count; ++i) {
    const double exponent = count == 1 ? 0 : static_cast<double>(i) / static_cast<double>(count - 1);
    // A quarter turn for half of the axis; positions are times 4, so that the fastest pair stays below 2^13 radians.
    const double theta = std::pow(10'000, exponent) * std::numbers::pi / 8;
    frequencies.inv_freq.insert(frequencies.inv_freq.end(), 3, theta);
  }
  return Rope{.head_dim = whole,
              .rotary_dim = 6 * count,
              .pairing = Pairing::interleaved,
              .scaling = std::move(frequencies),
              .part = RotaryPart::last(),
              .axes = RopeAxes::interleaved({count, count, count})};
}

constexpr const char* still_text = "frame, row and column of the patch, from 0; text does not turn";
constexpr const char* in_video = "frame, row and column of the patch, from 0";
constexpr const char* flux_text = "picture, row and column of the patch, from 0; text is at 0, 0, 0";
constexpr const char* resized =
    "frame, row and column of the patch, the rows and columns resized to those of training; text does not turn";

// clang-format off
const auto& families = lasting(std::vector<Family>{
    {"FluxTransformer2DModel", 24, 128, {{"num_layers", 19}, {"num_single_layers", 38}}, flux_text, flux},
    {"Flux2Transformer2DModel", 48, 128, {{"num_layers", 8}, {"num_single_layers", 48}},
     "picture, row, column and place in the text: a patch is at 0, row, column, 0, a word at 0, 0, 0, place, and "
     "reference pictures are at 10, 20, …", flux2},
    {"ChromaTransformer2DModel", 24, 128, {{"num_layers", 19}, {"num_single_layers", 38}}, flux_text, flux},
    {"BriaTransformer2DModel", 24, 128, {{"num_layers", 19}, {"num_single_layers", 38}}, flux_text, bria},
    {"OvisImageTransformer2DModel", 24, 128, {{"num_layers", 6}, {"num_single_layers", 27}},
     "0, row and column of the patch, from 0; word i is at 0, i, i", flux},
    {"LongCatImageTransformer2DModel", 24, 128, {{"num_layers", 19}, {"num_single_layers", 38}},
     "1, row and column of the patch, from 512, the longest prompt; word i is at 0, i, i", flux},
    {"ZImageTransformer2DModel", 30, 128, {{"n_refiner_layers", 2}, {"n_refiner_layers", 2}, {"n_layers", 30}},
     "place, row and column: text is at 1, 2, … on the first axis, filled up to a multiple of 32 places, and the "
     "picture stands after it", z_image, "dim"},
    {"Lumina2Transformer2DModel", 24, 96, {{"num_refiner_layers", 2}, {"num_refiner_layers", 2}, {"num_layers", 26}},
     "place, row and column: text is at 0, 1, … on the first axis, and the picture stands after it", lumina2,
     "hidden_size"},
    {"HunyuanVideoTransformer3DModel", 24, 128, {{"num_layers", 20}, {"num_single_layers", 40}}, still_text,
     hunyuan_video},
    {"HunyuanVideo15Transformer3DModel", 16, 128, {{"num_layers", 54}}, still_text, hunyuan_video},
    {"HunyuanVideoFramepackTransformer3DModel", 24, 128, {{"num_layers", 20}, {"num_single_layers", 40}},
     "frame, row and column of the patch: frames as the call numbers them, and those of the past, which stand before, "
     "in patches of 1, 2 or 4 times the size; text does not turn", hunyuan_video},
    {"HunyuanImageTransformer2DModel", 28, 128, {{"num_layers", 20}, {"num_single_layers", 40}},
     "row and column of the patch, from 0, after the frame where there are three axes; text does not turn",
     hunyuan_image},
    {"HunyuanDiT2DModel", 16, 88, {{"num_layers", 28}},
     "column and row of the patch, resized to those of 512 times 512 pixels", hunyuan_dit},
    {"WanTransformer3DModel", 40, 128, {{"num_layers", 40}}, in_video, wan},
    {"WanVACETransformer3DModel", 40, 128, {{"num_layers", 40}}, in_video, wan},
    {"WanAnimateTransformer3DModel", 40, 128, {{"num_layers", 40}}, in_video, wan},
    {"SkyReelsV2Transformer3DModel", 16, 128, {{"num_layers", 32}}, in_video, wan},
    {"ChronoEditTransformer3DModel", 40, 128, {{"num_layers", 40}},
     "frame, row and column of the patch, from 0; of two frames the second is at rope_temporal_skip_len - 1", wan},
    {"CogVideoXTransformer3DModel", 30, 64, {{"num_layers", 30}}, resized, cogvideox},
    {"ConsisIDTransformer3DModel", 30, 64, {{"num_layers", 30}}, resized, cogvideox},
    {"CogView4Transformer2DModel", 64, 40, {{"num_layers", 30}},
     "row and column of the patch as whole places among rope_axes_dim, whatever the picture's size; text does not turn",
     cogview4},
    {"QwenImageTransformer2DModel", 24, 128, {{"num_layers", 60}},
     "picture, row and column from the picture's middle; text goes on after the largest on every axis", flux},
    {"QwenImage21Transformer2DModel", 32, 128, {{"num_layers", 32}},
     "place, row and column from the picture's middle: text is at its place on every axis, and a picture at the place "
     "after the text before it; it takes as many places as its longer side", flux},
    {"HiDreamImageTransformer2DModel", 20, 128, {{"num_layers", 16}, {"num_single_layers", 32}},
     "0, row and column of the patch, from 0; text is at 0, 0, 0", hidream},
    {"Kandinsky5Transformer3DModel", 32, 64, {{"num_visual_blocks", 32}},
     "frame, row and column of the patch, from 0, over the scale_factor of the call; text turns by its place in blocks "
     "of its own, and not among patches", kandinsky5, "model_dim"},
    {"AllegroTransformer3DModel", 24, 96, {{"num_layers", 32}},
     "frame, row and column of the patch, from 0, over interpolation_scale_t, _h and _w", allegro},
    {"LTXVideoTransformer3DModel", 32, 64, {{"num_layers", 28}},
     "4 (2 c - 1) for the coordinates c of frame, row and column, each over what training had", ltx},
    {"MochiTransformer3DModel", 24, 128, {{"num_layers", 48}},
     "frame, row and column from the middle, scaled to an area of 192 times 192; text does not turn", mochi},
    {"CosmosTransformer3DModel", 32, 128, {{"num_layers", 28}},
     "frame times 24 over the frames per second, row and column of the patch, from 0", cosmos},
    {"SD3Transformer2DModel", 18, 64, {{"num_layers", 18}},
     "row and column in a square of pos_embed_max_size, whose middle the picture takes, times sample_size / patch_size "
     "over pos_embed_max_size", nothing},
    {"PixArtTransformer2DModel", 16, 72, {{"num_layers", 28}},
     "row and column of the patch, from 0, times sample_size / patch_size over the picture's own side, over "
     "interpolation_scale", nothing},
    {"AuraFlowTransformer2DModel", 12, 256, {{"num_mmdit_layers", 4}, {"num_single_dit_layers", 32}},
     "index in the table's own grid, whose middle the picture takes", nothing},
});
// clang-format on

const Family& family_of(const Object& file, const std::string& name) {
  for (const Family& family : families) {
    if (family.name == name) return family;
  }
  std::string all;
  for (const Family& family : families) all += (all.empty() ? "" : ", ") + std::string(family.name);
  file.wrong("_class_name", "a transformer whose positions are known (" + all + ")");
}

/// What is added to the patches beside the rotation, or in its place.
void add_inputs(const Object& file, const Family& family, Model& model) {
  const auto add = [&](InputSpec encoding) {
    model.inputs.push_back({.encoding = std::move(encoding), .positions = family.positions});
  };
  const Index width = model.heads * model.head_dim;
  if (family.name.starts_with("Cosmos") && file.text("extra_pos_embed_type").value_or("") == "learnable") {
    add(OtherEncoding{"learned", "three tables, of frames, rows and columns, are added and their sum is normalised"});
  }
  if (family.name.starts_with("SD3") || family.name.starts_with("PixArt")) {
    if (width % 4 != 0) wrong_head(file, "such that all heads have a multiple of 4 dimensions", model.head_dim);
    add(Sinusoidal2d::mae(width));
  }
  if (family.name.starts_with("AuraFlow")) {
    add(Learned{.length = plain_size(file, {"pos_embed_max_size"}, 1024, hf::most_positions), .dim = width});
  }
  if (family.encoding != cogvideox || file.flag("use_rotary_positional_embeddings").value_or(false)) return;
  for (Layer& layer : model.layers) layer.encoding = NoPosition{};
  add(OtherEncoding{"sinusoidal", "sines of the frame and of row and column stand beside each other"});
}

/// Heads, and a head's dimensions: given, or, where the file gives the width of all heads, its share.
void read_heads(const Object& file, const Family& family, Model& model) {
  if (family.encoding == kandinsky5) {  // the axes fill a head, and heads the width
    const auto dims = file.integers("axes_dims", 4, 2, hf::most_head_dim).value_or(std::vector<Index>{16, 24, 24});
    model.head_dim = std::accumulate(dims.begin(), dims.end(), Index{0});
    const Index all = plain_size(file, {family.width}, family.heads * family.head_dim);
    if (model.head_dim < 2 || all % model.head_dim != 0) {
      file.wrong("model_dim", "a multiple of the sum of axes_dims, " + std::to_string(model.head_dim));
    }
    model.heads = model.kv_heads = all / model.head_dim;
    return;
  }
  const char* key = family.encoding == z_image ? "n_heads" : "num_attention_heads";
  model.heads = plain_size(file, {key}, family.heads, hf::most_heads);
  model.kv_heads = model.heads;
  if (family.encoding == lumina2) model.kv_heads = plain_size(file, {"num_kv_heads"}, 8, hf::most_heads);
  if (model.heads % model.kv_heads != 0) file.wrong("num_kv_heads", "a divisor of num_attention_heads");
  if (family.width == nullptr) {
    model.head_dim = plain_size(file, {"attention_head_dim"}, family.head_dim, hf::most_head_dim);
    return;
  }
  const Index all = plain_size(file, {family.width}, model.heads * family.head_dim);
  if (all % model.heads != 0)
    file.wrong(family.width, "a multiple of " + std::string(key) + " = " + std::to_string(model.heads));
  model.head_dim = all / model.heads;
}

}  // namespace

bool read_diffusers(const Object& file, Model& model) {
  if (!file.has("_class_name")) return false;
  const std::string name = *file.text("_class_name", json::longest_word);
  const Family& family = family_of(file, name);
  if (file.flag("use_layer3d_rope").value_or(false)) {
    file.wrong("use_layer3d_rope", "false: the positions of layered pictures are not known");
  }
  model.model_type = name;
  read_heads(file, family, model);
  Layer layer{.encoding = family.encoding(file, family, model.head_dim)};
  layer.positions = family.positions;
  Index layers = 0;
  for (const auto& [key, usual] : family.layers) {
    const auto given = file.integer(key, 0, hf::most_layers);
    layers += given ? *given : plain_size(file, {key}, usual, hf::most_layers);
  }
  const auto* rope = std::get_if<Rope>(&layer.encoding);
  const auto* given = rope == nullptr ? nullptr : std::get_if<ExplicitFrequencies>(&rope->scaling);
  const Index numbers = given == nullptr ? 0 : static_cast<Index>(given->inv_freq.size());
  if (layers < 1 || layers > hf::most_layers || layers * numbers > hf::most_copied_numbers) {
    file.notes().fail(file.pointer(family.layers.back().first),
                      "must make from 1 to " + std::to_string(hf::most_layers) +
                          " layers, and not above 1048576 frequencies in all of them");
  }
  model.layers.assign(static_cast<std::size_t>(layers), layer);
  if (family.encoding == ltx) {
    file.warn("num_attention_heads", "queries and keys turn before they are split into heads: as one head of " +
                                         std::to_string(rope->head_dim) + " dimensions");
  }
  add_inputs(file, family, model);
  return true;
}

}  // namespace bearing::dialects
