#include <gtest/gtest.h>
#include <bearing/io.hpp>

#include <cmath>

#include "hf_config_cases.hpp"
#include "support/golden.hpp"

#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

namespace bearing {
namespace {

using namespace test;

TEST(HfConfig, EveryValidFileGivesTheGroupsItsTableStates) {
  const auto rows = table(corpus / "valid.tsv");
  EXPECT_GE(rows.size(), 35u);
  std::set<std::string> named;
  for (const auto& row : rows) {
    ASSERT_EQ(row.size(), 3u) << row[0];
    named.insert(row[0]);
    EXPECT_EQ(described(read_hf_config(corpus / "valid" / row[0])), row[1]) << row[0];
  }
  EXPECT_EQ(named, files_in(corpus / "valid"));
}

TEST(HfConfig, EveryEncodingOfTheValidFilesResolvesToFiniteFrequencies) {
  for (const std::string& name : files_in(corpus / "valid")) {
    for (const LayerGroup& group : layer_groups(read_hf_config(corpus / "valid" / name))) {
      const auto* rope = std::get_if<Rope>(&group.layer.encoding);
      if (rope == nullptr) continue;
      for (double theta : resolve(*rope).inv_freq) EXPECT_TRUE(std::isfinite(theta)) << name;
    }
  }
}

TEST(HfConfig, EveryMalformedFileIsRefusedWithTheTextItsTableStates) {
  const std::vector<std::string> errors = expect_refused_as_stated(corpus);
  EXPECT_GE(errors.size(), 70u);
  for (const std::string& text : errors) EXPECT_LT(text.size(), 500u) << text;
}

TEST(HfConfig, GoldenModelsGiveTheFrequenciesThatTransformersComputes) {
  for (const std::string& name : files_in(source / "tests/golden/hf_rope")) {
    const rapidjson::Document golden = test::golden("hf_rope/" + name);
    rapidjson::StringBuffer text;
    rapidjson::Writer<rapidjson::StringBuffer> writer(text);
    golden["config"].Accept(writer);
    const Model model = parse_hf_config({text.GetString(), text.GetSize()}, name);

    // Gemma 3's local frequencies are those of its sliding layers, its global ones come with another file.
    const bool global = name == "gemma3_4b_global.json";
    const auto* rope = &first_rope(model);
    for (const Layer& layer : model.layers) {
      if (global && layer.type == "full_attention") rope = &std::get<Rope>(layer.encoding);
    }
    const Index seq_len = golden["seq_len"].IsNull() ? 0 : golden["seq_len"].GetInt64();
    const RopeFrequencies frequencies = resolve(*rope, seq_len);
    const std::vector<double> expected = test::numbers(golden["inv_freq_f64"]);
    ASSERT_EQ(frequencies.inv_freq.size(), expected.size()) << name;
    // The expected numbers come from a few double operations each: well within 1e-12.
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR(frequencies.inv_freq[i], expected[i], 1e-12 * expected[i]) << name << " pair " << i;
    }
    const double factor = golden["attention_factor_f64"].GetDouble();
    EXPECT_NEAR(frequencies.attention_factor, factor, 1e-12 * factor) << name;
    EXPECT_EQ(rope->rotary_dim, golden["rotary_dim"].GetInt64()) << name;
    const bool half = std::string(golden["layout"].GetString()) == "half";
    EXPECT_EQ(Pairing{rope->pairing}, half ? Pairing::half : Pairing::interleaved) << name;
  }
}

TEST(HfConfig, DeepseekMultipliesItsSoftmaxScale) {
  const Model model = read_hf_config(source / "examples/models/deepseek-v3.json");
  const double m = 0.1 * std::log(40.0) + 1;  // both mscales are 1
  EXPECT_NEAR(resolve(first_rope(model)).softmax_scale_factor, m * m, 1e-12);
}

TEST(HfConfig, TheExamplesAreModelsWithoutMistakes) {
  for (const std::string& name : files_in(source / "examples/models")) {
    const Model model = read_hf_config(source / "examples/models" / name);
    EXPECT_FALSE(layer_groups(model).empty()) << name;
  }
  const Model model = read_hf_config(source / "examples/models/llama-3.1-8b.json");
  EXPECT_EQ(model.layers.size(), 32u);
  EXPECT_EQ(model.heads, 32);
  EXPECT_EQ(model.kv_heads, 8);
  EXPECT_EQ(model.head_dim, 128);
  EXPECT_EQ(model.trained_length, 8192);
  EXPECT_EQ(model.context_length, 131072);
  EXPECT_TRUE(model.warnings.empty());
}

TEST(HfConfig, LayersAreGroupedInOrderOfTheirFirst) {
  const auto groups = layer_groups(read_hf_config(corpus / "valid/cohere2_7b.json"));
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].layers[3], 4);
  EXPECT_EQ(groups[1].layers, (std::vector<Index>{3, 7, 11, 15, 19, 23, 27, 31}));
}

