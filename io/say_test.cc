#include <gtest/gtest.h>
#include <bearing/encodings/cape.hpp>
#include <bearing/encodings/kerple.hpp>
#include <bearing/encodings/learned.hpp>
#include <bearing/encodings/xpos.hpp>
#include <bearing/figures.hpp>
#include <bearing/io.hpp>
#include <bearing/npy.hpp>
#include <bearing/say.hpp>

#include <filesystem>
#include <fstream>
#include <limits>

namespace bearing {
namespace {

template <class Body>
std::string error_of(const Body& body) {
  try {
    body();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "no error";
}

/// Another value of the type than the one that is there, of two or more.
Value other_value(const ValueType& type, const Value& value) {
  switch (type.kind) {
    case Kind::truth:
      return !std::get<bool>(value);
    case Kind::whole:
      return Index{7};
    case Kind::number:
      return 1.0 / 3;
    case Kind::word:
      return type.words.back();
    case Kind::list: {
      const Value item = other_value(type.items[0], type.items[0].kind == Kind::truth ? Value{true} : Value{});
      return Values(type.items.size() > 1 ? type.items.size() : 2, item);
    }
    default:
      return value;
  }
}

/// All members other than their defaults, where that is possible.
Record changed(const RecordType& type) {
  Record record = type.make();
  for (const MemberInfo& member : type.members) {
    if (member.type.kind == Kind::truth && member.type.optional) {
      record.set(member.name, true);
    } else {
      record.set(member.name, other_value(member.type, record.get(member.name)));
    }
  }
  return record;
}

class File {
 public:
  explicit File(const std::string& name) : path_(std::filesystem::temp_directory_path() / name) {}
  File(const std::string& name, const std::string& text) : File(name) { std::ofstream(path_) << text; }
  ~File() { std::filesystem::remove(path_); }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

TEST(RecordJson, EveryRecordReadsBackAsItWas) {
  for (const RecordType& type : registry().records()) {
    if (type.is_setting || type.type == typeid(Rope)) continue;  // the rotation has tests of its own
    SCOPED_TRACE(type.name);
    for (const Record& record : {type.make(), changed(type)}) {
      const std::string json = to_json(record);
      EXPECT_TRUE(parse_record(json) == record) << json;
      EXPECT_EQ(to_json(parse_record(json)), json);
    }
  }
}

TEST(RecordJson, TheRotationReadsBackInItsLongForm) {
  const Rope rope{.head_dim = 64, .pairing = Pairing::half, .scaling = Llama3Scaling{}, .part = RotaryPart::window(3)};
  const std::string json = to_json(Record::of(rope));
  EXPECT_NE(json.find(R"("scaling": {"type": "Llama3Scaling", "factor": 8)"), std::string::npos) << json;
  EXPECT_TRUE(parse_record(json) == Record::of(rope)) << json;
  EXPECT_TRUE(parse_record(to_json(rope)) == Record::of(rope));
}

TEST(RecordJson, MistakesAreNamed) {
  const std::pair<const char*, const char*> mistakes[] = {
      {R"({"buckets": 64})", "record: /type: must be there (one of "},
      {R"({"type": "T6"})", "/type: must be one of "},
      {R"({"type": "T5"})", "/direction: must be there ("},
      {R"({"type": "T5", "direction": "both"})", "/direction: must be "},
      {R"({"type": "T5", "direction": "causal", "bucket": 3})",
       "/bucket: must be one of: type, buckets, max_distance, direction"},
      {R"({"type": "T5", "direction": "causal", "buckets": 1.5})", "/buckets: must be a whole number"},
      {R"({"type": "Xpos", "rope": 3})", "/rope: must be an object, got 3"},
      {R"({"type": "Xpos", "rope": {"head_dim": 4}})", "/rope/pairing: must be there"},
  };
  for (const auto& [json, text] : mistakes) {
    const std::string error = error_of([&, json = json] { parse_record(json); });
    EXPECT_NE(error.find(text), std::string::npos) << error;
  }
  Record xpos = Record::of(Xpos{.rope = {.head_dim = 4, .pairing = Pairing::half}});
  xpos.set("gamma", std::numeric_limits<double>::infinity());
  EXPECT_THROW(to_json(xpos), RangeError);
  EXPECT_THROW(to_json(Record{}), ShapeError);
}

TEST(Say, NamesAndAliasesInAnyCase) {
  for (const char* text : {"t5_causal", "T5-Causal", "t5 causal"}) {
    EXPECT_EQ(say_encoding(text).description().name, "t5_causal");
  }
  EXPECT_EQ(say_encoding("KERPLE").description().name, "kerple_log");
  for (const Description& one : inspect::catalog()) EXPECT_EQ(&say_encoding(one.name).description(), &one);
}

TEST(Say, MembersAreKeys) {
  Said said = say_encoding("t5:buckets=64,max_distance=1k");
  const Record wanted = Record::of(T5{.buckets = 64, .max_distance = 1024, .direction = T5Direction::bidirectional});
  EXPECT_TRUE(said.example({}) == wanted);
  EXPECT_TRUE(say_encoding("t5:buckets=64,max_distance=1024").complete({}) == wanted);
  said.finish();
  Said rope = say_encoding("rope_yarn:pairing=interleaved,factor=2.5,trained_length=16,truncate=false,part=last");
  const Record made = rope.complete({.dim = 8});
  const Rope yarn{.head_dim = 8,
                  .pairing = Pairing::interleaved,
                  .scaling = YarnScaling{.factor = 2.5, .trained_length = 16, .truncate = false},
                  .part = RotaryPart::last()};
  EXPECT_TRUE(made == Record::of(yarn)) << to_json(made);
  Said xpos = say_encoding("xpos:pairing=half,base=100,gamma=0.5");
  EXPECT_TRUE(xpos.complete({.dim = 8}) ==
              Record::of(Xpos{.rope = {.head_dim = 8, .base = 100, .pairing = Pairing::half}, .gamma = 0.5}));
  Said kind = say_encoding("rope:pairing=half,scaling=linear,factor=2");
  EXPECT_TRUE(kind.complete({.dim = 8}) ==
              Record::of(Rope{.head_dim = 8, .pairing = Pairing::half, .scaling = LinearScaling{2}}));
}

TEST(Say, ListsAreInTheTextOrInAFile) {
  const double divisors[] = {1, 2.5};
  const File file("say_test.npy");
  write_npy(file.path(), "f8", {2}, divisors);
  for (const std::string& list : {std::string("1:2.5"), file.path()}) {
    Said said = say_encoding("rope:pairing=half,scaling=divisors,divisors=" + list);
    EXPECT_TRUE(said.complete({.dim = 4}) ==
                Record::of(Rope{.head_dim = 4, .pairing = Pairing::half, .scaling = FrequencyDivisors{{1, 2.5}}}));
  }
}

TEST(Say, ANameStandsForWhatTellsItFromOthersAndNoMore) {
  // The example of rope_yarn is stretched fourfold; a model says itself how far.
  EXPECT_TRUE(say_encoding("rope_yarn").example({}).as<Rope>()->scaling == RopeScaling(YarnScaling{4, 128}));
  EXPECT_TRUE(say_encoding("rope_yarn:pairing=half").complete({.dim = 8}).as<Rope>()->scaling ==
              RopeScaling(YarnScaling{}));
  EXPECT_TRUE(say_encoding("kerple_power").complete({}) == Record::of(Kerple{KerpleForm::power}));
  const std::string error = error_of([] { say_encoding("rope_yarn:factor=4").complete({.dim = 8}); });
  EXPECT_NE(error.find("rope_yarn: pairing must be given, there is no default: interleaved or half"), error.npos)
      << error;
}

TEST(Say, JsonInTheTextOrInAFile) {
  const std::string json = R"({"type": "T5", "buckets": 64, "direction": "causal"})";
  const File file("say_test.json", json);
  for (const std::string& text : {json, "t5_causal:" + json, file.path()}) {
    Said said = say_encoding(text);
    EXPECT_EQ(said.description().name, "t5_causal") << text;
    EXPECT_TRUE(said.example({}) == Record::of(T5{.buckets = 64, .direction = T5Direction::causal}));
  }
  EXPECT_EQ(say_encoding(json + ":table=t5.npy").take("table"), "t5.npy");
  EXPECT_EQ(say_encoding(R"({"head_dim": 4, "pairing": "half", "scaling": {"type": "llama3"}})").description().name,
            "rope_llama3");
}

TEST(Say, SlopesSayHowManyHeadsThereAre) {
  EXPECT_EQ(say_encoding("alibi:slopes=0.5:0.25:0.125").sizes().heads, 3);
  EXPECT_EQ(say_encoding("alibi:form=causal").sizes().heads, 0);
  const Model model = parse_hf_config(R"({"model_type": "falcon", "alibi": true})");  // without a number of heads
  EXPECT_EQ(say_encodings(model).at(0).sizes().heads, 71);
}

TEST(Say, LengthsAreTheMostOfTheFileTheScalingAndWhatIsAsked) {
  const std::string config =
      R"({"model_type": "qwen2", "hidden_size": 64, "num_attention_heads": 8, "num_hidden_layers": 1,
          "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4096},
          "max_position_embeddings": 8192})";
  const Model model = parse_hf_config(config);
  Layer layer = model.layers.at(0);
  EXPECT_EQ(scaled_length(std::get<Rope>(layer.encoding).scaling), 16384);
  EXPECT_EQ(lengths_of(model, layer).trained, 4096);
  EXPECT_EQ(lengths_of(model, layer).longest, 16384);
  EXPECT_EQ(lengths_of(model, layer, 20000).longest, 20000);
  layer.window = 4096;
  EXPECT_EQ(lengths_of(model, layer).trained, 0);
  layer.window = 4097;
  EXPECT_EQ(lengths_of(model, layer).trained, 4096);
  EXPECT_EQ(lengths_of(model, {}).longest, 8192);
}

TEST(Say, AModelsFileWithoutItsSignIsNamedAsOne) {
  for (const std::string key : {R"("model_type": "llama")", R"("architectures": ["LlamaForCausalLM"])"}) {
    const File file("say_test_unsigned.json", "{" + key + "}");
    const std::string error = error_of([&] { say_encoding(file.path() + ":base=500"); });
    EXPECT_NE(error.find(file.path() + ": must be written @" + file.path() + ": it is a model's file"),
              std::string::npos)
        << error;
  }
}

TEST(Say, ASpecsFileWithAModelsSignIsNamedAsOne) {
  const File file("say_test_signed.json", R"({"type": "T5", "buckets": 8, "max_distance": 20, "direction": "causal"})");
  EXPECT_EQ(say_encoding(file.path()).description().name, "t5_causal");
  EXPECT_EQ(error_of([&] { say_encoding("@" + file.path() + ":buckets=16"); }),
            file.path() + ": must be written " + file.path() +
                ":buckets=16, without @: it says an encoding, as it has a type");
}

TEST(Say, AFileWithoutATypeIsToldThoseOfEncodings) {
  const File file("say_test_untyped.json", R"({"buckets": 8})");
  const std::string error = error_of([&] { say_encoding(file.path()); });
  EXPECT_NE(error.find("/type: must be there (one of Learned, "), error.npos) << error;
  EXPECT_NE(error.find(", Kerple, "), error.npos) << error;
  for (const char* none : {"Grouped", "GatedDecayPast", "TableLength", "yarn"}) {
    EXPECT_EQ(error.find(none), error.npos) << none << ": " << error;
  }
  const File rope("say_test_rope.json", R"({"head_dim": 64, "pairing": "half"})");
  EXPECT_EQ(say_encoding(rope.path()).description().name, "rope");
}

TEST(Say, ModelsHaveTheirOwnSizes) {
  const File file("say_test_config.json",
                  R"({"model_type": "llama", "hidden_size": 64, "num_attention_heads": 8, "num_key_value_heads": 2,
                      "num_hidden_layers": 2, "rope_theta": 500000.0, "max_position_embeddings": 4096})");
  Said said = say_encoding("@" + file.path());
  EXPECT_EQ(said.description().name, "rope");
  EXPECT_EQ(said.sizes().heads, 8);
  EXPECT_EQ(said.sizes().kv_heads, 2);
  EXPECT_EQ(said.sizes().dim, 8);
  EXPECT_EQ(said.sizes().length, 4096);
  EXPECT_EQ(said.lengths().longest, 4096);
  const inspect::Subject subject = subject_of(say_encodings(read_hf_config(file.path())).at(0));
  EXPECT_EQ(subject.name, "@" + file.path());
  EXPECT_EQ(subject.sizes.dim, 8);
  EXPECT_EQ(subject.lengths.longest, 4096);
  EXPECT_TRUE(said.example({}) ==
              Record::of(Rope{.head_dim = 8, .rotary_dim = 8, .base = 500'000, .pairing = Pairing::half}));
  EXPECT_EQ(say_encoding("@" + file.path() + "#1").description().name, "rope");
  for (const auto& [part, wanted] : {std::pair{"#2", "after # must stand a layer from 0 to 1 or input, got '2'"},
                                     {"#input", "has no encoding there"},
                                     {"#x", "got 'x'"}}) {
    const std::string error = error_of([&, part = part] { say_encoding("@" + file.path() + part); });
    EXPECT_NE(error.find(wanted), error.npos) << error;
  }
}

TEST(Say, ASpecSaysItsOwnSizes) {
  const auto dim_of = [](const Said& said) { return example_size({}, said.sizes()).dim; };
  EXPECT_EQ(dim_of(say_encoding(R"(rope:{"head_dim": 128, "pairing": "half"})")), 128);
  EXPECT_EQ(dim_of(say_encoding("xpos:head_dim=32")), 32);
  EXPECT_EQ(dim_of(say_encoding(Record::of(Rope{.head_dim = 16, .pairing = Pairing::half}))), 16);
  EXPECT_EQ(dim_of(say_encoding("rope:base=100")), 64);
  EXPECT_EQ(dim_of(say_encoding("sandwich:dim=96")), 64);  // of its sinusoids; nobody has to say it
  EXPECT_EQ(example_size({}, say_encoding("sandwich:heads=3").sizes()).heads, 3);
  EXPECT_EQ(example_size({}, say_encoding("learned:length=100").sizes()).length, 100);
  EXPECT_EQ(example_size({.dim = 8}, say_encoding("rope:head_dim=128").sizes()).dim, 8);
  EXPECT_EQ(say_encoding(Record::of(Rope{.pairing = Pairing::half})).example({.dim = 8}).as<Rope>()->head_dim, 8);
  EXPECT_THROW(say_encoding(Record::of(YarnScaling{})), ConfigError);
}

TEST(Say, AnExampleIsAsWideAsItsSpecOrRefused) {
  EXPECT_EQ(example_size({}, say_encoding("rope:head_dim=8192").sizes()).dim, 8192);
  EXPECT_EQ(example_size({}, say_encoding(Record::of(Learned{.length = 8, .dim = 12288})).sizes()).dim, 12288);
  const std::string wide = "head_dim must be at most 16384 where an example is made, got 65536";
  EXPECT_EQ(error_of([] { say_encoding("rope:head_dim=65536").as_description(); }), "[encoding] rope: " + wide);
  EXPECT_THROW(say_encoding(Record::of(Cape2d{.dim = 65536})).as_description(), RangeError);
  const File file("say_test_wide.json", R"({"model_type": "llama", "hidden_size": 65536, "num_attention_heads": 1})");
  EXPECT_THROW(say_encoding("@" + file.path()).as_description(), ConfigError);
  EXPECT_EQ(error_of([&] { say_encoding("@" + file.path()).as_description(); }), file.path() + ": " + wide);
}

TEST(Say, AMeasurementTakesNoMoreOfAModelThanItCan) {
  const Description& rope = *inspect::find("rope");
  const Sizes model{.heads = 32, .dim = 128, .length = 131072};
  const inspect::SpecimenOptions size = measured_size(rope, {}, model);
  EXPECT_EQ(size.heads, 2);  // alike in all heads: fewer do
  EXPECT_EQ(size.heads * size.dim * size.length, Index{1} << 24);
  EXPECT_EQ(measured_size(rope, {.heads = 32, .length = 512}, model).heads, 32);
  EXPECT_EQ(measured_size(*inspect::find("t5"), {}, model).heads, 32);
  EXPECT_EQ(measured_size(*inspect::find("t5"), {}, model).length, 4096);
}

TEST(Say, LayersOfOneModelHaveHeadsOfTheirOwnSize) {
  const File file("say_test_two_encoders.json",
                  R"({"model_type": "vjepa2", "num_hidden_layers": 2, "pred_num_hidden_layers": 1})");
  const std::vector<Said> all = say_encodings("@" + file.path());
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].sizes().dim, 64);
  EXPECT_EQ(all[1].sizes().dim, 32);
  std::vector<inspect::Subject> subjects;
  for (const Said& said : all) subjects.push_back(subject_of(said));
  for (const char* kind : {"heatmap", "curves", "walk", "hands"}) {
    EXPECT_NO_THROW((void)inspect::figure(kind, subjects)) << kind;
  }
}

// Patch i of n stands at 2π ((2 i + 1)/n − 1): DINOv3's.
TEST(Say, AnExampleStandsAtTheCoordinatesOfItsFile) {
  const File file("say_test_dinov3.json", R"({"model_type": "dinov3_vit", "image_size": [64, 128], "patch_size": 16})");
  const inspect::Subject subject = subject_of(say_encoding("@" + file.path()));
  EXPECT_EQ(subject.sizes.length, 32);
  const inspect::Specimen specimen = inspect::make(subject.description, {.heads = 1, .dim = 64, .length = 32});
  EXPECT_EQ(specimen.grid, (GridSize{4, 8}));
  const inspect::Tokens tokens = specimen.tokens(32);
  const Positions at = tokens.at();
  ASSERT_EQ(at.axes(), 2);
  EXPECT_NEAR(at.real(0, 0, 8), 2 * 3.141592653589793 * (3.0 / 4 - 1), 1e-14);
  EXPECT_NEAR(at.real(1, 0, 31), 2 * 3.141592653589793 * (15.0 / 8 - 1), 1e-14);
  EXPECT_EQ(inspect::compare(subject.description, {.heads = 1, .dim = 64, .length = 32}).past_length, "seen values");
  EXPECT_EQ(inspect::compare(subject.description, {.heads = 1, .dim = 64, .length = 32}).relative,
            inspect::Verdict::yes);
}

TEST(Say, LevitHasTheSameEncodingAtAllDoors) {
  const Model levit = parse_hf_config(R"({"model_type": "levit"})");
  EXPECT_EQ(encoding_name(levit.layers[0].encoding), inspect::find("levit")->name);
}

TEST(Say, AModelsNameIsNoEncodingAndItsEncodingIsTold) {
  const auto said = [](const std::string& name) { return error_of([&] { say_encoding(name); }); };
  EXPECT_NE(said("dinov3").find("'dinov3' is not an encoding; models of that name: dinov3_vit has 'rope_axial'"),
            std::string::npos)
      << said("dinov3");
  EXPECT_NE(said("perceiver").find("models of that name: perceiver has 'fourier'"), std::string::npos)
      << said("perceiver");
  EXPECT_NE(said("pixtral").find("models of that name: pixtral has 'rope_axial'"), std::string::npos)
      << said("pixtral");
  EXPECT_NE(said("qwen2_vl").find("qwen2_vl_vision has 'rope_axial'"), std::string::npos) << said("qwen2_vl");
  EXPECT_NE(said("mt5").find("models of that name: mt5 has 't5' and 't5_causal'"), std::string::npos) << said("mt5");
  EXPECT_EQ(say_encoding("axial-rope").description().name, "rope_axial");
  EXPECT_EQ(say_encoding("detr").description().name, "sinusoidal_2d");
  EXPECT_EQ(say_encoding("nerf").description().name, "fourier");
}

TEST(Say, LayersOfSeveralKindsAreSaidOnceEach) {
  const File file("say_test_layers.json",
                  R"({"model_type": "gemma3_text", "hidden_size": 64, "num_attention_heads": 8, "head_dim": 8,
                      "num_hidden_layers": 12, "rope_theta": 1000000.0, "rope_local_base_freq": 10000.0,
                      "sliding_window": 512, "sliding_window_pattern": 6, "max_position_embeddings": 4096})");
  const std::vector<Said> all = say_encodings("@" + file.path());
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].text(), "@" + file.path() + "#0");
  EXPECT_EQ(all[1].text(), "@" + file.path() + "#5");
  EXPECT_EQ(say_encoding("@" + file.path() + "#7").text(), "@" + file.path() + "#7");  // the layer that was asked for
  const std::string error = error_of([&] { say_encoding("@" + file.path()); });
  EXPECT_NE(error.find("says several: must be one of @"), error.npos) << error;
}

