#pragma once

#include <bearing/error.hpp>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <shared_mutex>
#include <stdexcept>

#include "encodings.hpp"
#include "jax_ffi.hpp"
#include "rope_tables.hpp"
#include "words.hpp"

// What handlers make of a call's buffers: views of one instance, positions, and encodings of a registered plan.

namespace bearing::python {

/// An encoding without its numbers, and which of its parameters calls bring.
struct PlannedEncoding {
  const Encoding* encoding;
  std::vector<bool> given;
};

/// What calls share: encodings, the table of a rotation, or the frequencies that keys are moved from and to. Kept for
/// ever, as compiled programs name it.
struct Plan {
  std::vector<PlannedEncoding> encodings;
  Table table;
  RopeFrequencies from{.pairing = Pairing::half}, to{.pairing = Pairing::half};
};

/// Plans by the text that describes them: programs that were compiled elsewhere and kept find theirs, or none.
class Plans {
 public:
  void add(const std::string& text, Plan plan) {
    const std::unique_lock lock(mutex_);
    plans_.try_emplace(text, std::move(plan));
  }
  const Plan& find(std::string_view text) const {
    const std::shared_lock lock(mutex_);
    const auto found = plans_.find(text);
    if (found != plans_.end()) return found->second;
    throw std::invalid_argument("[bearing.jax] plan: must be known in this process, got \"" + std::string(text) +
                                "\"; a program from elsewhere needs the function that it was made from traced here "
                                "once");
  }

 private:
  mutable std::shared_mutex mutex_;
  std::map<std::string, Plan, std::less<>> plans_;
};

inline Plans& plans() {
  static auto& all = *new Plans;  // programs may still run while the process ends
  return all;
}

template <class A>
inline constexpr xla::ffi::DataType type_of =
    std::is_same_v<A, double> ? xla::ffi::DataType::F64 : xla::ffi::DataType::F32;

/// body.template operator()<T>() for the type of a buffer.
template <class Body>
void with_type(const Buffer& buffer, const Body& body) {
  switch (buffer.type()) {
    case xla::ffi::DataType::F64:
      return body.template operator()<double>();
    case xla::ffi::DataType::F32:
      return body.template operator()<float>();
    case xla::ffi::DataType::BF16:
      return body.template operator()<Bfloat16>();
    case xla::ffi::DataType::F16:
      return body.template operator()<Float16>();
    default:
      throw std::invalid_argument("[bearing.jax] arrays: must be float64, float32, bfloat16 or float16");
  }
}

/// body.template operator()<A>() for a buffer of the arithmetic's type.
template <class Body>
void with_arithmetic(const Buffer& buffer, const Body& body) {
  if (buffer.type() == xla::ffi::DataType::F64) return body.template operator()<double>();
  if (buffer.type() == xla::ffi::DataType::F32) return body.template operator()<float>();
  throw std::invalid_argument("[bearing.jax] arrays: must be float64 or float32");
}

/// A view of instance i, axes in the order of memory.
template <class T, std::size_t Rank>
View<T, Rank> view(const Frame& frame, const Buffer& buffer, Index i) {
  if (buffer.shape().size() != Rank) throw ShapeError("[bearing.jax] arrays: must have the axes that were traced");
  View<T, Rank> out{frame.at<T>(buffer, i), {}, {}};
  Index step = 1;
  for (std::size_t axis = Rank; axis-- > 0; step *= out.shape[axis]) {
    out.shape[axis] = buffer.shape()[axis];
    out.stride[axis] = step;
  }
  return out;
}

/// The same with axes (batch, heads, time, dim).
template <class T>
View<T, 4> tensor(const Frame& frame, const Buffer& buffer, Index i) {
  View<T, 4> out = view<T, 4>(frame, buffer, i);
  if (frame.flag("time_first")) {
    std::swap(out.shape[1], out.shape[2]);
    std::swap(out.stride[1], out.stride[2]);
  }
  return out;
}

inline Executor executor(const Frame& frame, const char* function) {
  return executor_of(frame.integer("threads"), function);
}

inline Mask mask_of(const Frame& frame) {
  const std::string_view mask = frame.text("mask");
  for (const auto& word : Words<Mask>::words) {
    if (mask == word.text) return word.value;
  }
  return Mask::none;
}

inline void clear(const Buffer& buffer) {
  const std::size_t bytes = buffer.type() == xla::ffi::DataType::F64 ? 8 : 4;
  if (buffer.all() > 0) std::memset(buffer.data<char>(), 0, bytes * static_cast<std::size_t>(buffer.all()));
}

/// One instance's elements, of `from` into `to`.
template <class T>
void copy(const Frame& frame, const Buffer& from, const Buffer& to, Index i) {
  if (from.size() != to.size()) throw ShapeError("[bearing.jax] arrays: must have the extents that were traced");
  if (to.size() == 0) return;
  std::memcpy(frame.at<T>(to, i), frame.at<const T>(from, i), static_cast<std::size_t>(to.size()) * sizeof(T));
}

/// Positions, lengths, starts or blocks of a call, or none.
struct GivenNumbers {
  std::optional<Buffer> buffer;
  Numbers numbers;