TEST(HfConfig, ModelsOfTheNewAndTheOldKeysAreTheSame) {
  const auto json = [](const std::string& name) {
    return to_json(first_rope(read_hf_config(corpus / "valid" / name)));
  };
  EXPECT_EQ(json("llama3_1_8b.json"), json("llama3_1_8b_v5.json"));
  EXPECT_EQ(described(read_hf_config(corpus / "valid/gemma3_v5.json")),
            "10 sliding_attention@1024 half 10000 256/256 default | 2 full_attention half 1000000 256/256 linear");
}

TEST(HfConfig, TheDictionaryCountsBeforeTheTopLevel) {
  const Model model = parse_hf_config(
      llama(R"("rope_theta": 20000, "rope_parameters": {"rope_type": "default", "rope_theta": 30000})"));
  EXPECT_EQ(first_rope(model).base, 30000);
  EXPECT_TRUE(warns(model, "/rope_theta", "20000 is ignored; /rope_parameters/rope_theta = 30000 counts"));
}

TEST(HfConfig, RopeTypeCountsBeforeType) {
  const Model model =
      parse_hf_config(llama(R"("rope_scaling": {"type": "dynamic", "rope_type": "linear", "factor": 2})"));
  EXPECT_TRUE(std::holds_alternative<LinearScaling>(first_rope(model).scaling));
  EXPECT_TRUE(warns(model, "/rope_scaling/type", "rope_type"));
}

TEST(HfConfig, TheTopLevelTrainedLengthCounts) {
  const Model model = parse_hf_config(llama(R"("original_max_position_embeddings": 32, "rope_scaling":
      {"rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 64})"));
  EXPECT_EQ(std::get<YarnScaling>(first_rope(model).scaling).trained_length, 32);
  EXPECT_EQ(model.trained_length, 32);
  EXPECT_TRUE(warns(model, "/original_max_position_embeddings", "32 counts"));
}

TEST(HfConfig, KeysThatDoNothingAreNamed) {
  const Model yarn = parse_hf_config(llama(R"("rope_scaling": {"rope_type": "yarn", "factor": 2,
      "original_max_position_embeddings": 64, "mscale": 0.707, "short_factor": [1], "beta": 3})"));
  EXPECT_TRUE(warns(yarn, "/rope_scaling/mscale", "ignored without mscale_all_dim"));
  EXPECT_TRUE(warns(yarn, "/rope_scaling/short_factor", "ignored for rope_type yarn"));
  EXPECT_TRUE(warns(yarn, "/rope_scaling/beta", "ignored for rope_type yarn"));
  EXPECT_FALSE(warns(yarn, "/rope_scaling/factor", ""));

  const Model linear = parse_hf_config(
      llama(R"("rope_theta": 10000, "rope_scaling": {"type": "linear", "factor": 0.5, "beta_fast": null})"));
  EXPECT_TRUE(warns(linear, "/rope_scaling/factor", "below 1"));
  EXPECT_EQ(linear.warnings.size(), 1u);
}

TEST(HfConfig, AFactorThatDoesNotFitTheLengthsIsPointedOut) {
  const Model model = parse_hf_config(
      llama(R"("rope_scaling": {"type": "yarn", "factor": 8, "original_max_position_embeddings": 64})"));
  EXPECT_TRUE(
      warns(model, "/rope_scaling/factor", "8 counts, but max_position_embeddings over the trained length is 2"));
}

TEST(HfConfig, AFactorThatIsMissingIsTheRatioOfTheLengths) {
  const Model model =
      parse_hf_config(llama(R"("rope_scaling": {"type": "yarn", "original_max_position_embeddings": 32})"));
  EXPECT_EQ(std::get<YarnScaling>(first_rope(model).scaling).factor, 4);
}

TEST(HfConfig, DynamicScalingIsSaidToDependOnTheLength) {
  const Model model = read_hf_config(corpus / "valid/internlm2_7b.json");
  EXPECT_TRUE(warns(model, "/rope_scaling/factor", "depend on the sequence's length"));
  EXPECT_EQ(std::get<DynamicNtkScaling>(first_rope(model).scaling).trained_length, 32768);
}

TEST(HfConfig, PositionTemperatureIsReadWhereTheModelHasIt) {
  for (const Layer& layer : read_hf_config(corpus / "valid/llama4_scout.json").layers) {
    ASSERT_EQ(layer.temperature.has_value(), !std::holds_alternative<Rope>(layer.encoding));
    EXPECT_EQ(layer.temperature.value_or(PositionTemperature::llama4()), PositionTemperature::llama4(0.1, 8192));
  }
  for (const Layer& layer : read_hf_config(corpus / "valid/ministral3_8b.json").layers) {
    EXPECT_EQ(layer.temperature, PositionTemperature::ministral3(16384, 0.1));
  }
  EXPECT_FALSE(read_hf_config(corpus / "valid/llama3_1_8b.json").layers[0].temperature);
}

TEST(HfConfig, TheFirstQwenHasATemperatureAndABaseThatGrowsPastItsLength) {
  const auto of = [](const std::string& more) {
    return parse_hf_config(R"({"model_type": "qwen", "hidden_size": 4096, "num_attention_heads": 32, "kv_channels": 128,
        "num_hidden_layers": 2, "rotary_emb_base": 10000, "rotary_pct": 1.0, "max_position_embeddings": 32768)" +
                           more + "}");
  };
  const Model model = of(R"(, "seq_length": 8192, "use_dynamic_ntk": true, "use_logn_attn": true)");
  for (const Layer& layer : model.layers) {
    EXPECT_EQ(layer.temperature, PositionTemperature::qwen(8192));
    EXPECT_EQ(std::get<Rope>(layer.encoding), (Rope{.head_dim = 128, .rotary_dim = 128, .pairing = Pairing::half}));
  }
  EXPECT_EQ(model.trained_length, 8192);
  EXPECT_EQ(model.context_length, 32'768);
  EXPECT_TRUE(warns(model, "/use_dynamic_ntk", "past seq_length = 8192 tokens"));
  EXPECT_FALSE(warns(model, "/seq_length", ""));
  const Model by_default = of(R"(, "seq_length": 8192)");
  EXPECT_EQ(by_default.layers[0].temperature, PositionTemperature::qwen(8192));
  EXPECT_TRUE(warns(by_default, "/use_dynamic_ntk", "past seq_length"));
  const Model plain = of(R"(, "use_dynamic_ntk": false, "use_logn_attn": false)");
  EXPECT_FALSE(plain.layers[0].temperature);
  EXPECT_FALSE(warns(plain, "/use_dynamic_ntk", ""));
  try {
    of("");
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("/seq_length"), std::string::npos) << error.what();
  }
}

