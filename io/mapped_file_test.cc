#include "mapped_file.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bearing/error.hpp>
#include <filesystem>
#include <fstream>
#include <string>

namespace bearing {
namespace {

namespace fs = std::filesystem;

class MappedFiles : public testing::Test {
 protected:
  MappedFiles() {
    std::string name = (fs::temp_directory_path() / "bearing-map-XXXXXX").string();
    directory_ = ::mkdtemp(name.data());
  }
  ~MappedFiles() override { fs::remove_all(directory_); }

  std::string path(const std::string& name) const { return (directory_ / name).string(); }
  std::string put(const std::string& bytes, const std::string& name = "x") const {
    std::ofstream(path(name), std::ios::binary) << bytes;
    return path(name);
  }

  fs::path directory_;
};

std::string error_of(const std::string& file) {
  try {
    MappedFile opened(file);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST_F(MappedFiles, TheBytesAreTheFiles) {
  const std::string bytes = std::string("a\0b\xff", 4) + std::string(100'000, 'z');
  MappedFile file(put(bytes));
  EXPECT_EQ(file.size(), bytes.size());
  EXPECT_EQ(file.text(), bytes);
  EXPECT_EQ(file.bytes().data(), file.bytes().data());
  EXPECT_EQ(file.read(1, 3), bytes.substr(1, 3));
  EXPECT_EQ(file.read(bytes.size(), 0), "");
}

TEST_F(MappedFiles, AnEmptyFileHasNoBytes) {
  MappedFile file(put(""));
  EXPECT_EQ(file.size(), 0u);
  EXPECT_TRUE(file.bytes().empty());
}

TEST_F(MappedFiles, ItMovesAndOutlivesItsName) {
  MappedFile first(put("hello"));
  EXPECT_EQ(first.text(), "hello");
  fs::remove(path("x"));
  MappedFile second(std::move(first));
  EXPECT_EQ(second.text(), "hello");
  EXPECT_EQ(second.read(0, 5), "hello");
}

TEST_F(MappedFiles, WhatIsNotThereIsAnErrorThatNamesTheByte) {
  const MappedFile file(put("0123456789"));
  const auto error = [&](std::uint64_t offset, std::uint64_t size) -> std::string {
    try {
      file.read(offset, size);
    } catch (const ConfigError& failed) {
      return std::string(failed.what()).substr(path("x").size());
    }
    return "";
  };
  EXPECT_EQ(error(8, 3), ": byte 8: must have 3 bytes more, got 2");
  EXPECT_EQ(error(11, 1), ": byte 11: must have 1 byte more, got 0");
  EXPECT_EQ(error(2, ~std::uint64_t{0}), ": byte 2: must have 18446744073709551615 bytes more, got 8");
}

TEST_F(MappedFiles, AFileThatBecameShorterIsAnErrorWhereItIsRead) {
  const MappedFile file(put("0123456789"));
  fs::resize_file(path("x"), 4);
  EXPECT_THROW(file.read(0, 10), ConfigError);
}

TEST_F(MappedFiles, OnlyRegularFilesAreOpened) {
  EXPECT_EQ(error_of(path("absent")), path("absent") + ": cannot be opened: No such file or directory");
  EXPECT_EQ(error_of(directory_.string()), directory_.string() + ": must be a regular file");
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_EQ(error_of(path("pipe")), path("pipe") + ": must be a regular file");
  EXPECT_EQ(error_of("/dev/zero"), "/dev/zero: must be a regular file");
}

}  // namespace
}  // namespace bearing
