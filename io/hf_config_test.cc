#include <gtest/gtest.h>
#include <bearing/io.hpp>

#include <cerrno>
#include <chrono>
#include <clocale>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <locale>
#include <set>
#include <sstream>

#include "support/golden.hpp"

#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

namespace bearing {
namespace {

namespace fs = std::filesystem;

// Sanitizers make everything several times slower; the promise of a second is for the build that people use.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr double allowed_seconds = 20;
#elif defined(NDEBUG)
constexpr double allowed_seconds = 1;
#else
constexpr double allowed_seconds = 3;
#endif

const fs::path source = BEARING_SOURCE_DIR;
const fs::path corpus = source / "tests/corpus/hf_config";

/// The rows of a tab-separated file without its comments.
std::vector<std::vector<std::string>> table(const fs::path& path) {
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

std::set<std::string> files_in(const fs::path& directory) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory)) names.insert(entry.path().filename());
  return names;
}

std::string spec_text(const LayerEncoding& encoding) {
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
    if (bert->type == BertRelativeType::relative_key_query) text << " query";
  }
  if (const auto* relative = std::get_if<Wav2Vec2BertRelative>(&encoding)) {
    text << ' ' << relative->left << ' ' << relative->right;
  }
  if (const auto* deberta = std::get_if<Deberta>(&encoding)) {
    text << ' ' << deberta->max_relative_positions << ' ' << deberta->position_buckets;
    text << (deberta->c2p ? " c2p" : "") << (deberta->p2c ? " p2c" : "");
  }
  if (const auto* xl = std::get_if<TransformerXL>(&encoding)) text << ' ' << xl->clamp_len;
  if (const auto* xlnet = std::get_if<Xlnet>(&encoding)) {
    text << ' ' << xlnet->clamp_len << (xlnet->bidirectional ? " bi" : " uni");
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
std::string described(const LayerGroup& group) {
  std::string text = std::to_string(group.layers.size()) + ' ';
  if (!group.layer.part.empty()) text += group.layer.part + ' ';
  text += group.layer.type;
  if (group.layer.window > 0) text += '@' + std::to_string(group.layer.window);
  return text + ' ' + spec_text(group.layer.encoding);
}

/// … and an input: "input learned 1024x768", "decoder input learned 1024x1024 offset 2".
std::string described(const ModelInput& input) {
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

std::string described(const Model& model) {
  std::string text;
  for (const ModelInput& input : model.inputs) text += (text.empty() ? "" : " | ") + described(input);
  for (const LayerGroup& group : layer_groups(model)) text += (text.empty() ? "" : " | ") + described(group);
  return text;
}

const Rope& first_rope(const Model& model) {
  for (const Layer& layer : model.layers) {
    if (const auto* rope = std::get_if<Rope>(&layer.encoding)) return *rope;
  }
  throw std::runtime_error("no rotary layer");
}

bool warns(const Model& model, const std::string& pointer, const std::string& fragment) {
  for (const ConfigWarning& warning : model.warnings) {
    if (warning.pointer == pointer && warning.text.find(fragment) != std::string::npos) return true;
  }
  return false;
}

std::string error_of(const std::string& text) {
  try {
    parse_hf_config(text, "c.json");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

/// A small Llama with more keys, given without braces.
std::string llama(const std::string& keys) {
  return R"({"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2,
             "max_position_embeddings": 128)" +
         (keys.empty() ? "" : ", " + keys) + "}";
}

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
  const auto rows = table(corpus / "malformed.tsv");
  EXPECT_GE(rows.size(), 70u);
  std::set<std::string> named;
  for (const auto& row : rows) {
    ASSERT_EQ(row.size(), 3u) << row[0];
    named.insert(row[0]);
    const fs::path path = corpus / "malformed" / row[0];
    try {
      read_hf_config(path);
      ADD_FAILURE() << row[0] << " was read";
    } catch (const ConfigError& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find(row[1]), std::string::npos) << row[0] << ": " << text;
      EXPECT_TRUE(text.starts_with(path.string() + ":")) << text;
      EXPECT_LT(text.size(), path.string().size() + 500) << text;
    }
  }
  EXPECT_EQ(named, files_in(corpus / "malformed"));
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

  const Model linear =
      parse_hf_config(llama(R"("rope_scaling": {"type": "linear", "factor": 0.5, "beta_fast": null})"));
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

TEST(HfConfig, AnUnknownModelIsReadWithAWarning) {
  const Model model = read_hf_config(corpus / "valid/unknown_model.json");
  EXPECT_TRUE(warns(model, "/model_type", "\"newmodel2030\" is not known"));
}

TEST(HfConfig, ABaseOnWhichVersionsDisagreeIsPointedOut) {
  const Model model = parse_hf_config(R"({"model_type": "cohere", "hidden_size": 64, "num_attention_heads": 4})");
  EXPECT_EQ(first_rope(model).base, 10000);
  EXPECT_TRUE(warns(model, "/rope_theta", "500000 in 5.23.0"));
}

TEST(HfConfig, DuplicateKeysWarnAndTheLastCounts) {
  const Model model = read_hf_config(corpus / "valid/duplicate_key.json");
  EXPECT_TRUE(warns(model, "/rope_theta", "more than once"));
  EXPECT_EQ(first_rope(model).base, 20000);
}

TEST(HfConfig, AByteOrderMarkIsSkippedWithAWarning) {
  EXPECT_TRUE(warns(read_hf_config(corpus / "valid/byte_order_mark.json"), "", "byte order mark"));
}

TEST(HfConfig, WarningsOfAHostileFileAreBounded) {
  std::string keys;
  for (int i = 0; i < 900; ++i) keys += ", \"k" + std::to_string(i) + "\": 1";
  const Model model = parse_hf_config(llama(R"("rope_scaling": {"type": "linear", "factor": 2)" + keys + "}"));
  EXPECT_LE(model.warnings.size(), 101u);
}

TEST(HfConfig, PlacesOfSyntaxErrorsAreLineAndColumn) {
  EXPECT_EQ(error_of("{\n  \"a\": 1,\n  \"b\" 2\n}").substr(0, 12), "c.json:3:7: ");
  EXPECT_NE(error_of("{\"a\": [1, 2}").find("c.json:1:12: "), std::string::npos) << error_of("{\"a\": [1, 2}");
}

TEST(HfConfig, MissingFilesDirectoriesAndDevicesAreRefused) {
  const auto error = [](const fs::path& path) -> std::string {
    try {
      read_hf_config(path);
    } catch (const ConfigError& e) {
      return e.what();
    }
    return "no error";
  };
  EXPECT_EQ(error("/nowhere/config.json"),
            "/nowhere/config.json: must be a readable file, got: No such file or directory");
  EXPECT_EQ(error(corpus), corpus.string() + ": must be a file, got a directory");
  EXPECT_EQ(error("/dev/zero"), "/dev/zero: must be a regular file, got a device or pipe");
}

TEST(HfConfig, AFileOfMoreThan16MebibytesIsRefused) {
  const fs::path path = fs::path(testing::TempDir()) / "bearing_large_config.json";
  std::ofstream(path) << '{' << std::string((16 << 20) + 1, ' ') << '}';
  try {
    read_hf_config(path);
    ADD_FAILURE() << "it was read";
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("must be at most 16 MiB, got 16777219 bytes"), std::string::npos);
  }
  fs::remove(path);
  EXPECT_NE(error_of(std::string((16 << 20) + 1, ' ')).find("must be at most 16 MiB"), std::string::npos);
}

TEST(HfConfig, HostileFilesAreRefusedWithinASecond) {
  const std::size_t large = (16 << 20) - 1000;
  const std::string digits(large, '9');
  std::string values = "[";
  while (values.size() < large) values += "1,";
  std::string objects = "{";
  while (objects.size() < large) objects += "\"a\":{},";
  std::string same = "{";
  for (int i = 0; i < 249'000; ++i) same += "\"rope_theta\":1,";
  std::string text = llama("\"rope_theta\": 0." + digits);
  for (const std::string& hostile :
       {std::string(large, '['), std::string(large, '{'), values, objects, "{\"a\":" + digits + "}", "\"" + digits,
        "{\"a\": 1e" + digits + "}", same + "\"model_type\": \"llama\"}", text}) {
    const auto start = std::chrono::steady_clock::now();
    const std::string error = error_of(hostile);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    EXPECT_LT(seconds.count(), allowed_seconds) << hostile.substr(0, 20) << " " << error.substr(0, 200);
    EXPECT_NE(error, "no error") << hostile.substr(0, 20);
  }
}

TEST(HfConfig, TheLargestModelIsReadWithinASecond) {
  const auto start = std::chrono::steady_clock::now();
  std::string types = "[\"full_attention\"";
  for (int i = 1; i < 65536; ++i) types += i % 2 == 0 ? ", \"full_attention\"" : ", \"sliding_attention\"";
  const Model model = parse_hf_config(R"({"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4,
      "sliding_window": 7, "num_hidden_layers": 65536, "layer_types": )" +
                                      types + "]}");
  EXPECT_EQ(layer_groups(model).size(), 2u);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  EXPECT_LT(seconds.count(), allowed_seconds);
}

TEST(HfConfig, ManyLayerTypesWithManyParametersAreReadWithinASecond) {
  std::string types, junk;
  for (int i = 0; i < 64; ++i) types += (i == 0 ? "\"t" : ", \"t") + std::to_string(i) + "\"";
  for (int i = 0; i < 990; ++i) junk += ", \"k" + std::to_string(i) + "\": 1";
  const auto start = std::chrono::steady_clock::now();
  const Model model =
      parse_hf_config(R"({"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4,
      "num_hidden_layers": 64, "layer_types": [)" +
                      types + R"(], "rope_scaling": {"type": "linear", "factor": 2)" + junk + "}" + junk + "}");
  EXPECT_EQ(layer_groups(model).size(), 64u);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  EXPECT_LT(seconds.count(), allowed_seconds);
}

TEST(HfConfig, AWarningIsGivenOnce) {
  const Model model = read_hf_config(corpus / "valid/gemma3_v5.json");
  EXPECT_TRUE(model.warnings.empty());
  const Model both = parse_hf_config(R"({"model_type": "gpt_oss", "num_hidden_layers": 4, "rope_scaling":
      {"rope_type": "yarn", "factor": 32, "original_max_position_embeddings": 4096, "odd": 1}, "head_dim": 64,
      "num_attention_heads": 64})");
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
  const std::string global = "1 full_attention half 300 16/16 default | 1 sliding_attention@8 half ";
  EXPECT_EQ(bases(""), global + "10000 16/16 default");
  EXPECT_EQ(bases(", \"local_rope_theta\": 200"), global + "200 16/16 default");
  EXPECT_EQ(bases(", \"local_rope_theta\": null"), global + "300 16/16 default");
}

