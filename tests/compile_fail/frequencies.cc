// Neither do frequencies without their pairing.
#include <bearing/encodings/rope.hpp>

#ifdef BEARING_WRONG
bearing::RopeFrequencies frequencies;
#else
bearing::RopeFrequencies frequencies{.pairing = bearing::Pairing::interleaved};
#endif
