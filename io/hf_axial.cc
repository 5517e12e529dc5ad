#include <algorithm>
#include <iterator>
#include <numbers>
#include <utility>

#include "hf_reader.hpp"

// Towers that turn queries and keys by a patch's place in the image: each axis has its own part of the pairs, and the
// frequencies begin afresh on each (Pixtral deals them out). Facts: modeling_*.py of Hugging Face transformers 5.24.0.

namespace bearing::hf {
namespace {

using json::Object;

enum class Layout {
  half,         ///< the first axis' pairs, then the second's; i turns with i + half of the head
  neighbours,   ///< the same, 2i turns with 2i + 1
  alternating,  ///< the axes take turns pair by pair; half
  strided,      ///< one run of frequencies, dealt out to the axes; half
  three,        ///< three equal parts; half; what is left of the head stays
  blocks,       ///< each axis has its own half of the head, half pairing inside it
};

/// What a token's position is.
constexpr const char* rows_first = "row and column of the patch, from 0";
constexpr const char* columns_first = "column and row of the patch, from 0";
constexpr const char* columns_from_1 = "column and row of the patch, from 1";
constexpr const char* columns_class_0 = "column and row of the patch, from 1; other tokens are at 0, 0";
constexpr const char* rows_of_any_image =
    "row and column of the patch, from 0; images keep their own sizes, image_size is the largest side";
constexpr const char* time_rows = "frame, row and column of the patch, from 0";
constexpr const char* rows_class_learned =
    "row and column of the patch, from 0; the class token's angles are learned (class_pos_emb)";
constexpr const char* centres =
    "row and column of the patch's centre, from -1 to 1 across the image, times 2 pi; other tokens do not turn";
constexpr const char* scaled_columns =
    "column and row of the patch, from 0; in layers that see the whole image times window_size over the patches of a "
    "row";

struct Axial {
  std::string_view model_type;
  Layout layout;
  const char* positions;
  Index hidden, heads, layers;
  double base = 10'000;
  std::string_view hidden_key = "hidden_size";
  std::string_view pattern = "F";  ///< of layers whose types the file does not list, see types_by_pattern

