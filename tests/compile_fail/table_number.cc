// A table holds cos and sin as arithmetic takes them: there is none of 16-bit numbers.
#include <bearing/encodings/rope.hpp>

#ifdef BEARING_WRONG
using Number = bearing::Bfloat16;
#else
using Number = float;
#endif
bearing::Index length(const bearing::RopeTable<Number>& table) { return table.length(); }
