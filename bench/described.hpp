#pragma once

#include <bearing/catalog.hpp>
#include <bearing/description.hpp>
#include <memory>
#include <string>
#include <utility>
#include <vector>

// Encodings for cases, by name, as their descriptions make them: a model's spec, drawn parameters, room for gradients.

namespace bearing::bench {

class Described {
 public:
  using Members = std::vector<std::pair<std::string, Value>>;

  /// `members`: of the spec, in place of what the name stands for. Lengths of tables are those of the keys.
  Described(const std::string& name, const Sizes& sizes, const Members& members = {});

  struct Parameter {
    const ParameterInfo* info = nullptr;
    std::vector<Index> shape;
    std::vector<float> value, grad;
  };
  const EncodingInfo& info() const { return *info_; }
  const Record& spec() const { return spec_; }
  /// Those that it has.
  std::vector<Parameter>& parameters() { return parameters_; }
  const std::vector<Parameter>& parameters() const { return parameters_; }

  /// Made when first asked for. What the parameters hold later is not seen by what keeps numbers that follow from them.
  TermList<float> terms() const;
  const InputEncoding<float>& input() const { return made().input.value(); }

 private:
  const Made<float>& made() const;

  const EncodingInfo* info_;
  Record spec_, settings_;
  std::vector<Parameter> parameters_;
  mutable std::shared_ptr<const Made<float>> made_;
};

/// Its header and page: the name of its cases.
std::string home_of(const std::string& name);

}  // namespace bearing::bench
