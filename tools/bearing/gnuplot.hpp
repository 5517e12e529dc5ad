#pragma once

#include <string>

namespace bearing::tool {

/// Runs gnuplot on a script and gives what it writes to standard output. Throws std::runtime_error if it is missing, or
/// ends with another status than 0, with what it says; Interrupted by a signal that ends this process, after gnuplot
/// has ended.
std::string run_gnuplot(const std::string& script);

}  // namespace bearing::tool
