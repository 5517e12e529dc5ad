#include "attention/amx/amx_emulated.hpp"

#define BEARING_TILE_CODE
#include "attention/amx/amx_kernels-inl.hpp"

namespace bearing::attend::amx {

const Kernels emulated = kernels_of<EmulatedTiles, PlainLanes>;

}  // namespace bearing::attend::amx
