#pragma once

#include <gtest/gtest.h>
#include <bearing/io.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <locale>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

// What tests of model files share: the corpus, a model described in one line, and short questions about one.

namespace bearing::test {

namespace fs = std::filesystem;

inline const fs::path source = BEARING_SOURCE_DIR;
inline const fs::path corpus = source / "tests/corpus/hf_config";

/// The rows of a tab-separated file without its comments.
inline std::vector<std::vector<std::string>> table(const fs::path& path) {
  std::ifstream file(path);
  std::vector<std::vector<std::string>> rows;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("#")) continue;
    std::istringstream cells(line);
    rows.emplace_back();
    for (std::string cell; std::getline(cells, cell, '\t');) rows.back().push_back(cell);
  }
  return rows;
}

inline std::set<std::string> files_in(const fs::path& directory) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory)) names.insert(entry.path().filename());
  return names;
}

/// Every file of folder/malformed is refused, with the text that its row of malformed.tsv states, after its own name.
/// Returns what the files' errors say, without their names.
inline std::vector<std::string> expect_refused_as_stated(const fs::path& folder) {
  std::set<std::string> named;
  std::vector<std::string> errors;
  for (const auto& row : table(folder / "malformed.tsv")) {
    if (row.size() != 3u) {
      ADD_FAILURE() << "must be three cells: " << row[0];
      continue;
    }
    named.insert(row[0]);
    const std::string path = (folder / "malformed" / row[0]).string();
    try {
      read_hf_config(path);
      ADD_FAILURE() << row[0] << " was read";
    } catch (const ConfigError& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find(row[1]), std::string::npos) << row[0] << ": " << text;
      EXPECT_TRUE(text.starts_with(path + ":")) << text;
      errors.push_back(text.substr(std::min(text.size(), path.size())));
    }
  }
  EXPECT_EQ(named, files_in(folder / "malformed"));
  return errors;
}

inline std::string spec_text(const LayerEncoding& encoding) {
  std::ostringstream text;
  text.imbue(std::locale::classic());
  if (const auto* rope = std::get_if<Rope>(&encoding)) {
    text << (Pairing{rope->pairing} == Pairing::half ? "half " : "interleaved ");
    text << static_cast<Index>(rope->base) << ' ' << rope->rotary_dim << '/' << rope->head_dim << ' '
         << scaling_name(rope->scaling);
    if (rope->part.where == RotaryPart::Where::last) text << " last";
    if (!rope->axes.pairs.empty()) text << " axes " << rope->axes.pairs.size();
    return text.str();
  }
  text << encoding_name(encoding);
  if (const auto* alibi = std::get_if<Alibi>(&encoding)) text << ' ' << alibi->slopes.size() << ' ' << alibi->slopes[0];
  if (const auto* t5 = std::get_if<T5>(&encoding)) {
    text << ' ' << t5->buckets << ' ' << t5->max_distance;
    text << (t5->direction == T5Direction::causal ? " causal" : " bidirectional");
  }
  if (const auto* bert = std::get_if<BertRelative>(&encoding)) {
    text << ' ' << bert->max_position_embeddings;
    if (bert->position_embedding_type == BertRelativeType::relative_key_query) text << " query";
  }
  if (const auto* relative = std::get_if<Wav2Vec2BertRelative>(&encoding)) {
    text << ' ' << relative->left << ' ' << relative->right;
  }
  if (const auto* deberta = std::get_if<Deberta>(&encoding)) {
    text << ' ' << deberta->max_relative_positions << ' ' << deberta->position_buckets;
    text << (deberta->c2p() ? " c2p" : "") << (deberta->p2c() ? " p2c" : "");
  }
  if (const auto* xl = std::get_if<TransformerXL>(&encoding)) text << ' ' << xl->clamp_len;
  if (const auto* xlnet = std::get_if<Xlnet>(&encoding)) {
    text << ' ' << xlnet->clamp_len << (xlnet->direction == TransformerXLDirection::bidirectional ? " bi" : " uni");
  }
  if (const auto* swin = std::get_if<Swin>(&encoding)) {
    text << ' ' << swin->height << 'x' << swin->width;
    if (swin->class_token == Swin::ClassToken::three_rows) text << " class";
  }
  if (const auto* swin = std::get_if<SwinV2>(&encoding)) {
    text << ' ' << swin->window.height << 'x' << swin->window.width << " of " << swin->trained_height;
  }
  return text.str();
}

