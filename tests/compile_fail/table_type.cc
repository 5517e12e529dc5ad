// 16-bit data is rotated with a float table: arithmetic is done in float, and a double table would promise more.
#include <bearing/encodings/rope.hpp>

#ifdef BEARING_WRONG
using Number = double;
#else
using Number = float;
#endif
void rotate(const bearing::RopeTable<Number>& table, bearing::View<bearing::Bfloat16, 4> q) {
  bearing::rotate(table, q, bearing::Positions{});
}
