#pragma once

#include <bearing/encodings/transformer_xl.hpp>

#include "describe/values.hpp"

// The words of what Transformer-XL and XLNet share.

namespace bearing {

template <>
struct describe::Words<TransformerXLDirection> {
  static constexpr const char* all[] = {"bidirectional", "causal"};
};

}  // namespace bearing
