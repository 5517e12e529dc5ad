#include <gtest/gtest.h>
#include <bearing/hf_spelling.hpp>

#include "hf_config_cases.hpp"
#include "json_edit.hpp"

namespace bearing {
namespace {

using namespace test;

std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string refusal(const std::string& text, HfSpelling spelling) {
  try {
    spell_hf_config(text, spelling, "c.json");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

void expect_same(const Model& a, const Model& b, const std::string& name) {
  ASSERT_EQ(a.layers.size(), b.layers.size()) << name;
  for (std::size_t i = 0; i < a.layers.size(); ++i) {
    EXPECT_TRUE(a.layers[i].encoding == b.layers[i].encoding) << name << " layer " << i;
    EXPECT_TRUE(a.layers[i].also == b.layers[i].also) << name << " layer " << i;
    EXPECT_TRUE(a.layers[i].temperature == b.layers[i].temperature) << name << " layer " << i;
  }
  EXPECT_EQ(described(a), described(b)) << name;
  ASSERT_EQ(a.towers.size(), b.towers.size()) << name;
  for (std::size_t i = 0; i < a.towers.size(); ++i) expect_same(a.towers[i], b.towers[i], name + " tower");
}

bool rotary_key(const std::string& key) {
  static const std::set<std::string> keys = {
      "rope_theta",       "rope_scaling",         "rope_parameters",
      "rotary_emb_base",  "rope_local_base_freq", "global_rope_theta",
      "local_rope_theta", "rotary_pct",           "partial_rotary_factor",
      "rope_pct",         "rotary_emb_fraction",  "original_max_position_embeddings"};
  return keys.contains(key);
}

/// Every other member has its bytes.
void expect_other_bytes(const std::string& a, const std::string& b, const std::string& name) {
  const auto others = [](const std::string& text) {
    std::vector<std::string> all;
    for (const json::MemberText& member : json::object_text(text, "").members) {
      if (!rotary_key(member.key) && member.key != "text_config" && !member.key.ends_with("_config")) {
        all.push_back(member.key + member.between + member.value);
      }
    }
    return all;
  };
  EXPECT_EQ(others(a), others(b)) << name;
}

TEST(HfSpelling, EveryFileOfTheCorpusGoesToTheNewerSpellingAndBack) {
  // A scaling that transformers 4 does not have; layers without an encoding that only the newer dictionary can name.
  const std::set<std::string> without_older = {"gemma4.json", "null_layer_type.json"};
  std::set<std::string> refused;
  int changed = 0, back = 0;
  for (const std::string& name : files_in(corpus / "valid")) {
    const std::string text = text_of(corpus / "valid" / name);
    const Model model = parse_hf_config(text, name);
    const std::string newer = spell_hf_config(text, HfSpelling::v5, name).text;
    expect_same(parse_hf_config(newer, name), model, name);
    expect_other_bytes(newer, text, name);
    changed += newer != text;
    EXPECT_EQ(spell_hf_config(newer, HfSpelling::v5, name).text, newer) << name << ": twice is once";
    try {
      const std::string older = spell_hf_config(newer, HfSpelling::v4, name).text;
      expect_same(parse_hf_config(older, name), model, name);
      expect_other_bytes(older, text, name);
      EXPECT_EQ(older.find("rope_parameters"), older.npos) << name;
      EXPECT_EQ(spell_hf_config(older, HfSpelling::v4, name).text, older) << name << ": twice is once";
      EXPECT_TRUE(older_reader_warnings(older, name).empty()) << name;
      ++back;
    } catch (const ConfigError& error) {
      EXPECT_TRUE(without_older.contains(name)) << name << ": " << error.what();
      refused.insert(name);
    }
  }
  EXPECT_EQ(refused, without_older);
  EXPECT_GE(changed, 50);
  EXPECT_GE(back, 100);
}

TEST(HfSpelling, TheOldKeysBecomeOneDictionaryInTheirPlace) {
  const std::string text = R"({
  "model_type": "llama",
  "rope_scaling": {
    "factor": 8.0, "type": "linear"
  },
  "rope_theta": 500000.0,
  "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2
}
)";
  const SpelledConfig written = spell_hf_config(text, HfSpelling::v5);
  EXPECT_EQ(written.text, R"({
  "model_type": "llama",
  "rope_parameters": {
    "rope_type": "linear",
    "factor": 8.0,
    "rope_theta": 500000.0
  },
  "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2
}
)");
  ASSERT_EQ(written.warnings.size(), 1u);
  EXPECT_EQ(written.warnings[0].pointer, "/rope_parameters");
  EXPECT_NE(written.warnings[0].text.find("takes base 10000, where the file says 500000; no scaling, where the file "
                                          "says linear"),
            std::string::npos)
      << written.warnings[0].text;
  EXPECT_EQ(spell_hf_config(written.text, HfSpelling::v4).text, R"({
  "model_type": "llama",
  "rope_theta": 500000.0,
  "rope_scaling": {
    "rope_type": "linear",
    "factor": 8.0
  },
  "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2
}
)");
}

