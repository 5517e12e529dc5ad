// A rotary spec without its pairing does not compile.
#include <bearing/encodings/rope.hpp>

#ifdef BEARING_WRONG
bearing::Rope rope{.head_dim = 128, .base = 500'000};
#else
bearing::Rope rope{.head_dim = 128, .base = 500'000, .pairing = bearing::Pairing::half};
#endif
