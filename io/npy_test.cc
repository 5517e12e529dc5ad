#include <bearing/npy.hpp>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bearing/error.hpp>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>

namespace bearing {
namespace {

namespace fs = std::filesystem;
using namespace std::string_literals;

/// A directory of its own for each test, removed at the end.
class NpyFiles : public testing::Test {
 protected:
  NpyFiles() {
    std::string name = (fs::temp_directory_path() / "bearing-npy-XXXXXX").string();
    directory_ = ::mkdtemp(name.data());
  }
  ~NpyFiles() override { fs::remove_all(directory_); }

  std::string path(const std::string& name) const { return (directory_ / name).string(); }

  std::string put(const std::string& bytes, const std::string& name = "x.npy") const {
    std::ofstream(path(name), std::ios::binary) << bytes;
    return path(name);
  }

  std::string get(const std::string& name) const {
    std::ifstream in(path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  std::ptrdiff_t count() const { return std::distance(fs::directory_iterator(directory_), fs::directory_iterator()); }

  fs::path directory_;
};

/// A file of version `major`.0 with the header's text as it is.
std::string npy(const std::string& header, const std::string& data, int major = 1) {
  std::string out = "\x93NUMPY"s + static_cast<char>(major) + '\0';
  for (int i = 0; i < (major == 1 ? 2 : 4); ++i) out += static_cast<char>((header.size() >> (8 * i)) & 0xFF);
  return out + header + data;
}

std::string dict(const std::string& descr, const std::string& shape) {
  return "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }\n";
}

std::string error_of(const std::string& file) {
  try {
    read_npy(file);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST_F(NpyFiles, WhatIsWrittenReadsBack) {
  std::vector<float> values(24);
  std::iota(values.begin(), values.end(), -3.5f);
  write_npy(path("x.npy"), "f4", {2, 3, 4}, values.data());
  const NpyArray array = read_npy(path("x.npy"));
  EXPECT_EQ(array.dtype, "f4");
  EXPECT_EQ(array.shape, (std::vector<Index>{2, 3, 4}));
  ASSERT_EQ(array.bytes.size(), 96u);
  EXPECT_EQ(std::memcmp(array.bytes.data(), values.data(), 96), 0);
}

TEST_F(NpyFiles, EveryDtypeAndRankReadsBack) {
  const std::vector<char> data(64, '\x5a');
  for (const char* dtype : {"b1", "i1", "u1", "i2", "u2", "f2", "V2", "i4", "u4", "f4", "i8", "u8", "f8"}) {
    const auto size = static_cast<std::size_t>(dtype[1] - '0');
    for (const std::vector<Index>& shape : {std::vector<Index>{}, {1}, {3}, {2, 2}, {1, 2, 1, 2}}) {
      write_npy(path("x.npy"), dtype, shape, data.data());
      const NpyArray array = read_npy(path("x.npy"));
      EXPECT_EQ(array.dtype, dtype);
      EXPECT_EQ(array.shape, shape);
      const Index items = std::accumulate(shape.begin(), shape.end(), Index{1}, std::multiplies<>());
      EXPECT_EQ(array.bytes.size(), size * static_cast<std::size_t>(items));
    }
  }
}

TEST_F(NpyFiles, TheHeaderIsNumPysOwn) {
  // np.save of np.zeros((2, 3), np.float32): the data begins at a multiple of 64.
  write_npy(path("x.npy"), "f4", {2, 3}, std::vector<float>(6).data());
  const std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
  const std::string padded = header + std::string(118 - header.size() - 1, ' ') + "\n";
  EXPECT_EQ(get("x.npy"), npy(padded, std::string(24, '\0')));
  write_npy(path("x.npy"), "u1", {5}, "abcde");
  EXPECT_NE(get("x.npy").find("{'descr': '|u1', 'fortran_order': False, 'shape': (5,), }"), std::string::npos);
}

TEST_F(NpyFiles, AllVersionsAndSpellingsOfAHeaderAreRead) {
  const std::string four = "\1\0\0\0"s;
  const std::string usual = dict("<i4", "(1,)");
  for (int major : {1, 2, 3}) EXPECT_EQ(read_npy(put(npy(usual, four, major))).shape, std::vector<Index>{1}) << major;
  for (const std::string& header : {
           "{\"shape\": (1,), \"fortran_order\": False, \"descr\": \"<i4\"}"s,
           "{'descr':'<i4','fortran_order':False,'shape':(1,)}"s,
           "  { 'descr' : '<i4' ,\t'fortran_order' : False , 'shape' : ( 1 , ) , }  \n\n"s,
       }) {
    EXPECT_EQ(read_npy(put(npy(header, four))).dtype, "i4") << header;
  }
  EXPECT_EQ(read_npy(put(npy(dict("<f8", "(1, 0, 9)"), ""))).shape, (std::vector<Index>{1, 0, 9}));
}

TEST_F(NpyFiles, TheLongestHeaderIsTenThousandBytes) {
  const std::string header = dict("<i4", "(1,)");
  const auto padded = [&](std::size_t size) { return npy(header + std::string(size - header.size(), ' '), "1234", 2); };
  EXPECT_EQ(read_npy(put(padded(10'000))).bytes.size(), 4u);
  EXPECT_NE(error_of(put(padded(10'001))).find("at most 10,000"), std::string::npos);
}

struct Malformed {
  std::string why, bytes, message;  // the message without the file's name
};

std::vector<Malformed> malformed() {
  const std::string data(8, '\0');
  const std::string good = dict("<i4", "(2,)");
  const auto with = [&](const std::string& header) { return npy(header, data); };
  return {
      {"an empty file", "", "byte 0: not a .npy file: it must begin with '\\x93NUMPY', got an empty file"},
      {"another format", "PK\x03\x04 zip",
       "byte 0: not a .npy file: it must begin with '\\x93NUMPY', got 'PK\\x03\\x04 z'"},
      {"half of the magic", "\x93NUM", "got '\\x93NUM'"},
      {"ends before the version", "\x93NUMPY\x01", "byte 7: the format's version must follow"},
      {"ends before the length", "\x93NUMPY\x01\0\x10"s, "byte 9: the header's length must follow"},
      {"ends within a four-byte length", "\x93NUMPY\x02\0\x10\0\0"s, "byte 11: the header's length must follow"},
      {"version 0.0", "\x93NUMPY\0\0\x10\0"s + std::string(16, ' '),
       "byte 6: the format must be 1.0, 2.0 or 3.0, got 0.0"},
      {"version 4.0", npy(good, data, 4), "got 4.0"},
      {"version 1.1", "\x93NUMPY\x01\x01\x02\0{}"s, "got 1.1"},
      {"a header longer than the file", npy(good, data).substr(0, 40),
       "byte 8: the header is " + std::to_string(good.size()) + " bytes long but the file has only 30 bytes left"},
      {"a header of 4 GiB", "\x93NUMPY\x02\0\xff\xff\xff\xff{}"s, "at most 10,000 bytes long, got 4294967295"},
      {"an empty header", npy("", data), "byte 10: '{' must open the header, got the end of the header"},
      {"a list", with("[]"), "byte 10: '{' must open the header, got '[]'"},
      {"an unclosed dictionary", with("{'descr': '<i4'"), "'}' must close the header, got the end of the header"},
      {"an unclosed string", with("{'descr: 1}"), "a key: the quote must be closed"},
      {"an escape in a string", with("{'des\\x63r': '<i4'}"), "a key must not have escapes"},
      {"a number as key", with("{1: 2}"), "a key must be a quoted string, got '1: 2}'"},
      {"no colon", with("{'descr' '<i4'}"), "':' must follow the key"},
      {"an unknown key", with("{'descr': '<i4', 'x': 1}"),
       "byte 27: the keys must be 'descr', 'fortran_order' and 'shape'"},
      {"a key twice", with("{'descr': '<i4', 'descr': '<i4'}"), "a key must appear only once"},
      {"no descr", with("{'fortran_order': False, 'shape': (2,)}"), "the key 'descr' must be there"},
      {"no fortran_order", with("{'descr': '<i4', 'shape': (2,)}"), "the key 'fortran_order' must be there"},
      {"no shape", with("{'descr': '<i4', 'fortran_order': False}"), "the key 'shape' must be there"},
      {"Fortran order", with("{'descr': '<i4', 'fortran_order': True, 'shape': (2,)}"),
       "Fortran order is not supported"},
      {"an order that is no boolean", with("{'fortran_order': 0}"), "must be True or False, got '0}'"},
      {"code instead of a value", with("{'fortran_order': __import__('os')}"), "must be True or False"},
      {"big-endian data", with(dict(">i4", "(2,)")), "must be little-endian ('<'), not big-endian"},
      {"native order", with(dict("=i4", "(2,)")), "'descr' must begin with '<' or '|'"},
      {"no order for four bytes", with(dict("|i4", "(2,)")), "'|' (no byte order) goes only with one-byte types and V"},
      {"Python objects", with(dict("|O", "(2,)")), "pickled Python objects are never loaded"},
      {"named fields", with("{'descr': [('a', '<i4')]}"), "named fields are not supported"},
      {"a type of three bytes", with(dict("<i3", "(2,)")), "'descr' must be one of b1 i1"},
      {"a type of no bytes", with(dict("|V0", "(2,)")), "'descr' must be one of b1 i1"},
      {"complex numbers", with(dict("<c8", "(1,)")), "'descr' must be one of b1 i1"},
      {"an empty type", with(dict("", "(2,)")), "'descr' must be a type such as '<f4'"},
      {"a type without a size", with(dict("<i", "(2,)")), "'descr' must be one of b1 i1"},
      {"a shape in brackets", with(dict("<i4", "[2]")), "'(' must open the shape"},
      {"a shape without a comma", with(dict("<i4", "(2)")), "must be written with a comma"},
      {"a negative extent", with(dict("<i4", "(-2,)")), "an extent must be a whole number from 0 up, got '-2,)"},
      {"a real extent", with(dict("<i4", "(2.5,)")), "as in (3,), got '.5,)"},
      {"an extent of 2^63", with(dict("<i4", "(9223372036854775808,)")),
       "an extent is too large: it must be below 2^63"},
      {"an extent of 2^64 + 2", with(dict("<i4", "(18446744073709551618,)")), "an extent is too large"},
      {"a size that wraps to 8", with(dict("<i4", "(4611686018427387906,)")),
       "is too large: it must fit in 2^63 bytes"},
      {"a product that wraps", with(dict("<i4", "(4294967296, 4294967296)")),
       "is too large: it must fit in 2^63 bytes"},
      {"a product that wraps behind a 0", with(dict("<i4", "(0, 4294967296, 4294967296)")), "is too large"},
      {"33 extents",
       with(dict(
           "<i4", "(" +
                      [] {
                        std::string ones;
                        for (int i = 0; i < 33; ++i) ones += "1,";
                        return ones;
                      }() +
                      ")")),
       "'shape' must have at most 32 extents"},
      {"words behind the dictionary", with("{'descr': '<i4', 'fortran_order': False, 'shape': (2,)} or 1"),
       "nothing but spaces may follow the header's '}', got 'or 1'"},
      {"a byte of data missing", npy(good, data.substr(1)), "shape [2] of i4 needs 8 bytes of data, got 7"},
      {"a byte of data too many", npy(good, data + '\0'), "shape [2] of i4 needs 8 bytes of data, got 9"},
      {"no data", npy(good, ""), "needs 8 bytes of data, got 0"},
      {"data of a petabyte promised", npy(dict("<f8", "(1048576, 134217728)"), data),
       "needs 1125899906842624 bytes of data, got 8"},
      {"a nul in the header", with("{'descr'\0: 1}"s), "':' must follow the key, got '\\x00: 1}'"},
  };
}

TEST_F(NpyFiles, AMalformedFileIsRefusedWithTheByteAndTheReason) {
  for (const Malformed& bad : malformed()) {
    const std::string file = put(bad.bytes);
    const std::string error = error_of(file);
    EXPECT_EQ(error.rfind(file + ": byte ", 0), 0u) << bad.why << ": " << error;
    EXPECT_NE(error.find(bad.message), std::string::npos) << bad.why << ": " << error;
  }
}

TEST_F(NpyFiles, EveryProperBeginningOfAFileIsRefused) {
  const std::string whole = npy(dict("<f8", "(2, 3)"), std::string(48, 'x'));
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_NE(error_of(put(whole.substr(0, size))), "") << size << " bytes";
  }
}

TEST_F(NpyFiles, WhatIsNotARegularFileIsRefusedWithoutWaiting) {
  EXPECT_NE(error_of(path("missing.npy")).find("missing.npy: cannot be opened: No such file"), std::string::npos);
  EXPECT_NE(error_of(directory_.string()).find("must be a regular file"), std::string::npos);
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_NE(error_of(path("pipe")).find("must be a regular file"), std::string::npos);
  EXPECT_THROW(write_npy(path("pipe"), "f4", {0}, nullptr), ConfigError);
}

TEST_F(NpyFiles, AFailedWriteLeavesWhatWasThere) {
  const float one = 1, two = 2;
  write_npy(path("a.npy"), "f4", {1}, &one);
  const std::string before = get("a.npy");
  // The second file cannot be made, so the first must not appear either.
  EXPECT_THROW(write_npy({{path("a.npy"), "f4", {1}, &two}, {path("no/such/b.npy"), "f4", {1}, &two}}), ConfigError);
  EXPECT_EQ(get("a.npy"), before);
  EXPECT_THROW(write_npy(directory_.string(), "f4", {1}, &two), ConfigError);
  EXPECT_EQ(count(), 1) << "a temporary file was left behind";
}

TEST_F(NpyFiles, WritingThroughALinkKeepsTheLink) {
  const float one = 1;
  fs::create_symlink("target.npy", path("link.npy"));
  write_npy(path("link.npy"), "f4", {1}, &one);
  EXPECT_TRUE(fs::is_symlink(path("link.npy")));
  EXPECT_EQ(read_npy(path("target.npy")).bytes.size(), 4u);
}

TEST_F(NpyFiles, WhatNoFileCanHoldIsNotWritten) {
  const float one = 1;
  EXPECT_THROW(write_npy(path("x.npy"), "g4", {1}, &one), ShapeError);
  EXPECT_THROW(write_npy(path("x.npy"), "f4", {-1}, &one), ShapeError);
  try {
    write_npy(path("x.npy"), "f4", {2, -1}, &one);
  } catch (const ShapeError& error) {
    EXPECT_STREQ(error.what(),
                 "[write_npy] shape: extents must be at least 0 and fit in 2^63 bytes together, got [2, -1]");
  }
  EXPECT_THROW(write_npy(path("x.npy"), "f4", {Index{1} << 62, 4}, &one), ShapeError);
  EXPECT_THROW(write_npy(path("x.npy"), "f4", std::vector<Index>(33, 1), &one), ShapeError);
  EXPECT_THROW(write_npy(path("x.npy"), "f4", {1}, nullptr), ShapeError);
  EXPECT_EQ(count(), 0);
}

TEST_F(NpyFiles, ErrnoStaysAsItWas) {
  errno = 42;
  EXPECT_THROW(read_npy(path("missing.npy")), ConfigError);
  EXPECT_EQ(errno, 42);
  EXPECT_THROW(write_npy(path("no/such/x.npy"), "f4", {0}, nullptr), ConfigError);
  EXPECT_EQ(errno, 42);
}

TEST(NpyCorpus, FilesThatNumPyWroteAreRead) {
  const std::string corpus = std::string(BEARING_SOURCE_DIR) + "/tests/corpus/npy/";
  struct Expected {
    const char *file, *dtype;
    std::vector<Index> shape;
  };
  for (const auto& [file, dtype, shape] : std::vector<Expected>{{"f4_2x3.npy", "f4", {2, 3}},
                                                                {"f8_scalar.npy", "f8", {}},
                                                                {"f2_1x2x3x4.npy", "f2", {1, 2, 3, 4}},
                                                                {"i8_7.npy", "i8", {7}},
                                                                {"bf16_as_V2.npy", "V2", {3}},
                                                                {"empty_0x5.npy", "f4", {0, 5}},
                                                                {"version2.npy", "u2", {2, 2}},
                                                                {"version3.npy", "i4", {1}}}) {
    const NpyArray array = read_npy(corpus + file);
    EXPECT_EQ(array.dtype, dtype) << file;
    EXPECT_EQ(array.shape, shape) << file;
  }
  // np.arange(6, dtype=np.float32).reshape(2, 3)
  const NpyArray array = read_npy(corpus + "f4_2x3.npy");
  const std::vector<float> wanted{0, 1, 2, 3, 4, 5};
  EXPECT_EQ(std::memcmp(array.bytes.data(), wanted.data(), 24), 0);
}

}  // namespace
}  // namespace bearing
