#include <gtest/gtest.h>
#include <bearing/gguf.hpp>
#include <bearing/io.hpp>

#include <cerrno>
#include <chrono>
#include <clocale>

#include "hf_config_cases.hpp"

namespace bearing {
namespace {

using namespace test;

// Sanitizers make everything several times slower; the promise of a second is for the build that people use.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr double allowed_seconds = 20;
#elif defined(NDEBUG)
constexpr double allowed_seconds = 1;
#else
constexpr double allowed_seconds = 3;
#endif

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
  for (int i = 1; i < 4096; ++i) types += i % 2 == 0 ? ", \"full_attention\"" : ", \"sliding_attention\"";
  const Model model = parse_hf_config(R"({"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4,
      "sliding_window": 7, "num_hidden_layers": 4096, "layer_types": )" +
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
      parse_hf_config(R"({"model_type": "newmodel2030", "hidden_size": 64, "num_attention_heads": 4,
      "num_hidden_layers": 64, "layer_types": [)" +
                      types + R"(], "rope_scaling": {"type": "linear", "factor": 2)" + junk + "}" + junk + "}");
  EXPECT_EQ(layer_groups(model).size(), 64u);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  EXPECT_LT(seconds.count(), allowed_seconds);
}

TEST(HfConfig, LayersBesideManyKeysAreReadWithinASecond) {
  std::string junk;
  for (int i = 0; i < 9'900; ++i) junk += ", \"k" + std::to_string(i) + "\": null";
  std::string bases = "10001";
  for (int i = 1; i < 4096; ++i) bases += ", " + std::to_string(10'001 + i);
  const std::string all[] = {
      R"({"dim": 64, "n_layers": 4096, "n_heads": 4, "hidden_dim": 64, "vocab_size": 9, "llama_4_scaling":
          {"beta": 0.1, "original_max_position_embeddings": 8192)" +
          junk + "}}",
      R"({"model_type": "gemma3_text", "num_hidden_layers": 4096)" + junk + "}",
      R"({"model_type": "deepseek_v4", "num_hidden_layers": 4096, "compress_rates": {"x": 1)" + junk + "}}",
      R"({"model_type": "granite_swa", "num_hidden_layers": 4096, "layer_rope_theta": [)" + bases + "]" + junk + "}"};
  for (const std::string& text : all) {
    const auto start = std::chrono::steady_clock::now();
    const Model model = parse_hf_config(text);
    const std::size_t groups = layer_groups(model).size();
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    EXPECT_LT(seconds.count(), allowed_seconds) << text.substr(0, 60);
    EXPECT_EQ(model.layers.size(), 4096u);
    EXPECT_EQ(groups == 4096, text.find("granite_swa") != std::string::npos) << groups;
  }
}

TEST(GgufModel, OfThousandsOfWideLayersIsComparedOnceForEachWayToTurnWithinASecond) {
  // Each comparison takes tens of milliseconds: of every layer they would take minutes.
  const Model model = parse_hf_config(R"({"model_type": "gemma3_text", "num_hidden_layers": 4000, "head_dim": 2048,
      "sliding_window": 512, "sliding_window_pattern": 6})");
  const auto start = std::chrono::steady_clock::now();
  const std::string written = gguf_bytes(gguf_model(model));
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  EXPECT_LT(seconds.count(), allowed_seconds);
  EXPECT_EQ(parse_gguf(written).layers.size(), 4000u);
}

TEST(HfConfig, TextsThatAreReadHaveAtMost10000Bytes) {
  const auto text = [](std::size_t bytes) {
    return R"({"model_type": "bert", "position_embedding_type": ")" + std::string(bytes, 'x') + "\"}";
  };
  EXPECT_NE(error_of(text(10'001)).find("/position_embedding_type: must be a string of at most 10000 bytes, got 10001"),
            std::string::npos)
      << error_of(text(10'001));
  EXPECT_EQ(error_of(text(10'000)).find("at most 10000"), std::string::npos);
}

TEST(HfConfig, APathWithANulIsRefusedAsAWhole) {
  const std::string file = (corpus / "valid/gpt2.json").string(), path = file + std::string(1, '\0') + ".txt";
  const std::string says = file + "\\x00.txt: must be a path without a NUL character, got one";
  const auto error = [](const auto& call) -> std::string {
    try {
      call();
    } catch (const ConfigError& e) {
      return e.what();
    }
    return "no error";
  };
  EXPECT_EQ(error([&] { read_hf_config(path); }), says);
  EXPECT_EQ(error([&] { read_model_file(path); }), says);
}

TEST(HfConfig, MessagesHoldNoControlsAndNothingButUtf8) {
  const std::string error = error_of(R"({"model_type": "llama", "hidden_size": "\u009b2J\u202e\u2028\u0007"})");
  EXPECT_NE(error.find(R"("\u009b2J\u202e\u2028\x07")"), std::string::npos) << error;
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