TEST(HfConfig, TemperatureTuningMayBeANumber) {
  const auto temperatures = [](const std::string& value) {
    const Model model = parse_hf_config(R"({"model_type": "llama4_text", "hidden_size": 64, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 16, "num_hidden_layers": 4, "attn_temperature_tuning": )" +
                                        value + "}");
    return std::count_if(model.layers.begin(), model.layers.end(),
                         [](const Layer& l) { return l.temperature.has_value(); });
  };
  EXPECT_EQ(temperatures("4"), 1);
  EXPECT_EQ(temperatures("true"), 1);
  EXPECT_EQ(temperatures("null"), 1);
  EXPECT_EQ(temperatures("0"), 0);
  EXPECT_EQ(temperatures("false"), 0);
}

TEST(HfConfig, BloomSaysItsWidthAsItsOwnKeyOrAsOthersDo) {
  for (const char* width : {R"("n_embed": 1024)", R"("hidden_size": 1024)", R"("hidden_size": 64, "n_embed": 1024)"}) {
    const std::string rest = R"(, "num_attention_heads": 16, "n_layer": 24, "seq_length": 2048})";
    const Model model = parse_hf_config(R"({"model_type": "bloom", )" + std::string(width) + rest);
    EXPECT_EQ(model.head_dim, 64) << width;
  }
}

TEST(HfConfig, AnUnknownModelIsReadWithAWarning) {
  const Model model = read_hf_config(corpus / "valid/unknown_model.json");
  EXPECT_TRUE(warns(model, "/model_type", "\"newmodel2030\" is not known"));
}

TEST(HfConfig, ABaseOnWhichVersionsDisagreeIsPointedOut) {
  const Model model = parse_hf_config(R"({"model_type": "cohere", "hidden_size": 64, "num_attention_heads": 4})");
  EXPECT_EQ(first_rope(model).base, 10000);
  EXPECT_TRUE(warns(model, "/rope_theta", "500000 in 5.24.0"));
}

std::string base_from(const Model& model) { return model.layers.front().base_from; }

