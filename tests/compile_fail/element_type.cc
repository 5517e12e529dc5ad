// 16 bits must say which kind of number they are; a program that does not say it fails as it is compiled, not linked.
#include <bearing/encodings/rope.hpp>
#include <cstdint>

#ifdef BEARING_WRONG
using Number = std::uint16_t;
#else
using Number = bearing::Float16;
#endif
void rotate(const bearing::RopeTable<float>& table, bearing::View<Number, 4> q) {
  bearing::rotate(table, q, bearing::Positions{});
}