  bool memory() const { return hidden_key.starts_with("memory"); }  ///< not the tower: attention to earlier frames
};

// clang-format off
constexpr Axial axial_rows[] = {
    {"qwen2_vl_vision", Layout::half, rows_first, 1280, 16, 32, 10'000, "embed_dim"},
    {"qwen2_5_vl_vision", Layout::half, rows_first, 3584, 16, 32},
    {"qwen2_5_omni_vision_encoder", Layout::half, rows_first, 3584, 16, 32},
    {"qwen3_vl_vision", Layout::half, rows_first, 1152, 16, 27},
    {"qwen3_vl_moe_vision", Layout::half, rows_first, 1152, 16, 27},
    {"qwen3_omni_moe_vision_encoder", Layout::half, rows_first, 1152, 16, 27},
    {"qwen3_5_vision", Layout::half, rows_first, 1152, 16, 27},
    {"qwen3_5_moe_vision", Layout::half, rows_first, 1152, 16, 27},
    {"qwen4_exp_vision", Layout::half, rows_first, 1152, 16, 27},
    {"cohere_compass_vision", Layout::half, rows_first, 1152, 16, 27},
    {"exaone4_5_vision", Layout::half, rows_first, 3584, 16, 32},
    {"dots3_note_vision_encoder", Layout::half, rows_first, 1536, 24, 42},
    {"ernie4_5_vl_moe_vision", Layout::half, rows_first, 1280, 16, 32},
    {"glm4v_vision", Layout::half, rows_first, 1536, 12, 24},
    {"glm4v_moe_vision", Layout::half, rows_first, 1536, 12, 24},
    {"glm5_next_vision", Layout::half, rows_first, 1024, 16, 24},
    {"glm_ocr_vision", Layout::half, rows_first, 1024, 16, 24},
    {"lfm3_vl_vision", Layout::half, rows_first, 1024, 16, 14, 1'000'000, "hidden_size", "CC|FC"},
    {"mlcd", Layout::half, rows_class_learned, 1664, 16, 48},
    {"mlcd_vision_model", Layout::half, rows_class_learned, 1664, 16, 48},
    {"paddleocr_vl_vision", Layout::half, rows_first, 1152, 16, 27},
    {"video_llama_3_vision", Layout::half, rows_first, 768, 12, 12},
    {"muse_glimmer_vision", Layout::half, columns_from_1, 1536, 16, 50, 10'000, "hidden_size", "WWWF$F"},
    {"muse_spark_vision", Layout::half, columns_from_1, 1536, 16, 50, 10'000, "hidden_size", "WWWF$F"},
    {"step3p5_vision", Layout::half, columns_first, 1536, 16, 47},
    {"dinov3_vit", Layout::half, centres, 384, 6, 12, 100},
    {"eomt_dinov3", Layout::half, centres, 1024, 16, 24, 100},
    {"sapiens2", Layout::half, centres, 1024, 16, 24, 100},
    {"kimi_k25_vision", Layout::alternating, columns_first, 1152, 16, 27},
    {"pixtral", Layout::strided, rows_of_any_image, 1024, 16, 24},
    {"minimax_m3_vl_vision", Layout::three, time_rows, 1280, 16, 32},
    {"inkling2_vision", Layout::neighbours, columns_class_0, 1024, 16, 23},
    {"llama4_vision_model", Layout::neighbours, columns_class_0, 768, 16, 34},
    {"sam3_vit_model", Layout::neighbours, scaled_columns, 1024, 16, 32},
    {"sam2_video", Layout::neighbours, columns_first, 256, 1, 4, 10'000, "memory_attention_hidden_size"},
    {"edgetam_video", Layout::neighbours, columns_first, 256, 1, 2, 10'000, "memory_attention_hidden_size"},
    {"sam3_tracker_video", Layout::neighbours, columns_first, 256, 1, 4, 10'000, "memory_attention_hidden_size"},
    {"gemma4_vision", Layout::blocks, columns_first, 768, 12, 16, 100},
};
// clang-format on

/// Towers of which some layers see a window of the image alone: the key of its size, and what that counts. Their code
/// orders the tokens by windows, and each of these is a sequence of its own there.
struct Windowed {
  std::string_view model_type, key;
  Index usual;
  const char* unit;
  const char* full_key = nullptr;  ///< lists the layers that see all; null: layer_types does
};
constexpr Windowed windowed_rows[] = {
    {"qwen2_5_vl_vision", "window_size", 112, "pixels", "fullatt_block_indexes"},
    {"qwen2_5_omni_vision_encoder", "window_size", 112, "pixels", "fullatt_block_indexes"},
    {"exaone4_5_vision", "window_size", 112, "pixels", "fullatt_block_indexes"},
    {"sam3_vit_model", "window_size", 24, "patches", "global_attn_indexes"},
    {"muse_glimmer_vision", "pos_emb_height", 32, "patches"},
    {"muse_spark_vision", "pos_emb_height", 32, "patches"},
};
constexpr Index usual_full[] = {7, 15, 23, 31};  ///< of all of them that list such layers

const Windowed* windowed(std::string_view model_type) {
  const auto* row = std::find_if(std::begin(windowed_rows), std::end(windowed_rows),
                                 [&](const Windowed& one) { return one.model_type == model_type; });
  return row == std::end(windowed_rows) ? nullptr : row;
}

/// Towers whose image_size is that of the images of training, or of the largest of them (Pixtral): the sides of an
/// image and of a patch where the file says none. In others, whose images keep their own sizes, image_size belongs to a
/// learned table, and says nothing of the rotation.
struct ImageSize {
  std::string_view model_type;
  Index image, patch;
};
constexpr ImageSize image_sizes[] = {
    {"mlcd_vision_model", 336, 14}, {"dinov3_vit", 224, 16}, {"eomt_dinov3", 640, 16},
    {"sapiens2", 224, 16},          {"pixtral", 1024, 16},   {"llama4_vision_model", 448, 14},
};

/// Nothing that turns needs the grid: a file whose sizes give none is read all the same.
GridSize trained_grid(const Config& config) {
  const auto* sizes = std::find_if(std::begin(image_sizes), std::end(image_sizes),
                                   [&](const ImageSize& one) { return one.model_type == config.model_type; });
  if (sizes == std::end(image_sizes)) return {};
  const Object& file = config.file;
  for (const auto& [key, usual] : {std::pair{"image_size", sizes->image}, {"patch_size", sizes->patch}}) {
    if (!file.has(key)) config.warn_of_default(key, std::to_string(usual));
  }
  const GridSize grid = divided_image(file, sizes->image, sizes->patch);
  if (is_patch_grid(grid)) return grid;
  file.warn(file.has("image_size") ? "image_size" : "patch_size",
            "how many patches the images of training had is not told: image_size over patch_size is " +
                std::to_string(grid.height) + " x " + std::to_string(grid.width));
  return {};
}

/// rope_parameters or rope_scaling may say the base; of scalings these towers' code knows none.
Base base_of(const Config& config, double usual) {
  const Object& file = config.file;
  std::optional<double> base = file.number("rope_theta", base_range);
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const auto parameters = file.object(key);
    if (!parameters) continue;
    for (const char* word : {"rope_type", "type"}) {
      const std::string type = parameters->text(word).value_or("axial");
      if (type != "axial" && type != "default") parameters->wrong(word, "axial or default");
    }
    if (parameters->number("partial_rotary_factor", json::positive).value_or(1) != 1) {
      parameters->wrong("partial_rotary_factor", "1: the tower's code turns whole heads");
    }
    if (const auto said = parameters->number("rope_theta", base_range)) base = said;
  }
  return base ? Base{*base, "rope_theta"} : Base{usual, config.default_name()};
}

Keys head_keys(const Axial& row) {
  return row.memory() ? Keys{"memory_attention_num_attention_heads"} : Keys{"num_attention_heads", "num_heads"};
}

Index head_dim_of(const Object& file, const Axial& row) {
  const Index hidden = plain_size(file, {row.hidden_key}, row.hidden);
  const Index heads = plain_size(file, head_keys(row), row.heads, most_heads);
  const Index rate = row.memory() ? plain_size(file, {"memory_attention_downsample_rate"}, 1) : 1;
  const Index dim = file.integer("head_dim", 1, most_head_dim).value_or(hidden / heads / rate);
  const Index least = row.layout == Layout::three ? 6 : 4;
  if (dim < least || dim > most_head_dim || (row.layout != Layout::three && dim % 4 != 0)) {
    const std::string_view key = file.spelled({"head_dim", row.hidden_key});
    file.notes().fail(file.pointer(key.empty() ? row.hidden_key : key),
                      std::string("must give heads of ") +
                          (row.layout == Layout::three ? "6 dimensions or more" : "a multiple of 4 dimensions") +
                          ", got " + std::to_string(dim));
  }
  return dim;
}

Rope rope_of(const Axial& row, Index dim, double base) {
  Rope rope{.head_dim = dim, .rotary_dim = dim, .base = base, .pairing = Pairing::half};
  const Index pairs = dim / 4;
  switch (row.layout) {
    case Layout::neighbours:
      rope.pairing = Pairing::interleaved;
      [[fallthrough]];
    case Layout::half:
      rope.axes = RopeAxes::axial({pairs, pairs});
      break;
    case Layout::alternating:
      rope.axes = RopeAxes::interleaved({pairs, pairs});
      rope.axes.frequencies = RopeAxes::Frequencies::restarted;
      break;
    case Layout::strided:
      rope.axes = RopeAxes::strided({pairs, pairs});
      break;
    case Layout::three:
      rope.rotary_dim = dim / 6 * 6;
      rope.axes = RopeAxes::axial({dim / 6, dim / 6, dim / 6});
      break;
    case Layout::blocks:
      rope.axes = RopeAxes::blocks({pairs, pairs});
      break;
  }
  return rope;
}

constexpr const char* window_type = "window_attention";
constexpr const char* full_type = "full_attention";

/// Whether a layer sees less than the image: by a list of those that see all, or by layer_types.
std::vector<std::string> types_of(const Config& config, const Axial& row, Index layers) {
  const Object& file = config.file;
  const auto count = static_cast<std::size_t>(layers);
  if (auto types = file.texts("layer_types", count)) {
    if (types->size() != count) file.wrong("layer_types", std::to_string(layers) + " strings, one per layer");
    return *types;
  }
  std::vector<std::string> types = types_by_pattern(row.pattern, layers, false);
  const auto see_all = [&](const auto& full) {
    std::fill(types.begin(), types.end(), window_type);
    for (const Index layer : full) {
      if (layer < layers) types[static_cast<std::size_t>(layer)] = full_type;
    }
  };
  for (const char* key : {"fullatt_block_indexes", "global_attn_indexes"}) {
    if (const auto full = file.integers(key, count, 0, layers - 1)) see_all(*full);
  }
  const Windowed* windows = windowed(row.model_type);
  if (windows != nullptr && windows->full_key != nullptr && !file.has(windows->full_key)) {
    see_all(usual_full);
    config.warn_of_default(windows->full_key, "[7, 15, 23, 31]");
  }
  return types;
}

/// Says what layers with windows see: Layer::window is of runs of tokens, and a window of the image is none.
void warn_of_windows(const Object& file, const Windowed& windows, const std::vector<Layer>& layers) {
  constexpr std::size_t most_named = 8;
  std::vector<std::string> full;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (layers[i].type == full_type) full.push_back(std::to_string(i));
  }
  const auto narrow = std::count_if(layers.begin(), layers.end(), [](const Layer& l) { return l.type == window_type; });
  if (narrow == 0) return;
  const Index size = plain_size(file, {windows.key}, windows.usual, most_positions);
  std::string others = std::to_string(full.size()) + " layers";
  if (!full.empty() && full.size() <= most_named) {
    others = full.size() == 1 ? "layer " : "layers ";
    for (std::size_t i = 0; i < full.size(); ++i) others += (i == 0 ? "" : ", ") + full[i];
  }
  file.warn(windows.key, "in " + std::to_string(narrow) + " of " + std::to_string(layers.size()) +
                             " layers a patch sees those of its own window of the image alone, " +
                             std::to_string(size) + " " + windows.unit +
                             " each way, which is no run of tokens; the whole image is seen by " + others);
}

}  // namespace

void add_axial_types(std::vector<std::string_view>& to) {
  for (const Axial& row : axial_rows) to.push_back(row.model_type);
}

bool read_axial(const Config& config, Model& model) {
  const Object& file = config.file;
  const auto* row = std::find_if(std::begin(axial_rows), std::end(axial_rows),
                                 [&](const Axial& r) { return r.model_type == config.model_type; });
  if (row == std::end(axial_rows)) return false;
  const Keys layer_keys =
      row->memory() ? Keys{"memory_attention_num_layers"} : Keys{"num_hidden_layers", "depth", "num_layers"};
  const Index layers = plain_size(file, layer_keys, row->layers, most_layers);
  const Index head_dim = head_dim_of(file, *row);
  const Base base = base_of(config, row->base);
  Layer layer{.encoding = rope_of(*row, head_dim, base.value)};
  layer.positions = row->positions;
  layer.base_from = base.from;
  layer.grid = trained_grid(config);
  if (row->positions == centres) layer.span = 2 * std::numbers::pi;
  for (const std::string& type : types_of(config, *row, layers)) {
    Layer one = type == "conv" ? Layer{.encoding = NoPosition{}} : layer;
    one.type = type;
    model.layers.push_back(std::move(one));
  }
  if (const Windowed* windows = windowed(row->model_type)) warn_of_windows(file, *windows, model.layers);
  const std::string_view heads = file.spelled(head_keys(*row));
  model.heads = heads.empty() ? row->heads : *file.integer(heads, 1, most_heads);
  model.kv_heads = model.heads;
  model.head_dim = std::get<Rope>(layer.encoding).head_dim;
  return true;
}

}  // namespace bearing::hf
