#include <gtest/gtest.h>
#include <bearing/io.hpp>

#include <cmath>

#include "hf_config_cases.hpp"

// Where a file and the model's own code disagree: what counts, and that it is said.

namespace bearing {
namespace {

using namespace test;

/// A small model of any type.
std::string of_type(const std::string& type, const std::string& keys) {
  return R"({"model_type": ")" + type + R"(", "hidden_size": 256, "num_attention_heads": 4, "head_dim": 64,
             "num_hidden_layers": 2, "max_position_embeddings": 128)" +
         (keys.empty() ? "" : ", " + keys) + "}";
}

TEST(HfCodes, APartOfAHeadWhereTheCodeTurnsAllOfItIsPointedOut) {
  for (const char* type : {"llama", "mistral", "qwen2", "gemma", "gpt_oss", "olmo2"}) {
    const std::string plain = R"("rope_parameters": {"rope_type": "default", "rope_theta": 10000}, )";
    for (const char* key : {"\"partial_rotary_factor\": 0.5", "\"rotary_pct\": 0.5", "\"rotary_dim\": 32"}) {
      const Model model = parse_hf_config(of_type(type, plain + key));
      EXPECT_EQ(first_rope(model).rotary_dim, 32) << type << key;
      const std::string pointer = "/" + std::string(key).substr(1, std::string(key).find(':') - 2);
      EXPECT_TRUE(warns(model, pointer,
                        "32 of 64 dimensions turn, but the code of " + std::string(type) +
                            " in transformers 5.24.0 does not read it and turns all of them"))
          << type << key;
    }
  }
  const Model scaled = parse_hf_config(
      of_type("llama", R"("partial_rotary_factor": 0.5, "rope_scaling": {"type": "linear", "factor": 2})"));
  EXPECT_TRUE(warns(scaled, "/partial_rotary_factor", "turns whole heads and fails with it"));
  const Model inside =
      parse_hf_config(of_type("llama", R"("rope_parameters": {"rope_theta": 10000, "partial_rotary_factor": 0.5})"));
  EXPECT_TRUE(warns(inside, "/rope_parameters/partial_rotary_factor", "turns all of them"));
}

TEST(HfCodes, APartOfAHeadThatTheCodeReadsIsNotPointedOut) {
  for (const char* type : {"phi", "glm4_moe", "stablelm", "nemotron", "minimax_m2"}) {
    const Model model = parse_hf_config(of_type(type, R"("partial_rotary_factor": 0.5)"));
    EXPECT_EQ(first_rope(model).rotary_dim, 32) << type;
    EXPECT_FALSE(warns(model, "/partial_rotary_factor", "")) << type;
  }
  EXPECT_FALSE(warns(parse_hf_config(of_type("llama", R"("partial_rotary_factor": 1)")), "/partial_rotary_factor", ""));
}

// DeepSeek's code takes the fraction of qk_rope_head_dim, where there is a scaling; GLM-4.7's always; Mistral 4's of
// the whole head. It makes angles for so many dimensions, and cannot turn qk_rope_head_dim by them.
TEST(HfCodes, AFractionWithWhichLatentAttentionFailsIsPointedOut) {
  const auto latent = [](const std::string& type, const std::string& keys) {
    return parse_hf_config(R"({"model_type": ")" + type + R"(", "num_attention_heads": 4, "num_hidden_layers": 1,
        "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "max_position_embeddings": 128, "rope_theta": 10000, )" +
                           keys + "}");
  };
  const std::string third = R"("partial_rotary_factor": 0.33333333333333333)";
  const std::string yarn = R"("rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 32)";
  const std::string fails = "ignored: qk_rope_head_dim = 64 turns, but the code of ";
  for (const char* type : {"deepseek_v2", "deepseek_v3", "axk1"}) {
    const Model scaled = latent(type, third + R"(, "rope_scaling": {)" + yarn + "}");
    EXPECT_EQ(first_rope(scaled).rotary_dim, 64);
    EXPECT_TRUE(warns(scaled, "/partial_rotary_factor",
                      fails + type + " in transformers 5.24.0 makes angles for 21 with it and fails"))
        << type;
    EXPECT_TRUE(warns(latent(type, R"("rope_parameters": {"rope_theta": 10000, )" + third + ", " + yarn + "}"),
                      "/rope_parameters/partial_rotary_factor", fails))
        << type;
    EXPECT_FALSE(warns(latent(type, third), "/partial_rotary_factor", "")) << type;
    EXPECT_FALSE(warns(latent(type, R"("partial_rotary_factor": 1, "rope_scaling": {)" + yarn + "}"),
                       "/partial_rotary_factor", ""))
        << type;
    EXPECT_TRUE(warns(latent(type, R"("partial_rotary_factor": 0.5)"), "/partial_rotary_factor",
                      "ignored: qk_rope_head_dim = 64 turns"))
        << type;
  }
  EXPECT_TRUE(warns(latent("glm4_moe_lite", third), "/partial_rotary_factor", "makes angles for 21 with it and fails"));
  EXPECT_FALSE(warns(latent("glm4_moe_lite", R"("partial_rotary_factor": 1)"), "/partial_rotary_factor", ""));
  EXPECT_FALSE(warns(latent("mistral4", third + R"(, "rope_scaling": {)" + yarn + "}"), "/partial_rotary_factor", ""));
  EXPECT_TRUE(warns(latent("mistral4", R"("partial_rotary_factor": 1, "rope_scaling": {)" + yarn + "}"),
                    "/partial_rotary_factor", "makes angles for 192 with it and fails"));
  for (const std::string& keys :
       {R"("rope_scaling": {)" + yarn + "}", std::string(R"("rope_parameters": {"rope_type": "default"})")}) {
    EXPECT_TRUE(warns(latent("mistral4", keys), "/qk_rope_head_dim",
                      "64 dimensions turn, but the code of mistral4 in transformers 5.24.0 makes angles for 192 and"))
        << keys;
  }
  EXPECT_FALSE(warns(latent("mistral4", R"("rope_parameters": {)" + yarn + "}"), "/qk_rope_head_dim", ""));
}

