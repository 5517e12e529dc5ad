#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <bearing/gguf.hpp>
#include <bearing/safetensors.hpp>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <system_error>

#include "array_files.hpp"
#include "config_report.hpp"

// Where a model's file comes from: a path, a folder, a stream.

namespace bearing::tool {
namespace {

constexpr const char* standard_input = "standard input";

/// A file to read by its path, or what came from a stream, which can be read once. `name` stands for it in what is
/// said.
struct Source {
  std::string name, path;
  std::optional<std::string> bytes = {};

  bool gguf() const { return bytes ? is_gguf(*bytes) : is_gguf_file(path); }
};

/// Everything that comes from an open file. At most 16 MiB, as of any config: what a GGUF file says of positions may
/// stand behind all of its weights.
std::string read_stream(int stream, const std::string& name) {
  constexpr std::size_t most = std::size_t{16} << 20;
  std::string bytes;
  std::array<char, 65536> piece;
  while (true) {
    const ssize_t n = ::read(stream, piece.data(), piece.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) bad_file(name, "cannot be read: " + std::generic_category().message(errno));
    if (n == 0) return bytes;
    bytes.append(piece.data(), static_cast<std::size_t>(n));
    if (bytes.size() <= most) continue;
    bad_file(name, is_gguf(bytes)
                       ? "must have at most 16 MiB, got a longer GGUF file: give its path, or redirect it to -"
                       : "must have at most 16 MiB, got more");
  }
}

Source source_of(const std::string& file) {
  if (file == "-") {
    // What was redirected is a file, whatever its size.
    const std::string redirected = "/dev/stdin";
    if (is_gguf_file(redirected)) return {standard_input, redirected};
    return {standard_input, {}, read_stream(STDIN_FILENO, standard_input)};
  }
  std::error_code ignored;
  const std::filesystem::file_status status = std::filesystem::status(file, ignored);
  if (!std::filesystem::is_fifo(status) && !std::filesystem::is_character_file(status)) return {file, file};
  const int stream = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (stream < 0) bad_file(file, "cannot be opened: " + std::generic_category().message(errno));
  Source source{file, {}, read_stream(stream, file)};
  ::close(stream);
  return source;
}

/// Throws for a file of weights, which says nothing of positions.
void refuse_weights(const std::string& file) {
  if (!is_safetensors_file(file)) return;
  bad_file(file,
           "must be a config.json or a GGUF file, got a safetensors file, which holds tensors alone: give the "
           "model's folder, whose config.json says what they are for");
}

}  // namespace

Model read_model(const std::string& file) {
  const Source source = source_of(file);
  if (source.gguf()) {
    Model model = source.bytes ? parse_gguf(*source.bytes, source.name) : read_gguf(source.path);
    model.file = source.name;
    return model;
  }
  if (!source.bytes) refuse_weights(source.path);
  Model model = source.bytes ? parse_hf_config(*source.bytes, source.name) : read_model_file(source.path);
  if (!source.bytes && is_gguf_file(model.file)) return model;  // of a folder
  // Last: it is true of most new files.
  for (ConfigWarning& warning :
       source.bytes ? older_reader_warnings(*source.bytes, source.name) : older_reader_warnings_of_file(model.file)) {
    model.warnings.push_back(std::move(warning));
  }
  return model;
}

SpelledConfig spelled(const std::string& file, HfSpelling spelling) {
  Source source = source_of(file);
  std::error_code ignored;
  if (!source.bytes && std::filesystem::is_directory(source.path, ignored)) {
    source.path = source.name = std::filesystem::path(file) / "config.json";
  }
  if (source.gguf()) bad_file(source.name, "must be a config.json to be written, got a GGUF file");
  if (source.bytes) return spell_hf_config(*source.bytes, spelling, source.name);
  refuse_weights(source.path);
  return spell_hf_config_file(source.path, spelling);
}

}  // namespace bearing::tool
