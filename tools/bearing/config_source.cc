#include <fcntl.h>
#include <unistd.h>

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

/// A file to read by its name, or the text of a stream, which can be read once.
struct Source {
  std::string name;
  std::optional<std::string> text;
};

Source source_of(const std::string& file) {
  std::error_code ignored;
  const std::filesystem::file_status status = std::filesystem::status(file, ignored);
  if (file == "-") return {"standard input", read_stream(STDIN_FILENO, "standard input")};
  if (!std::filesystem::is_fifo(status) && !std::filesystem::is_character_file(status)) return {file, {}};
  const int stream = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (stream < 0) bad_file(file, "cannot be opened: " + std::generic_category().message(errno));
  Source source{file, read_stream(stream, file)};
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
  if (!source.text) refuse_weights(source.name);
  Model model = source.text ? parse_hf_config(*source.text, source.name) : read_model_file(source.name);
  if (!source.text && is_gguf_file(model.file)) return model;
  // Last: it is true of most new files.
  for (ConfigWarning& warning :
       source.text ? older_reader_warnings(*source.text, source.name) : older_reader_warnings_of_file(model.file)) {
    model.warnings.push_back(std::move(warning));
  }
  return model;
}

SpelledConfig spelled(const std::string& file, HfSpelling spelling) {
  Source source = source_of(file);
  if (source.text) return spell_hf_config(*source.text, spelling, source.name);
  std::error_code ignored;
  if (std::filesystem::is_directory(file, ignored)) source.name = std::filesystem::path(file) / "config.json";
  if (is_gguf_file(source.name)) bad_file(source.name, "must be a config.json to be written, got a GGUF file");
  refuse_weights(source.name);
  return spell_hf_config_file(source.name, spelling);
}

}  // namespace bearing::tool
