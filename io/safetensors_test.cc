#include <bearing/safetensors.hpp>

#include <gtest/gtest.h>
#include <unistd.h>

#include <bearing/error.hpp>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>

#include "hf_config_cases.hpp"
#include "safetensors_header.hpp"

namespace bearing {
namespace {

namespace fs = std::filesystem;
using namespace std::string_literals;

using test::files_in;
using test::table;

const fs::path corpus = test::source / "tests/corpus/safetensors";

class SafetensorsFiles : public testing::Test {
 protected:
  SafetensorsFiles() {
    std::string name = (fs::temp_directory_path() / "bearing-st-XXXXXX").string();
    directory_ = ::mkdtemp(name.data());
  }
  ~SafetensorsFiles() override { fs::remove_all(directory_); }

  std::string path(const std::string& name) const { return (directory_ / name).string(); }
  std::string put(const std::string& name, const std::string& bytes) const {
    std::ofstream(path(name), std::ios::binary) << bytes;
    return path(name);
  }

  fs::path directory_;
};

std::string bytes_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

template <class Call>
std::string error_of(const Call& call) {
  try {
    call();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

std::string open_error(const std::string& file) {
  return error_of([&] { Weights opened(file); });
}

TEST(SafetensorsCorpus, EveryMalformedFileIsRefusedInItsOwnWords) {
  std::set<std::string> named;
  for (const auto& row : table(corpus / "malformed.tsv")) {
    ASSERT_EQ(row.size(), 3u) << row[0];
    named.insert(row[0]);
    const std::string file = (corpus / "malformed" / row[0]).string(), error = open_error(file);
    EXPECT_TRUE(error.starts_with(file + ": ")) << row[0] << ": " << error;
    EXPECT_NE(error.find(row[1]), std::string::npos) << row[0] << " (" << row[2] << "): " << error;
    EXPECT_EQ(error.find('\n'), std::string::npos) << row[0];
    EXPECT_LT(error.size(), 400u) << row[0];
  }
  EXPECT_EQ(named, files_in(corpus / "malformed"));
  EXPECT_GE(named.size(), 40u);
}

TEST(SafetensorsHeader, WhatIsKeptOfTensorsIsBounded) {
  const auto error = [](const std::string& text) {
    return error_of([&] { safetensors::parse_header(text, 0, "x.safetensors"); });
  };
  std::string extents = "0";
  for (int i = 1; i < 32; ++i) extents += ",1";
  std::string shapes = "{", texts = R"({"__metadata__":{)";
  for (int i = 0; i < 100'000; ++i) {
    shapes += (i == 0 ? "\"" : ",\"") + std::to_string(i) + R"(":{"dtype":"F32","shape":[)" + extents +
              R"(],"data_offsets":[0,0]})";
  }
  for (int i = 0; i <= 10'000; ++i) texts += (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\":\"\"";
  EXPECT_NE(error(shapes + "}").find("names and shapes must have at most 24 MiB together, got more"),
            std::string::npos);
  EXPECT_NE(error(texts + "}}").find("__metadata__ must have at most 10000 keys, got more"), std::string::npos);
}

TEST_F(SafetensorsFiles, EveryValidFileIsReadAndWrittenAgainAsItWas) {
  std::set<std::string> named;
  for (const auto& row : table(corpus / "valid.tsv")) {
    named.insert(row[0]);
    const Safetensors file((corpus / "valid" / row[0]).string());
    EXPECT_EQ(std::to_string(file.tensors().size()), row[1]) << row[0];
    std::vector<SafetensorsOutput> again;
    for (const StoredTensor& tensor : file.tensors()) {
      again.push_back({tensor.name, std::string(tensor.type.name), tensor.shape, tensor.bytes.data()});
      EXPECT_EQ(file.find(tensor.name), &tensor);
    }
    write_safetensors(path("again"), again, file.metadata());
    const Safetensors copy(path("again"));
    ASSERT_EQ(copy.tensors().size(), file.tensors().size());
    EXPECT_EQ(copy.metadata(), file.metadata());
    for (const StoredTensor& tensor : file.tensors()) {
      const StoredTensor& other = copy.at(tensor.name);
      EXPECT_EQ(other.type, tensor.type);
      EXPECT_EQ(other.shape, tensor.shape);
      EXPECT_TRUE(std::equal(other.bytes.begin(), other.bytes.end(), tensor.bytes.begin(), tensor.bytes.end()));
    }
    // Where the format's own library has but one order, these are its bytes.
    if (file.metadata().size() < 2) {
      EXPECT_EQ(bytes_of(path("again")), bytes_of(file.path())) << row[0];
    }
  }
  EXPECT_EQ(named, files_in(corpus / "valid"));
  EXPECT_GE(named.size(), 10u);
}

TEST_F(SafetensorsFiles, NumbersOfEveryTypeAreRead) {
  const Safetensors mixed((corpus / "valid" / "mixed.safetensors").string());
  EXPECT_EQ(mixed.at("a").numbers<double>(), (std::vector<double>{0, 1, 2}));
  EXPECT_EQ(mixed.at("b").numbers<float>(), (std::vector<float>{0, 1, 2}));
  EXPECT_EQ(mixed.at("c").numbers<float>(), (std::vector<float>{0, 1, 2, 3, 4}));
  EXPECT_EQ(mixed.metadata().at("format"), "pt");
  EXPECT_NE(
      error_of([&] { mixed.at("flag").numbers<float>(); }).find("must have a floating-point or whole type, got BOOL"),
      std::string::npos);
  const Safetensors bf16((corpus / "valid" / "bf16.safetensors").string());
  EXPECT_EQ(bf16.at("w").numbers<double>(), (std::vector<double>{0, 1, 2, 3, 4, 5}));
  const Safetensors whole((corpus / "valid" / "whole.safetensors").string());
  for (const StoredTensor& tensor : whole.tensors()) {
    EXPECT_EQ(tensor.numbers<double>(), (std::vector<double>{0, 1, 2, 3})) << tensor.name;
  }
  const Safetensors scalar((corpus / "valid" / "scalar.safetensors").string());
  EXPECT_EQ(scalar.at("x").numbers<double>(), std::vector<double>{2.5});
  EXPECT_EQ(scalar.at("x").size(), 1);
}

template <class T>
concept Read = requires(const StoredTensor& tensor) {
  tensor.numbers<T>();
};
static_assert(Read<double> && Read<Bfloat16> && Read<std::int32_t> && !Read<std::uint8_t> && !Read<bool>);

TEST_F(SafetensorsFiles, NumbersOf16BitsAreRoundedOnce) {
  // Just above the middle of two neighbours: a float32 in between would be the middle itself, which goes to the even
  // one.
  const double bf16 = 1 + 0x1p-8 + 0x1p-40, f16 = -(1 + 0x1p-11 + 0x1p-40);
  const std::int64_t whole[2] = {(Index{1} << 40) + (Index{1} << 32) + 1, -((Index{1} << 40) + (Index{1} << 32) + 1)};
  write_safetensors(path("x"), {{"b", "F64", {1}, &bf16}, {"h", "F64", {1}, &f16}, {"n", "I64", {2}, whole}});
  const Safetensors file(path("x"));
  EXPECT_EQ(static_cast<float>(file.at("b").numbers<Bfloat16>()[0]), 1 + 0x1p-7f);
  EXPECT_EQ(static_cast<float>(file.at("h").numbers<Float16>()[0]), -(1 + 0x1p-10f));
  EXPECT_EQ(static_cast<float>(file.at("n").numbers<Bfloat16>()[0]), 0x1p40f + 0x1p33f);
  EXPECT_EQ(static_cast<float>(file.at("n").numbers<Bfloat16>()[1]), -(0x1p40f + 0x1p33f));
  EXPECT_EQ(static_cast<float>(file.at("n").numbers<Float16>()[0]), std::numeric_limits<float>::infinity());
}

TEST_F(SafetensorsFiles, WholeNumbersAreExactOrRefused) {
  const Safetensors whole((corpus / "valid" / "whole.safetensors").string());
  for (const StoredTensor& tensor : whole.tensors()) {
    EXPECT_EQ(tensor.numbers<std::int64_t>(), (std::vector<std::int64_t>{0, 1, 2, 3})) << tensor.name;
    EXPECT_EQ(tensor.numbers<std::int32_t>(), (std::vector<std::int32_t>{0, 1, 2, 3})) << tensor.name;
  }
  const std::int64_t large[2] = {-5, (Index{1} << 62) + 1};
  const double broken = 2.5, past = 0x1p63, least = -0x1p63;
  write_safetensors(path("x"), {{"b", "F64", {1}, &broken},
                                {"l", "I64", {2}, large},
                                {"least", "F64", {1}, &least},
                                {"past", "F64", {1}, &past}});
  const Safetensors file(path("x"));
  EXPECT_EQ(file.at("l").numbers<std::int64_t>()[1], large[1]);
  EXPECT_EQ(file.at("least").numbers<std::int64_t>()[0], std::numeric_limits<std::int64_t>::min());
  EXPECT_NE(error_of([&] { file.at("l").numbers<std::int32_t>(); })
                .find("tensor \"l\": must have whole numbers of 32 bits to be read as such, got 4611686018427387905 as "
                      "number 1"),
            std::string::npos);
  EXPECT_NE(error_of([&] { file.at("b").numbers<std::int64_t>(); })
                .find("whole numbers of 64 bits to be read as such, "
                      "got 2.5 as number 0"),
            std::string::npos);
  EXPECT_NE(error_of([&] { file.at("past").numbers<std::int64_t>(); }).find("got 9223372036854775808"),
            std::string::npos);
}

TEST_F(SafetensorsFiles, AViewIsTheMapItself) {
  const Safetensors file((corpus / "valid" / "f32.safetensors").string());
  const StoredTensor& w = file.at("w");
  const View<const float, 2> view = w.view<float, 2>();
  EXPECT_EQ(view.shape, (std::array<Index, 2>{2, 3}));
  EXPECT_EQ(view(1, 2), 5);
  EXPECT_EQ(static_cast<const void*>(view.data), w.bytes.data());
  EXPECT_NE(error_of([&] { w.view<double, 2>(); }).find("tensor \"w\": must be of F64, got F32"), std::string::npos);
  EXPECT_NE(error_of([&] { w.view<float, 1>(); }).find("must have 1 axes, got 2"), std::string::npos);
}

TEST_F(SafetensorsFiles, WhatIsNotAlignedIsCopiedNotSeen) {
  // As a writer that does not pad its header makes it.
  const std::string header = "{\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}} ";
  ASSERT_NE(header.size() % 4, 0u);
  const float number = 2.5f;
  std::string bytes{static_cast<char>(header.size()), 0, 0, 0, 0, 0, 0, 0};
  bytes += header;
  bytes.append(reinterpret_cast<const char*>(&number), 4);
  const Safetensors file(put("x.safetensors", bytes));
  EXPECT_EQ(file.at("w").numbers<float>(), std::vector<float>{2.5f});
  EXPECT_NE(error_of([&] { file.at("w").view<float, 1>(); }).find("must begin at a multiple of 4 bytes"),
            std::string::npos);
}

TEST_F(SafetensorsFiles, ATensorThatIsNotThereIsNamed) {
  const Safetensors file((corpus / "valid" / "f32.safetensors").string());
  EXPECT_EQ(file.find("v"), nullptr);
  EXPECT_EQ(error_of([&] { file.at("v"); }), file.path() + ": must have a tensor \"v\", got none");
}

TEST_F(SafetensorsFiles, WrongOutputsAreRefusedAndNothingIsWritten) {
  const float numbers[4]{};
  struct Wrong {
    std::vector<SafetensorsOutput> tensors;
    std::string text;
  };
  const std::vector<Wrong> all = {
      {{{"w", "F31", {4}, numbers}}, "type: must be one of the format's"},
      {{{"w", "F32", {-1}, numbers}}, "also without those of 0, got [-1] of F32 for \"w\""},
      {{{"w", "F32", {Index{1} << 62, 8}, numbers}}, "fewer than 2^60"},
      {{{"w", "F4", {3}, numbers}}, "fill whole bytes"},
      {{{"w", "F32", std::vector<Index>(33, 1), numbers}}, "at most 32 extents, got 33 for \"w\""},
      {{{"w", "F32", {4}, nullptr}}, "data: must not be null, got null for \"w\""},
      {{{"__metadata__", "F32", {4}, numbers}}, "name: must not be __metadata__"},
      {{{"\xff", "F32", {4}, numbers}}, "name: must be UTF-8"},
      {{{"w", "F32", {4}, numbers}, {"w", "F32", {4}, numbers}}, "name: must be there once, got \"w\" again"},
  };
  for (const Wrong& wrong : all) {
    EXPECT_THROW(write_safetensors(path("x"), wrong.tensors), ShapeError) << wrong.text;
    EXPECT_NE(error_of([&] { write_safetensors(path("x"), wrong.tensors); }).find(wrong.text), std::string::npos)
        << wrong.text;
    EXPECT_FALSE(fs::exists(path("x"))) << wrong.text;
  }
}

TEST_F(SafetensorsFiles, ManyFilesAreOneModel) {
  std::vector<float> numbers(64);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i);
  std::vector<SafetensorsOutput> tensors;
  for (const char* name : {"c", "a", "b", "d"}) tensors.push_back({name, "F32", {16}, numbers.data()});
  write_sharded_safetensors(directory_.string(), tensors, 128, {{"format", "pt"}});
  EXPECT_EQ(files_in(directory_),
            (std::set<std::string>{"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
                                   "model.safetensors.index.json"}));
  Weights weights(directory_.string());
  EXPECT_EQ(weights.names(), (std::vector<std::string>{"a", "b", "c", "d"}));
  EXPECT_EQ(weights.files().size(), 2u);
  weights.check_all();
  EXPECT_EQ(weights.at("d").numbers<float>()[15], 15);
  EXPECT_TRUE(weights.at("d").file->ends_with("model-00002-of-00002.safetensors"));
  EXPECT_NE(error_of([&] { weights.at("e"); }).find("must have a tensor \"e\", got none"), std::string::npos);
}

TEST_F(SafetensorsFiles, AFileThatIsNotAskedForIsNotOpened) {
  const float number = 1;
  write_sharded_safetensors(directory_.string(), {{"a", "F32", {1}, &number}, {"b", "F32", {1}, &number}}, 4);
  put("model-00001-of-00002.safetensors", "broken");
  Weights weights(directory_.string());
  EXPECT_EQ(weights.at("b").numbers<float>()[0], 1);
  EXPECT_NE(error_of([&] { weights.at("a"); }).find("its header's length, got 6 bytes"), std::string::npos);
}

TEST_F(SafetensorsFiles, OneFileNeedsNoIndex) {
  const float number = 1;
  write_sharded_safetensors(directory_.string() + "/", {{"a", "F32", {1}, &number}}, 1);
  EXPECT_EQ(files_in(directory_), std::set<std::string>{"model.safetensors"});
  EXPECT_EQ(Weights(directory_.string()).names(), std::vector<std::string>{"a"});
}

TEST_F(SafetensorsFiles, AnIndexThatIsWrongIsRefused) {
  const float number = 1;
  write_safetensors(path("x.safetensors"), {{"a", "F32", {1}, &number}});
  const auto error = [&](const std::string& index) {
    const std::string file = put("i.json", index);
    return error_of([&] { Weights(file).check_all(); });
  };
  EXPECT_EQ(error("{\"weight_map\": {\"a\": \"x.safetensors\"}}"), "");
  const std::pair<std::string, std::string> wrong[] = {
      {"{}", "/weight_map: must be there"},
      {"[]", "must be an object, got an array"},
      {"{\"weight_map\": []}", "/weight_map: must be an object of tensors and their files"},
      {"{\"weight_map\": {\"a\": 1}}", "/weight_map/a: must be the name of a file in the index's folder, got 1"},
      {"{\"weight_map\": {\"a\": \"../x.safetensors\"}}", "must be the name of a file in the index's folder"},
      {"{\"weight_map\": {\"a\": \"/etc/passwd\"}}", "must be the name of a file in the index's folder"},
      {"{\"weight_map\": {\"a\": \"\"}}", "must be the name of a file in the index's folder"},
      {"{\"weight_map\": {\"a\": \"y.safetensors\"}}", "y.safetensors: cannot be opened"},
      {"{\"weight_map\": {\"a\": \"x.safetensors\", \"a\": \"x.safetensors\"}}", "/weight_map/a: must be there once"},
      {"{\"weight_map\": {\"a\": \"x.safetensors\", \"b\": \"x.safetensors\"}}",
       "/weight_map/b: must be a file that has the tensor, got \"x.safetensors\" without it"},
      {"{\"weight_map\": {}, \"weight_map\": 3", "must be JSON"},
  };
  for (const auto& [index, text] : wrong) EXPECT_NE(error(index).find(text), std::string::npos) << error(index);
  write_safetensors(path("x.safetensors"), {{"a", "F32", {1}, &number}, {"z", "F32", {1}, &number}});
  EXPECT_NE(error("{\"weight_map\": {\"a\": \"x.safetensors\"}}").find("tensor \"z\": must stand in the index"),
            std::string::npos);
}

TEST_F(SafetensorsFiles, AFolderWithoutWeightsSaysWhatItMustHold) {
  EXPECT_EQ(open_error(directory_.string()),
            directory_.string() + ": must hold model.safetensors or model.safetensors.index.json, got neither");
}

TEST_F(SafetensorsFiles, AreKnownByTheirFirstBytes) {
  for (const std::string& name : files_in(corpus / "valid")) {
    EXPECT_TRUE(is_safetensors_file((corpus / "valid" / name).string())) << name;
  }
  EXPECT_TRUE(is_safetensors_file(put("least", "\x02\0\0\0\0\0\0\0{}"s)));
  EXPECT_FALSE(is_safetensors_file(put("long", "\x03\0\0\0\0\0\0\0{}"s)));
  EXPECT_FALSE(is_safetensors_file(put("list", "\x02\0\0\0\0\0\0\0[]"s)));
  EXPECT_FALSE(is_safetensors_file(put("short", "\x02\0\0\0\0\0\0\0"s)));
  EXPECT_FALSE(is_safetensors_file(put("text", R"({"a": 1,{})")));
  EXPECT_FALSE(is_safetensors_file(put("empty", "")));
  EXPECT_FALSE(is_safetensors_file(path("none")));
  EXPECT_FALSE(is_safetensors_file(directory_.string()));
}

TEST(SafetensorsHeader, LimitsAreThoseThatTheyName) {
  const auto many = [](std::size_t count) {
    std::string text = "{";
    for (std::size_t i = 0; i < count; ++i) {
      text +=
          (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}";
    }
    return text + "}";
  };
  EXPECT_EQ(safetensors::parse_header(many(safetensors::most_tensors), 0, "x").entries.size(),
            safetensors::most_tensors);
  EXPECT_NE(error_of([&] {
              safetensors::parse_header(many(safetensors::most_tensors + 1), 0, "x");
            }).find("must have at most 250000 tensors, got more"),
            std::string::npos);
  const auto named = [](std::size_t size) { return "{\"__metadata__\":{\"a\":\"" + std::string(size, 'x') + "\"}}"; };
  EXPECT_EQ(safetensors::parse_header(named(safetensors::longest_string), 0, "x").metadata.at("a").size(),
            safetensors::longest_string);
  EXPECT_NE(error_of([&] {
              safetensors::parse_header(named(safetensors::longest_string + 1), 0, "x");
            }).find("byte 29: a string must have at most 4 MiB, got more"),
            std::string::npos);
}

}  // namespace
}  // namespace bearing