TEST(HfSpelling, Gemma3HasADictionaryForEachTypeOfLayers) {
  const std::string text =
      R"({"model_type": "gemma3_text", "rope_theta": 1000000, "rope_local_base_freq": 10000, "rope_scaling": {"rope_type": "linear", "factor": 8}})";
  const std::string newer = spell_hf_config(text, HfSpelling::v5).text;
  EXPECT_NE(newer.find(R"("sliding_attention": {"rope_type": "default", "rope_theta": 10000})"), newer.npos) << newer;
  EXPECT_NE(newer.find(R"("full_attention": {"rope_type": "linear", "factor": 8, "rope_theta": 1000000})"), newer.npos);
  EXPECT_EQ(spell_hf_config(newer, HfSpelling::v4).text, text);
}

TEST(HfSpelling, EachClassHasItsOldWords) {
  const std::string neox =
      spell_hf_config(
          R"({"model_type": "gpt_neox", "rope_parameters": {"rope_type": "default", "rope_theta": 20000, "partial_rotary_factor": 0.5}})",
          HfSpelling::v4)
          .text;
  EXPECT_EQ(neox, R"({"model_type": "gpt_neox", "rotary_emb_base": 20000, "rotary_pct": 0.5, "rope_scaling": null})");
  std::string factors = "[";
  for (int i = 0; i < 48; ++i) factors += i == 0 ? "1" : ", 1";
  factors += ']';
  const std::string phi =
      spell_hf_config(
          R"({"model_type": "phi3", "max_position_embeddings": 8192, "rope_parameters": {"rope_type": "longrope", "rope_theta": 10000, "partial_rotary_factor": 1.0, "original_max_position_embeddings": 4096, "short_factor": )" +
              factors + R"(, "long_factor": )" + factors + "}}",
          HfSpelling::v4)
          .text;
  EXPECT_NE(phi.find(R"("original_max_position_embeddings": 4096, )"), phi.npos) << phi;
  EXPECT_NE(phi.find(R"("rope_scaling": {"type": "longrope", "short_factor")"), phi.npos) << phi;
}

TEST(HfSpelling, WhatTheOlderSpellingCannotSayIsRefused) {
  const std::string two =
      refusal(llama(R"("layer_types": ["full_attention", "sliding_attention"], "sliding_window": 8, "rope_parameters":
      {"full_attention": {"rope_type": "default", "rope_theta": 500000},
       "sliding_attention": {"rope_type": "default", "rope_theta": 20000}})"),
              HfSpelling::v4);
  EXPECT_NE(two.find("c.json: must have rotary parameters that transformers 4 can say"), two.npos) << two;
  EXPECT_NE(two.find("base 500000 in place of 20000 in layer 1"), two.npos) << two;
  const std::string proportional = refusal(
      llama(R"("rope_parameters": {"rope_type": "proportional", "partial_rotary_factor": 0.5, "rope_theta": 20000})"),
      HfSpelling::v4);
  EXPECT_NE(proportional.find("got \"proportional\""), proportional.npos) << proportional;
  EXPECT_NE(refusal("{", HfSpelling::v5).find("must be JSON"), std::string::npos);
}

