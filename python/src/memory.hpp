#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <array>
#include <bearing/view.hpp>
#include <optional>
#include <string>
#include <vector>

#include "exchange.hpp"
#include "numbers.hpp"

// Where the elements of a caller's array lie, whatever it is: NumPy's, PyTorch's, JAX's, a buffer or DLPack.

namespace bearing::python {

namespace nb = nanobind;

/// What a module of Python's has, imported when it is first asked for, and kept for ever. Python's lock may go to
/// another thread within the import, so that a static that is made by it would have that thread wait for C++'s guard
/// with the lock in its hands.
class Imported {
 public:
  constexpr Imported(const char* module, const char* name) : module_(module), name_(name) {}
  nb::handle get() {
    if (found_ == nullptr) {
      PyObject* found = nb::object(nb::module_::import_(module_).attr(name_)).release().ptr();
      found_ = found;
    }
    return found_;
  }

 private:
  const char *module_, *name_;
  PyObject* found_ = nullptr;
};

enum class ArrayKind { numpy, torch, jax, other };

/// Extents or strides: few, and never on the heap.
class Extents {
 public:
  static constexpr std::size_t most = 8;

  void push_back(Index extent) { values_[size_++] = extent; }
  std::size_t size() const { return size_; }
  Index operator[](std::size_t axis) const { return values_[axis]; }
  const Index* begin() const { return values_.data(); }
  const Index* end() const { return values_.data() + size_; }
  operator std::vector<Index>() const { return {begin(), end()}; }

 private:
  std::array<Index, most> values_{};
  std::size_t size_ = 0;
};

/// What an array is asked for, said in errors.
struct Argument {
  const char* function;
  const char* name;

  /// Throws TypeError.
  [[noreturn]] void fail(const std::string& wanted, const std::string& got) const;
  /// Throws ShapeError, for axes and extents.
  [[noreturn]] void fail_shape(const std::string& wanted, const std::string& got) const;
};

/// What an array must be, said in errors: any array at all, and one of its types.
struct Expected {
  const char* array;
  const char* type;
};

/// The memory of an array on the CPU, which it keeps alive. Its numbers are there as they count: no sign in a flag, no
/// mask beside them.
struct Memory {
  enum class Use { read, write, look };  ///< look: at what no call will read as it is, of any type

  /// Throws TypeError for what is no such array, which says why.
  Memory(nb::handle from, const Argument& argument, const Expected& wanted, Use use = Use::read);

  ArrayKind kind;
  nb::dlpack::dtype type{};    ///< 0 bits: one that no protocol knows
  const void* data = nullptr;  ///< never null, also where there are no elements
  Extents shape, stride;       ///< in elements

  bool is_empty() const { return std::find(shape.begin(), shape.end(), 0) != shape.end(); }

 private:
  void check_mask(nb::handle from, const Argument& argument) const;
  void take_numpy(nb::handle from, const Argument& argument, const Expected& wanted, Use use);
  bool take_buffer(nb::handle from, const Argument& argument, Use use);
  void take_tensor(nb::handle from, const Argument& argument, const Expected& wanted, Use use);
  void take_dlpack(nb::handle from, const Argument& argument, const Expected& wanted, Use use);
  void place_array(const Argument& argument);
  void place(const Argument& argument, nb::dlpack::dtype of, const void* from, const std::int64_t* extents,
             const std::int64_t* strides, std::size_t axes);

  nb::object object_;          // keeps NumPy's memory, and that of buffers
  OwnedTensor tensor_;         // keeps that of PyTorch's tensors, where it has DLPack's interface in C
  nb::ndarray<nb::ro> array_;  // keeps that of others
};

/// An array's elements as those of one type: its own memory, or a copy.
template <class T>
struct Elements {
  std::vector<T> copy;
  const T* data = nullptr;
  Extents stride;
};
/// Those of an array of integers, or none of another one. They are copied, as calls check them and then go where they
/// point: another thread may write to the array meanwhile. What is copied is the memory that they lie in, or they alone
/// where they are fewer: never more than the caller holds, whatever a broadcast array says of its shape.
std::optional<Elements<Index>> integers_of(const Memory& from, const Argument& argument);
/// Those of an array of float64, where they lie, or of float32, copied in the same way.
std::optional<Elements<double>> reals_of(const Memory& from);

/// Throws TypeError for an array that cannot be read as it is; what is none is left to whoever reads it.
void check_array(nb::handle from, const Argument& argument);

/// The type of an array's elements, or what it is if it is none.
std::string type_text(nb::handle x);
/// str(x).
std::string text_of(nb::handle x);
/// The class of a value.
std::string class_of(nb::handle x);
bool requires_grad(nb::handle tensor);
bool is_tensor(nb::handle x);
/// The name of a member, made once: text that is made anew for each call is not found by its address.
nb::handle interned(const char* name);
/// A member, or None where there is none.
nb::object member_or_none(nb::handle of, nb::handle name);

}  // namespace bearing::python
