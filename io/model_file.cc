#include <bearing/error.hpp>
#include <bearing/gguf.hpp>
#include <filesystem>
#include <system_error>

#include "posix.hpp"

// A model's file of either format, or the one in a folder.

namespace bearing {
namespace {

namespace fs = std::filesystem;

/// Its config.json, else its only GGUF file.
std::string file_in(const fs::path& folder) {
  std::error_code ignored;
  const fs::path config = folder / "config.json";
  if (fs::exists(config, ignored)) return config.string();
  std::string found;
  Index files = 0;
  for (fs::directory_iterator at(folder, ignored), end; !ignored && at != end; at.increment(ignored)) {
    if (at->path().extension() != ".gguf") continue;
    found = at->path().string(), ++files;
  }
  if (files > 1) {
    throw ConfigError(folder.string() + ": must have a config.json or one GGUF file, got " + std::to_string(files) +
                      " GGUF files: give one of them");
  }
  return files == 1 ? found : config.string();  // who reads it says that it is missing
}

}  // namespace

Model read_model_file(const std::string& path) {
  const posix::KeepErrno keep;
  posix::check_path(path);
  std::error_code ignored;
  const std::string file = fs::is_directory(path, ignored) ? file_in(path) : path;
  return is_gguf_file(file) ? read_gguf(file) : read_hf_config(file);
}

}  // namespace bearing
