// Rotations, keys that are moved, encodings of query and key rows and of the input, for programs that JAX compiled.

#include <bearing/encodings/rope_rebase.hpp>
#include <bearing/encodings/rope_variants.hpp>
#include <bearing/rows.hpp>

#include "jax_call.hpp"
#include "jax_handlers.hpp"

namespace bearing::python::jax {

void rotate(Frame& frame) {
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
      const Positions positions = at.positions(frame, i, in.shape[0]);
      if (back)
        bearing::rotate_backward_to(table, in, tensor<T>(frame, y, i), positions, on);
      else
        bearing::rotate_to(table, in, tensor<T>(frame, y, i), positions, on);
    });
  });
}

void rebase(Frame& frame) {
  const Buffer k = frame.argument();
  GivenNumbers old_positions, new_positions;
  Optional optional(frame);
  optional.take(old_positions);
  optional.take(new_positions);
  const Buffer moved = frame.result();
  const Plan& plan = plans().find(frame.text("plan"));
  // The transpose turns by the same angles the other way; what it multiplies by stays.
  const bool back = frame.flag("backward");
  const RopeFrequencies from = back ? negative_angle(plan.from) : plan.from,
                        to = back ? negative_angle(plan.to) : plan.to;
  const Executor all = executor(frame, "rebase");
  with_type(k, [&]<class T>() {
    frame.each_instance(all, [&](Index i, const Executor& on) {
      copy<T>(frame, k, moved, i);
      const View<T, 4> keys = tensor<T>(frame, moved, i);
      bearing::rebase<T>(from, old_positions.positions(frame, i, keys.shape[0]), to,
                         new_positions.positions(frame, i, keys.shape[0]), keys, on);
    });
  });
}

void shift(Frame& frame) {
  const Buffer k = frame.argument();
  GivenNumbers by;
  by.take(frame);
  const Buffer moved = frame.result();
  const Plan& plan = plans().find(frame.text("plan"));
  const Executor all = executor(frame, "shift");
  with_type(k, [&]<class T>() {
    frame.each_instance(all, [&](Index i, const Executor& on) {
      copy<T>(frame, k, moved, i);
      bearing::shift<T>(plan.from, by.list(frame, i)(0), tensor<T>(frame, moved, i), on);
    });
  });
}

namespace {

Side side_of(const Frame& frame) { return frame.text("side") == "key" ? Side::key : Side::query; }

}  // namespace

void turn(Frame& frame) {
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
      bearing::turn<T>(*made.rows, side_of(frame), at.positions(frame, i, in.shape[0]), in, tensor<T>(frame, y, i), on);
    });
  });
}

void turn_backward(Frame& frame) {
  const Buffer x = frame.argument(), d_y = frame.argument();
  GivenNumbers at;
  Optional(frame).take(at);
  Encodings encodings(frame);
  const Buffer d_x = frame.result();
  encodings.take_gradients();
  const Executor all = executor(frame, "turn_backward");
  with_arithmetic(x, [&]<class A>() {
    frame.each_instance(all, [&](Index i, const Executor& on) {
      const auto made = encodings.make<A>(0, i);
      if (!made.rows) encodings.refuse(0, "an encoding of query and key rows");
      const View<const A, 4> in = tensor<const A>(frame, x, i);
      bearing::turn_backward<A>(*made.rows, side_of(frame), at.positions(frame, i, in.shape[0]), in,
                                tensor<const A>(frame, d_y, i), tensor<A>(frame, d_x, i), on);
    });
  });
}

void inputs(Frame& frame) {
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
      const Positions positions = at.positions(frame, i, out.shape[0]);
      if (!x) return bearing::fill<T>(*made.input, positions, out, on);
      if (out.size() > 0) {
        std::memcpy(out.data, frame.at<const T>(*x, i), static_cast<std::size_t>(out.size()) * sizeof(T));
      }
      bearing::add<T>(*made.input, positions, out, on);
    });
  });
}

void inputs_backward(Frame& frame) {
  const Buffer d_x = frame.argument();
  GivenNumbers at;
  Optional(frame).take(at);
  Encodings encodings(frame);
  encodings.take_gradients();
  const Executor all = executor(frame, "add_backward");
  with_arithmetic(d_x, [&]<class A>() {
    frame.each_instance(all, [&](Index i, const Executor& on) {
      const auto made = encodings.make<A>(0, i);
      if (!made.input) encodings.refuse(0, "an encoding of the input");
      const View<const A, 3> d = view<const A, 3>(frame, d_x, i);
      bearing::add_backward<A>(*made.input, at.positions(frame, i, d.shape[0]), d, on);
    });
  });
}

}  // namespace bearing::python::jax
