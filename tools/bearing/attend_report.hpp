#pragma once

#include <optional>
#include <string>
#include <vector>

#include "encoding_spec.hpp"
#include "terminal.hpp"

namespace bearing::tool {

/// What `bearing attend` did.
struct AttendReport {
  CallShape shape;
  std::string dtype;
  std::vector<std::string> encodings;
  std::string mask;
  Index before = -1, after = -1;
  double scale = 0, soft_cap = 0;
  Index threads = 1;
  Index blind_queries = 0;  ///< that see no key
  double forward_seconds = 0;
  std::optional<double> backward_seconds = {};
  Index tensor_bytes = 0;  ///< inputs, outputs and gradients
  Index peak_bytes = 0;    ///< the most memory that the process had
  std::vector<std::string> files = {};
};

std::string to_text(const AttendReport& report, const Style& style);
std::string to_json(const AttendReport& report);

}  // namespace bearing::tool
