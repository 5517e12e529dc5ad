#pragma once

#include <stdexcept>
#include <string>

// Why the command ends other than with 0. What else is thrown is about a file: exit status 3.

namespace bearing::tool {

/// A wrong command line: exit status 2.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Something that was asked to hold does not: exit status 1.
struct CheckFailed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace bearing::tool
