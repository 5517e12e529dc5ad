// A float does not turn into 16 bits unless the source says so.
#include <bearing/half.hpp>

#ifdef BEARING_WRONG
bearing::Bfloat16 value = 1.0f;
#else
bearing::Bfloat16 value = bearing::Bfloat16(1.0f);
#endif
