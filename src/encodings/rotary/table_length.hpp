#pragma once

#include <bearing/encodings/rope.hpp>
#include <memory>
#include <utility>

// What descriptions of encodings that refer to a table share: they own it.

namespace bearing {

/// How many rows of the table are kept.
struct TableLength {
  Index length = 2048;
  bool operator==(const TableLength&) const = default;
};

/// Options of a table for sequences as long as it is: frequencies that depend on a length serve that one.
inline TableOptions as_long_as(const Rope& rope, Index length) {
  return {.seq_len = depends_on_length(rope.scaling) ? length : 0};
}
/// Such a table.
template <class A>
std::shared_ptr<const RopeTable<A>> table_of(const Rope& rope, Index length) {
  return std::make_shared<const RopeTable<A>>(rope, length, as_long_as(rope, length));
}

/// A table and its rows in one.
template <class Table, class Rows>
struct KeptTable {
  std::shared_ptr<const Table> table;
};
template <class Table, class Rows>
struct WithTable : KeptTable<Table, Rows>, Rows {
  explicit WithTable(std::shared_ptr<const Table> from) : KeptTable<Table, Rows>{std::move(from)}, Rows(*this->table) {}
};

}  // namespace bearing
