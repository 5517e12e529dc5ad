#pragma once

#include <stdexcept>
#include <string>

namespace bearing::tool {

/// There is no gnuplot on this machine.
struct GnuplotMissing : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Runs gnuplot on a script and gives what it writes to standard output. Throws GnuplotMissing, std::runtime_error if
/// it ends with another status than 0, with what it says; Interrupted by a signal that ends this process, after gnuplot
/// has ended.
std::string run_gnuplot(const std::string& script);

}  // namespace bearing::tool
