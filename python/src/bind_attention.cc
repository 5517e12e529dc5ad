// attention(), its backward, and merge().

#include <nanobind/stl/optional.h>

#include <bearing/attention.hpp>
#include <cmath>

#include "bind.hpp"
#include "encodings.hpp"
#include "specs.hpp"

namespace bearing::python {

template <>
struct Words<Mask> {
  static constexpr std::array<Word<Mask>, 4> words{{{Mask::none, "none"},
                                                    {Mask::causal, "causal"},
                                                    {Mask::causal_top_left, "causal_top_left"},
                                                    {Mask::causal_bottom_right, "causal_bottom_right"}}};
};

namespace {

bool time_first(const std::string& layout, const char* function) {
  if (layout == "bhtd") return false;
  if (layout == "bthd") return true;
  throw nb::value_error(
      (std::string("[") + function + "] layout: must be 'bhtd' or 'bthd', got '" + layout + "'").c_str());
}

/// The shape that a caller's array has, for new axes of the same meaning: its own rank and order.
std::vector<Index> like(const Array& array, bool first, Index time, Index dim) {
  std::vector<Index> shape = array.shape();
  const std::size_t n = shape.size();
  shape[n - 1] = dim;
  shape[n - (first && n > 2 ? 3 : 2)] = time;
  return shape;
}

}  // namespace

void bind_attention(nb::module_& m) {
  m.def(
      "attention",
      [](nb::handle q, nb::handle k, nb::handle v, nb::handle encodings, const std::string& mask, nb::handle q_at,
         nb::handle k_at, std::optional<double> scale, double soft_cap, const std::string& layout, bool return_lse,
         Index threads) -> nb::object {
        const char* function = "attention";
        const Array qs(q, {function, "q"}), ks(k, {function, "k"}), vs(v, {function, "v"});
        for (const Array* other : {&ks, &vs}) {
          if (other->type() == qs.type()) continue;
          other->argument().fail(std::string(name_of(qs.type())) + ", as q is", name_of(other->type()));
        }
        const bool first = time_first(layout, function);
        const PositionsArgument q_positions(q_at, {function, "q_at"}), k_positions(k_at, {function, "k_at"});
        const Executor on = executor_of(threads, function);
        return with_type(qs.type(), [&]<class T>() -> nb::object {
          using A = Compute<T>;
          const MadeList<A> list(function, encodings, Wanted::values);
          const AttentionInputs<T> in{qs.tensor<T>(first), ks.tensor<T>(first), vs.tensor<T>(first), *q_positions,
                                      *k_positions};
          const auto& shape = in.q.shape;
          const Index value_dim = in.v.shape[3];
          AttentionOptions<A> options{.mask = enum_of<Mask>(nb::str(mask.c_str()), {function, "mask"})};
          options.scale = scale;
          options.soft_cap = soft_cap;
          const NewArray out = new_array(qs.kind(), qs.type(), like(qs, first, shape[2], value_dim));
          View<T, 4> to = first ? bthd(static_cast<T*>(out.data), shape[0], shape[2], shape[1], value_dim)
                                : bhtd(static_cast<T*>(out.data), shape[0], shape[1], shape[2], value_dim);
          constexpr DataType sums = std::is_same_v<T, double> ? DataType::f64 : DataType::f32;
          const NewArray lse = new_array(qs.kind(), sums, {shape[0], shape[1], shape[2]});
          {
            const nb::gil_scoped_release released;
            bearing::attention(in, to, view_of<A, 3>(lse, {shape[0], shape[1], shape[2]}), list.terms, options, on);
          }
          if (!return_lse) return out.object;
          return nb::make_tuple(out.object, lse.object);
        });
      },
      nb::arg("q"), nb::arg("k"), nb::arg("v"), nb::arg("encodings") = nb::none(), nb::kw_only(), nb::arg("mask"),
      nb::arg("q_at") = nb::none(), nb::arg("k_at") = nb::none(), nb::arg("scale") = nb::none(),
      nb::arg("soft_cap") = 0.0, nb::arg("layout") = "bhtd", nb::arg("return_lse") = false, nb::arg("threads") = 1,
      "Softmax attention with any list of encodings, in memory linear in the lengths.");
}

}  // namespace bearing::python