TEST(Say, AnEncoderAndADecoderHaveInputsOfTheirOwn) {
  const File file("say_test_whisper.json",
                  R"({"model_type": "whisper", "d_model": 16, "encoder_layers": 2, "decoder_layers": 2,
                      "encoder_attention_heads": 2, "decoder_attention_heads": 2, "max_source_positions": 1500,
                      "max_target_positions": 448})");
  const std::string at = "@" + file.path();
  const std::vector<Said> all = say_encodings(at);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].text(), at + "#encoder.input");
  EXPECT_EQ(all[1].text(), at + "#decoder.input");
  EXPECT_EQ(say_encodings(at + "#input").size(), 2u);
  const Said encoder = say_encoding(at + "#encoder.input"), decoder = say_encoding(at + "#decoder.input");
  EXPECT_EQ(encoder.description().name, "sinusoidal_tensor2tensor");
  EXPECT_EQ(encoder.sizes().length, 1500);
  EXPECT_EQ(encoder.lengths().longest, 1500);
  EXPECT_EQ(decoder.description().name, "learned");
  EXPECT_EQ(decoder.sizes().length, 448);
  EXPECT_EQ(decoder.lengths().longest, 448);
  for (const auto& [part, wanted] :
       {std::pair{"#input", "#encoder.input, @"},
        {"#cross.input", "a layer from 0 to 3, encoder.input or decoder.input, got 'cross.input'"}}) {
    const std::string error = error_of([&, part = part] { say_encoding(at + part); });
    EXPECT_NE(error.find(wanted), error.npos) << error;
  }
}

