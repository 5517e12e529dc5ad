// What programs that JAX compiled call: attention, rotations, encodings of rows and of the input, and bias matrices,
// each with its backward. Handlers know nothing of Python: an attribute names the call's plan, which was registered
// when the program was traced, and parameters are buffers like all others.

#include <atomic>
#include <bearing/attention.hpp>
#include <bearing/rows.hpp>
#include <bearing/scores.hpp>

#include "jax_call.hpp"
#include "words.hpp"

namespace bearing::python {

namespace {

namespace ffi = xla::ffi;

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
