// What programs that JAX compiled call: attention, rotations, encodings of rows and of the input, and bias matrices,
// each with its backward. Handlers know nothing of Python: an attribute names the call's plan, which was registered
// when the program was traced, and parameters are buffers like all others.

#include "jax_ffi.hpp"

#include <nanobind/stl/vector.h>

#include <atomic>
#include <bearing/attention.hpp>
#include <bearing/error.hpp>
#include <bearing/rows.hpp>
#include <bearing/scores.hpp>
#include <cstring>
#include <map>
#include <shared_mutex>

#include "encodings.hpp"
#include "rope_tables.hpp"
#include "words.hpp"

namespace bearing::python {

namespace {

namespace ffi = xla::ffi;

/// An encoding without its numbers, and which of its parameters calls bring.
struct PlannedEncoding {
  const Encoding* encoding;
  std::vector<bool> given;
};

/// What calls share: encodings, or the table of a rotation. Kept for ever, as compiled programs name it.
struct Plan {
  std::vector<PlannedEncoding> encodings;
  Table table;
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

Plans& plans() {
  static auto& all = *new Plans;  // programs may still run while the process ends
  return all;
}

template <class A>
constexpr ffi::DataType type_of = std::is_same_v<A, double> ? ffi::DataType::F64 : ffi::DataType::F32;

/// body.template operator()<T>() for the type of a buffer.
template <class Body>
void with_type(const Buffer& buffer, const Body& body) {
  switch (buffer.type()) {
    case ffi::DataType::F64:
      return body.template operator()<double>();
    case ffi::DataType::F32:
      return body.template operator()<float>();
    case ffi::DataType::BF16:
      return body.template operator()<Bfloat16>();
    case ffi::DataType::F16:
      return body.template operator()<Float16>();
    default:
      throw std::invalid_argument("[bearing.jax] arrays: must be float64, float32, bfloat16 or float16");
  }
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

void clear(const Buffer& buffer) {
  const std::size_t bytes = buffer.type() == ffi::DataType::F64 ? 8 : 4;
  if (buffer.all() > 0) std::memset(buffer.data<char>(), 0, bytes * static_cast<std::size_t>(buffer.all()));
}

/// Positions, lengths or starts of a call, or none.
struct GivenNumbers {
  std::optional<Buffer> buffer;
  Numbers numbers;

  void take(Frame& frame) {
    buffer = frame.argument();
    numbers = Numbers(*buffer);
  }
  /// [axes, batch or 1, time] of instance i; where none were given, `first`, first + 1, …
  Positions positions(const Frame& frame, Index i, Index batch, Index first) const {
    if (!buffer) return Positions(first);
    const auto shape = buffer->shape();
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
  MadeEncoding<A> make(std::size_t e, Index i) const {
    const Encoding& encoding = *plan_.encodings[e].encoding;
    std::vector<ParameterMemory> memory(values_[e].size());
    for (std::size_t p = 0; p < memory.size(); ++p) {
      if (!values_[e][p]) continue;
      const Buffer& value = *values_[e][p];
      const ParameterInfo& info = encoding.infos()[p];
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
  std::vector<MadeEncoding<A>> made;
  TermList<A> terms;

  MadeTerms(const Encodings& encodings, Index i) {
    for (std::size_t e = 0; e < encodings.size(); ++e) {
      made.push_back(encodings.make<A>(e, i));
      if (!made.back().term) encodings.refuse(e, "encodings of rows, scores or values");
      terms.terms[static_cast<std::size_t>(terms.size++)] = *made.back().term;
    }
  }
};

Executor executor(const Frame& frame, const char* function) { return executor_of(frame.integer("threads"), function); }

/// Arrays that attention may have beside its tensors.
struct AttentionArrays {
  std::optional<Buffer> sinks, key_mask, visible;
  GivenNumbers q_at, k_at, k_lengths, q_starts, k_starts;

  explicit AttentionArrays(Frame& frame) {
    Optional optional(frame);
    optional.take(sinks);
    optional.take(q_at);
    optional.take(k_at);
    optional.take(k_lengths);
    optional.take(key_mask);
    optional.take(visible);
    optional.take(q_starts);
    optional.take(k_starts);
  }

  template <class T>
  AttentionInputs<T> inputs(const Frame& frame, const std::array<Buffer, 3>& qkv, Index i) const {
    AttentionInputs<T> in{tensor<const T>(frame, qkv[0], i), tensor<const T>(frame, qkv[1], i),
                          tensor<const T>(frame, qkv[2], i)};
    in.q_at = q_at.positions(frame, i, in.q.shape[0], frame.integer("q_first"));
    in.k_at = k_at.positions(frame, i, in.q.shape[0], frame.integer("k_first"));
    return in;
  }

  template <class A>
  AttentionOptions<A> options(const Frame& frame, Index i) const {
    const std::string_view mask = frame.text("mask");
    AttentionOptions<A> out{.mask = Mask::none};
    for (const auto& word : Words<Mask>::words) {
      if (mask == word.text) out.mask = word.value;
    }
    out.window = {frame.integer("window_before"), frame.integer("window_after")};
    if (frame.flag("scaled")) out.scale = frame.number("scale");
    out.soft_cap = frame.number("soft_cap");
    if (sinks) out.sinks.value = view<const A, 1>(frame, *sinks, i);
    out.k_lengths = k_lengths.list(frame, i);
    if (key_mask) out.key_mask = view<const bool, 2>(frame, *key_mask, i);
    if (visible) out.visible = view<const bool, 4>(frame, *visible, i);
    out.q_starts = q_starts.list(frame, i);
    out.k_starts = k_starts.list(frame, i);
    return out;
  }
};

/// q, k, v, optional arguments, parameters → out, lse.
void attention_forward(Frame& frame) {
  const std::array<Buffer, 3> qkv{frame.argument(), frame.argument(), frame.argument()};
  const AttentionArrays arrays(frame);
  const Encodings encodings(frame);
  const Buffer out = frame.result(), lse = frame.result();
  const Executor all = executor(frame, "attention");
  with_type(qkv[0], [&]<class T>() {
    using A = Compute<T>;
    frame.each_instance(all, [&](Index i, const Executor& on) {
      const MadeTerms<A> made(encodings, i);
      bearing::attention<T>(arrays.inputs<T>(frame, qkv, i), tensor<T>(frame, out, i), view<A, 3>(frame, lse, i),
                            made.terms, arrays.options<A>(frame, i), on);
    });
  });
}

/// q, k, v, out, lse, d_out, d_lse, optional arguments, parameters → d_q, d_k, d_v, d_sinks if there are sinks, the
/// parameters' gradients.
void attention_backward(Frame& frame) {
  const std::array<Buffer, 3> qkv{frame.argument(), frame.argument(), frame.argument()};
  const Buffer out = frame.argument(), lse = frame.argument(), d_out = frame.argument(), d_lse = frame.argument();
  const AttentionArrays arrays(frame);
  Encodings encodings(frame);
  const std::array<Buffer, 3> grads{frame.result(), frame.result(), frame.result()};
  std::optional<Buffer> d_sinks;
  if (arrays.sinks) {
    d_sinks = frame.result();
    clear(*d_sinks);
  }
  encodings.take_gradients();
  const Executor all = executor(frame, "attention_backward");
  with_type(qkv[0], [&]<class T>() {
    using A = Compute<T>;
    frame.each_instance(all, [&](Index i, const Executor& on) {
      const MadeTerms<A> made(encodings, i);
      AttentionOptions<A> options = arrays.options<A>(frame, i);
      if (d_sinks) options.sinks.grad = view<A, 1>(frame, *d_sinks, i);
      bearing::attention_backward<T>(
          arrays.inputs<T>(frame, qkv, i),
          {tensor<const T>(frame, out, i), view<const A, 3>(frame, lse, i), tensor<const T>(frame, d_out, i),
           view<const A, 3>(frame, d_lse, i)},
          {tensor<T>(frame, grads[0], i), tensor<T>(frame, grads[1], i), tensor<T>(frame, grads[2], i)}, made.terms,
          options, on);
    });
  });
}

/// x, positions if given → x turned, or turned back.
void rotate_rows(Frame& frame) {
  const Buffer x = frame.argument();
  GivenNumbers at;
  Optional(frame).take(at);
  const Buffer y = frame.result();
  const bool back = frame.flag("backward");
  const char* function = back ? "rotate_backward" : "rotate";
  const Plan& plan = plans().find(frame.text("plan"));
  const Executor all = executor(frame, function);
  with_type(x, [&]<class T>() {
    const auto& table = plan.table.of<Compute<T>>({function, "x"}, "another type");
    frame.each_instance(all, [&](Index i, const Executor& on) {
      const View<const T, 4> in = tensor<const T>(frame, x, i);
      const Positions positions = at.positions(frame, i, in.shape[0], frame.integer("first"));
      if (back)
        bearing::rotate_backward_to(table, in, tensor<T>(frame, y, i), positions, on);
      else
        bearing::rotate_to(table, in, tensor<T>(frame, y, i), positions, on);
    });
  });
}

Side side_of(const Frame& frame) { return frame.text("side") == "key" ? Side::key : Side::query; }

/// x, positions if given, parameters → T x.
void turn_rows(Frame& frame) {
  const Buffer x = frame.argument();
  GivenNumbers at;
  Optional(frame).take(at);
  const Encodings encodings(frame);
  const Buffer y = frame.result();
  const Executor all = executor(frame, "turn");
  with_type(x, [&]<class T>() {
    frame.each_instance(all, [&](Index i, const Executor& on) {
      const auto made = encodings.make<Compute<T>>(0, i);
      if (!made.rows) encodings.refuse(0, "an encoding of query and key rows");
      const View<const T, 4> in = tensor<const T>(frame, x, i);
      bearing::turn<T>(*made.rows, side_of(frame), at.positions(frame, i, in.shape[0], frame.integer("first")), in,
                       tensor<T>(frame, y, i), on);
    });
  });
}

/// x, d_y, positions if given, parameters → d_x, the parameters' gradients.
void turn_rows_backward(Frame& frame) {
  const Buffer x = frame.argument(), d_y = frame.argument();
  GivenNumbers at;
  Optional(frame).take(at);
  Encodings encodings(frame);
  const Buffer d_x = frame.result();
  encodings.take_gradients();
  const Executor all = executor(frame, "turn_backward");
  const auto run = [&]<class A>() {
    frame.each_instance(all, [&](Index i, const Executor& on) {
      const auto made = encodings.make<A>(0, i);
      if (!made.rows) encodings.refuse(0, "an encoding of query and key rows");
      const View<const A, 4> in = tensor<const A>(frame, x, i);
      bearing::turn_backward<A>(*made.rows, side_of(frame), at.positions(frame, i, in.shape[0], frame.integer("first")),
                                in, tensor<const A>(frame, d_y, i), tensor<A>(frame, d_x, i), on);
    });
  };
  if (x.type() == ffi::DataType::F64)
    run.operator()<double>();
  else
    run.operator()<float>();
}

/// x if it is added to, positions if given, parameters → x + p, or p alone.
void input_rows(Frame& frame) {
  std::optional<Buffer> x;
  GivenNumbers at;
  Optional optional(frame);
  optional.take(x);
  optional.take(at);
  const Encodings encodings(frame);
  const Buffer y = frame.result();
  const Executor all = executor(frame, x ? "add" : "inputs");
  with_type(y, [&]<class T>() {
    frame.each_instance(all, [&](Index i, const Executor& on) {
      const auto made = encodings.make<Compute<T>>(0, i);
      if (!made.input) encodings.refuse(0, "an encoding of the input");
      const View<T, 3> out = view<T, 3>(frame, y, i);
      const Positions positions = at.positions(frame, i, out.shape[0], frame.integer("first"));
      if (!x) return bearing::fill<T>(*made.input, positions, out, on);
      if (out.size() > 0) {
        std::memcpy(out.data, frame.at<const T>(*x, i), static_cast<std::size_t>(out.size()) * sizeof(T));
      }
      bearing::add<T>(*made.input, positions, out, on);
    });
  });
}

/// The gradient of the rows, positions if given, parameters → the parameters' gradients.
void input_rows_backward(Frame& frame) {
  const Buffer d_x = frame.argument();
  GivenNumbers at;
  Optional(frame).take(at);
  Encodings encodings(frame);
  encodings.take_gradients();
  const Executor all = executor(frame, "add_backward");
  const auto run = [&]<class A>() {
    frame.each_instance(all, [&](Index i, const Executor& on) {
      const auto made = encodings.make<A>(0, i);
      if (!made.input) encodings.refuse(0, "an encoding of the input");
      const View<const A, 3> d = view<const A, 3>(frame, d_x, i);
      bearing::add_backward<A>(*made.input, at.positions(frame, i, d.shape[0], frame.integer("first")), d, on);
    });
  };
  if (d_x.type() == ffi::DataType::F64)
    run.operator()<double>();
  else
    run.operator()<float>();
}

/// q_at, k_at if given, parameters → [heads, q_len, k_len].
void bias(Frame& frame) {
  GivenNumbers q_at, k_at;
  Optional optional(frame);
  optional.take(q_at);
  optional.take(k_at);
  const Encodings encodings(frame);
  const Buffer scores = frame.result();
  const Executor all = executor(frame, "bias_matrix");
  with_type(scores, [&]<class T>() {
    frame.each_instance(all, [&](Index i, const Executor& on) {
      const MadeTerms<Compute<T>> made(encodings, i);
      bearing::bias_matrix<T>(made.terms, q_at.positions(frame, i, 1, frame.integer("q_first")),
                              k_at.positions(frame, i, 1, frame.integer("k_first")), view<T, 3>(frame, scores, i), on);
    });
  });
}

/// d_scores, q_at, k_at if given, parameters → the parameters' gradients.
void bias_backward(Frame& frame) {
  const Buffer d_scores = frame.argument();
  GivenNumbers q_at, k_at;
  Optional optional(frame);
  optional.take(q_at);
  optional.take(k_at);
  Encodings encodings(frame);
  encodings.take_gradients();
  const Executor all = executor(frame, "bias_matrix_backward");
  const auto run = [&]<class A>() {
    frame.each_instance(all, [&](Index i, const Executor& on) {
      const MadeTerms<A> made(encodings, i);
      const View<const A, 3> d = view<const A, 3>(frame, d_scores, i);
      const View<const A, 4> one{
          d.data, {1, d.shape[0], d.shape[1], d.shape[2]}, {0, d.stride[0], d.stride[1], d.stride[2]}};
      bearing::add_scores_backward<A>(made.terms,
                                      {q_at.positions(frame, i, 1, frame.integer("q_first")),
                                       k_at.positions(frame, i, 1, frame.integer("k_first"))},
                                      one, {}, on);
    });
  };
  if (d_scores.type() == ffi::DataType::F64)
    run.operator()<double>();
  else
    run.operator()<float>();
}

/// A handler of XLA's interface. The attribute `rank`: how many axes the first result has in one instance.
template <void (*body)(Frame&)>
ffi::Error guarded(ffi::RemainingArgs args, ffi::RemainingRets results, ffi::Dictionary attrs) {
  try {
    const auto rank = attrs.get<Index>("rank");
    if (rank.has_error()) return rank.error();
    Frame frame(args, results, attrs, static_cast<std::size_t>(*rank));
    body(frame);
    return ffi::Error::Success();
  } catch (const std::exception& error) {
    return ffi::Error::InvalidArgument(error.what());
  }
}

/// The minor version of the interface that the process has, as Python says before handlers are registered.
std::atomic<int> minor_version_here = XLA_FFI_API_MINOR;

/// Whether the call asks for the handler's version in a process whose interface is older than the one that this was
/// built with. What handlers use here has been in it since 0.1, so that they serve as the version that is there.
bool answer_older(const XLA_FFI_CallFrame& call) {
  const XLA_FFI_Extension_Base* asked = call.extension_start;
  const int minor = minor_version_here;
  if (minor >= XLA_FFI_API_MINOR || asked == nullptr || asked->type != XLA_FFI_Extension_Metadata) return false;
  XLA_FFI_Metadata& metadata = *reinterpret_cast<const XLA_FFI_Metadata_Extension*>(asked)->metadata;
  metadata.api_version = {XLA_FFI_Api_Version_STRUCT_SIZE, nullptr, XLA_FFI_API_MAJOR, minor};
  metadata.traits = 0;
  return true;
}

template <void (*body)(Frame&)>
XLA_FFI_Error* handler(XLA_FFI_CallFrame* call) {
  if (answer_older(*call)) return nullptr;
  static auto* bound = ffi::Ffi::Bind().RemainingArgs().RemainingRets().Attrs().To(guarded<body>).release();
  return bound->Call(call);
}

template <void (*body)(Frame&)>
nb::capsule capsule() {
  return nb::capsule(reinterpret_cast<void*>(handler<body>));
}

void add_encodings(const std::string& text, const nb::list& encodings) {
  Plan plan;
  for (nb::handle one : encodings) {
    const auto* encoding = nb::cast<const Encoding*>(one);
    std::vector<bool> given;
    for (std::size_t p = 0; p < encoding->infos().size(); ++p) given.push_back(!encoding->parameter(p).is_none());
    plan.encodings.push_back({encoding, std::move(given)});
  }
  plans().add(text, std::move(plan));
}

}  // namespace

void bind_jax(nb::module_& m) {
  m.def(
      "_jax_handlers",
      [](int minor_version) {
        minor_version_here = minor_version;
        nb::dict all;
        all["attention"] = capsule<attention_forward>();
        all["attention_backward"] = capsule<attention_backward>();
        all["rotate"] = capsule<rotate_rows>();
        all["turn"] = capsule<turn_rows>();
        all["turn_backward"] = capsule<turn_rows_backward>();
        all["inputs"] = capsule<input_rows>();
        all["inputs_backward"] = capsule<input_rows_backward>();
        all["bias_matrix"] = capsule<bias>();
        all["bias_matrix_backward"] = capsule<bias_backward>();
        return all;
      },
      nb::arg("minor_version"),
      "bearing.jax's handlers of XLA's foreign functions, by name, for a minor version of that interface.");
  m.def(
      "_jax_api_version", [] { return nb::make_tuple(XLA_FFI_API_MAJOR, XLA_FFI_API_MINOR); },
      "The version of XLA's interface that this module was built with.");
  m.def("_jax_add_encodings", add_encodings, nb::arg("text"), nb::arg("encodings"),
        "Registers encodings under a text. Their objects must be kept for ever.");
  m.def(
      "_jax_add_table",
      [](const std::string& text, const Table& table) {
        plans().add(text, {{}, table});
      },
      nb::arg("text"), nb::arg("table"), "Registers a rotary table under a text.");
  m.def(
      "_jax_parameters",
      [](const Encoding& encoding) {
        nb::list all;
        for (const ParameterInfo& info : encoding.infos()) {
          all.append(nb::make_tuple(info.name, info.fewest == 0 ? info.rank : info.fewest, info.rank));
        }
        return all;
      },
      nb::arg("encoding"), "(name, fewest axes, most axes) of every parameter.");
}

}  // namespace bearing::python
