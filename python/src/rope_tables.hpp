#pragma once

#include <bearing/encodings/rope.hpp>
#include <bearing/encodings/xpos.hpp>
#include <memory>
#include <string>

#include "arrays.hpp"
#include "specs.hpp"
#include "words.hpp"

// Rotary tables as Python holds them, and the words of rotary options.

namespace bearing::python {

template <>
struct Words<Angles> {
  static constexpr std::array<Word<Angles>, 2> words{{{Angles::exact, "exact"}, {Angles::as_float32, "as_float32"}}};
};
template <>
struct Words<TableMemory> {
  static constexpr std::array<Word<TableMemory>, 2> words{
      {{TableMemory::full, "full"}, {TableMemory::compact, "compact"}}};
};
template <>
struct Words<PairChange> {
  static constexpr std::array<Word<PairChange>, 3> words{
      {{PairChange::kept, "kept"}, {PairChange::blended, "blended"}, {PairChange::scaled, "scaled"}}};
};

/// The arithmetic of a table.
enum class TableType { f32, f64 };
template <>
struct Words<TableType> {
  static constexpr std::array<Word<TableType>, 2> words{{{TableType::f32, "float32"}, {TableType::f64, "float64"}}};
};

/// The word for it, or what NumPy, PyTorch and JAX call the type.
TableType table_type_of(nb::handle dtype, const char* function);

/// A table of either arithmetic: one of the two is null.
struct Table {
  std::shared_ptr<const RopeTable<float>> f32;
  std::shared_ptr<const RopeTable<double>> f64;
  bool given =
      false;  ///< its cos and sin came from the caller, or have a decay in them: frequencies say nothing of that

  /// f(table) for the one that is there.
  template <class F>
  decltype(auto) visit(const F& f) const {
    return f32 ? f(*f32) : f(*f64);
  }
  TableType type() const { return f32 ? TableType::f32 : TableType::f64; }
  const RopeFrequencies& frequencies() const {
    return visit([](const auto& table) -> const RopeFrequencies& { return table.frequencies(); });
  }

  /// The table for arithmetic in A, or TypeError: an argument of this type cannot use it.
  template <class A>
  const RopeTable<A>& of(const Argument& argument, const char* got) const {
    if constexpr (std::is_same_v<A, double>) {
      if (f64) return *f64;
    } else {
      if (f32) return *f32;
    }
    argument.fail(f32 ? "float32, bfloat16 or float16 for a float32 table" : "float64 for a float64 table", got);
  }
};

/// xPos' two tables.
struct XposTables {
  Xpos xpos;
  TableOptions options;
  Table q, k;
  std::shared_ptr<const XposTable<float>> f32;
  std::shared_ptr<const XposTable<double>> f64;
};

/// Frequencies that are to be described: a RopeFrequencies, those of a RopeTable, or those of a Rope at its trained
/// length.
RopeFrequencies frequencies_of(nb::handle from, const Argument& argument);
/// TypeError for a Rope whose frequencies depend on the length: "[function] argument: must be a RopeTable, or a Rope
/// …". others: what else will do, "a RopeTable, or "; way: how to say the length, "; resolve(rope, seq_len) makes …".
void check_fixed(nb::handle given, const std::string& argument, const std::string& others, const std::string& way);
/// Frequencies that queries or keys turn by. TypeError for a Rope whose frequencies depend on the length.
RopeFrequencies turning_frequencies_of(nb::handle from, const Argument& argument);

/// One of RoPE's scalings.
RopeScaling scaling_of(nb::handle from, const char* function);

/// The rotary encoding of a model's file: of the layer, or of all layers that have one, which must then be the same.
Rope rope_from_config(nb::handle config, std::optional<Index> layer);

}  // namespace bearing::python
