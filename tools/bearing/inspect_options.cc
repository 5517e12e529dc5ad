#include "inspect_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "arguments.hpp"
#include "errors.hpp"
#include "terminal.hpp"

namespace bearing::tool {
namespace {

/// A name is shown as the catalog has it.
Subject subject_from(const Said& said) {
  const bool name = inspect::find(said.text()) != nullptr;
  return {name ? said.description().name : said.text(), said.as_description(), said.sizes()};
}

}  // namespace

void SizeOptions::add_to(Command& command) {
  command.text("--heads", heads, "N", "Heads (default 8, or the model's)");
  command.text("--dim", dim, "N", "Dimensions of a head (default 64, or the model's)");
  command.text("--length", length, "N", "Tokens it is trained for (default 512, or the model's)");
  command.text("--seed", seed, "N", "Draws what would be learned (default 1)");
}

inspect::SpecimenOptions SizeOptions::parse(const Sizes& model) const {
  inspect::SpecimenOptions size;
  const auto set = [](Index& to, const std::string& text, const char* option, Index most, Index of_model) {
    if (!text.empty()) {
      to = parse_index(option, text, 1, most);
    } else if (of_model > 0) {
      to = std::min(of_model, most);
    }
  };
  set(size.heads, heads, "--heads", 1024, model.heads);
  set(size.dim, dim, "--dim", 4096, model.dim);
  set(size.length, length, "--length", 65536, model.length);
  if (!seed.empty()) {
    size.seed = static_cast<std::uint64_t>(parse_index("--seed", seed, 0, std::numeric_limits<std::int64_t>::max()));
  }
  return size;
}

std::vector<Subject> subjects_of(const std::string& command, const std::string& text) {
  return with_library_errors(command, [&] {
    std::vector<Subject> subjects;
    for (const Said& said : say_encodings(text)) subjects.push_back(subject_from(said));
    return subjects;
  });
}

Subject subject_of(const std::string& command, const std::string& text) {
  return with_library_errors(command, [&] { return subject_from(say_encoding(text)); });
}

inspect::SpecimenOptions measured_size(const Subject& subject, const SizeOptions& asked) {
  constexpr Index most = Index{1} << 24;  // what a measurement takes: inspect::check()
  inspect::SpecimenOptions size = asked.parse(subject.model);
  if (subject.model.heads == 0 && subject.model.dim == 0) return size;
  const inspect::SpecimenOptions whole = size;
  const EncodingInfo* info = subject.description.encoding;
  const bool heads_alike = info != nullptr && !info->scores && !info->values && info->parameters.empty();
  if (heads_alike && asked.heads.empty())
    size.heads = std::clamp<Index>(most / (size.dim * size.length), 1, size.heads);
  if (asked.length.empty()) size.length = std::clamp<Index>(most / (size.dim * size.heads), 1, size.length);
  if (asked.length.empty() && size.length < std::max(whole.length, subject.model.length)) {
    note(fmt::format("{}: measured over {} of its {} tokens; --heads and --length say otherwise", subject.text,
                     grouped(size.length), grouped(std::max(whole.length, subject.model.length))));
  }
  return size;
}

}  // namespace bearing::tool