// Olmo3Config pops rope_theta for full_attention, and finds none for sliding_attention.
TEST(HfCodes, Olmo3sBaseBesideTheDictionariesIsForFullLayersInItsCode) {
  const std::string types = R"("layer_types": ["sliding_attention", "full_attention"], "sliding_window": 8, )";
  const char* const says =
      "10000 counts for all layers, but the code of olmo3 in transformers 5.24.0 takes it for "
      "full_attention alone, and 500000 for sliding_attention";
  for (const std::string keys : {R"("rope_theta": 10000)", R"("rope_theta": 10000, "rope_scaling": {"type": "linear",
       "factor": 2})",
                                 R"("rope_theta": 10000, "rope_parameters": {"full_attention": {"rope_type": "default",
       "rope_theta": 500}, "sliding_attention": {"rope_type": "default"}})"}) {
    const Model model = parse_hf_config(of_type("olmo3", types + keys));
    EXPECT_EQ(std::get<Rope>(model.layers[0].encoding).base, 10'000) << keys;
    EXPECT_TRUE(warns(model, "/rope_theta", says)) << keys;
  }
  EXPECT_TRUE(parse_hf_config(of_type("olmo3", types + R"("rope_theta": 500000)")).warnings.empty());
  EXPECT_FALSE(warns(parse_hf_config(of_type("olmo3", R"("layer_types": ["full_attention", "full_attention"],
      "rope_theta": 10000)")),
                     "/rope_theta", "counts for all layers"));
  EXPECT_FALSE(warns(parse_hf_config(of_type("gemma3_text", types + R"("rope_theta": 10000)")), "/rope_theta", ""));
}

TEST(HfCodes, ARampOfWholePairsIsPointedOutWhereItsCodeDoesNotFindTheKey) {
  const std::string yarn = R"("layer_types": ["sliding_attention", "full_attention"], "rope_scaling": {"factor": 4,
      "rope_type": "yarn", "original_max_position_embeddings": 32, "truncate": false})";
  for (const char* type : {"gemma3_text", "modernbert", "olmo3"}) {
    EXPECT_TRUE(warns(parse_hf_config(of_type(type, yarn)), "/rope_scaling/truncate", "rounds the ends of the ramp"))
        << type;
  }
  EXPECT_FALSE(warns(parse_hf_config(of_type("llama", yarn)), "/rope_scaling/truncate", ""));
}

