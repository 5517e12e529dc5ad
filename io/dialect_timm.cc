#include <algorithm>
#include <numbers>

#include "dialects.hpp"
#include "hf_reader.hpp"

// timm's vision transformers with rotary positions (its class Eva: EVA-02, DINOv3, Perception Encoder, RoPE-ViT). Its
// files keep the class' arguments in model_args; what is not there is the class' default, and the rest of a model's
// arguments stands in timm's code. Facts: models/eva.py and layers/pos_embed_sincos.py of timm 1.0.31.

namespace bearing::dialects {
namespace {

using hf::plain_size;
using json::Object;

constexpr const char* others = "; class and register tokens do not turn";

/// An argument that Python writes as a number or as a pair of them.
std::optional<GridSize> pair_of(const Object& args, std::string_view key) {
  if (!args.has(key)) return {};
  if (!args.find(key)->IsArray()) {
    const Index side = *args.integer(key, 1, hf::most_positions);
    return GridSize{side, side};
  }
  const auto pair = *args.integers(key, 2, 1, hf::most_positions);
  if (pair.size() != 2) args.wrong(key, "one number, or two: of rows and columns");
  return GridSize{pair[0], pair[1]};
}

std::string positions_of(const Object& args, const std::string& type) {
  const bool columns = args.text("rope_grid_indexing").value_or("ij") == "xy";
  const std::string order = columns ? "column and row" : "row and column";
  const double offset = args.number("rope_grid_offset", {-1e6, 1e6}).value_or(0);
  if (type == "dinov3") {
    const std::string moved = offset == 0 ? "" : ", moved by " + json::shortest(offset) + " patches";
    return order + " of the patch's centre" + moved + ", from -1 to 1 across the image, times 2 pi" + others;
  }
  if (type == "mrope") return "0, row and column of the patch, from 0" + std::string(others);
  std::string text = order + " of the patch, from " + json::shortest(offset);
  if (const auto reference = pair_of(args, "ref_feat_shape")) {
    text += ", times " + std::to_string(reference->height) + " and " + std::to_string(reference->width) +
            " over the patches of a column and a row";
  }
  return text + others;
}

/// The axis of each pair: of the pairs 0, 1, 2, … rows take 1, 4, 7, … and columns 2, 5, 8, …, as far as their sections
/// go; a frame, which pictures do not have, takes the rest.
RopeAxes mrope_axes(const Object& args, Index pairs) {
  const auto sections =
      args.integers("rope_mrope_section", 3, 0, hf::most_head_dim).value_or(std::vector<Index>{8, 12, 12});
  if (sections.size() != 3) args.wrong("rope_mrope_section", "three numbers: of frames, rows and columns");
  std::vector<Index> axis(static_cast<std::size_t>(pairs), 0);
  for (Index of = 1; of < 3; ++of) {
    const Index section = sections[static_cast<std::size_t>(of)];
    if (section == 0) args.wrong("rope_mrope_section", "at least 1 for rows and for columns");
    for (Index pair = of; pair < std::min(pairs, 3 * section); pair += 3) axis[static_cast<std::size_t>(pair)] = of;
  }
  return RopeAxes::listed(axis);
}

LayerEncoding encoding_of(const Object& args, const std::string& type, Index head_dim) {
  if (type == "mixed") {
    return OtherEncoding{"rope_mixed", "each head has learned frequencies of its own on each axis, in rope.freqs"};
  }
  const bool mrope = type == "mrope";
  if (type != "cat" && type != "dinov3" && !mrope) args.wrong("rope_type", "cat, mixed, dinov3 or mrope");
  if (head_dim % 4 != 0 && !mrope) args.wrong("embed_dim", "a multiple of 4 times num_heads");
  if (mrope && (head_dim % 2 != 0 || head_dim < 6)) {
    args.wrong("embed_dim", "num_heads times an even number from 6, for pairs of frames, rows and columns");
  }
  const auto base = args.number("rope_temperature", hf::base_range);
  Rope rope{.head_dim = head_dim, .rotary_dim = head_dim, .base = base.value_or(10'000), .pairing = Pairing::half};
  if (mrope) {
    if (args.text("rope_grid_indexing").value_or("ij") != "ij")
      args.wrong("rope_grid_indexing", "ij, as for all mrope");
    rope.axes = mrope_axes(args, head_dim / 2);
    return rope;  // halves, whatever rope_rotate_half says
  }
  if (!args.flag("rope_rotate_half").value_or(false)) rope.pairing = Pairing::interleaved;
  rope.axes = RopeAxes::axial({head_dim / 4, head_dim / 4});
  return rope;
}

/// One number for all layers, or one for each. A model has one number here: the first layer's, where they differ.
Index kv_heads_of(const Object& args, Index heads) {
  const rapidjson::Value* given = args.find("num_kv_heads");
  if (given == nullptr || given->IsNull()) return heads;
  std::vector<Index> each;
  if (given->IsArray()) {
    each = args.integers("num_kv_heads", hf::most_layers, 1, hf::most_heads).value_or(std::vector<Index>{});
  } else {
    each = {plain_size(args, {"num_kv_heads"}, heads, hf::most_heads)};
  }
  for (const Index kv_heads : each) {
    if (heads % kv_heads != 0) args.wrong("num_kv_heads", "a divisor of num_heads = " + std::to_string(heads));
  }
  if (each.empty()) return heads;
  if (std::any_of(each.begin(), each.end(), [&](Index one) { return one != each.front(); })) {
    args.warn("num_kv_heads", "layers have different numbers of key and value heads: the first layer's is told");
  }
  return each.front();
}

/// The table of patches, class and register tokens beside the rotation.
void add_table(const Object& args, Index dim, Model& model) {
  if (!args.flag("use_abs_pos_emb").value_or(true)) return;
  const GridSize image = pair_of(args, "img_size").value_or(GridSize{224, 224});
  const GridSize patch = pair_of(args, "patch_size").value_or(GridSize{16, 16});
  const Index rows = image.height / patch.height, columns = image.width / patch.width;
  if (rows < 1 || columns < 1 || rows > hf::most_positions / columns) {
    args.wrong("img_size", "at least one patch, and below 2^31 of them");
  }
  Index length = rows * columns;
  if (!args.flag("no_embed_class").value_or(false)) {
    length += (args.flag("class_token").value_or(true) ? 1 : 0) +
              args.integer("num_reg_tokens", 0, hf::most_positions).value_or(0);
  }
  model.inputs.push_back({.encoding = Learned{.length = length, .dim = dim}});
}

}  // namespace

bool read_timm(const Object& file, Model& model) {
  if (file.has("model_type")) return false;
  const bool named = file.has("architecture") && (file.has("model_args") || file.has("pretrained_cfg"));
  if (!named && !file.has("use_rot_pos_emb")) return false;
  model.model_type = file.text("architecture", json::longest_word).value_or("timm");
  if (named && !file.has("model_args")) {
    file.missing("model_args", "the arguments of " + json::quoted(model.model_type) +
                                   " stand in timm's code and not in this file: write them here");
  }
  const Object args = named ? *file.object("model_args") : file;
  if (!args.flag("use_rot_pos_emb").value_or(false)) {
    args.notes().fail(args.pointer("use_rot_pos_emb"),
                      "must be true: of timm's models those with rotary positions are read, got " +
                          (args.has("use_rot_pos_emb") ? json::found(*args.find("use_rot_pos_emb")) : "nothing"));
  }
  const Index dim = plain_size(args, {"embed_dim"}, 768);
  model.heads = plain_size(args, {"num_heads"}, 12, hf::most_heads);
  model.kv_heads = kv_heads_of(args, model.heads);
  if (dim % model.heads != 0) args.wrong("embed_dim", "a multiple of num_heads = " + std::to_string(model.heads));
  model.head_dim = dim / model.heads;
  if (model.head_dim > hf::most_head_dim) args.wrong("embed_dim", "at most 65536 dimensions a head");
  const std::string type = args.text("rope_type").value_or("cat");
  Layer layer{.encoding = encoding_of(args, type, model.head_dim)};
  layer.positions = positions_of(args, type);
  if (type == "dinov3" && args.number("rope_grid_offset", {-1e6, 1e6}).value_or(0) == 0)
    layer.span = 2 * std::numbers::pi;
  layer.base_from = args.has("rope_temperature") ? "rope_temperature" : "default of timm";
  model.layers.assign(static_cast<std::size_t>(plain_size(args, {"depth"}, 12, hf::most_layers)), layer);
  add_table(args, dim, model);
  for (const char* key : {"rope_shift_coords", "rope_jitter_coords", "rope_rescale_coords"}) {
    if (args.has(key)) args.warn(key, "moves coordinates in training alone");
  }
  return true;
}

}  // namespace bearing::dialects
