// What choose() says of models at hand: their lengths, their windows, and specs that are read back as they were meant.

#include <gtest/gtest.h>

#include <algorithm>
#include <bearing/choose.hpp>
#include <bearing/error.hpp>
#include <bearing/io.hpp>
#include <bearing/say.hpp>
#include <filesystem>
#include <set>

namespace bearing::inspect {
namespace {

Model model_of(const std::string& members) { return parse_hf_config("{" + members + "}"); }

Situation holding(const Said& said, Index wanted) {
  Situation s{.wanted = wanted};
  take_model(s, subject_of(said));
  return s;
}

Situation holding(const Model& model, Index wanted) { return holding(say_encodings(model).front(), wanted); }

std::string first(const Advice& advice) { return advice.options.front().encoding; }

/// The rotary spec that a text stands for.
Rope rope_of(const std::string& text, Index dim) {
  const Record spec = say_encoding(text).example({.dim = dim});
  const Rope* rope = spec.as<Rope>();
  return rope == nullptr ? Rope{.pairing = Pairing::half} : *rope;
}

const char* const llama = R"("model_type": "llama", "hidden_size": 64, "num_attention_heads": 4,
  "num_hidden_layers": 1, "rope_theta": 500000.0)";

TEST(ChooseModel, WhatTheFilePromisesIsReached) {
  const Model scaled = model_of(std::string(llama) + R"(, "max_position_embeddings": 131072, "rope_scaling":
    {"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 8192, "low_freq_factor": 1.0,
     "high_freq_factor": 4.0})");
  EXPECT_EQ(first(choose(holding(scaled, 131'072))), "@config.json") << "though 8 times 8,192 is less";
  EXPECT_EQ(choose(holding(scaled, 0)).situation.wanted, 131'072);
  const Advice more = choose(holding(scaled, 262'144));
  EXPECT_EQ(more.situation.trained, 8'192);
  EXPECT_EQ(first(more), "rope_yarn:factor=32,trained_length=8192,head_dim=16,base=500000,pairing=half");
}

// Pairs by hand: 16 frequencies on each axis from 1, of base 100 here, take 6.28, 8.38, 11.17, 14.90, … patches for a
// turn, so that 3 of 16 complete one in the 14 patches of a side; of base 10,000, dealt out to the axes (Pixtral), 5
// of 32.
TEST(ChooseModel, PatchesCountByTheSideOfTheImage) {
  const Said axial = say_encoding("rope_axial:head_dim=64");
  Situation s = holding(axial, 784);
  EXPECT_TRUE(s.assumed);
  s.trained = 196;
  const Advice advice = choose(s);
  EXPECT_EQ(first(advice).find("rope_yarn:factor=2,trained_length=14,"), 0u) << first(advice);
  const auto& reasons = advice.options.front().reasons;
  EXPECT_TRUE(std::any_of(reasons.begin(), reasons.end(), [](const Reason& one) {
    return one.text.find("26 of 32 pairs complete no turn in 14 patches of a side; at 28 ") == 0;
  }));
  const Advice known = choose(holding(model_of(R"("model_type": "pixtral", "image_size": 224)"), 784));
  EXPECT_EQ(known.situation.trained, 196);
  EXPECT_FALSE(known.situation.assumed);
  EXPECT_EQ(first(known).find("rope_yarn:factor=2,trained_length=14,"), 0u) << first(known);
}

// 16,384 patches have a side twice that of 4,096; 65 x 65 are the first that have a longer one. Of 32 x 64 patches the
// longer side becomes 64 sqrt(8) = 181, 2.83 times as long.
TEST(ChooseModel, AStretchIsThatOfTheSide) {
  const auto unknown = [](const Advice& advice, const std::string& factor) {
    return std::any_of(advice.unknowns.begin(), advice.unknowns.end(), [&](const std::string& one) {
      return one.find("takes a stretch of " + factor + ":") != one.npos;
    });
  };
  const Model square = model_of(R"("model_type": "pixtral", "image_size": 1024, "patch_size": 16)");
  const Advice twice = choose(holding(square, 16'384));
  EXPECT_EQ(first(twice).find("rope_yarn:factor=2,trained_length=64,"), 0u) << first(twice);
  EXPECT_TRUE(unknown(twice, "2"));
  EXPECT_EQ(first(choose(holding(square, 4'097))), "@config.json") << "no side is longer";
  EXPECT_EQ(first(choose(holding(square, 65 * 65))).find("rope_yarn:factor=1.015625,trained_length=64,"), 0u);
  const Model oblong = model_of(R"("model_type": "pixtral", "image_size": [512, 1024], "patch_size": 16)");
  const Advice wide = choose(holding(oblong, 16'384));
  EXPECT_EQ(first(wide).find("rope_yarn:factor=2.828125,trained_length=64,"), 0u) << first(wide);
  EXPECT_TRUE(unknown(wide, "2.828125"));
}

TEST(ChooseModel, CoordinatesThatSpanTheImageNeedNoScaling) {
  for (const char* type : {"dinov3_vit", "eomt_dinov3", "sapiens2"}) {
    const Model model =
        model_of(R"("image_size": [224, 448], "patch_size": 16, "model_type": ")" + std::string(type) + '"');
    const Advice advice = choose(holding(model, 10'000));
    EXPECT_EQ(advice.situation.trained, 14 * 28) << type;
    EXPECT_EQ(first(advice), "@config.json") << type;
    EXPECT_NE(advice.options.front().reasons.front().text.find("from -6.283 to 6.283 across the image"),
              std::string::npos);
    for (const Option& option : advice.options) EXPECT_EQ(option.name, "rope_axial") << type;
  }
}

TEST(ChooseModel, ALengthThatNobodySaidIsAssumed) {
  const Said tower = say_encodings(model_of(R"("model_type": "qwen2_vl_vision")")).front();
  EXPECT_TRUE(holding(tower, 0).assumed);
  EXPECT_FALSE(holding(model_of(std::string(llama) + R"(, "max_position_embeddings": 4096)"), 0).assumed);
}

TEST(ChooseModel, ALengthThatMayBeStretchedAlreadyIsNotStretchedAgain) {
  const Model linear = model_of(std::string(llama) + R"(, "max_position_embeddings": 16384,
    "rope_scaling": {"rope_type": "linear", "factor": 4.0})");
  EXPECT_EQ(first(choose(holding(linear, 16'384))), "@config.json");
  try {
    choose(holding(linear, 65'536));
    FAIL() << "nobody knows what it was trained on";
  } catch (const RangeError& error) {
    EXPECT_STREQ(error.what(),
                 "[choose] trained: must be given, as the model's file does not say how many tokens it was trained on "
                 "before it was stretched to 16384");
  }
  Situation said = holding(linear, 65'536);
  said.trained = 4'096;
  EXPECT_EQ(first(choose(said)), "rope_yarn:factor=16,trained_length=4096,head_dim=16,base=500000,pairing=half");
}

TEST(ChooseModel, AWindowNeedsNoScaling) {
  const Model mistral = model_of(R"("model_type": "mistral", "hidden_size": 64, "num_attention_heads": 4,
    "num_hidden_layers": 1, "max_position_embeddings": 32768, "sliding_window": 4096)");
  const Advice advice = choose(holding(mistral, 1 << 20));
  ASSERT_EQ(advice.options.size(), 1u);
  EXPECT_EQ(first(advice), "@config.json");
  EXPECT_NE(advice.options[0].reasons[0].text.find("its window of 4096 tokens"), std::string::npos);
}

// Where layers turn alike and only some have a window, those without one decide: they see all of the text.
TEST(ChooseModel, LayersWithoutAWindowDecide) {
  const std::string sizes = R"("hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 4,
    "max_position_embeddings": 8192, )";
  for (const char* members : {R"("model_type": "gemma2", "sliding_window": 4096)",
                              R"("model_type": "qwen2", "use_sliding_window": true, "sliding_window": 4096,
                                 "layer_types": ["sliding_attention", "full_attention", "sliding_attention",
                                                 "full_attention"])"}) {
    SCOPED_TRACE(members);
    const Model model = model_of(sizes + members);
    const std::vector<Said> said = say_encodings(model);
    ASSERT_EQ(said.size(), 1u);
    EXPECT_EQ(said[0].text(), "@config.json#1");
    EXPECT_EQ(choose(holding(model, 65'536)).situation.window, 0);
    EXPECT_TRUE(first(choose(holding(model, 65'536))).starts_with("rope_yarn:factor=8,trained_length=8192"));
    EXPECT_EQ(first(choose(holding(model, 8'192))), "@config.json#1");
  }
}

// The encoding that is named has all numbers of the model's but those of its scaling.
TEST(ChooseModel, WhatIsNamedTurnsTheSamePairs) {
  for (const char* name :
       {"deepseek-v3", "gpt-oss-20b", "llama-3.1-8b", "phi-3.5-mini", "qwen2-vl-7b", "qwen2.5-7b-yarn", "smollm3-3b"}) {
    SCOPED_TRACE(name);
    const Said said = say_encoding("@" + std::string(BEARING_SOURCE_DIR) + "/examples/models/" + name + ".json");
    const Advice advice = choose(holding(said, 1 << 20));
    const Index dim = advice.situation.dim;
    const Rope own = *Said(said).example({.dim = dim}).as<Rope>();
    Rope named = rope_of(first(advice), dim);
    EXPECT_EQ(advice.options[0].name.substr(0, 5), "rope_");
    if (std::holds_alternative<DeepseekYarnScaling>(own.scaling)) {
      auto scaling = std::get<DeepseekYarnScaling>(own.scaling);
      scaling.factor = std::get<DeepseekYarnScaling>(named.scaling).factor;
      EXPECT_EQ(named.scaling, RopeScaling(scaling));
    }
    if (named.rotary_dim == 0 && own.rotary_dim == own.head_dim) named.rotary_dim = own.rotary_dim;
    named.scaling = own.scaling;
    EXPECT_EQ(named, own) << first(advice);
  }
}

TEST(ChooseModel, BiasesKeepTheirHeads) {
  const Model bloom = model_of(R"("model_type": "bloom", "hidden_size": 256, "n_head": 8, "n_layer": 1)");
  const Advice advice = choose(holding(bloom, 8'192));
  ASSERT_EQ(advice.options.size(), 1u) << "it stays as it is";
  EXPECT_EQ(advice.options[0].costs->held, 8);
}

TEST(ChooseModel, ATableEndsWhereTheModelsDoes) {
  const Model bert = model_of(R"("model_type": "bert", "hidden_size": 64, "num_attention_heads": 4,
    "num_hidden_layers": 1, "max_position_embeddings": 512)");
  const Advice advice = choose(holding(bert, 4'096));
  EXPECT_EQ(advice.situation.dim, 16) << "of a head, not of the input";
  EXPECT_EQ(advice.options[0].reasons[0].text,
            "It is for a new model, or for one that is trained anew: what this one has, learned, ends at 512 tokens.");
  const auto own = std::find_if(advice.options.begin(), advice.options.end(),
                                [](const Option& one) { return one.name == "learned"; });
  ASSERT_NE(own, advice.options.end());
  EXPECT_EQ(own->rank, Rank::avoid);
  EXPECT_NE(own->reasons.back().text.find("[0, 512)"), std::string::npos) << own->reasons.back().text;
}

Situation held(const std::string& file, Index wanted = 0) {
  return holding(say_encodings("@" + std::string(BEARING_SOURCE_DIR) + "/" + file).front(), wanted);
}
const std::string corpus = "tests/corpus/hf_config/valid/";

/// Takes the text as bearing.encoding() and `attend` do.
void make_as_named(const std::string& text, const Situation& s) {
  Said said = say_encoding(text);
  said.complete({.heads = s.heads, .kv_heads = s.heads, .dim = s.dim, .length = s.trained});
  said.finish();
}

void expect_made_as_named(const Situation& s) {
  const Advice advice = choose(s);
  for (const Option& option : advice.options) {
    EXPECT_NO_THROW(make_as_named(option.encoding, advice.situation)) << option.encoding;
  }
}

/// What decides the keys that are named; "" where the model keeps what it has.
std::string rotary_kind(const Said& said) {
  const Record spec = Said(said).example({});
  const Rope* rope = spec.as<Rope>();
  if (rope == nullptr) return "";
  const char* pairing = rope->pairing == Pairing::half ? " half" : "";
  return said.description().name + pairing + (rope->axes == RopeAxes{} ? "" : " axes");
}

// What every file has, and what is named for each of their rotary encodings far past its length.
TEST(ChooseModel, WhatIsNamedCanBeMade) {
  std::set<std::string> kinds;
  for (const std::string& folder : {std::string("examples/models/"), corpus}) {
    for (const auto& file : std::filesystem::directory_iterator(std::string(BEARING_SOURCE_DIR) + "/" + folder)) {
      if (file.path().extension() != ".json") continue;
      for (const Said& said : say_encodings("@" + file.path().string())) {
        SCOPED_TRACE(said.text());
        Situation s = holding(said, 1 << 20);
        EXPECT_NO_THROW(make_as_named(said.text(), s));
        const std::string kind = rotary_kind(said);
        if (kind.empty() || !kinds.insert(kind).second) continue;
        s.window = 0;
        if (s.trained == 0) s.trained = 1'024;  // the file does not say
        expect_made_as_named(s);
      }
    }
  }
  EXPECT_GT(kinds.size(), 8u);
}

TEST(ChooseModel, WhatIsNamedForANewModelCanBeMade) {
  for (std::size_t task = 0; task < task_answers().size(); ++task) {
    for (const Index wanted : {64, 256}) {
      for (const bool tuning : {true, false}) {
        SCOPED_TRACE(task_answers()[task].word);
        expect_made_as_named({.task = static_cast<Task>(task),
                              .trained = 64,
                              .wanted = wanted,
                              .tuning = tuning,
                              .heads = 2,
                              .dim = 16});
      }
    }
  }
}

TEST(ChooseModel, AWindowOfPatchesIsTheTrainedLength) {
  for (const auto& [name, patches] : {std::pair{"swin_tiny.json", 49}, {"beit_base.json", 196}}) {
    SCOPED_TRACE(name);
    const Advice advice = choose(held(corpus + name));
    EXPECT_EQ(advice.situation.trained, patches);
    EXPECT_EQ(advice.situation.axes, 2);
    EXPECT_EQ(advice.timed, patches);
    EXPECT_EQ(advice.options[0].rank, Rank::recommended);
    const Advice longer = choose(held(corpus + name, 1'024));
    EXPECT_EQ(longer.options[0].rank, Rank::recommended) << "for a new model";
    EXPECT_NE(longer.options[0].reasons[0].text.find("ends at " + std::to_string(patches)), std::string::npos);
  }
  const Advice sections = choose(held("examples/models/qwen2-vl-7b.json"));
  EXPECT_EQ(sections.situation.axes, 3);
  EXPECT_EQ(choose(sections.situation).situation.axes, 3) << "what was filled in is taken again";
}

TEST(ChooseModel, ATableOfDistancesEndsWhereItsRowsDo) {
  const Advice advice = choose(held(corpus + "bert_relative.json", 1'024));
  EXPECT_EQ(advice.options[0].reasons[0].text,
            "It is for a new model, or for one that is trained anew: what this one has, bert_relative_key, ends at 512 "
            "tokens.");
}

TEST(ChooseModel, AModelSaysWhatItIsFor) {
  const auto task = [](const char* name) { return choose(held(corpus + name)).situation.task; };
  EXPECT_EQ(task("swin_tiny.json"), Task::images);
  EXPECT_EQ(task("deberta_base.json"), Task::understand);
  EXPECT_EQ(task("bert_relative.json"), Task::understand);
  EXPECT_EQ(task("t5_small.json"), Task::understand) << "its encoder comes first";
  EXPECT_EQ(task("gpt2.json"), Task::generate);
  EXPECT_FALSE(*choose(held(corpus + "swin_tiny.json")).situation.causal);
  Situation said = held(corpus + "deberta_base.json");
  said.task = Task::speech;
  EXPECT_EQ(choose(said).situation.task, Task::speech);
}

// By what transformers calls its class.
TEST(ChooseModel, AFileSaysWhatItsModelIsFor) {
  const auto advice = [](const std::string& name, Index wanted = 0) {
    return choose(holding(model_of(R"("model_type": "bert", "hidden_size": 64, "num_attention_heads": 4,
      "num_hidden_layers": 1, "max_position_embeddings": 512, "architectures": )" +
                                   name),
                          wanted));
  };
  for (const auto& [name, task] : {std::pair{"BertForMaskedLM", Task::understand},
                                   {"ViTForImageClassification", Task::images},
                                   {"Wav2Vec2ForCTC", Task::speech},
                                   {"LlamaForCausalLM", Task::generate},
                                   {"GPT2LMHeadModel", Task::generate}}) {
    const Advice said = advice(std::string(R"([")") + name + R"("])");
    EXPECT_EQ(said.situation.task, task) << name;
    EXPECT_TRUE(said.task_known) << name;
  }
  for (const char* names : {R"(["BertForSequenceClassification"])", R"(["FlaubertWithLMHeadModel"])",
                            R"(["ImageGPTForImageClassification"])", R"(["BertModel"])", "[]", "null", "7", "[7]"}) {
    EXPECT_FALSE(advice(names).task_known) << names;
  }
  const Advice longer = advice("[]", 4'096);
  EXPECT_NE(longer.options[0].reasons[1].text.find("nothing says what the model is for"), std::string::npos);
  const Advice encoder = advice(R"(["BertForMaskedLM"])", 4'096);
  EXPECT_FALSE(*encoder.situation.causal);
  EXPECT_EQ(encoder.options[0].reasons[1].text.find("nothing says"), std::string::npos);
}

// Llama 4, Cohere 2 and SmolLM3: layers without positions, which no window ends and no scaling reaches.
TEST(ChooseModel, LayersWithoutPositionsAreCounted) {
  const std::string sizes = R"("hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 8,
    "max_position_embeddings": 8192, )";
  const std::string beside = "2 other layers have no positions (NoPE) and no window";
  const auto said = [&](const Advice& advice) {
    const std::vector<Reason>& reasons = advice.options[0].reasons;
    return std::any_of(reasons.begin(), reasons.end(), [&](const Reason& one) { return one.text.starts_with(beside); });
  };
  for (const char* members : {R"("model_type": "cohere2", "sliding_window": 4096)", R"("model_type": "smollm3")",
                              R"("model_type": "llama4_text", "attention_chunk_size": 4096)"}) {
    SCOPED_TRACE(members);
    const Model model = model_of(sizes + members);
    const Advice longer = choose(holding(model, 65'536));
    EXPECT_EQ(longer.options[0].rank, Rank::recommended);
    EXPECT_TRUE(said(longer));
    EXPECT_NE(longer.unknowns.back().find("layers without positions"), std::string::npos);
    EXPECT_FALSE(said(choose(holding(model, 8'192)))) << "no longer than its file promises";
  }
  EXPECT_FALSE(said(choose(holding(model_of(sizes + R"("model_type": "llama")"), 65'536))));
}

TEST(ChooseModel, SizesThatTheModelDoesNotHaveAreRefused) {
  const auto error = [](Situation s) {
    try {
      choose(s);
    } catch (const std::logic_error& caught) {
      return std::string(caught.what());
    }
    return std::string();
  };
  Situation rotary = held("examples/models/llama-3.1-8b.json"), bloom = held(corpus + "bloom_560m.json");
  rotary.dim = 64, bloom.heads = 8;
  EXPECT_EQ(error(rotary), "[choose] dim: must be 128, which the model has, got 64");
  EXPECT_EQ(error(bloom), "[choose] heads: must be 16, which the model has, got 8");
  Situation table = held(corpus + "bert_relative.json");
  table.trained = 1'024;
  EXPECT_TRUE(
      error(table).starts_with("[choose] trained, heads, dim: must be sizes that the model's encoding serves, "
                               "got 1024, 12, 64: q_positions, k_positions: must be less than"))
      << error(table);
}

}  // namespace
}  // namespace bearing::inspect