TEST(HfCodes, AScalingThatItsClassKeepsAndNothingReadsIsPointedOut) {
  const std::string linear = R"({"rope_type": "linear", "factor": 2, "rope_theta": 10000})";
  EXPECT_TRUE(warns(parse_hf_config(of_type("cohere2_moe", "\"rope_scaling\": " + linear)), "/rope_scaling",
                    "counts, but the code of cohere2_moe in transformers 5.24.0 reads rope_parameters alone"));
  EXPECT_FALSE(warns(parse_hf_config(of_type("cohere2_moe", "\"rope_parameters\": " + linear)), "/rope_scaling", ""));
}

// Classes with a dictionary of their own where the file has none do not read what stands beside it.
TEST(HfCodes, WhatStandsBesideTheDictionaryOfAClassIsPointedOut) {
  const Model muse = parse_hf_config(of_type("muse_spark_text", R"("rope_theta": 777, "num_hidden_layers": 3)"));
  EXPECT_TRUE(warns(muse, "/rope_theta", "takes its class' dictionary as it is, with rope_theta = 500000"));
  const Model speech = parse_hf_config(R"({"model_type": "moonshine_streaming", "num_attention_heads": 4,
      "head_dim": 40, "num_hidden_layers": 1, "partial_rotary_factor": 0.5})");
  EXPECT_EQ(first_rope(speech).rotary_dim, 32);
  EXPECT_TRUE(warns(speech, "/partial_rotary_factor", "ignored: /(class default)/partial_rotary_factor counts"));
}

TEST(HfCodes, AFractionThatTheClassSetsIsNotTheFiles) {
  const Model bamba = parse_hf_config(of_type("bamba", R"("attn_layer_indices": [0], "partial_rotary_factor": 0.25)"));
  EXPECT_EQ(first_rope(bamba).rotary_dim, 32);
  EXPECT_TRUE(warns(bamba, "/partial_rotary_factor", "takes 0.5 for full_attention"));
  const std::string groups = R"("layer_types": ["sliding_attention", "full_attention"], "rope_parameters":
      {"sliding_attention": {"rope_theta": 500}, "full_attention": {"rope_theta": 500}})";
  const auto dims = [&](const char* type, std::size_t layer) {
    return std::get<Rope>(parse_hf_config(of_type(type, groups)).layers[layer].encoding).rotary_dim;
  };
  EXPECT_EQ(dims("neomme", 0), 64);
  EXPECT_EQ(dims("neomme", 1), 16);
  EXPECT_EQ(first_rope(parse_hf_config(R"({"model_type": "mimo_v2_flash", "head_dim": 192, "num_hidden_layers": 1,
      "rope_parameters": {"full_attention": {"rope_theta": 500}}})"))
                .rotary_dim,
            64);
  const Model step = parse_hf_config(
      of_type("step3p5", R"("layer_types": ["full_attention", "full_attention"], "partial_rotary_factor": 0.5)"));
  EXPECT_TRUE(warns(step, "/partial_rotary_factor", "does not read it and turns all of them"));
}

