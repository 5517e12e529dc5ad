#include <algorithm>
#include <iterator>

#include "hf_reader.hpp"

// What is added to the input, for model types whose code is known. Defaults are the configuration classes'.

namespace bearing::hf {
namespace {

using json::Object;

enum class Kind {
  learned,         ///< a table from position 0
  learned_from_2,  ///< two rows more than positions: fairseq's padding slots (BART, OPT, BioGPT)
  after_padding,   ///< positions begin after the padding row, and the file counts rows (RoBERTa)
  embedding_size,  ///< learned, of the size of token embeddings (ELECTRA, ALBERT)
  patches,         ///< learned: one row per patch and `extra` before them (ViT)
  concatenated,    ///< sinusoidal [sin|cos], 2i/dim (Marian, Pegasus, CTRL)
  fairseq,         ///< sinusoidal, tensor2tensor's layout, a zero row for padding, first position after it
};

struct Row {
  std::string_view model_type;
  Kind kind;
  Index positions, dim;  ///< patches: image and patch size
  Index extra = 0;       ///< patches: class and distillation tokens
  bool both = false;     ///< encoder and decoder each have one
};

constexpr Row rows[] = {
    {"gpt2", Kind::learned, 1024, 768},
    {"openai-gpt", Kind::learned, 512, 768},
    {"gpt_neo", Kind::learned, 2048, 2048},
    {"gpt_bigcode", Kind::learned, 1024, 768},
    {"bert", Kind::learned, 512, 768},
    {"big_bird", Kind::learned, 4096, 768},
    {"distilbert", Kind::learned, 512, 768},
    {"mobilebert", Kind::learned, 512, 512},
    {"electra", Kind::embedding_size, 512, 128},
    {"albert", Kind::embedding_size, 512, 128},
    {"opt", Kind::learned_from_2, 2048, 768},
    {"biogpt", Kind::learned_from_2, 1024, 1024},
    {"bart", Kind::learned_from_2, 1024, 1024, 0, true},
    {"mbart", Kind::learned_from_2, 1024, 1024, 0, true},
    {"blenderbot", Kind::learned, 128, 2560, 0, true},
    {"roberta", Kind::after_padding, 512, 768},
    {"xlm-roberta", Kind::after_padding, 512, 768},
    {"xlm-roberta-xl", Kind::after_padding, 514, 2560},
    {"camembert", Kind::after_padding, 512, 768},
    {"longformer", Kind::after_padding, 512, 768},
    {"mpnet", Kind::after_padding, 512, 768},
    {"esm", Kind::after_padding, 1026, 768},
    {"vit", Kind::patches, 224, 16, 1},
    {"deit", Kind::patches, 224, 16, 2},
    {"dinov2", Kind::patches, 224, 14, 1},
    {"marian", Kind::concatenated, 1024, 1024, 0, true},
    {"pegasus", Kind::concatenated, 1024, 1024, 0, true},
    {"ctrl", Kind::concatenated, 256, 1280},
    {"m2m_100", Kind::fairseq, 1024, 1024, 0, true},
    {"nllb-moe", Kind::fairseq, 1024, 1024, 0, true},
    {"xglm", Kind::fairseq, 2048, 1024},
};

const std::vector<std::string_view> dim_keys = {"hidden_size", "n_embd", "d_model", "dim"};
const std::vector<std::string_view> position_keys = {"max_position_embeddings", "n_positions", "n_ctx"};

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

Learned patch_table(const Object& file, const Row& row) {
  const GridSize grid = patch_grid(file, row.positions, row.dim);
  return {.length = grid.height * grid.width + row.extra, .dim = plain_size(file, {"hidden_size"}, 768)};
}

Learned after_padding(const Object& file, Index rows_of_table, Index dim) {
  const Index padding = file.integer("pad_token_id", 0, most_positions).value_or(1);
  if (padding + 1 >= rows_of_table) {
    file.wrong("pad_token_id", "smaller than max_position_embeddings - 1 = " + std::to_string(rows_of_table - 1));
  }
  return {.length = rows_of_table - padding - 1, .dim = dim, .offset = padding + 1, .padding_row = padding};
}

ModelInput input_of(const Config& config, const Row& row) {
  const Object& file = config.file;
  if (row.kind == Kind::patches) return {patch_table(file, row)};
  const Index positions = plain_size(file, position_keys, row.positions);
  if (row.kind == Kind::embedding_size) {
    return {Learned{.length = positions, .dim = plain_size(file, {"embedding_size"}, row.dim)}};
  }
  const Index dim = plain_size(file, dim_keys, row.dim);
  switch (row.kind) {
    case Kind::learned_from_2:
      return {Learned{.length = positions, .dim = dim, .offset = 2}};
    case Kind::after_padding:
      return {after_padding(file, positions, dim)};
    case Kind::concatenated:
      return {Sinusoidal{.dim = dim, .layout = SinusoidalLayout::concatenated}};
    case Kind::fairseq: {
      const Index padding = file.integer("pad_token_id", 0, most_positions).value_or(1);
      return {Sinusoidal{.dim = dim, .layout = SinusoidalLayout::tensor2tensor, .padding_position = padding},
              {},
              padding + 1};
    }
    default:
      return {Learned{.length = positions, .dim = dim}};
  }
}

void read_whisper(const Object& file, Model& model) {
  const Index dim = plain_size(file, {"d_model"}, 384);
  model.inputs.push_back({Sinusoidal{.dim = dim, .layout = SinusoidalLayout::tensor2tensor}, "encoder"});
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

GridSize patch_grid(const Object& file, Index usual_image, Index usual_patch) {
  const GridSize image = image_or_patch(file, "image_size", usual_image);
  const GridSize patch = image_or_patch(file, "patch_size", usual_patch);
  const GridSize grid{image.height / patch.height, image.width / patch.width};
  if (grid.height < 1 || grid.width < 1 || grid.height > 65'536 || grid.width > 65'536) {
    file.notes().fail(file.pointer("patch_size"), "must divide image_size into 1 to 65536 patches each way, got " +
                                                      std::to_string(grid.height) + " x " + std::to_string(grid.width));
  }
  return grid;
}

void add_input_types(std::vector<std::string_view>& to) {
  for (const Row& row : rows) to.push_back(row.model_type);
  to.insert(to.end(), {"whisper", "led"});
}

bool read_inputs(const Config& config, Model& model) {
  const Object& file = config.file;
  const std::string& type = config.model_type;
  if (type == "whisper") return read_whisper(file, model), true;
  if (type == "led") return read_led(file, model), true;
  if (type == "deberta" || type == "deberta-v2") return read_deberta(file, type, model), true;
  if (type == "swin" || type == "swinv2" || type == "beit" || type == "data2vec-vision") {
    return read_vision(file, type, model), true;
  }
  const auto* row = std::find_if(std::begin(rows), std::end(rows), [&](const Row& r) { return r.model_type == type; });
  if (row == std::end(rows)) return false;
  const std::string position_type = file.text("position_embedding_type").value_or("absolute");
  if (type == "esm" && position_type == "rotary") return false;
  if (position_type.starts_with("relative_key")) return true;  // instead of a table: see read_scores()

  ModelInput input = input_of(config, *row);
  if (type == "distilbert" && file.flag("sinusoidal_pos_embds").value_or(false)) {
    file.warn("sinusoidal_pos_embds", "the table is initialised with sinusoids, and a checkpoint has its numbers");
  }
  if (const auto* learned = std::get_if<Learned>(&input.encoding)) model.context_length = learned->length;
  if (!row->both) {
    model.inputs.push_back(input);
  } else {
    for (const char* part : {"encoder", "decoder"}) {
      input.part = part;
      model.inputs.push_back(input);
    }
  }
  return true;
}

}  // namespace bearing::hf
