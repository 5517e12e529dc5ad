#include <algorithm>

#include "hf_inputs.hpp"
#include "hf_reader.hpp"
#include "lasting.hpp"

// What is added to the input, for model types whose code is known. Defaults are the configuration classes'.

namespace bearing::hf {
namespace {

using json::Object;

const Keys& dim_keys = lasting(Keys{"hidden_size", "n_embd", "d_model", "dim"});
const Keys& position_keys = lasting(Keys{"max_position_embeddings", "n_positions", "n_ctx"});

/// A whole number, or the first of [height, width] with both.
GridSize image_or_patch(const Object& file, std::string_view key, Index usual) {
  const rapidjson::Value* value = file.find(key);
  if (value == nullptr) return {usual, usual};
  if (!value->IsArray()) {
    const Index side = *file.integer(key, 1, most_positions);
    return {side, side};
  }
  const auto sides = *file.integers(key, 2, 1, most_positions);
  if (sides.size() != 2) file.wrong(key, "a whole number or two");
  return {sides[0], sides[1]};
}

Keys keys_or(const char* key, const Keys& usual) { return key == nullptr ? usual : Keys{key}; }

/// A grid whose sides the file states: pos_emb_height and pos_emb_width, or one number for both.
GridSize stated_grid(const Object& file, const InputRow& row) {
  constexpr Index longest = 65'536;
  const auto side = [&](const char* key) {
    return plain_size(file, {row.key == nullptr ? key : row.key}, row.positions, longest);
  };
  return {side("pos_emb_height"), side("pos_emb_width")};
}

Learned patch_table(const Object& file, const InputRow& row, Index dim) {
  const GridSize grid = row.kind == InputKind::grid
                            ? stated_grid(file, row)
                            : patch_grid(file, row.positions, row.patch, row.key == nullptr ? "image_size" : row.key);
  return {.length = grid.height * grid.width + row.extra, .dim = dim};
}

Index padding_of(const Object& file) { return file.integer("pad_token_id", 0, most_positions).value_or(1); }

Learned after_padding(const Object& file, Index rows_of_table, Index dim) {
  const Index padding = padding_of(file);
  if (padding + 1 >= rows_of_table) {
    file.wrong("pad_token_id", "smaller than max_position_embeddings - 1 = " + std::to_string(rows_of_table - 1));
  }
  return {.length = rows_of_table - padding - 1, .dim = dim, .offset = padding + 1, .padding_row = padding};
}

/// Sinusoids have no table: their file's length says nothing about them.
InputSpec sinusoids(const Object& file, const InputRow& row, Index dim) {
  switch (row.kind) {
    case InputKind::concatenated:
      return Sinusoidal{.dim = dim, .layout = SinusoidalLayout::concatenated};
    case InputKind::interleaved:
      return Sinusoidal{.dim = dim, .layout = SinusoidalLayout::interleaved};
    case InputKind::cos_first:
      return Sinusoidal{.dim = dim, .layout = SinusoidalLayout::cos_first_shifted};
    case InputKind::grid_sinusoids:
      return Sinusoidal2d::mae(dim);
    default:
      break;
  }
  Sinusoidal spec{.dim = dim, .layout = SinusoidalLayout::tensor2tensor};
  if (row.kind == InputKind::fairseq) spec.padding_position = padding_of(file);
  return spec;
}

ModelInput input_of(const Object& file, const InputRow& row) {
  const Index dim = plain_size(file, keys_or(row.dim_key, dim_keys), row.dim);
  ModelInput input{InputSpec(Learned{}), std::string(row.part), 0, row.token_position};
  input.label = row.label;
  if (row.kind == InputKind::patches || row.kind == InputKind::grid) {
    input.encoding = patch_table(file, row, dim);
  } else if (row.kind == InputKind::learned || row.kind == InputKind::after_padding) {
    const Index positions = plain_size(file, keys_or(row.key, position_keys), row.positions);
    input.encoding = row.kind == InputKind::learned ? Learned{.length = positions, .dim = dim, .offset = row.extra}
                                                    : after_padding(file, positions, dim);
  } else {
    input.encoding = sinusoids(file, row, dim);
    input.first_position = row.kind == InputKind::fairseq ? padding_of(file) + 1 : row.extra;
  }
  return input;
}

/// How many tokens a part takes, where the file has a number for each; else 0.
Index length_of_part(const Object& file, const std::string& part) {
  return file.integer(part == "encoder" ? "max_source_positions" : "max_target_positions", 1, most_positions)
      .value_or(0);
}

/// Sinusoids in place of a table, where the file says so.
InputRow as_switched(const Object& file, InputRow row) {
  if (row.model_type == "trocr" && !file.flag("use_learned_position_embeddings").value_or(true)) {
    row.kind = InputKind::fairseq;
  }
  if ((row.model_type == "xlm" || row.model_type == "flaubert") && file.flag("sinusoidal_embeddings").value_or(false)) {
    row.kind = InputKind::interleaved, row.extra = 0;
  }
  return row;
}

/// Forecasts count on from what came before: their decoder's positions begin at context_length, Autoformer's
/// label_length earlier.
Index first_of_forecast(const Object& file, std::string_view model_type) {
  const Keys keys = {"context_length", "prediction_length"};  // the class takes the second where the first is missing
  const std::string_view key = file.spelled(keys);
  if (key.empty()) {
    file.warn(keys.front(),
              "not in the file, and prediction_length neither: the decoder's first position is it, and 0 is shown",
              json::Weight::grave);
    return 0;
  }
  const Index context = *file.integer(key, 1, most_positions);
  if (model_type != "autoformer") return context;
  const Index again = file.integer("label_length", 0, most_positions).value_or(10);
  if (again > context) {
    file.notes().fail(file.pointer("label_length"),
                      "must be at most context_length = " + std::to_string(context) + ", got " + std::to_string(again));
  }
  return context - again;
}

bool forecasts(std::string_view model_type) {
  return model_type == "time_series_transformer" || model_type == "informer" || model_type == "autoformer";
}

void read_whisper(const Object& file, Model& model) {
  const Index dim = plain_size(file, {"d_model"}, 384);
  model.inputs.push_back({Sinusoidal{.dim = dim, .layout = SinusoidalLayout::tensor2tensor}, "encoder"});
  model.inputs.back().length = plain_size(file, {"max_source_positions"}, 1500);
  model.inputs.push_back({Learned{.length = plain_size(file, {"max_target_positions"}, 448), .dim = dim}, "decoder"});
  model.context_length = plain_size(file, {"max_target_positions"}, 448);
}

void read_led(const Object& file, Model& model) {
  const Index dim = plain_size(file, {"d_model"}, 1024);
  const Index encoder = plain_size(file, {"max_encoder_position_embeddings"}, 16384);
  const Index decoder = plain_size(file, {"max_decoder_position_embeddings"}, 1024);
  model.inputs.push_back({Learned{.length = encoder, .dim = dim}, "encoder"});
  model.inputs.push_back({Learned{.length = decoder, .dim = dim}, "decoder"});
  model.context_length = encoder;
}

/// DeBERTa adds a table to the input unless the file says that it does not.
void read_deberta(const Object& file, std::string_view model_type, Model& model) {
  if (!file.flag("position_biased_input").value_or(true)) return;
  const Index dim = plain_size(file, {"hidden_size"}, model_type == "deberta" ? 768 : 1536);
  model.inputs.push_back({Learned{.length = plain_size(file, {"max_position_embeddings"}, 512), .dim = dim}});
}

/// Swin and BEiT: only if the file switches an absolute table on.
void read_vision(const Object& file, std::string_view model_type, Model& model) {
  const bool swin = model_type != "beit" && model_type != "data2vec-vision";
  const char* key = swin ? "use_absolute_embeddings" : "use_absolute_position_embeddings";
  if (!file.flag(key).value_or(false)) return;
  const GridSize grid = patch_grid(file, 224, swin ? 4 : 16);
  model.inputs.push_back({Learned{.length = grid.height * grid.width + (swin ? 0 : 1),
                                  .dim = plain_size(file, {swin ? "embed_dim" : "hidden_size"}, swin ? 96 : 768)}});
}

}  // namespace

GridSize divided_image(const Object& file, Index usual_image, Index usual_patch, std::string_view image_key) {
  const GridSize image = image_or_patch(file, image_key, usual_image);
  const GridSize patch = image_or_patch(file, "patch_size", usual_patch);
  return {image.height / patch.height, image.width / patch.width};
}

bool is_patch_grid(const GridSize& grid) {
  const auto [least, most] = std::minmax(grid.height, grid.width);
  return least >= 1 && most <= 65'536;
}

GridSize patch_grid(const Object& file, Index usual_image, Index usual_patch, std::string_view image_key) {
  const GridSize grid = divided_image(file, usual_image, usual_patch, image_key);
  if (!is_patch_grid(grid)) {
    file.notes().fail(file.pointer("patch_size"), "must divide " + std::string(image_key) +
                                                      " into 1 to 65536 patches each way, got " +
                                                      std::to_string(grid.height) + " x " + std::to_string(grid.width));
  }
  return grid;
}

void add_input_types(std::vector<std::string_view>& to) {
  for (const InputRow& row : input_rows()) to.push_back(row.model_type);
  to.insert(to.end(), {"whisper", "led"});
}

void read_inputs_beside_rotation(const Config& config, Model& model) {
  if (config.model_type != "moonshine_streaming") return;
  const auto encoder = config.file.object("encoder_config");
  const Index usual = 320;
  const Index dim = encoder ? plain_size(*encoder, {"hidden_size"}, usual) : usual;
  model.inputs.push_back({.encoding = Learned{.length = config.positions, .dim = dim},
                          .part = "cross-attention",
                          .positions = "index of the encoder's frame, to whose last row the decoder adds it"});
}

bool read_inputs(const Config& config, Model& model) {
  const Object& file = config.file;
  const std::string& type = config.model_type;
  if (type == "whisper") return read_whisper(file, model), true;
  if (type == "led") return read_led(file, model), true;
  if (type == "deberta" || type == "deberta-v2") return read_deberta(file, type, model), true;
  if (type == "swin" || type == "swinv2" || type == "donut-swin" || type == "maskformer-swin" || type == "beit" ||
      type == "data2vec-vision") {
    return read_vision(file, type, model), true;
  }
  const std::string position_type = file.text("position_embedding_type").value_or("absolute");
  if (type == "esm" && position_type == "rotary") return false;
  bool found = false;
  for (const InputRow& row : input_rows()) {
    if (row.model_type != type) continue;
    found = true;
    if (!file.flag("use_abs_pos").value_or(true)) continue;   // Segment Anything's kin
    if (position_type.starts_with("relative_key")) continue;  // instead of a table: see read_scores()
    ModelInput input = input_of(file, as_switched(file, row));
    const auto* learned = std::get_if<Learned>(&input.encoding);
    if (learned != nullptr && model.context_length == 0) model.context_length = learned->length;
    if (input.part != "both") {
      model.inputs.push_back(input);
      continue;
    }
    for (const char* part : {"encoder", "decoder"}) {
      input.part = part;
      if (learned == nullptr) input.length = length_of_part(file, input.part);
      if (input.part == "decoder" && forecasts(type)) input.first_position = first_of_forecast(file, type);
      model.inputs.push_back(input);
    }
  }
  if (type == "distilbert" && file.flag("sinusoidal_pos_embds").value_or(false)) {
    file.warn("sinusoidal_pos_embds", "the table is initialised with sinusoids, and a checkpoint has its numbers");
  }
  return found;
}

}  // namespace bearing::hf