TEST(HfCodes, T5Gemma2sBaseAndScalingAreThoseOfFullLayers) {
  const Model model = parse_hf_config(of_type("t5gemma2_text", R"("rope_theta": 777, "sliding_window": 8,
      "layer_types": ["sliding_attention", "full_attention"], "rope_scaling": {"rope_type": "linear", "factor": 2})"));
  EXPECT_EQ(described(model),
            "1 sliding_attention@4+4 half 10000 64/64 default | 1 full_attention half 777 64/64 linear");
}

TEST(HfCodes, TheModelsOwnSpellingCounts) {
  const Model both = parse_hf_config(of_type(
      "gpt_neox", R"("rotary_emb_base": 10000, "rope_theta": 1000000, "rotary_pct": 0.5, "partial_rotary_factor": 1)"));
  EXPECT_EQ(first_rope(both).base, 10000);
  EXPECT_EQ(first_rope(both).rotary_dim, 32);
  EXPECT_TRUE(warns(both, "/rope_theta", "says otherwise than rotary_emb_base = 10000, which counts"));
  EXPECT_TRUE(warns(both, "/partial_rotary_factor", "says otherwise than rotary_pct = 0.5, which counts"));

  const Model other = parse_hf_config(of_type("llama", R"("rope_theta": 10000, "rotary_emb_base": 1000000)"));
  EXPECT_EQ(first_rope(other).base, 10000);
  EXPECT_TRUE(warns(other, "/rotary_emb_base", "says otherwise than rope_theta = 10000, which counts"));
  EXPECT_FALSE(warns(parse_hf_config(of_type("gpt_neox", R"("rotary_emb_base": 500.0, "rope_theta": 500)")), "", ""));

  const Model chunks = parse_hf_config(of_type("llama4_text", R"("attention_chunk_size": 16, "sliding_window": 8)"));
  EXPECT_EQ(chunks.layers[0].window, 16);
  EXPECT_TRUE(warns(chunks, "/sliding_window", "says otherwise"));
}

TEST(HfCodes, ASpellingThatTheCodeDoesNotReadIsPointedOut) {
  const Model neox = parse_hf_config(of_type("gpt_neox", R"("rope_theta": 1000000)"));
  EXPECT_EQ(first_rope(neox).base, 1000000);
  EXPECT_TRUE(
      warns(neox, "/rope_theta",
            "counts, but the code of gpt_neox in transformers 5.24.0 does not read it; it reads rotary_emb_base"));
  EXPECT_TRUE(
      warns(parse_hf_config(of_type("llama", R"("rotary_emb_base": 500)")), "/rotary_emb_base", "reads rope_theta"));
  EXPECT_TRUE(warns(parse_hf_config(R"({"model_type": "llama", "hidden_size": 64, "n_head": 4})"), "/n_head",
                    "it reads num_attention_heads"));
  const Model gptj =
      parse_hf_config(R"({"model_type": "gptj", "n_embd": 512, "n_head": 4, "n_layer": 2, "rope_theta": 500})");
  EXPECT_FALSE(warns(gptj, "/n_head", ""));
  EXPECT_EQ(first_rope(gptj).rotary_dim, 64) << "the class' default";
  EXPECT_TRUE(warns(gptj, "/model_type", "has base 10000 and no scaling, whatever the file says"));
}

TEST(HfCodes, UnknownLayerTypesAreRefusedByName) {
  for (const char* type : {"gemma3_text", "gpt_oss", "qwen2", "llama"}) {
    try {
      parse_hf_config(of_type(type, R"("sliding_window": 8, "layer_types": ["full_attention", "sliding_atention"])"));
      ADD_FAILURE() << type;
    } catch (const ConfigError& error) {
      EXPECT_NE(std::string(error.what()).find("/layer_types/1: must be full_attention, sliding_attention"),
                std::string::npos)
          << error.what();
      EXPECT_NE(std::string(error.what()).find("got \"sliding_atention\""), std::string::npos);
    }
  }
  const Model unknown = parse_hf_config(
      of_type("newmodel2030", R"("rope_theta": 10000, "layer_types": ["full_attention", "own_attention"])"));
  EXPECT_TRUE(warns(unknown, "/layer_types/1", "\"own_attention\" is not known"));
}

TEST(HfCodes, GroupsOfNoLayerTypeArePointedOutOrRefused) {
  const std::string types = R"("sliding_window": 8, "layer_types": ["sliding_attention", "full_attention"], )";
  const Model model = parse_hf_config(of_type("gemma3_text", types + R"("rope_parameters":
      {"sliding_atention": {"rope_type": "linear", "factor": 8}, "full_attention": {"rope_type": "default"}})"));
  EXPECT_TRUE(warns(model, "/rope_parameters/sliding_atention", "ignored: no layer is of that type"));
  EXPECT_NE(error_of(of_type("gemma3_text", types + R"("rope_parameters": {"sliding_atention": {"factor": 8}})"))
                .find("/rope_parameters/sliding_atention: must be one of the layer types"),
            std::string::npos);
}

TEST(HfCodes, HeadsOfSingleLayersAreRead) {
  const std::string gemma =
      R"({"model_type": "gemma4_text", "hidden_size": 128, "num_attention_heads": 4, "head_dim": 32,
      "num_hidden_layers": 6)";
  const auto dims = [&](const std::string& keys) {
    std::vector<Index> heads;
    for (const Layer& layer : parse_hf_config(gemma + keys + "}").layers) {
      heads.push_back(std::get<Rope>(layer.encoding).head_dim);
    }
    return heads;
  };
  EXPECT_EQ(dims(""), (std::vector<Index>{32, 32, 32, 32, 32, 512}));
  EXPECT_EQ(dims(R"(, "global_head_dim": 64)"), (std::vector<Index>{32, 32, 32, 32, 32, 64}));
  EXPECT_EQ(dims(R"(, "per_layer_config": {"5": {"head_dim": 64}})"), (std::vector<Index>{32, 32, 32, 32, 32, 64}));
  EXPECT_EQ(dims(R"(, "per_layer_config": {"00": {"head_dim": 48}})"), (std::vector<Index>{48, 32, 32, 32, 32, 32}));
  for (const char* key : {"6", "-1", "x", ""}) {
    EXPECT_NE(error_of(gemma + R"(, "per_layer_config": {")" + key + R"(": {"head_dim": 64}}})")
                  .find("must be the number of a layer"),
              std::string::npos)
        << key;
  }
}

TEST(HfCodes, PhisTrainedLengthInsideTheDictionaryIsPointedOut) {
  const std::string list = "[1, 1, 1, 1, 1, 1, 1, 1]";
  const auto phi = [&](const std::string& inside, const std::string& top) {
    return parse_hf_config(
        R"({"model_type": "phi3", "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2,
        "max_position_embeddings": 8192, "rope_theta": 10000, )" +
        top + R"("rope_scaling": {"type": "longrope", "short_factor": )" + list + R"(, "long_factor": )" + list +
        inside + "}}");
  };
  const Model model = phi(R"(, "original_max_position_embeddings": 2048)", "");
  EXPECT_EQ(model.trained_length, 2048);
  EXPECT_TRUE(warns(model, "/rope_scaling/original_max_position_embeddings",
                    "reads this key at the top level alone and takes 4096"));
  EXPECT_TRUE(phi("", R"("original_max_position_embeddings": 2048, )").warnings.empty());
}

