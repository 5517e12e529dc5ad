// Linear attention, its state and its backward.

#include <bearing/error.hpp>
#include <bearing/linear_attention.hpp>

#include "bind.hpp"
#include "calls.hpp"
#include "masks.hpp"
#include "words.hpp"

namespace bearing::python {

template <>
struct Words<FeatureMap> {
  static constexpr std::array<Word<FeatureMap>, 3> words{
      {{FeatureMap::elu_plus_one, "elu_plus_one"}, {FeatureMap::relu, "relu"}, {FeatureMap::identity, "identity"}}};
};
template <>
struct Words<Normaliser> {
  static constexpr std::array<Word<Normaliser>, 2> words{{{Normaliser::sum, "sum"}, {Normaliser::none, "none"}}};
};

namespace {

LinearAttentionOptions options_of(const char* function, nb::handle mask, nb::handle feature_map, nb::handle normaliser,
                                  double epsilon) {
  return {.mask = mask_of(function, mask),
          .feature_map = enum_of<FeatureMap>(feature_map, {function, "feature_map"}),
          .normaliser = enum_of<Normaliser>(normaliser, {function, "normaliser"}),
          .epsilon = epsilon};
}

/// What a call was given beside its arguments.
void refuse_all(const char* function, const nb::kwargs& others) {
  for (auto [key, value] : others) fail_unknown(function, nb::cast<std::string>(key));
}

/// The arrays of one call, whatever their type.
struct LinearCall {
  LinearCall(const char* name, nb::handle q_from, nb::handle k_from, nb::handle v_from, nb::handle q_at,
             nb::handle k_at, nb::handle layout)
      : function(name),
        q(q_from, {name, "q"}),
        k(k_from, {name, "k"}),
        v(v_from, {name, "v"}),
        q_positions(q_at, {name, "q_positions"}),
        k_positions(k_at, {name, "k_positions"}),
        time_first(is_time_first(name, layout)) {
    check_same_type(k, q, "q");
    check_same_type(v, q, "q");
  }

  template <class T>
  LinearAttentionInputs<T> inputs() const {
    return {q.tensor<T>(time_first), k.tensor<T>(time_first), v.tensor<T>(time_first), *q_positions, *k_positions};
  }

  const char* function;
  Array q, k, v;
  PositionsArgument q_positions, k_positions;
  bool time_first;
};

/// (s, z) as it is given: z may be None where nothing divides.
struct StateArrays {
  enum class Use { read, write };

  StateArrays(const char* function, const char* name, nb::handle given, DataType type, Use use) {
    if (given.is_none()) return;
    const bool is_pair = (nb::isinstance<nb::tuple>(given) || nb::isinstance<nb::list>(given)) && nb::len(given) == 2;
    const auto fail = [&] { Argument{function, name}.fail("(s, z)", nb::cast<std::string>(nb::repr(given))); };
    if (!is_pair) fail();
    const nb::object first = given[0], second = given[1];
    if (first.is_none() && second.is_none()) fail();
    const auto take = [&](std::optional<Array>& to, nb::handle from) {
      if (from.is_none()) return;
      to.emplace(use == Use::write ? Array::writable(from, {function, name}) : Array(from, {function, name}));
      check_type(*to, type);
    };
    take(s, first);
    take(z, second);
  }

  template <class A>
  LinearState<A> written() const {
    LinearState<A> state;
    if (s) state.s = s->written_tensor<A>(false);
    if (z) state.z = z->written<A, 3>();
    return state;
  }
  template <class A>
  LinearState<const A> view() const {
    const LinearState<A> state = written<A>();
    return {state.s, state.z};
  }

  std::optional<Array> s, z;
};

/// A new state, of the shapes that a call wants: a copy of another one, or zeros.
template <class A>
struct NewState {
  NewState(const LinearCall& call, const std::array<Index, 4>& k, const TermList<A>& terms, Index value_dim,
           const StateArrays& from) {
    Index rows_dim = k[3];
    for (const Term<A>& term : terms) {
      if (term.out_dim != nullptr) rows_dim = term.out_dim(term.self, rows_dim);
    }
    const std::array<Index, 4> s_shape{k[0], k[1], rows_dim, value_dim};
    const std::array<Index, 3> z_shape{k[0], k[1], k[3]};
    s = new_array(call.q.kind(), arithmetic_of<A>, {s_shape[0], s_shape[1], s_shape[2], s_shape[3]});
    z = new_array(call.q.kind(), arithmetic_of<A>, {z_shape[0], z_shape[1], z_shape[2]});
    state = {view_of<A, 4>(s, s_shape), view_of<A, 3>(z, z_shape)};
    const LinearState<const A> given = from.view<A>();
    put("s", given.s, state.s, call.function);
    put("z", given.z, state.z, call.function);
  }

  nb::object object() const { return nb::make_tuple(s.object, z.object); }

  NewArray s, z;
  LinearState<A> state;