TEST(HfSpelling, OtherFilesHaveNoSpelling) {
  const std::string flux =
      R"({"_class_name": "FluxTransformer2DModel", "vision_config": {"rope_parameters": {"rope_theta": 2}}})";
  EXPECT_NE(refusal(flux, HfSpelling::v4).find("must be a Hugging Face config to be spelled"), std::string::npos);
  EXPECT_TRUE(older_reader_warnings(flux).empty());
}

TEST(HfSpelling, AnOlderReaderLosesWhatStandsInTheDictionaryAlone) {
  EXPECT_TRUE(older_reader_warnings(llama(R"("rope_theta": 500000)")).empty());
  EXPECT_TRUE(
      older_reader_warnings(llama(R"("rope_parameters": {"rope_type": "default", "rope_theta": 10000})")).empty());
  EXPECT_TRUE(older_reader_warnings(
                  llama(R"("rope_theta": 20000, "rope_parameters": {"rope_type": "default", "rope_theta": 20000})"))
                  .empty());
  const auto unknown = older_reader_warnings(
      R"({"model_type": "of my own", "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2, "rope_parameters": {"rope_theta": 20000}})");
  ASSERT_EQ(unknown.size(), 1u);
  EXPECT_NE(unknown[0].text.find("finds no rotary keys"), std::string::npos);
}

Rope read_back(const Rope& rope, HfSpelling spelling) {
  const std::string members = hf_rope(rope, spelling);
  const std::string type = rope.axes == RopeAxes{} ? "llama" : "qwen2_vl_text";
  return first_rope(parse_hf_config(R"({"model_type": ")" + type +
                                    R"(", "num_attention_heads": 2, "hidden_size": 256, "num_hidden_layers": 1, )" +
                                    members.substr(1)));
}