/// As the corpus' table writes a group: "32 full_attention half 500000 128/128 llama3".
inline std::string described(const LayerGroup& group) {
  std::string text = std::to_string(group.layers.size()) + ' ';
  if (!group.layer.part.empty()) text += group.layer.part + ' ';
  text += group.layer.type;
  if (group.layer.window > 0) text += '@' + std::to_string(group.layer.window);
  if (group.layer.window_after > 0) text += '+' + std::to_string(group.layer.window_after);
  return text + ' ' + spec_text(group.layer.encoding);
}

/// … and an input: "input learned 1024x768", "decoder input learned 1024x1024 offset 2".
inline std::string described(const ModelInput& input) {
  std::string text = input.part + (input.part.empty() ? "" : " ") + "input " + encoding_name(input.encoding);
  if (const auto* learned = std::get_if<Learned>(&input.encoding)) {
    text += ' ' + std::to_string(learned->length) + 'x' + std::to_string(learned->dim);
    if (learned->offset > 0) text += " offset " + std::to_string(learned->offset);
    if (learned->padding_row) text += " padding " + std::to_string(*learned->padding_row);
  }
  if (const auto* sinusoidal = std::get_if<Sinusoidal>(&input.encoding)) {
    text += ' ' + std::to_string(sinusoidal->dim);
    text += sinusoidal->layout == SinusoidalLayout::tensor2tensor ? " tensor2tensor" : " concatenated";
    if (sinusoidal->padding_position) text += " padding " + std::to_string(*sinusoidal->padding_position);
    if (input.first_position > 0) text += " from " + std::to_string(input.first_position);
  }
  return text;
}

inline std::string described(const Model& model) {
  std::string text;
  for (const ModelInput& input : model.inputs) text += (text.empty() ? "" : " | ") + described(input);
  for (const LayerGroup& group : layer_groups(model)) text += (text.empty() ? "" : " | ") + described(group);
  return text;
}

inline const Rope& first_rope(const Model& model) {
  for (const Layer& layer : model.layers) {
    if (const auto* rope = std::get_if<Rope>(&layer.encoding)) return *rope;
  }
  throw std::runtime_error("no rotary layer");
}

inline bool warns(const Model& model, const std::string& pointer, const std::string& fragment) {
  for (const ConfigWarning& warning : model.warnings) {
    if (warning.pointer == pointer && warning.text.find(fragment) != std::string::npos) return true;
  }
  return false;
}

inline std::string error_of(const std::string& text) {
  try {
    parse_hf_config(text, "c.json");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

/// A small Llama with more keys, given without braces.
inline std::string llama(const std::string& keys) {
  return R"({"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2,
             "max_position_embeddings": 128)" +
         (keys.empty() ? "" : ", " + keys) + "}";
}

/// A small file of a type: 8 layers unless more is said.
inline Model small(const std::string& type, const std::string& keys = "") {
  return parse_hf_config(R"({"model_type": ")" + type + R"(", "hidden_size": 64, "num_attention_heads": 4,
      "num_key_value_heads": 2, "num_hidden_layers": 8)" +
                         (keys.empty() ? "" : ", " + keys) + "}");
}
inline std::string told_of(const std::string& type, const std::string& keys = "") {
  return described(small(type, keys));
}

inline std::vector<Index> turning(const Model& model) {
  std::vector<Index> layers;
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    if (std::holds_alternative<Rope>(model.layers[i].encoding)) layers.push_back(static_cast<Index>(i));
  }
  return layers;
}

inline std::string refusal(const std::string& keys) { return error_of("{\"num_attention_heads\": 4, " + keys + "}"); }

}  // namespace bearing::test
