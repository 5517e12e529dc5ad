#pragma once

#include <bearing/view.hpp>
#include <memory>
#include <utility>

// What descriptions of encodings that refer to a table share: they own it.

namespace bearing {

/// How many rows of the table are kept.
struct TableLength {
  Index length = 2048;
  bool operator==(const TableLength&) const = default;
};

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