TEST(Say, InputsOfOnePartAreSaidByTheirLabels) {
  const File file("say_test_layoutlm.json", R"({"model_type": "layoutlm", "hidden_size": 32,
      "max_position_embeddings": 512, "max_2d_position_embeddings": 1024, "num_hidden_layers": 2})");
  const std::string at = "@" + file.path();
  std::vector<std::string> words;
  for (const Said& one : say_encodings(at)) words.push_back(one.text().substr(at.size()));
  EXPECT_EQ(words, (std::vector<std::string>{"#text.input", "#x.input", "#y.input", "#height.input", "#width.input"}));
  EXPECT_EQ(say_encoding(at + "#text.input").sizes().length, 512);
  EXPECT_EQ(say_encoding(at + "#height.input").sizes().length, 1024);
  EXPECT_EQ(say_encoding(at + "#height.input").text(), at + "#height.input");
  EXPECT_EQ(say_encodings(at + "#input").size(), 5u);
  const std::string several = error_of([&] { say_encoding(at + "#input"); });
  EXPECT_NE(several.find("#text.input, @"), several.npos) << several;
  const std::string unknown = error_of([&] { say_encoding(at + "#z.input"); });
  EXPECT_NE(
      unknown.find("a layer from 0 to 1, text.input, x.input, y.input, height.input or width.input, got 'z.input'"),
      unknown.npos)
      << unknown;
  // Of an encoder's several, its part stands before.
  const File udop("say_test_udop.json", R"({"model_type": "udop", "num_layers": 1, "d_model": 32})");
  EXPECT_EQ(say_encodings("@" + udop.path() + "#encoder.input").size(), 4u);
  EXPECT_EQ(say_encoding("@" + udop.path() + "#encoder.left.input").text(), "@" + udop.path() + "#encoder.left.input");
}

