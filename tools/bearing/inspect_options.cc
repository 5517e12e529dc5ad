#include "inspect_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "arguments.hpp"
#include "errors.hpp"
#include "terminal.hpp"

namespace bearing::tool {
namespace {

Subject subject_from(const Said& said) {
  inspect::Subject subject = bearing::subject_of(said);
  return {std::move(subject.name), std::move(subject.description), subject.sizes, subject.lengths};
}

}  // namespace

void SizeOptions::add_to(Command& command) {
  command.text("--heads", heads, "N", "Heads (default 8, or the model's)");
  command.text("--dim", dim, "N", "Dimensions of a head (default 64, or the model's)");
  command.text("--length", length, "N", "Tokens it is trained for (default 512, or the model's)");
  command.text("--seed", seed, "N", "Draws what would be learned (default 1)");
}

Sizes SizeOptions::asked() const {
  const auto parse = [](const char* option, const std::string& text, Index most) {
    return text.empty() ? 0 : parse_index(option, text, 1, most);
  };
  return {.heads = parse("--heads", heads, largest_example.heads),
          .dim = parse("--dim", dim, largest_example.dim),
          .length = parse("--length", length, largest_example.length)};
}

inspect::SpecimenOptions SizeOptions::seeded(inspect::SpecimenOptions size) const {
  constexpr Index most = std::numeric_limits<std::int64_t>::max();
  if (!seed.empty()) size.seed = static_cast<std::uint64_t>(parse_index("--seed", seed, 0, most));
  return size;
}

inspect::SpecimenOptions SizeOptions::parse(const Sizes& said) const { return seeded(example_size(asked(), said)); }

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

inspect::SpecimenOptions measured_size(const Subject& subject, const SizeOptions& options) {
  const Sizes asked = options.asked();
  const inspect::SpecimenOptions size = options.seeded(measured_size(subject.description, asked, subject.model));
  const Index whole = std::max(subject.model.length, example_size(asked, subject.model).length);
  const bool said = subject.model.heads > 0 || subject.model.dim > 0;
  std::string part;
  if (asked.heads == 0 && size.heads < subject.model.heads) {
    part += fmt::format(" with {} of its {} heads", grouped(size.heads), grouped(subject.model.heads));
  }
  if (said && asked.length == 0 && size.length < whole) {
    part += fmt::format(" over {} of its {} tokens", grouped(size.length), grouped(whole));
  }
  if (!part.empty())
    note(fmt::format("{}: measured{}; --heads and --length say otherwise", printable(subject.text), part));
  return size;
}

void note_length(const Subject& subject, const SizeOptions& options, Index taken) {
  const std::string why = inspect::length_note(options.asked().length, taken);
  if (!why.empty()) note(fmt::format("{}: {}", printable(subject.text), why));
}

}  // namespace bearing::tool