TEST(HfConfig, AModelSaysWhereItsBaseComesFrom) {
  const Model said = parse_hf_config(llama(R"("rope_theta": 500)"));
  EXPECT_EQ(base_from(said), "rope_theta");
  EXPECT_TRUE(said.warnings.empty());
  const Model misspelt = parse_hf_config(llama(R"("rope_teta": 500)"));
  EXPECT_EQ(base_from(misspelt), "default of llama");
  EXPECT_TRUE(warns(misspelt, "/rope_theta", "not in the file; 10000 is the default of llama"));
  EXPECT_EQ(base_from(parse_hf_config(llama(R"("rope_parameters": {"rope_theta": 500})"))), "rope_theta");
  EXPECT_EQ(base_from(parse_hf_config(R"({"model_type": "new", "rope_theta": 500, "head_dim": 8})")), "rope_theta");
  EXPECT_EQ(
      base_from(parse_hf_config(R"({"model_type": "new", "rope_scaling": null, "rotary_pct": 1, "head_dim": 8})")),
      "assumed");
  EXPECT_EQ(base_from(parse_hf_config(R"({"model_type": "gpt_neox", "rotary_emb_base": 500})")), "rotary_emb_base");
  // GPT-NeoX has its own word, GPT-J none, and a part's object leaves out what is its class' default.
  EXPECT_TRUE(warns(parse_hf_config(R"({"model_type": "gpt_neox"})"), "/rotary_emb_base", "default of gpt_neox"));
  EXPECT_FALSE(warns(parse_hf_config(R"({"model_type": "gptj"})"), "/rope_theta", ""));
  const Model part = parse_hf_config(R"({"model_type": "gemma3", "text_config": {"model_type": "gemma3_text"}})");
  EXPECT_EQ(base_from(part), "default of gemma3_text");
  EXPECT_FALSE(warns(part, "/text_config/rope_theta", ""));
}

TEST(HfConfig, AWarningIsGivenOnce) {
  const Model model = read_hf_config(corpus / "valid/gemma3_v5.json");
  EXPECT_TRUE(model.warnings.empty());
  const Model both = parse_hf_config(R"({"model_type": "gpt_oss", "num_hidden_layers": 4, "rope_scaling":
      {"rope_type": "yarn", "factor": 32, "original_max_position_embeddings": 4096, "odd": 1}, "head_dim": 64,
      "num_attention_heads": 64, "rope_theta": 150000})");
  EXPECT_EQ(layer_groups(both).size(), 2u);
  EXPECT_EQ(both.warnings.size(), 1u);
}

TEST(HfConfig, SlidingWindowsOfQwenNeedTheirSwitch) {
  const auto groups = [](const std::string& type, const std::string& keys) {
    return described(parse_hf_config(R"({"model_type": ")" + type + R"(", "hidden_size": 64, "num_attention_heads": 4,
        "num_hidden_layers": 30, "head_dim": 16, "sliding_window": 8)" +
                                     keys + "}"));
  };
  const std::string full = "30 full_attention half 10000 16/16 default";
  const std::string on = ", \"use_sliding_window\": true";
  EXPECT_EQ(groups("qwen2", ""), full);
  EXPECT_EQ(groups("qwen3_moe", ""), full);
  EXPECT_EQ(groups("qwen3_moe", on), "30 sliding_attention@8 half 10000 16/16 default");
  // max_window_layers is 28 where the file does not say.
  EXPECT_EQ(groups("qwen2", on),
            "28 full_attention half 10000 16/16 default | 2 sliding_attention@8 half 10000 16/16 default");
}

TEST(HfConfig, ALocalBaseOfNullIsTheGlobalOne) {
  const auto bases = [](const std::string& keys) {
    return described(parse_hf_config(R"({"model_type": "modernbert", "num_hidden_layers": 2, "hidden_size": 64,
        "num_attention_heads": 4, "local_attention": 8, "global_rope_theta": 300)" +
                                     keys + "}"));
  };
  const std::string global = "1 full_attention half 300 16/16 default | 1 sliding_attention@5+4 half ";
  EXPECT_EQ(bases(""), global + "10000 16/16 default");
  EXPECT_EQ(bases(", \"local_rope_theta\": 200"), global + "200 16/16 default");
  EXPECT_EQ(bases(", \"local_rope_theta\": null"), global + "300 16/16 default");
}

TEST(HfConfig, WhatBearingSaysOfAFileIsNone) {
  const std::string must = "must be a model's own config.json, got what bearing says of one: ";
  EXPECT_NE(
      error_of(R"({"schema": "bearing.config/2", "model_type": "llama", "groups": []})").find(must + "the output"),
      std::string::npos);
  EXPECT_NE(error_of(R"({"model_type": "llama", "layers": [{}], "towers": [], "warnings": []})").find(must + "Model"),
            std::string::npos);
}

