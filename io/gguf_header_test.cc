#include "gguf_header.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <bearing/error.hpp>
#include <filesystem>
#include <fstream>
#include <functional>

#include "gguf_cases.hpp"

namespace bearing {
namespace {

using gguf_test::File;

constexpr std::uint64_t largest = ~std::uint64_t{0};

std::string n4(std::uint64_t value) { return File::number(value, 4); }
std::string n8(std::uint64_t value) { return File::number(value, 8); }
std::string str(std::string_view text) { return File::string(text); }
std::string type(GgufType type) { return n4(static_cast<std::uint64_t>(type)); }
std::string key(std::string_view name, GgufType of) { return str(name) + type(of); }

std::string error_of(const std::string& bytes) {
  try {
    parse_gguf(bytes, "x.gguf");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

/// A file's first 24 bytes, then what follows.
std::string head(std::uint64_t tensors, std::uint64_t pairs, const std::string& rest = "") {
  return "GGUF" + n4(3) + n8(tensors) + n8(pairs) + rest;
}
std::string with_pair(const std::string& pair) { return File::of("llama").raw(pair).bytes(); }
std::string with_tensor(const std::string& info, const std::string& data = "") {
  return File::of("llama").tensor_bytes(info, data).bytes();
}
std::string array_of(GgufType element, std::uint64_t count, const std::string& values = "") {
  return key("x", GgufType::array) + type(element) + n8(count) + values;
}
/// One value that two bytes are missing of.
std::string cut(GgufType of) {
  const std::uint64_t width = gguf::width_of(of);
  return with_pair(key("x", of) + std::string(width > 2 ? width - 2 : width - 1, '\1'));
}
std::string cut_before_offset(const std::string& info) {
  return head(1, 1, key("general.architecture", GgufType::string) + str("llama") + info);
}
std::string with_offset(std::uint64_t offset) {
  std::string bytes = File::of("llama").tensor("a", {1, 2}).bytes();
  const std::size_t at = bytes.find(str("a") + n4(1) + n8(2) + n4(0)) + 9 + 4 + 8 + 4;
  return bytes.replace(at, 8, n8(offset));
}
std::string nested(int depth) {
  std::string pair = key("x", GgufType::array);
  for (int i = 1; i < depth; ++i) pair += type(GgufType::array) + n8(1);
  return with_pair(pair + type(GgufType::u8) + n8(1) + "\1");
}
std::string two_tensors(std::uint64_t second_offset) {
  const std::string info = n4(1) + n8(8) + n4(0);
  const std::string pairs = key("general.architecture", GgufType::string) + str("llama");
  std::string bytes = head(2, 1, pairs + str("a") + info + n8(0) + str("b") + info + n8(second_offset));
  bytes.resize((bytes.size() + 31) / 32 * 32 + 256);
  return bytes;
}

struct Case {
  const char* why;
  std::string bytes;
  const char* says;
};

std::vector<Case> bad_starts() {
  const std::string whole = File::of("llama").bytes();
  return {
      {"no bytes", "", "byte 0: not a GGUF file: it must begin with \"GGUF\", got an empty file"},
      {"half a magic number", "GG", "not a GGUF file"},
      {"another magic number", "GGML" + whole.substr(4), "not a GGUF file"},
      {"JSON", "{\"model_type\": \"llama\"}", "not a GGUF file"},
      {"the magic number turned round", "FUGG" + whole.substr(4), "must be little-endian"},
      {"big-endian", "GGUF" + std::string("\0\0\0\3", 4) + whole.substr(8),
       "must be little-endian, got a big-endian one of version 3"},
      {"version 0", "GGUF" + n4(0) + whole.substr(8), "byte 4: the version must be 2 or 3, got 0"},
      {"version 1, which has shorter numbers", "GGUF" + n4(1) + whole.substr(8), "must be 2 or 3, got 1"},
      {"a version to come", "GGUF" + n4(4) + whole.substr(8), "must be 2 or 3, got 4"},
      {"the version is cut", whole.substr(0, 6), "the version must have 4 bytes, got 2"},
      {"the number of tensors is cut", whole.substr(0, 12), "the number of tensors must have 8 bytes, got 4"},
      {"the number of keys is cut", whole.substr(0, 23), "the number of keys must have 8 bytes, got 7"},
      {"tensors: the largest number", head(largest, 0), "the number of tensors must be at most 65536"},
      {"tensors: times their size wraps", head(std::uint64_t{1} << 61, 0), "at most 65536"},
      {"tensors: more than bytes", head(60'000, 0, std::string(1'000, '\0')), "must fit in the file"},
      {"keys: the largest number", head(0, largest), "the number of keys must be at most 16384"},
      {"keys: times their size wraps", head(0, std::uint64_t{1} << 60), "at most 16384"},
      {"keys: more than bytes", head(0, 16'000, std::string(1'000, '\0')), "must fit in the file"},
      {"one key more than there is", "GGUF" + n4(3) + n8(0) + n8(7) + whole.substr(24), "must have"},
      {"one tensor more than there is", "GGUF" + n4(3) + n8(1) + whole.substr(16), "must have"},
  };
}

std::vector<Case> bad_pairs() {
  return {
      {"a key's length: the largest number", with_pair(n8(largest) + "x"), "a key must have at most 1024 bytes"},
      {"a key's length past the file", with_pair(n8(99) + std::string(20, 'x')), "a key must have 99 bytes, got 20"},
      {"an empty key", with_pair(key("", GgufType::u8) + "\1\1"), "a key must not be empty"},
      {"a key of 2,000 bytes", with_pair(key(std::string(2'000, 'x'), GgufType::u8) + "\1"),
       "at most 1024 bytes, got 2000"},
      {"a key twice", with_pair(key("llama.block_count", GgufType::u32) + n4(1)),
       "must be there once, got a second \"llama.block_count\""},
      {"a type past the last", with_pair(str("x") + n4(13) + n8(0)), "the type of \"x\" must be from 0 to 12, got 13"},
      {"a type that is negative", with_pair(str("x") + n4(largest) + n8(0)), "must be from 0 to 12, got 4294967295"},
      {"a string's length: + 1 wraps to 0", with_pair(key("x", GgufType::string) + n8(largest)),
       "a string must have 18446744073709551615 bytes, got 0"},
      {"a string's length: negative", with_pair(key("x", GgufType::string) + n8(std::uint64_t{1} << 63)),
       "a string must have 9223372036854775808 bytes"},
      {"a string one byte longer than the file", with_pair(key("x", GgufType::string) + n8(6) + "12345"),
       "a string must have 6 bytes, got 5"},
      {"a string's length is cut", with_pair(key("x", GgufType::string) + "1234"),
       "a string's length must have 8 bytes, got 4"},
      {"a flag of 2", with_pair(key("x", GgufType::boolean) + "\2"), "the flag \"x\" must be 0 or 1, got 2"},
      {"u8 cut", cut(GgufType::u8), "a number must have 1 bytes, got 0"},
      {"u16 cut", cut(GgufType::u16), "a number must have 2 bytes, got 1"},
      {"i32 cut", cut(GgufType::i32), "a number must have 4 bytes, got 2"},
      {"f32 cut", cut(GgufType::f32), "a number must have 4 bytes, got 2"},
      {"u64 cut", cut(GgufType::u64), "a number must have 8 bytes, got 6"},
      {"f64 cut", cut(GgufType::f64), "a number must have 8 bytes, got 6"},
      {"a flag cut", cut(GgufType::boolean), "a flag must have 1 bytes, got 0"},
      {"array: the largest length", with_pair(array_of(GgufType::u8, largest)),
       "an array must have 18446744073709551615 elements of 1 bytes"},
      {"array: length times width wraps to 8", with_pair(array_of(GgufType::u64, (std::uint64_t{1} << 61) + 1)),
       "elements of 8 bytes"},
      {"array: one element too many", with_pair(array_of(GgufType::f32, 3, n8(0))),
       "an array must have 3 elements of 4 bytes, got 8 bytes"},
      {"array of strings: the largest length", with_pair(array_of(GgufType::string, largest, str("a"))),
       "arrays must have at most 4194304 strings in all"},
      {"array of strings: one is longer than the file",
       with_pair(array_of(GgufType::string, 2, str("a") + n8(9) + "b")),
       "a string in an array must have 9 bytes, got 1"},
      {"array of strings: a length of 2^64 − 1", with_pair(array_of(GgufType::string, 1, n8(largest))),
       "a string in an array must have"},
      {"array of a type that is none", with_pair(key("x", GgufType::array) + n4(14) + n8(1) + "\1"),
       "must be from 0 to 12, got 14"},
      {"array: its length is cut", with_pair(key("x", GgufType::array) + type(GgufType::u8) + "123"),
       "an array's length must have 8 bytes, got 3"},
      {"arrays 5 deep", nested(5), "arrays must be nested at most 4 deep"},
      {"arrays 1,000 deep", nested(1'000), "arrays must be nested at most 4 deep"},
      {"array of arrays: the inner one is too long",
       with_pair(array_of(GgufType::array, 1, type(GgufType::u32) + n8(5) + n4(1))),
       "an array must have 5 elements of 4 bytes"},
      {"array of arrays: the second is missing",
       with_pair(array_of(GgufType::array, 2, type(GgufType::u8) + n8(1) + "\1")),
       "a value's type must have 4 bytes, got 0"},
      {"alignment 0", File::of("llama").u32("general.alignment", 0).bytes(),
       "general.alignment must be a power of 2 up to 1048576, got 0"},
      {"alignment 48", File::of("llama").u32("general.alignment", 48).bytes(),
       "must be a power of 2 up to 1048576, got 48"},
      {"alignment 2^31", File::of("llama").u32("general.alignment", 1U << 31).bytes(),
       "must be a power of 2 up to 1048576, got 2147483648"},
      {"alignment of another type", with_pair(key("general.alignment", GgufType::u64) + n8(32)),
       "general.alignment must be a u32, got a value of type u64"},
      {"alignment as text", with_pair(key("general.alignment", GgufType::string) + str("32")),
       "must be a u32, got a value of type string"},
      {"alignment as an array",
       with_pair(key("general.alignment", GgufType::array) + type(GgufType::u32) + n8(1) + n4(32)),
       "must be a u32, got a value of type array of u32"},
  };
}

std::vector<Case> bad_tensors() {
  const auto shaped = [](std::uint64_t a, std::uint64_t b, std::uint32_t of) {
    return with_tensor(str("a") + n4(2) + n8(a) + n8(b) + n4(of));
  };
  const std::string flat = str("a") + n4(1) + n8(4) + n4(0);
  return {
      {"a name of 65 bytes", with_tensor(str(std::string(65, 'x')) + n4(1) + n8(1) + n4(0)),
       "a tensor's name must have at most 64 bytes, got 65"},
      {"a name's length: the largest number", with_tensor(n8(largest)), "at most 64 bytes"},
      {"5 dimensions", with_tensor(str("a") + n4(5) + n8(1) + n8(1) + n8(1) + n8(1) + n8(1) + n4(0)),
       "the tensor \"a\" must have at most 4 dimensions, got 5"},
      {"2^32 − 1 dimensions", with_tensor(str("a") + n4(largest)), "at most 4 dimensions, got 4294967295"},
      {"a type that ggml gave up", shaped(1, 1, 4), "must have a type that ggml knows, got 4"},
      {"a type that was for one processor", shaped(32, 1, 31), "must have a type that ggml knows, got 31"},
      {"a type past the last", shaped(1, 1, 9'999), "must have a type that ggml knows, got 9999"},
      {"extents whose product wraps to 0", shaped(std::uint64_t{1} << 32, std::uint64_t{1} << 32, 0),
       "must have fewer than 2^63 bytes"},
      {"an extent whose bytes wrap", shaped(std::uint64_t{1} << 62, 1, 0), "fewer than 2^63 bytes"},
      {"a negative extent", shaped(largest, 1, 24), "fewer than 2^63 bytes"},
      {"an extent of 0 beside two whose product wraps",
       with_tensor(str("a") + n4(3) + n8(0) + n8(std::uint64_t{1} << 40) + n8(std::uint64_t{1} << 40) + n4(0)),
       "fewer than 2^63 bytes"},
      {"half a block", shaped(33, 2, 2), "must have rows of whole Q4_0 blocks of 32, got 33 numbers"},
      {"an offset before the data", with_offset(largest - 31),
       "must begin where the one before it ends, at 0 of the data, got 18446744073709551584"},
      {"an offset that is not aligned", with_offset(4),
       "must begin where the one before it ends, at 0 of the data, got 4"},
      {"an offset past the file", with_offset(std::uint64_t{1} << 40), "at 0 of the data, got 1099511627776"},
      {"the second tensor inside the first", two_tensors(0),
       "the tensor \"b\" must begin where the one before it ends, at 32 of the data, got 0"},
      {"a hole between tensors", two_tensors(64), "at 32 of the data, got 64"},
      {"no data", with_tensor(flat), "must end in the file"},
      {"the last byte is missing",
       [] {
         auto b = File::of("llama").tensor("a", std::vector<float>(8, 1)).bytes();
         b.pop_back();
         return b;
       }(),
       "the file is incomplete"},
      {"a name twice", File::of("llama").tensor("a", {1}).tensor("a", {2}).bytes(),
       "a tensor must be there once, got a second \"a\""},
      {"a size whose padding wraps", shaped((std::uint64_t{1} << 63) - 1, 1, 24), "must end"},
      {"cut in the extents", cut_before_offset(str("a") + n4(2) + n8(4)), "a tensor's extent must have 8 bytes, got 0"},
      {"cut before the type", cut_before_offset(str("a") + n4(1) + n8(4) + "12"),
       "a tensor's type must have 4 bytes, got 2"},
      {"cut before the offset", cut_before_offset(flat + "1234567"), "a tensor's offset must have 8 bytes, got 7"},
  };
}

class BadGguf : public testing::TestWithParam<std::vector<Case> (*)()> {};

TEST_P(BadGguf, IsRefusedWithTheByteAndTheReason) {
  for (const Case& one : GetParam()()) {
    const std::string error = error_of(one.bytes);
    EXPECT_NE(error.find(one.says), std::string::npos) << one.why << ": " << error;
    EXPECT_EQ(error.find("x.gguf: byte "), 0U) << one.why << ": " << error;
    EXPECT_EQ(error.find('\n'), std::string::npos) << one.why;
  }
}

INSTANTIATE_TEST_SUITE_P(Starts, BadGguf, testing::Values(&bad_starts));
INSTANTIATE_TEST_SUITE_P(Pairs, BadGguf, testing::Values(&bad_pairs));
INSTANTIATE_TEST_SUITE_P(Tensors, BadGguf, testing::Values(&bad_tensors));

TEST(GgufHeader, EveryFileThatIsCutIsRefused) {
  const std::string whole = File::of("llama")
                                .f32("rope.freq_base", 5e5F)
                                .list("a", {1, 2})
                                .tensor("rope_freqs.weight", std::vector<float>(32, 2))
                                .bytes();
  EXPECT_EQ(error_of(whole), "");
  for (std::size_t length = 0; length < whole.size(); ++length) {
    EXPECT_NE(error_of(whole.substr(0, length)), "") << length;
  }
}

TEST(GgufHeader, ArraysInArraysAreSkipped) {
  const std::string inner = type(GgufType::u8) + n8(2) + "\1\2";
  const std::string pair =
      array_of(GgufType::array, 2, type(GgufType::array) + n8(2) + inner + inner + type(GgufType::array) + n8(0));
  EXPECT_EQ(error_of(with_pair(pair)), "");
}

TEST(GgufHeader, Version2IsReadAsVersion3) {
  File file = File::of("llama");
  file.version = 2;
  EXPECT_EQ(error_of(file.bytes()), "");
}

/// Bytes that this process has read so far, by Linux's own count.
std::uint64_t bytes_read() {
  std::ifstream file("/proc/self/io");
  std::string word;
  std::uint64_t count = 0;
  file >> word >> count;
  return word == "rchar:" ? count : 0;
}

/// A file with a hole, which takes no room on the disk.
class SparseGguf : public testing::Test {
 protected:
  SparseGguf()
      : path_((std::filesystem::temp_directory_path() / ("bearing-gguf-" + std::to_string(::getpid()))).string()) {}
  ~SparseGguf() override { std::filesystem::remove(path_); }
  void put(const std::string& bytes, std::uint64_t size) const {
    std::ofstream(path_, std::ios::binary) << bytes;
    std::filesystem::resize_file(path_, size);
  }
  std::string path_;
};

// 150,000 tokens, an array of numbers and 700 tensors: what stands before the tensors' data is read once, in windows of
// 256 KiB, and the numbers are stepped over. A window begins after them, one more at the values that are asked for.
TEST_F(SparseGguf, OfThirtyGigabytesIsReadAsFarAsItsHeader) {
  File file = File::of("llama");
  std::string tokens = type(GgufType::string) + n8(150'000), numbers = type(GgufType::f32) + n8(1'500'000);
  for (int i = 0; i < 150'000; ++i) tokens += str("token " + std::to_string(i));
  file.pair("tokens", GgufType::array, tokens);
  file.pair("scores", GgufType::array, numbers + std::string(6'000'000, '\0'));
  const std::uint64_t rows = 22'000, width = 1'024, each = rows * width * 2;
  std::string tensors;
  for (std::uint64_t i = 0; i < 700; ++i)
    tensors += str(std::to_string(i)) + n4(2) + n8(width) + n8(rows) + n4(1) + n8(i * each);
  std::string bytes = file.bytes();
  bytes.replace(8, 8, n8(700));
  bytes += tensors;
  put(bytes, bytes.size() + 700 * each + 32);
  ASSERT_GT(std::filesystem::file_size(path_), std::uint64_t{30'000'000'000});
  const std::uint64_t before = bytes_read();
  if (before == 0) GTEST_SKIP() << "only Linux counts what is read";
  const Model model = read_gguf(path_);
  EXPECT_EQ(model.layers.size(), 4U);
  constexpr std::uint64_t window = 1 << 18;
  EXPECT_LE(bytes_read() - before, bytes.size() - 6'000'000 + 4 * window);
}

TEST_F(SparseGguf, ThatSaysItIsAllTextIsRefusedSoon) {
  const std::string bytes = head(0, 1, array_of(GgufType::string, std::uint64_t{1} << 40));
  put(bytes, std::uint64_t{1} << 36);
  try {
    read_gguf(path_);
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("arrays must have at most 4194304 strings in all, got 1099511627776 more"),
              std::string::npos)
        << error.what();
  }
}

TEST_F(SparseGguf, OfNothingButTensorsTakesLittleMemory) {
  std::string bytes = head(65'536, 1, key("general.architecture", GgufType::string) + str("llama"));
  for (int i = 0; i < 65'536; ++i)
    bytes += str("a tensor with a long name, as many have: " + std::to_string(i)) + n4(1) + n8(0) + n4(0) + n8(0);
  put(bytes, bytes.size());
  rusage before{}, after{};
  ::getrusage(RUSAGE_SELF, &before);
  EXPECT_THROW(read_gguf(path_), ConfigError);  // no block_count
  ::getrusage(RUSAGE_SELF, &after);
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 48 * 1024);
}

TEST(GgufHeader, IsToldByItsFirstBytes) {
  EXPECT_TRUE(is_gguf("GGUF\3"));
  EXPECT_TRUE(is_gguf("FUGG"));
  EXPECT_FALSE(is_gguf("GGU"));
  EXPECT_FALSE(is_gguf("{}"));
}

}  // namespace
}  // namespace bearing