TEST(HfCodes, DeepseeksAttentionFactorMultipliesCosAndSin) {
  const auto model = [](const std::string& keys) {
    return parse_hf_config(R"({"model_type": "deepseek_v3", "num_attention_heads": 4, "num_hidden_layers": 2,
        "max_position_embeddings": 128, "rope_scaling": {"type": "yarn", "factor": 4,
        "original_max_position_embeddings": 32, )" +
                           keys + "}}");
  };
  const RopeFrequencies given =
      resolve(first_rope(model(R"("mscale": 1, "mscale_all_dim": 1, "attention_factor": 1.5)")));
  EXPECT_EQ(given.attention_factor, 1.5);
  const double m = 0.1 * std::log(4.0) + 1;
  EXPECT_NEAR(given.softmax_scale_factor, m * m, 1e-12);
  EXPECT_TRUE(warns(model(R"("mscale_all_dim": 1)"), "/rope_scaling/mscale_all_dim", "without mscale"));
}

TEST(HfCodes, ErrorsThatUseADefaultSaySo) {
  EXPECT_NE(error_of(R"({"model_type": "gemma4_text", "layer_types": ["full_attention"]})")
                .find("/layer_types: must be 30 strings, one per layer (num_hidden_layers = 30: not in the file, the "
                      "default of gemma4_text), got"),
            std::string::npos);
  EXPECT_NE(error_of(R"({"model_type": "llama", "hidden_size": 100})")
                .find("(num_attention_heads = 32: not in the file, the default of llama)"),
            std::string::npos);
  EXPECT_EQ(error_of(of_type("llama", R"("layer_types": ["full_attention"])")),
            "c.json: /layer_types: must be 2 strings, one per layer, got an array of 1");
}

TEST(HfCodes, ContradictionsOfModelsThatAreNotRotaryAreSaid) {
  const Model gpt2 = parse_hf_config(R"({"model_type": "gpt2", "n_positions": 64, "max_position_embeddings": 32,
      "n_embd": 8, "n_head": 2, "n_layer": 1})");
  EXPECT_TRUE(warns(gpt2, "/n_positions", "says otherwise than max_position_embeddings = 32, which counts"));
  const Model two = parse_hf_config(R"({"text_config": {"model_type": "gpt2", "n_head": 2}, "llm_config": {}})");
  EXPECT_TRUE(warns(two, "/llm_config", "says otherwise than text_config"));
}

}  // namespace
}  // namespace bearing
