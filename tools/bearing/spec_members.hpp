#pragma once

#include <bearing/io.hpp>
#include <string>
#include <variant>
#include <vector>

namespace bearing::tool {

/// One number or word of a spec, by the name that JSON has for it.
struct SpecMember {
  std::string name;
  std::variant<Index, double, bool, std::string, std::vector<double>> value;
};

/// What a spec says, in the order of its members; nothing for rotary ones, which are shown by themselves.
std::vector<SpecMember> members_of(const LayerEncoding& encoding);
std::vector<SpecMember> members_of(const InputSpec& encoding);

}  // namespace bearing::tool
