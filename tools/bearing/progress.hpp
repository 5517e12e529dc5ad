#pragma once

#include <mutex>
#include <string_view>

namespace bearing::tool {

/// One line on standard error that says how far the work is. It is there on a terminal only, each text takes the place
/// of the one before, and nothing is left of it at the end.
class Progress {
 public:
  Progress();
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// From any thread. Cut to the terminal's width.
  void show(std::string_view text);

 private:
  bool terminal_;
  std::mutex mutex_;
};

}  // namespace bearing::tool
