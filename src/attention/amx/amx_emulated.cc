#include "attention/amx/amx_emulated.hpp"

#define BEARING_TILE_CODE
#include "attention/amx/amx_block-inl.hpp"
#include "attention/amx/amx_grads-inl.hpp"

namespace bearing::attend::amx {

const Kernels emulated = {
    attend<EmulatedTiles, PlainLanes>, split_queries<PlainLanes>, split_keys<PlainLanes>, split_values<PlainLanes>,
    split_turned<PlainLanes>,          multiply<EmulatedTiles>,   narrow<PlainLanes>,     scale<PlainLanes>};

}  // namespace bearing::attend::amx