TEST(Say, ALayerIsNopeOnlyWhereNothingElseTellsPositions) {
  const auto title_of = [](const std::string& config, const char* part) {
    const File file("say_test_nope.json", config);
    return say_encoding("@" + file.path() + part).description().title;
  };
  EXPECT_EQ(title_of(R"({"model_type": "vit", "num_hidden_layers": 2})", "#1"),
            "no encoding of its own: it is in the input");
  EXPECT_EQ(title_of(R"({"model_type": "mamba", "num_hidden_layers": 2})", ""), "no attention, and no encoding");
  EXPECT_EQ(title_of(R"({"model_type": "smollm3", "num_hidden_layers": 4})", "#3"), inspect::find("nope")->title);
}

TEST(Say, APartsLengthIsTheFilesForThatPart) {
  const Model led = parse_hf_config(R"({"model_type": "led", "d_model": 16, "encoder_layers": 1, "decoder_layers": 1,
      "encoder_attention_heads": 2, "max_encoder_position_embeddings": 4096, "max_decoder_position_embeddings": 256})");
  EXPECT_EQ(say_encodings(led).at(0).lengths().longest, 4096);
  EXPECT_EQ(say_encodings(led).at(1).lengths().longest, 256);
  const Model speech = parse_hf_config(R"({"model_type": "speech_to_text", "d_model": 16, "encoder_layers": 1,
      "decoder_layers": 1, "encoder_attention_heads": 2, "max_source_positions": 6000, "max_target_positions": 1024})");
  EXPECT_EQ(say_encodings(speech).at(0).sizes().length, 6000);
  EXPECT_EQ(say_encodings(speech).at(1).sizes().length, 1024);
}

