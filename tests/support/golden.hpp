#pragma once

#include <bearing/view.hpp>
#include <string>
#include <vector>

#define RAPIDJSON_HAS_STDSTRING 1
#include <rapidjson/document.h>

namespace bearing::test {

/// tests/golden/<path>. Throws std::runtime_error if it cannot be read.
rapidjson::Document golden(const std::string& path);

/// {"shape": […], "data": […]}
struct GoldenTensor {
  std::vector<Index> shape;
  std::vector<double> data;
};
GoldenTensor tensor(const rapidjson::Value& value);

/// Nested arrays of numbers, flattened.
std::vector<double> numbers(const rapidjson::Value& nested);
std::vector<Index> integers(const rapidjson::Value& nested);

}  // namespace bearing::test
