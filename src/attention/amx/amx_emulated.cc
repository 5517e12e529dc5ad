#include "attention/amx/amx_emulated.hpp"

#define BEARING_TILE_CODE
#include "attention/amx/amx_block-inl.hpp"

namespace bearing::attend::amx {

void attend_block_emulated(const Block& block) { attend<EmulatedTiles, PlainLanes>(block); }

}  // namespace bearing::attend::amx
