#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bearing/error.hpp>
#include <bearing/whole_files.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

namespace bearing {
namespace {

namespace fs = std::filesystem;

class WholeFilesTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("bearing-whole-files-" + std::to_string(::getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  std::string put(const std::string& name, const std::string& text) const {
    std::ofstream(path(name)) << text;
    return path(name);
  }

  std::string text(const std::string& name) const {
    std::ifstream file(path(name));
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::size_t count() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }

  mode_t mode(const std::string& name) const {
    struct stat status {};
    EXPECT_EQ(::stat(path(name).c_str(), &status), 0);
    return status.st_mode & 07777;
  }

  fs::path folder_;
};

TEST_F(WholeFilesTest, ANameWithANulWritesNoFile) {
  put("victim", "old");
  const std::string given = path("victim") + std::string(1, '\0') + ".safetensors";
  WholeFiles files;
  try {
    files.add(given, {"new"});
    ADD_FAILURE() << "it was added";
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.what(), path("victim") + "\\x00.safetensors: must be a path without a NUL character, got one");
  }
  files.commit();
  EXPECT_EQ(text("victim"), "old");
  EXPECT_EQ(count(), 1u);
}

TEST_F(WholeFilesTest, NothingIsSeenBeforeTheCommit) {
  put("old", "old");
  {
    WholeFiles files;
    files.add(path("old"), {"n", "ew"});
    files.add(path("new"), {"new"});
    EXPECT_EQ(text("old"), "old");
    EXPECT_FALSE(fs::exists(path("new")));
  }
  EXPECT_EQ(count(), 1u);
  WholeFiles files;
  files.add(path("old"), {"n", "ew"});
  files.add(path("new"), {"", "new"});
  files.commit();
  EXPECT_EQ(text("old"), "new");
  EXPECT_EQ(text("new"), "new");
  EXPECT_EQ(count(), 2u);
}

TEST_F(WholeFilesTest, AReplacedFileHandsOnItsMode) {
  for (const mode_t wanted : {0600U, 0640U, 0755U, 0666U}) {
    put("x", "old");
    ASSERT_EQ(::chmod(path("x").c_str(), wanted), 0);
    WholeFiles files;
    files.add(path("x"), {"new"});
    files.commit();
    EXPECT_EQ(mode("x"), wanted);
  }
  const mode_t before = ::umask(027);
  WholeFiles files;
  files.add(path("y"), {"new"});
  files.commit();
  ::umask(before);
  EXPECT_EQ(mode("y"), mode_t{0640});
}

TEST_F(WholeFilesTest, WhatComesBetweenPiecesCanEndTheWriting) {
  put("x", "old");
  int pieces = 0;
  WholeFiles files([&] {
    if (++pieces == 3) throw std::runtime_error("enough");
  });
  const std::string three(std::size_t{3} << 20, 'x');
  EXPECT_THROW(files.add(path("x"), {three}), std::runtime_error);
  EXPECT_EQ(pieces, 3);
  files.commit();
  EXPECT_EQ(text("x"), "old");
  EXPECT_EQ(count(), 1u);
}

TEST_F(WholeFilesTest, AFileThatCannotTakeItsPlacePutsTheOthersBack) {
  put("a", "old");
  WholeFiles files;
  for (const char* name : {"a", "b", "c"}) files.add(path(name), {"new"});
  fs::create_directory(path("c"));
  EXPECT_THROW(files.commit(), ConfigError);
  EXPECT_EQ(text("a"), "old");
  EXPECT_FALSE(fs::exists(path("b")));
}

TEST_F(WholeFilesTest, AFileIsKnownByEverySpelling) {
  put("x", "");
  fs::create_symlink("x", path("soft"));
  fs::create_hard_link(path("x"), path("hard"));
  fs::create_directory_symlink(folder_, path("here"));
  for (const char* name : {"x", "./x", "here/x", "soft", "hard"}) {
    EXPECT_TRUE(same_file(path("x"), path(name))) << name;
  }
  // Not there yet.
  for (const char* name : {"y", "./y", "here/y", "Y"}) EXPECT_TRUE(same_file(path("y"), path(name))) << name;
  put("z", ""), put("Z", "");
  const bool distinct = !fs::equivalent(path("z"), path("Z"));
  EXPECT_EQ(same_file(path("z"), path("Z")), !distinct);
  EXPECT_FALSE(same_file(path("x"), path("y")));
  EXPECT_FALSE(same_file(path("no/such"), path("such")));
  WholeFiles files;
  files.add(path("y"), {"one"});
  EXPECT_THROW(files.add(path("here/y"), {"two"}), ConfigError);
  files.commit();
  EXPECT_EQ(text("y"), "one");
}

TEST_F(WholeFilesTest, ALoopOfLinksIsAnError) {
  fs::create_symlink("b", path("a"));
  fs::create_symlink("a", path("b"));
  WholeFiles files;
  EXPECT_THROW(files.add(path("a"), {""}), ConfigError);
  EXPECT_THROW(static_cast<void>(same_file(path("a"), path("x"))), ConfigError);
  EXPECT_TRUE(fs::is_symlink(path("a")));
  EXPECT_EQ(count(), 2u);
}

TEST_F(WholeFilesTest, WhatIsNoPlainFileIsLeftAlone) {
  WholeFiles files;
  for (const std::string& bad :
       {path(""), folder_.string(), path("no/such"), path("no/"), std::string("/dev/null"), std::string()}) {
    EXPECT_THROW(files.add(bad, {"x"}), ConfigError) << bad;
  }
  EXPECT_EQ(count(), 0u);
}

}  // namespace
}  // namespace bearing
