// Rotating in place what may only be read does not compile.
#include <bearing/encodings/rope.hpp>

#ifdef BEARING_WRONG
using Number = const float;
#else
using Number = float;
#endif
void rotate(const bearing::RopeTable<float>& table, bearing::View<Number, 4> q) {
  bearing::rotate(table, q, bearing::Positions{});
}
