#pragma once

#include <xla/ffi/api/ffi.h>

#include <bearing/half.hpp>
#include <bearing/positions.hpp>
#include <bearing/view.hpp>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bind.hpp"

// A call from a program that JAX compiled: buffers and attributes, without Python and without its lock.
//
// vmap adds axes in front of all buffers: extents of the mapped axes, or 1 where a buffer is shared. A call is then so
// many instances of itself, each with its own gradients.

namespace bearing::python {

/// One array of a call, row-major, over all instances.
class Buffer {
 public:
  Buffer(const xla::ffi::AnyBuffer& from, std::size_t leading)
      : data_(from.untyped_data()),
        type_(from.element_type()),
        dims_(from.dimensions().begin(), from.dimensions().size()),
        leading_(leading) {}

  xla::ffi::DataType type() const { return type_; }
  /// The extents of one instance.
  std::span<const Index> shape() const { return dims_.subspan(leading_); }
  Index size() const { return product(shape()); }
  std::size_t leading() const { return leading_; }
  std::span<const Index> dims() const { return dims_; }
  Index all() const { return product(dims_); }
  /// The first instance's elements.
  template <class T>
  T* data() const {
    return static_cast<T*>(data_);
  }

 private:
  static Index product(std::span<const Index> extents) {
    Index n = 1;
    for (const Index extent : extents) n *= extent;
    return n;
  }

  void* data_;
  xla::ffi::DataType type_;
  std::span<const Index> dims_;
  std::size_t leading_;
};

/// Whole numbers or truth values of any width as the library takes them, or positions: whole numbers or reals.
class Numbers {
 public:
  Numbers() = default;
  explicit Numbers(const Buffer& from);

  bool given() const { return given_; }
  bool real() const { return !real_.empty(); }
  /// Of element `offset`; one of the two, as real() says.
  const Index* whole_at(Index offset) const { return (whole_ == nullptr ? own_.data() : whole_) + offset; }
  const double* real_at(Index offset) const { return real_.data() + offset; }

 private:
  const Index* whole_ = nullptr;
  std::vector<Index> own_;
  std::vector<double> real_;
  bool given_ = false;
};

/// A call: arguments and results are taken one after the other.
class Frame {
 public:
  /// `rank`: how many axes the first result has in one instance.
  Frame(const xla::ffi::RemainingArgs& args, const xla::ffi::RemainingRets& results, const xla::ffi::Dictionary& attrs,
        std::size_t rank);

  Buffer argument();
  Buffer result();

  Index integer(std::string_view name) const { return attribute<Index>(name); }
  double number(std::string_view name) const { return attribute<double>(name); }
  bool flag(std::string_view name) const { return attribute<bool>(name); }
  std::string_view text(std::string_view name) const { return attribute<std::string_view>(name); }

  Index instances() const { return instances_; }
  /// Where instance i of a buffer begins: in elements.
  Index offset(const Buffer& buffer, Index i) const;
  /// Its memory; never null, as empty arrays have been given too.
  template <class T>
  T* at(const Buffer& buffer, Index i) const {
    static double none_of_it = 0;
    if (buffer.all() == 0) return reinterpret_cast<T*>(&none_of_it);
    return buffer.data<T>() + offset(buffer, i);
  }

  /// body(i, on) for every instance: on several threads at once where there are enough of them, else one after the
  /// other, each on all threads.
  template <class Body>
  void each_instance(const Executor& on, const Body& body) const {
    if (instances_ < on.workers || on.workers < 2) {
      for (Index i = 0; i < instances_; ++i) body(i, on);
      return;
    }
    std::mutex mutex;
    std::exception_ptr error;
    parallel(on, instances_, [&](Index i) {
      try {
        body(i, Executor{});
      } catch (...) {
        const std::lock_guard lock(mutex);
        error = std::current_exception();
      }
    });
    if (error) std::rethrow_exception(error);
  }

 private:
  template <class T>
  T attribute(std::string_view name) const;

  xla::ffi::RemainingArgs args_;
  xla::ffi::RemainingRets results_;
  xla::ffi::Dictionary attrs_;
  std::size_t next_argument_ = 0, next_result_ = 0;
  std::vector<Index> extents_;  ///< of the mapped axes
  Index instances_ = 1;
};

}  // namespace bearing::python
