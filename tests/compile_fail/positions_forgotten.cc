// Positions are never assumed: rotate() without them does not compile.
#include <bearing/encodings/rope.hpp>

void rotate(const bearing::RopeTable<float>& table, bearing::View<float, 4> q) {
#ifdef BEARING_WRONG
  bearing::rotate(table, q);
#else
  bearing::rotate(table, q, bearing::Positions{});
#endif
}
