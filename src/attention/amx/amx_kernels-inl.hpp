#pragma once

#include "attention/amx/amx_block-inl.hpp"
#include "attention/amx/amx_grads-inl.hpp"

// All kernels over one choice of the policies of amx_tiles-inl.hpp.

namespace bearing::attend::amx {

template <class Tiles, class Lanes>
inline constexpr Kernels kernels_of = {.attend = attend<Tiles, Lanes>,
                                       .split_queries = split_queries<Lanes>,
                                       .split_keys = split_keys<Lanes>,
                                       .split_values = split_values<Lanes>,
                                       .split_turned = split_turned<Lanes>,
                                       .multiply = multiply<Tiles>,
                                       .narrow = narrow<Lanes>,
                                       .scale = scale<Lanes>};

}  // namespace bearing::attend::amx