  void take(Frame& frame) {
    buffer = frame.argument();
    numbers = Numbers(*buffer);
  }
  /// [axes, batch or 1, time] of instance i; [1]: the first one of those that are counted, from 0 where there is none.
  Positions positions(const Frame& frame, Index i, Index batch) const {
    if (!buffer) return {};
    const auto shape = buffer->shape();
    if (shape.size() == 1) return Positions(*numbers.whole_at(frame.offset(*buffer, i)));
    const bool shared = shape[1] == 1;
    const std::array<Index, 3> extents{shape[0], shared ? batch : shape[1], shape[2]},
        stride{shape[1] * shape[2], shared ? 0 : shape[2], 1};
    const Index offset = buffer->all() == 0 ? 0 : frame.offset(*buffer, i);
    if (numbers.real()) return Positions(View<const double, 3>{numbers.real_at(offset), extents, stride});
    return Positions(View<const Index, 3>{numbers.whole_at(offset), extents, stride});
  }
  View<const Index, 1> list(const Frame& frame, Index i) const {
    if (!buffer) return {};
    return {numbers.whole_at(buffer->all() == 0 ? 0 : frame.offset(*buffer, i)), {buffer->shape()[0]}, {1}};
  }
  View<const Index, 2> matrix(const Frame& frame, Index i) const {
    if (!buffer) return {};
    const auto shape = buffer->shape();
    return {numbers.whole_at(buffer->all() == 0 ? 0 : frame.offset(*buffer, i)), {shape[0], shape[1]}, {shape[1], 1}};
  }
};

/// The arguments that a call may have beside others: bit n of the attribute `given` says that it has the nth.
class Optional {
 public:
  explicit Optional(Frame& frame) : frame_(frame), given_(frame.integer("given")) {}

  void take(std::optional<Buffer>& into) {
    if (next()) into = frame_.argument();
  }
  void take(GivenNumbers& into) {
    if (next()) into.take(frame_);
  }

 private:
  bool next() { return (given_ >> next_++ & 1) != 0; }

  Frame& frame_;
  Index given_;
  int next_ = 0;
};

/// A call's encodings, with their parameters in all instances.
class Encodings {
 public:
  explicit Encodings(Frame& frame) : frame_(frame), plan_(plans().find(frame.text("plan"))) {
    for (const PlannedEncoding& one : plan_.encodings) {
      auto& values = values_.emplace_back();
      for (const bool given : one.given) {
        values.emplace_back();
        if (given) values.back() = frame.argument();
      }
    }
  }

  /// Their gradients are the results that come next, from zero.
  void take_gradients() {
    for (const auto& values : values_) {
      auto& grads = grads_.emplace_back();
      for (const auto& value : values) {
        grads.emplace_back();
        if (!value) continue;
        grads.back() = frame_.result();
        clear(*grads.back());
      }
    }
  }

  std::size_t size() const { return plan_.encodings.size(); }

  [[noreturn]] void refuse(std::size_t e, const char* wanted) const {
    throw std::invalid_argument(std::string("[bearing.jax] encodings: must be ") + wanted + ", got " +
                                plan_.encodings[e].encoding->name());
  }

  template <class A>
  Made<A> make(std::size_t e, Index i) const {
    const Encoding& encoding = *plan_.encodings[e].encoding;
    std::vector<ParameterMemory> memory(values_[e].size());
    for (std::size_t p = 0; p < memory.size(); ++p) {
      if (!values_[e][p]) continue;
      const Buffer& value = *values_[e][p];
      const ArrayInfo& info = encoding.infos()[p];
      if (value.type() != type_of<A> || value.shape().size() > info.rank) {
        throw ShapeError(std::string("[") + encoding.name() + "] " + info.name + ": must be as it was traced");
      }
      memory[p].value = frame_.at<const A>(value, i);
      if (!grads_.empty()) memory[p].grad = frame_.at<A>(*grads_[e][p], i);
      memory[p].shape.assign(value.shape().begin(), value.shape().end());
      memory[p].stride.resize(memory[p].shape.size());
      Index step = 1;
      for (std::size_t axis = memory[p].shape.size(); axis-- > 0; step *= memory[p].shape[axis]) {
        memory[p].stride[axis] = step;
      }
    }
    return encoding.make<A>(memory);
  }

 private:
  Frame& frame_;
  const Plan& plan_;
  std::vector<std::vector<std::optional<Buffer>>> values_, grads_;
};

/// All of them as terms, made for one instance.
template <class A>
struct MadeTerms {
  std::vector<Made<A>> made;
  TermList<A> terms;

  MadeTerms(const Encodings& encodings, Index i) {
    for (std::size_t e = 0; e < encodings.size(); ++e) {
      made.push_back(encodings.make<A>(e, i));
      if (!made.back().term) encodings.refuse(e, "encodings of rows, scores or values");
      terms.add(*made.back().term);
    }
  }
};

void bind_jax_check(nb::module_& m);

}  // namespace bearing::python
