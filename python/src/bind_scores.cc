// Scores and values of encodings over whole tensors: bias_matrix(), add_scores(), add_values(), and their backward.

#include <bearing/error.hpp>
#include <bearing/scores.hpp>

#include "bind.hpp"
#include "calls.hpp"

namespace bearing::python {

namespace {

nb::object matrix(nb::handle encodings, nb::handle q_at, nb::handle k_at, Index heads, nb::handle q_len,
                  nb::handle k_len, nb::handle dtype, nb::handle like, Index threads) {
  const char* function = "bias_matrix";
  const PositionsArgument q_positions(q_at, {function, "q_positions"}), k_positions(k_at, {function, "k_positions"});
  if (heads < 1) throw RangeError("[bias_matrix] heads: must be at least 1, got " + std::to_string(heads));
  const std::array<Index, 3> shape{heads, length_of(function, "q_len", q_len, q_at),
                                   length_of(function, "k_len", k_len, k_at)};
  const Wish wish = wish_of(function, dtype, like, encodings);
  const Executor on = executor_of(threads, function);
  return with_type(wish.type, [&]<class T>() {
    const MadeList<Compute<T>> list(function, encodings, Wanted::values);
    const NewArray bias = new_array(wish.kind, wish.type, {shape[0], shape[1], shape[2]});
    {
      const Unlocked released;
      errors_as("[bias_matrix] encodings", "[bias_matrix] terms", [&] {
        bearing::bias_matrix<T>(list.terms, *q_positions, *k_positions, view_of<T, 3>(bias, shape), on);
      });
    }
    return bias.object;
  });
}

/// Queries and keys of a call, which it may not have.
struct QueriesAndKeys {
  QueriesAndKeys(const char* function, nb::handle q_from, nb::handle k_from, const Array& scores, const char* as) {
    if (!q_from.is_none()) q.emplace(q_from, Argument{function, "q"});
    if (!k_from.is_none()) k.emplace(k_from, Argument{function, "k"});
    for (const auto& one : {std::cref(q), std::cref(k)}) {
      if (one.get()) check_same_type(*one.get(), scores, as);
    }
  }

  template <class A>
  ScoreInputs<A> inputs(const Positions& q_positions, const Positions& k_positions, double scale,
                        bool time_first) const {
    ScoreInputs<A> in{q_positions, k_positions, {}, {}, static_cast<A>(scale)};
    if (q) in.q = q->tensor<A>(time_first);
    if (k) in.k = k->tensor<A>(time_first);
    return in;
  }