TEST(Say, TheOnlyInputIsNamedWithoutItsPart) {
  const File file("say_test_trocr.json", R"({"model_type": "trocr", "d_model": 16, "decoder_layers": 1,
                                              "decoder_attention_heads": 2, "max_position_embeddings": 64})");
  EXPECT_EQ(say_encoding("@" + file.path() + "#input").text(), "@" + file.path() + "#input");
  EXPECT_EQ(say_encoding("@" + file.path() + "#decoder.input").description().name, "learned");
}

TEST(Say, MistakesAreNamed) {
  const std::pair<const char*, const char*> mistakes[] = {
      {"alibo", "[encoding] 'alibo' is not an encoding; did you mean 'alibi'"},
      {"xxxxx", "'xxxxx' is not an encoding; 'bearing list' shows all"},
      {"t5:", "[encoding] t5: must be followed by KEY=VALUE,KEY=VALUE,..., got ''"},
      {"t5:buckets", "must be followed by KEY=VALUE,KEY=VALUE,..., got 'buckets'"},
      {"t5:buckets=", "[encoding] t5: buckets: must not be empty"},
      {"t5:buckets=1,buckets=2", "buckets is there twice"},
      {"t5:buckets=many", "[encoding] t5: buckets: must be a whole number, got 'many'"},
      {"t5:direction=both", "direction: must be bidirectional or causal, got 'both'"},
      {"rope:pairing=half,scaling=x", "scaling: must be default, linear, "},
      {"rope:pairing=half,base=inf", "base: must be a finite number, got 'inf'"},
      {"t5:bucket=3", "'bucket' is not a key; did you mean 'buckets'? It takes buckets, max_distance, direction"},
      {"t5:{\"buckets\": \"x\"}", "t5: /buckets: must be a whole number"},
      {"no/such.json", "no/such.json"},
      {"@no/such", "no/such"},
  };
  for (const auto& [text, wanted] : mistakes) {
    const std::string error = error_of([&, text = text] {
      Said said = say_encoding(text);
      said.complete({.dim = 8});
      said.finish();
    });
    EXPECT_NE(error.find(wanted), error.npos) << error;
  }
}

TEST(Say, EveryPictureOfTheFoundingDocumentsIsDrawn) {
  for (const inspect::DocumentFigure& one : inspect::document_figures()) {
    std::vector<inspect::Subject> subjects;
    for (const std::string& encoding : one.encodings) {
      subjects.push_back({encoding, say_encoding(encoding).as_description()});
    }
    const inspect::Figure drawn = inspect::figure(one.kind, subjects, one.options);
    EXPECT_FALSE(drawn.panels.empty()) << one.document << " " << one.name;
    EXPECT_FALSE(drawn.text.empty()) << one.document << " " << one.name;
  }
}

}  // namespace
}  // namespace bearing
