#pragma once

#include <bearing/npy.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace bearing::tool {

/// Everything that a command writes. It appears at once, after all that can fail: a signal, a full disk or a standard
/// output that cannot be written leave every file as it was.
class Outputs {
 public:
  void add(NpyOutput file) { arrays_.push_back(std::move(file)); }
  void add(std::string path, std::string text) { texts_.push_back({std::move(path), std::move(text)}); }
  /// Prints the report, then puts the files in their places.
  void save(std::string_view report = {}) const;

 private:
  struct Text {
    std::string path, text;
  };
  std::vector<NpyOutput> arrays_;
  std::vector<Text> texts_;
};

/// A report: to the file, or to standard output if none is named.
void deliver(const std::string& out, const std::string& text);

}  // namespace bearing::tool