TEST(HfConfig, WhatTheFileCannotTellIsSaid) {
  EXPECT_TRUE(warns(read_hf_config(corpus / "valid/glm4_9b_chat_1m.json"), "/rope_ratio", "divide the positions"));
  const Model model = parse_hf_config(R"({"model_type": "nanochat", "hidden_size": 64, "num_attention_heads": 4})");
  EXPECT_TRUE(warns(model, "/model_type", "the other way round"));
}

TEST(HfConfig, NumbersDoNotDependOnTheLocale) {
  const std::string before = std::setlocale(LC_ALL, nullptr);
  // The C++ locale is ours to make: a comma for a point, a point between thousands.
  struct German : std::numpunct<char> {
    char do_decimal_point() const override { return ','; }
    char do_thousands_sep() const override { return '.'; }
    std::string do_grouping() const override { return "\3"; }
  };
  const std::locale old = std::locale::global(std::locale(std::locale::classic(), new German));
  std::setlocale(LC_ALL, "de_DE.UTF-8");  // where it is installed
  const std::string text = llama(R"("rope_theta": 1234567.25, "rope_scaling": {"type": "linear", "factor": 2.5})");
  const std::string json = to_json(first_rope(parse_hf_config(text)));
  const Rope again = parse_rope(json);
  std::locale::global(old);
  std::setlocale(LC_ALL, before.c_str());
  EXPECT_EQ(json, R"({"head_dim": 16, "rotary_dim": 16, "pairing": "half", "base": 1234567.25, )"
                  R"("scaling": {"type": "linear", "factor": 2.5}})");
  EXPECT_EQ(again.base, 1234567.25);
}

TEST(HfConfig, ErrnoIsLeftAlone) {
  errno = 0;
  EXPECT_THROW(read_hf_config("/nowhere/config.json"), ConfigError);
  EXPECT_EQ(errno, 0);
  EXPECT_EQ(parse_hf_config(llama(R"("rope_theta": 1e-400, "rope_theta": 10000)")).layers.size(), 2u);
  EXPECT_EQ(errno, 0);
}

}  // namespace
}  // namespace bearing
