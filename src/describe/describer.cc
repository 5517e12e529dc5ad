#include "describe/describer.hpp"

#include <map>

namespace bearing {

Extent NamedExtent::named(const char* called) {
  static const std::map<std::string_view, Index Sizes::*> sizes = {
      {"batch", &Sizes::batch}, {"heads", &Sizes::heads}, {"kv_heads", &Sizes::kv_heads},   {"q_len", &Sizes::q_len},
      {"k_len", &Sizes::k_len}, {"dim", &Sizes::dim},     {"value_dim", &Sizes::value_dim},
  };
  Extent extent{called, {}, called};
  extent.size = [name = std::string(called)](const Record& spec, const Sizes& of) -> Index {
    if (spec && spec.type().member(name) != nullptr) return std::get<Index>(spec.get(name));
    const auto found = sizes.find(name);
    return found == sizes.end() || of.*(found->second) == 0 ? any : of.*(found->second);
  };
  return extent;
}

}  // namespace bearing