TEST(HfConfig, WhatTheFileCannotTellIsSaid) {
  EXPECT_TRUE(warns(read_hf_config(corpus / "valid/bert_relative_key_query.json"), "/position_embedding_type",
                    "does not read it: it has no relative keys"));
  EXPECT_TRUE(warns(read_hf_config(corpus / "valid/glm4_9b_chat_1m.json"), "/rope_ratio", "divide the positions"));
  const Model model = parse_hf_config(R"({"model_type": "nanochat", "hidden_size": 64, "num_attention_heads": 4})");
  EXPECT_TRUE(warns(model, "/model_type", "turns by the negative angle"));
}

TEST(HfConfig, WhatMattersMostIsSaidFirst) {
  // In the order of the file: a size that the class has, two keys that disagree, and what the model's code does else.
  const Model model = parse_hf_config(R"({"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4,
      "rope_theta": 5, "rope_scaling": {"rope_type": "linear", "factor": 0.5, "beta_fast": 32},
      "partial_rotary_factor": 0.5})");
  std::vector<std::string> pointers;
  for (const ConfigWarning& warning : model.warnings) pointers.push_back(warning.pointer);
  EXPECT_EQ(pointers, (std::vector<std::string>{"/partial_rotary_factor", "/rope_scaling/factor", "/num_hidden_layers",
                                                "/rope_scaling/beta_fast"}));
}

TEST(HfConfig, AnUnknownTypeComesBeforeTheRest) {
  const Model model = parse_hf_config(R"({"model_type": "newmodel2030", "head_dim": 16,
      "rope_scaling": {"rope_type": "linear", "factor": 0.5}})");
  ASSERT_GT(model.warnings.size(), 2u);
  EXPECT_EQ(model.warnings[0].pointer, "/model_type");
}

TEST(HfConfig, NegativeAnglesAreFrequenciesBelow0) {
  const std::string file = R"({"model_type": "nanochat", "hidden_size": 64, "num_attention_heads": 4)";
  const Model model = parse_hf_config(file + "}");
  const Rope& rope = std::get<Rope>(model.layers[0].encoding);
  const RopeFrequencies turned = resolve(rope), plain = resolve({.head_dim = 16, .pairing = Pairing::half});
  ASSERT_EQ(turned.pairs(), 8);
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(turned.inv_freq[i], -plain.inv_freq[i]) << i;
  EXPECT_EQ(model.trained_length, 2048);
  EXPECT_NE(error_of(file + R"(, "rope_scaling": {"rope_type": "linear", "factor": 2}})")
                .find("/rope_scaling/rope_type: must be default: beside negative angles a scaling is not read, got "
                      "\"linear\""),
            std::string::npos);
  const Model large = parse_hf_config(
      R"({"model_type": "nanochat", "hidden_size": 4096, "num_attention_heads": 32, "num_hidden_layers": 32})");
  EXPECT_EQ(large.layers.size(), 32u);
  EXPECT_EQ(std::get<Rope>(large.layers[31].encoding).head_dim, 128);
}

TEST(HfConfig, LayersSayWhatAttentionTakes) {
  const auto takes = [](const Layer& layer, const Window& window, const Band& band) {
    const Window got = layer.attention_window();
    return got.before == window.before && got.after == window.after && layer.attention_band() == band;
  };
  EXPECT_TRUE(takes({}, {}, {}));
  EXPECT_TRUE(takes({.encoding = NoPosition{}, .type = "window_attention"}, {}, {}));
  EXPECT_TRUE(
      takes({.encoding = NoPosition{}, .type = "sliding_attention", .window = 9}, {.before = 8, .after = 0}, {}));
  EXPECT_TRUE(takes({.encoding = NoPosition{}, .type = "sliding_attention", .window = 9, .window_after = 8},
                    {.before = 8, .after = 8}, {}));
  const std::string type = "chunked_attention";
  EXPECT_TRUE(takes({.encoding = NoPosition{}, .type = type}, {}, {}));
  EXPECT_TRUE(takes({.encoding = NoPosition{}, .type = type, .window = 9}, {}, {.from = 0, .to = 1, .chunk = 9}));
  EXPECT_TRUE(takes({.encoding = NoPosition{}, .type = type, .window = 9, .window_after = 8, .chunks_before = 2}, {},
                    {.from = 0, .to = 3, .chunk = 9}));
  EXPECT_TRUE(
      takes({.encoding = NoPosition{}, .type = type, .window = 9, .chunks_before = -1}, {}, {.from = 0, .chunk = 9}));
}

}  // namespace
}  // namespace bearing