TEST(HfSpelling, ASpecIsWrittenInEitherSpelling) {
  const Rope plain{.head_dim = 128, .rotary_dim = 128, .base = 500'000, .pairing = Pairing::half};
  EXPECT_EQ(hf_rope(plain, HfSpelling::v4), R"({"rope_theta": 500000, "rope_scaling": null})");
  EXPECT_EQ(hf_rope(plain, HfSpelling::v5), R"({"rope_parameters": {"rope_type": "default", "rope_theta": 500000}})");
  const RopeScaling scalings[] = {LinearScaling{4},
                                  DynamicNtkScaling{2, 4096},
                                  AlphaScaling{1000},
                                  YarnScaling{.factor = 4, .trained_length = 32'768, .truncate = false},
                                  YarnScaling{.factor = 4, .trained_length = 32'768, .attention_factor = 0.5},
                                  LongRopeScaling{.short_factor = std::vector<double>(64, 1.5),
                                                  .long_factor = std::vector<double>(64, 8),
                                                  .trained_length = 4096,
                                                  .factor = 32},
                                  Llama3Scaling{},
                                  ProportionalScaling{.fraction = 0.25}};
  for (const RopeScaling& scaling : scalings) {
    Rope rope = plain;
    rope.scaling = scaling;
    for (const HfSpelling spelling : {HfSpelling::v4, HfSpelling::v5}) {
      if (std::holds_alternative<ProportionalScaling>(scaling) && spelling == HfSpelling::v4) continue;
      EXPECT_TRUE(read_back(rope, spelling) == rope) << hf_rope(rope, spelling);
    }
  }
  Rope axes = plain;
  axes.axes = RopeAxes::sections({16, 24, 24});
  EXPECT_TRUE(read_back(axes, HfSpelling::v4) == axes);
  EXPECT_TRUE(read_back(axes, HfSpelling::v5) == axes);
  EXPECT_EQ(hf_rope({.head_dim = 128, .rotary_dim = 32, .pairing = Pairing::half}, HfSpelling::v4),
            R"({"rope_theta": 10000, "partial_rotary_factor": 0.25, "rope_scaling": null})");
}

TEST(HfSpelling, StaticNtkIsWrittenAsItsBase) {
  for (const Index rotary_dim : {128, 32}) {
    const Rope ntk{.head_dim = 128, .rotary_dim = rotary_dim, .pairing = Pairing::half, .scaling = NtkScaling{4}};
    for (const HfSpelling spelling : {HfSpelling::v4, HfSpelling::v5}) {
      const Rope read = read_back(ntk, spelling);
      EXPECT_TRUE(std::holds_alternative<NoScaling>(read.scaling));
      const auto expected = resolve(ntk).inv_freq, got = resolve(read).inv_freq;
      ASSERT_EQ(got.size(), expected.size());
      // The base is rounded twice, by 2^-53 each, and the exponent turns that into less.
      for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i] / expected[i], 1, 0x1p-50);
    }
  }
}

TEST(HfSpelling, HunyuansAlphaStandsBesideTheFactorThatTransformers5Wants) {
  const Rope rope{.head_dim = 128, .pairing = Pairing::half, .scaling = AlphaScaling{1000}};
  EXPECT_EQ(hf_rope(rope, HfSpelling::v5),
            R"({"rope_parameters": {"rope_type": "dynamic", "alpha": 1000, "factor": 1, "rope_theta": 10000}})");
  EXPECT_EQ(hf_rope(rope, HfSpelling::v4),
            R"({"rope_theta": 10000, "rope_scaling": {"rope_type": "dynamic", "alpha": 1000}})");
}

TEST(HfSpelling, ASpecThatNoConfigCanSayIsRefused) {
  const auto error = [](Rope rope, HfSpelling spelling = HfSpelling::v5) -> std::string {
    rope.head_dim = 64;
    rope.pairing = Pairing::half;
    try {
      return hf_rope(rope, spelling);
    } catch (const ConfigError& refused) {
      return refused.what();
    }
  };
  const ExplicitFrequencies given{std::vector<double>(32, 0.5)};
  EXPECT_NE(error({.pairing = Pairing::half, .scaling = given}).find("got explicit"), std::string::npos);
  EXPECT_NE(error({.pairing = Pairing::half, .scaling = ProportionalScaling{.fraction = 0.5}}, HfSpelling::v4)
                .find("got proportional"),
            std::string::npos);
  EXPECT_NE(error({.pairing = Pairing::half, .axes = RopeAxes::axial({16, 16})}).find("axes"), std::string::npos);
  EXPECT_NE(error({.pairing = Pairing::half, .attention_factor = 2}).find("attention_factor"), std::string::npos);
  EXPECT_NE(error({.pairing = Pairing::half, .log_factors = std::vector<double>(32, 0.5)}).find("log_factors"),
            std::string::npos);
}

TEST(HfSpelling, MembersKeepTheirBytes) {
  const std::string text = "{ \"a\" : [1,{\"b\":\"}\"}],\n\t\"c\":NaN ,\"d\\\"\": {} }";
  json::ObjectText object = json::object_text(text, "");
  EXPECT_EQ(json::text_with(text, object), text);
  object.remove("c");
  EXPECT_EQ(object.text(), "{ \"a\" : [1,{\"b\":\"}\"}],\"d\\\"\": {} }");
  object.remove("a");
  object.remove("d\\\"");
  EXPECT_EQ(object.text(), "{ }");
  EXPECT_EQ(json::object_text(R"({"x": 1, "y": {"z": {"q": 2}}})", "/y/z").text(), R"({"q": 2})");
}

}  // namespace
}  // namespace bearing
