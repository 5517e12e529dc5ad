#pragma once

#include <bearing/catalog.hpp>
#include <bearing/say.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "arguments.hpp"
#include "command.hpp"
#include "errors.hpp"

namespace bearing::tool {

/// What the help says of an argument that is an encoding.
inline constexpr const char* encoding_help =
    "A name of 'bearing list', NAME:KEY=VALUE,..., JSON,\na file of JSON or @config.json#LAYER";

/// The size of an example, as the command line gives it: --heads, --dim, --length, --seed.
struct SizeOptions {
  std::string heads, dim, length, seed;

  void add_to(Command& command);
  /// What is given; 0: nothing. Throws UsageError for a number out of range.
  Sizes asked() const;
  /// The size, with the seed that is given.
  inspect::SpecimenOptions seeded(inspect::SpecimenOptions size) const;
  /// What is not given is the model's, or what the spec says. Throws as asked().
  inspect::SpecimenOptions parse(const Sizes& said = {}) const;
};

/// An encoding that a command looks at: what was said of it, and the size of its examples.
struct Subject {
  std::string text;  ///< as it was said
  Description description;
  Sizes model = {};          ///< where a model's file or the spec says it
  RopeLengths lengths = {};  ///< of a model
};

/// What a text says: one encoding, or each kind of a model's layers once. Throws UsageError.
std::vector<Subject> subjects_of(const std::string& command, const std::string& text);
/// The same, of which there must be one.
Subject subject_of(const std::string& command, const std::string& text);

/// The size of a measurement: a model's, made smaller where it is too much and the command line does not ask for it;
/// a note says so.
inspect::SpecimenOptions measured_size(const Subject& subject, const SizeOptions& options);

/// A note where an example has other tokens than the command line asks for.
void note_length(const Subject& subject, const SizeOptions& options, Index taken);

/// Calls body(); what the library refuses (an odd dimension, say) is a wrong command line.
template <class Body>
decltype(auto) with_library_errors(const std::string& command, const Body& body) {
  try {
    return body();
  } catch (const std::logic_error& error) {  // ShapeError, RangeError
    throw UsageError(command + ": " + without_function(error.what()));
  }
}

}  // namespace bearing::tool
