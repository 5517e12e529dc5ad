#include "support/golden.hpp"

#include <fstream>
#include <iterator>
#include <stdexcept>

namespace bearing::test {

rapidjson::Document golden(const std::string& path) {
  const std::string full = std::string(BEARING_SOURCE_DIR) + "/tests/golden/" + path;
  std::ifstream file(full, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  rapidjson::Document document;
  document.Parse<rapidjson::kParseFullPrecisionFlag>(text.c_str());
  if (!file || document.HasParseError()) throw std::runtime_error(full + ": no golden data");
  return document;
}

std::vector<double> numbers(const rapidjson::Value& nested) {
  if (nested.IsNumber()) return {nested.GetDouble()};
  if (nested.IsString()) return {std::stod(nested.GetString())};
  std::vector<double> flat;
  for (const auto& part : nested.GetArray()) {
    const std::vector<double> inner = numbers(part);
    flat.insert(flat.end(), inner.begin(), inner.end());
  }
  return flat;
}

std::vector<Index> integers(const rapidjson::Value& nested) {
  std::vector<Index> whole;
  for (double number : numbers(nested)) whole.push_back(static_cast<Index>(number));
  return whole;
}

GoldenTensor tensor(const rapidjson::Value& value) { return {integers(value["shape"]), numbers(value["data"])}; }

}  // namespace bearing::test