  std::optional<Array> q, k;
};

void to_scores(nb::handle encodings, nb::handle scores, nb::handle q_at, nb::handle k_at, nb::handle q, nb::handle k,
               double scale, nb::handle layout, Index threads) {
  const char* function = "add_scores";
  const Array to = Array::writable(scores, {function, "scores"});
  const QueriesAndKeys both(function, q, k, to, "scores");
  const PositionsArgument q_positions(q_at, {function, "q_positions"}), k_positions(k_at, {function, "k_positions"});
  const bool time_first = is_time_first(function, layout);
  const Executor on = executor_of(threads, function);
  with_arithmetic(to, [&]<class A>() {
    const MadeList<A> list(function, encodings, Wanted::values);
    const View<A, 4> view = to.written_tensor<A>(false);
    const auto in = both.inputs<A>(*q_positions, *k_positions, scale, time_first);
    const Unlocked released;
    errors_as("[add_scores] encodings", "[add_scores] terms",
              [&] { bearing::add_scores<A>(list.terms, in, view, on); });
  });
}

nb::object scores_backward(nb::handle encodings, nb::handle d_scores, nb::handle q_at, nb::handle k_at, nb::handle q,
                           nb::handle k, double scale, nb::handle layout, Index threads) {
  const char* function = "add_scores_backward";
  const Array from(d_scores, {function, "d_scores"});
  const QueriesAndKeys both(function, q, k, from, "d_scores");
  const PositionsArgument q_positions(q_at, {function, "q_positions"}), k_positions(k_at, {function, "k_positions"});
  const bool time_first = is_time_first(function, layout);
  const Executor on = executor_of(threads, function);
  return with_arithmetic(from, [&]<class A>() -> nb::object {
    const MadeList<A> list(function, encodings, Wanted::gradients);
    const View<const A, 4> view = from.tensor<A>(false);
    const auto in = both.inputs<A>(*q_positions, *k_positions, scale, time_first);
    QueryKeyGrads<A> grads;
    nb::object d_q = nb::none(), d_k = nb::none();
    const auto add = [&](const std::optional<Array>& of, View<A, 4>& view, nb::object& object) {
      if (!of) return;
      const auto made = NewTensor<A>::zeros(*of, time_first);
      view = made.tensor();
      object = made.object();
    };
    add(both.q, grads.d_q, d_q);
    add(both.k, grads.d_k, d_k);
    {
      const Unlocked released;
      errors_as("[add_scores_backward] encodings", "[add_scores_backward] terms",
                [&] { bearing::add_scores_backward<A>(list.terms, in, view, grads, on); });
    }
    return nb::make_tuple(d_q, d_k, list.gradient_arrays());
  });
}

void to_values(nb::handle encodings, nb::handle p, nb::handle out, nb::handle q_at, nb::handle k_at, nb::handle layout,
               Index threads) {
  const char* function = "add_values";
  const Array from(p, {function, "p"}), to = Array::writable(out, {function, "out"});
  check_same_type(from, to, "out");
  const PositionsArgument q_positions(q_at, {function, "q_positions"}), k_positions(k_at, {function, "k_positions"});
  const bool time_first = is_time_first(function, layout);
  const Executor on = executor_of(threads, function);
  with_arithmetic(to, [&]<class A>() {
    const MadeList<A> list(function, encodings, Wanted::values);
    const View<const A, 4> weights = from.tensor<A>(false);
    const View<A, 4> view = to.written_tensor<A>(time_first);
    const Unlocked released;
    errors_as("[add_values] encodings", "[add_values] terms",
              [&] { bearing::add_values<A>(list.terms, *q_positions, *k_positions, weights, view, on); });
  });
}

nb::object values_backward(nb::handle encodings, nb::handle p, nb::handle d_out, nb::handle q_at, nb::handle k_at,
                           nb::handle layout, Index threads) {
  const char* function = "add_values_backward";
  const Array weights(p, {function, "p"}), from(d_out, {function, "d_out"});
  check_same_type(weights, from, "d_out");
  const PositionsArgument q_positions(q_at, {function, "q_positions"}), k_positions(k_at, {function, "k_positions"});
  const bool time_first = is_time_first(function, layout);
  const Executor on = executor_of(threads, function);
  return with_arithmetic(from, [&]<class A>() -> nb::object {
    const MadeList<A> list(function, encodings, Wanted::gradients);
    const auto d_p = NewTensor<A>::zeros(weights, false);
    {
      const View<const A, 4> in = weights.tensor<A>(false), d = from.tensor<A>(time_first);
      const Unlocked released;
      errors_as("[add_values_backward] encodings", "[add_values_backward] terms", [&] {
        bearing::add_values_backward<A>(list.terms, *q_positions, *k_positions, in, d, d_p.tensor(), on);
      });
    }
    return nb::make_tuple(d_p.object(), list.gradient_arrays());
  });
}

}  // namespace

void bind_scores(nb::module_& m) {
  m.def(
      "bias_matrix", matrix, nb::arg("encodings").none(), nb::arg("q_positions") = nb::none(),
      nb::arg("k_positions") = nb::none(), nb::kw_only(), nb::arg("heads"), nb::arg("q_len") = nb::none(),
      nb::arg("k_len") = nb::none(), nb::arg("dtype") = nb::none(), nb::arg("like") = nb::none(),
      nb::arg("threads") = 1,
      nb::sig("def bias_matrix(encodings: Encodings, q_positions: Positions = None, k_positions: Positions = None, *, "
              "heads: int, "
              "q_len: int | None = None, k_len: int | None = None, dtype: DType | None = None, "
              "like: ArrayLike | None = None, threads: int = 1) -> Array"),
      "Returns the scores of encodings that look at neither queries nor keys: a new array [heads, q_len, k_len].\n\n"
      "encodings: an encoding, or a list of them.\n"
      "q_positions: where queries stand, as attention() takes positions.\n"
      "k_positions: where keys stand.\n"
      "heads: how many heads.\n"
      "q_len: how many queries; it may be left out where q_positions is an array.\n"
      "k_len: how many keys; it may be left out where k_positions is an array.\n"
      "dtype: the type of the result: float64, float32, bfloat16 or float16, as a word or as NumPy, PyTorch and JAX "
      "call it.\n"
      "like: an array whose kind and type the result gets. Without dtype and like they are those of the first "
      "parameter, else\n"
      "    NumPy's float32.\n"
      "threads: how many threads the call may use; 0 for all.\n\n"
      "Numbers are computed in float64 or float32 and rounded once. Raises ShapeError or RangeError if an encoding "
      "cannot serve\n"
      "these heads, lengths or positions.");
  m.def("add_scores", to_scores, nb::arg("encodings").none(), nb::arg("scores"), nb::arg("q_positions") = nb::none(),
        nb::arg("k_positions") = nb::none(), nb::kw_only(), nb::arg("q") = nb::none(), nb::arg("k") = nb::none(),
        nb::arg("scale") = 1.0, nb::arg("layout") = "bhtd", nb::arg("threads") = 1,
        nb::sig("def add_scores(encodings: Encodings, scores: ArrayLike, q_positions: Positions = None, "
                "k_positions: Positions = None, *, q: ArrayLike | None = None, k: ArrayLike | None = None, "
                "scale: float = 1.0, layout: Literal['bhtd', 'bthd'] = 'bhtd', threads: int = 1) -> None"),
        "Adds every encoding's term to scores [batch, heads, q_len, k_len], in place. First axes may be left out.\n\n"
        "encodings: an encoding, or a list of them. Those that turn rows (RoPE) raise ShapeError: turn q and k first.\n"
        "scores: float64 or float32.\n"
        "q_positions: where queries stand, as attention() takes positions.\n"
        "k_positions: where keys stand.\n"
        "q [batch, heads, q_len, dim]: the queries, for encodings that look at them; given together with k.\n"
        "k [batch, kv_heads, k_len, dim]: the keys.\n"
        "scale: the softmax scale, for terms inside the product.\n"
        "layout: of q and k: 'bhtd' or 'bthd'.\n"
        "threads: how many threads the call may use; 0 for all.\n\n"
        "Nothing is copied or converted: scores that cannot be written in place raise TypeError. Raises ShapeError or "
        "RangeError if\n"
        "an encoding cannot serve the call. Nothing is written then.");
  m.def("add_scores_backward", scores_backward, nb::arg("encodings").none(), nb::arg("d_scores"),
        nb::arg("q_positions") = nb::none(), nb::arg("k_positions") = nb::none(), nb::kw_only(),
        nb::arg("q") = nb::none(), nb::arg("k") = nb::none(), nb::arg("scale") = 1.0, nb::arg("layout") = "bhtd",
        nb::arg("threads") = 1,
        nb::sig("def add_scores_backward(encodings: Encodings, d_scores: ArrayLike, q_positions: Positions = None, "
                "k_positions: Positions = None, *, q: ArrayLike | None = None, k: ArrayLike | None = None, "
                "scale: float = 1.0, layout: Literal['bhtd', 'bthd'] = 'bhtd', threads: int = 1) "
                "-> tuple[Array | None, Array | None, list[dict[str, Array]]]"),
        "Returns the gradients of add_scores(): d_q, d_k, and a dictionary of parameters' gradients for each "
        "encoding.\n\n"
        "d_q and d_k are gradients through the terms alone. They are None without q and k.\n\n"
        "d_scores [batch, heads, q_len, k_len]: the gradient of the scores.");
  m.def(
      "add_values", to_values, nb::arg("encodings").none(), nb::arg("p"), nb::arg("out"),
      nb::arg("q_positions") = nb::none(), nb::arg("k_positions") = nb::none(), nb::kw_only(),
      nb::arg("layout") = "bhtd", nb::arg("threads") = 1,
      nb::sig("def add_values(encodings: Encodings, p: ArrayLike, out: ArrayLike, q_positions: Positions = None, "
              "k_positions: Positions = None, *, layout: Literal['bhtd', 'bthd'] = 'bhtd', threads: int = 1) -> None"),
      "Adds every encoding's value term to out [batch, heads, q_len, value_dim], in place. First axes may be left "
      "out.\n\n"
      "encodings: an encoding, or a list of them. Those without a value site add nothing.\n"
      "p [batch, heads, q_len, k_len]: the probabilities, float64 or float32.\n"
      "out: what attention gave without the encodings, of p's type.\n"
      "q_positions: where queries stand, as attention() takes positions.\n"
      "k_positions: where keys stand.\n"
      "layout: of out: 'bhtd' or 'bthd'.\n"
      "threads: how many threads the call may use; 0 for all.\n\n"
      "Raises ShapeError or RangeError if an encoding cannot serve the call. Nothing is written then.");
  m.def(
      "add_values_backward", values_backward, nb::arg("encodings").none(), nb::arg("p"), nb::arg("d_out"),
      nb::arg("q_positions") = nb::none(), nb::arg("k_positions") = nb::none(), nb::kw_only(),
      nb::arg("layout") = "bhtd", nb::arg("threads") = 1,
      nb::sig(
          "def add_values_backward(encodings: Encodings, p: ArrayLike, d_out: ArrayLike, "
          "q_positions: Positions = None, k_positions: Positions = None, *, layout: Literal['bhtd', 'bthd'] = 'bhtd', "
          "threads: int = 1) -> tuple[Array, list[dict[str, Array]]]"),
      "Returns the gradients of add_values(): d_p, and a dictionary of parameters' gradients for each encoding.\n\n"
      "d_p is the gradient through the terms alone.\n\n"
      "d_out [batch, heads, q_len, value_dim]: the gradient of out.");
}

}  // namespace bearing::python
