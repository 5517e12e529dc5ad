// Positions are int64 or double; float32 holds no odd position past 2^24, and nothing converts in silence.
#include <bearing/encodings/rope.hpp>

#ifdef BEARING_WRONG
using Number = float;
#else
using Number = double;
#endif
bearing::Positions at(bearing::View<const Number, 1> view) { return bearing::Positions(view); }