 private:
  template <int Rank>
  static void put(const char* name, const View<const A, Rank>& from, const View<A, Rank>& to, const char* function) {
    if (to.size() == 0) return;
    if (from.data == nullptr) {
      std::memset(to.data, 0, static_cast<std::size_t>(to.size()) * sizeof(A));
      return;
    }
    if (from.shape != to.shape) {
      throw ShapeError(std::string("[") + function + "] state: " + name + " must be " + shape_text(to.shape) +
                       ", got " + shape_text(from.shape));
    }
    std::array<Index, Rank> at{};
    for (Index i = 0; i < to.size(); ++i) {
      Index offset = 0, rest = i;
      for (std::size_t axis = Rank; axis-- > 0; rest /= to.shape[axis]) at[axis] = rest % to.shape[axis];
      for (std::size_t axis = 0; axis < Rank; ++axis) offset += at[axis] * from.stride[axis];
      to.data[i] = from.data[offset];
    }
  }
};

nb::object forward(nb::handle q, nb::handle k, nb::handle v, nb::handle encodings, nb::handle mask,
                   nb::handle feature_map, nb::handle normaliser, double epsilon, nb::handle q_at, nb::handle k_at,
                   nb::handle state, bool return_state, nb::handle layout, Index threads, const nb::kwargs& others) {
  const char* function = "linear_attention";
  refuse_all(function, others);
  const LinearCall call(function, q, k, v, q_at, k_at, layout);
  const LinearAttentionOptions options = options_of(function, mask, feature_map, normaliser, epsilon);
  const Executor on = executor_of(threads, function);
  return with_type(call.q.type(), [&]<class T>() -> nb::object {
    using A = Compute<T>;
    using Use = StateArrays::Use;
    const MadeList<A> list(function, encodings, Wanted::values);
    const StateArrays given(function, "state", state, arithmetic_of<A>, return_state ? Use::read : Use::write);
    const LinearAttentionInputs<T> in = call.inputs<T>();
    const NewTensor<T> out(call.q, call.time_first, in.q.shape[2], in.v.shape[3]);
    std::optional<NewState<A>> made;
    if (return_state) made.emplace(call, in.k.shape, list.terms, in.v.shape[3], given);
    {
      const Unlocked released;
      errors_as("[linear_attention] encodings", "[linear_attention] terms", [&] {
        bearing::linear_attention<T>(in, out.tensor(), made ? made->state : given.written<A>(), list.terms, options,
                                     on);
      });
    }
    if (!return_state) return out.object();
    return nb::make_tuple(out.object(), made->object());
  });
}

nb::object backward(nb::handle q, nb::handle k, nb::handle v, nb::handle d_out, nb::handle encodings, nb::handle mask,
                    nb::handle feature_map, nb::handle normaliser, double epsilon, nb::handle q_at, nb::handle k_at,
                    nb::handle start, nb::handle d_state, nb::handle layout, Index threads, const nb::kwargs& others) {
  const char* function = "linear_attention_backward";
  refuse_all(function, others);
  const LinearCall call(function, q, k, v, q_at, k_at, layout);
  const Array d(d_out, {function, "d_out"});
  check_same_type(d, call.q, "q");
  const LinearAttentionOptions options = options_of(function, mask, feature_map, normaliser, epsilon);
  const Executor on = executor_of(threads, function);
  return with_type(call.q.type(), [&]<class T>() -> nb::object {
    using A = Compute<T>;
    using Use = StateArrays::Use;
    const MadeList<A> list(function, encodings, Wanted::gradients);
    const StateArrays before(function, "start", start, arithmetic_of<A>, Use::read);
    const StateArrays after(function, "d_state", d_state, arithmetic_of<A>, Use::read);
    const LinearAttentionInputs<T> in = call.inputs<T>();
    const auto like = [&](const Array& array, const View<const T, 4>& view) {
      return NewTensor<T>(array, call.time_first, view.shape[2], view.shape[3]);
    };
    const NewTensor<T> d_q = like(call.q, in.q), d_k = like(call.k, in.k), d_v = like(call.v, in.v);
    LinearAttentionGrads<T> grads{d_q.tensor(), d_k.tensor(), d_v.tensor(), {}};
    std::optional<NewState<A>> made;
    if (!start.is_none() || !d_state.is_none()) {
      made.emplace(call, in.k.shape, list.terms, in.v.shape[3], after);
      grads.d_state = made->state;
    }
    const View<const T, 4> d_view = d.tensor<T>(call.time_first);
    {
      const Unlocked released;
      errors_as("[linear_attention_backward] encodings", "[linear_attention_backward] terms", [&] {
        bearing::linear_attention_backward<T>(in, d_view, before.view<A>(), grads, list.terms, options, on);
      });
    }
    return nb::make_tuple(d_q.object(), d_k.object(), d_v.object(), list.gradient_arrays(),
                          made ? made->object() : nb::none());
  });
}

}  // namespace

void bind_linear_attention(nb::module_& m) {
  m.def("linear_attention", forward, nb::arg("q"), nb::arg("k"), nb::arg("v"), nb::arg("encodings") = nb::none(),
        nb::kw_only(), nb::arg("mask") = nb::none(), nb::arg("feature_map") = "elu_plus_one",
        nb::arg("normaliser") = "sum", nb::arg("epsilon") = 0.0, nb::arg("q_positions") = nb::none(),
        nb::arg("k_positions") = nb::none(), nb::arg("state") = nb::none(), nb::arg("return_state") = false,
        nb::arg("layout") = "bhtd", nb::arg("threads") = 1, nb::arg("others"),
        nb::sig("def linear_attention(q: ArrayLike, k: ArrayLike, v: ArrayLike, encodings: Encodings = None, *, "
                "mask: Literal['none', 'causal', 'causal_top_left', 'causal_bottom_right'], "
                "feature_map: Literal['elu_plus_one', 'relu', 'identity'] = 'elu_plus_one', "
                "normaliser: Literal['sum', 'none'] = 'sum', epsilon: float = 0.0, q_positions: Positions = None, "
                "k_positions: Positions = None, state: tuple[ArrayLike, ArrayLike] | None = None, return_state: bool = "
                "False, "
                "layout: Literal['bhtd', 'bthd'] = 'bhtd', threads: int = 1) "
                "-> Array | tuple[Array, tuple[Array, Array]]"),
        "Computes linear attention with rotated rows. Its time is linear in the lengths.\n\n"
        "    o_i = sum_j (T f(q_i)).(T f(k_j)) v_j / (sum_j f(q_i).f(k_j) + epsilon)      f(x) = elu(x) + 1\n\n"
        "q [batch, heads, q_len, dim]: the queries; the first axes may be left out for one sequence or one head, in k "
        "and v as\n"
        "    well.\n"
        "k [batch, kv_heads, k_len, dim]: the keys, of q's type; kv_heads divides heads.\n"
        "v [batch, kv_heads, k_len, value_dim]: the values, of q's type.\n"
        "encodings: encodings of rows, and decays of the state, which need a causal mask.\n"
        "mask: as in attention(), and so are q_positions and k_positions.\n"
        "feature_map: f: 'elu_plus_one', 'relu' or 'identity'.\n"
        "normaliser: 'sum' divides as above; 'none' does not divide, as models whose state decays.\n"
        "epsilon: is added to the denominator.\n"
        "state: (s [batch, kv_heads, rows_dim, value_dim], z [batch, kv_heads, dim]), float64 for float64, else "
        "float32: the sums\n"
        "    over the keys of earlier calls, all of which every query sees. All keys of this call are added to it, in "
        "place.\n"
        "return_state: True only reads state (None: zeros) and returns (out, new state).\n"
        "layout: 'bhtd', or 'bthd' for arrays with time before heads.\n"
        "threads: how many threads the call may use; 0 for all.\n\n"
        "Returns out, of q's kind and type. Raises ShapeError, RangeError, ValueError or TypeError, whose text names "
        "the argument.\n\n"
        "Katharopoulos et al. 2020, arXiv 2006.16236; Su et al. 2021, arXiv 2104.09864, eq. 19.");
  m.def("linear_attention_backward", backward, nb::arg("q"), nb::arg("k"), nb::arg("v"), nb::arg("d_out"),
        nb::arg("encodings") = nb::none(), nb::kw_only(), nb::arg("mask") = nb::none(),
        nb::arg("feature_map") = "elu_plus_one", nb::arg("normaliser") = "sum", nb::arg("epsilon") = 0.0,
        nb::arg("q_positions") = nb::none(), nb::arg("k_positions") = nb::none(), nb::arg("start") = nb::none(),
        nb::arg("d_state") = nb::none(), nb::arg("layout") = "bhtd", nb::arg("threads") = 1, nb::arg("others"),
        nb::sig("def linear_attention_backward(q: ArrayLike, k: ArrayLike, v: ArrayLike, d_out: ArrayLike, "
                "encodings: Encodings = None, *, "
                "mask: Literal['none', 'causal', 'causal_top_left', 'causal_bottom_right'], "
                "feature_map: Literal['elu_plus_one', 'relu', 'identity'] = 'elu_plus_one', "
                "normaliser: Literal['sum', 'none'] = 'sum', epsilon: float = 0.0, q_positions: Positions = None, "
                "k_positions: Positions = None, start: tuple[ArrayLike, ArrayLike] | None = None, "
                "d_state: tuple[ArrayLike, ArrayLike] | None = None, layout: Literal['bhtd', 'bthd'] = 'bhtd', "
                "threads: int = 1) "
                "-> tuple[Array, Array, Array, list[dict[str, Array]], tuple[Array, Array] | None]"),
        "Returns the gradients of linear_attention(): d_q, d_k, d_v, those of parameters, and that of the state.\n\n"
        "The fourth is a list with a dictionary for each encoding, by parameter. The fifth is the gradient of the "
        "state before the\n"
        "call; it is None if neither start nor d_state is given.\n\n"
        "d_out [batch, heads, q_len, value_dim]: the gradient of out.\n"
        "start: the state before the call.\n"
        "d_state: the gradient of the state after the call.\n\n"
        "All other arguments are those of linear_attention().");
}

}  // namespace bearing::python
