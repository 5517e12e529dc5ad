// attention(), its backward, and merge().

#include <bearing/regions.hpp>
#include <cmath>
#include <cstring>

#include "bind.hpp"
#include "calls.hpp"
#include "masks.hpp"
#include "regions.hpp"
#include "specs.hpp"
#include "words.hpp"

namespace bearing::python {

namespace {

/// The names that calls have beside arrays; the last ones not all of them.
constexpr std::size_t shared_names = 17;
constexpr std::array<std::string_view, 20> names{"mask",     "window",   "q_positions", "k_positions", "scale",
                                                 "soft_cap", "sinks",    "k_lengths",   "key_mask",    "visible",
                                                 "q_starts", "k_starts", "block_table", "layout",      "threads",
                                                 "regions",  "band",     "d_lse",       "out_dtype",   "return_lse"};

/// A name among them, which the compiler finds.
struct Name {
  std::size_t place;

  consteval Name(const char* name)
      : place(static_cast<std::size_t>(std::find(names.begin(), names.end(), std::string_view(name)) - names.begin())) {
    if (place == names.size()) throw "a name that no call has";
  }
  const char* text() const { return names[place].data(); }
};

/// The named arguments of a call. Throws TypeError for one that no call has, or these do not.
class Named {
 public:
  Named(const char* function, const nb::kwargs& given, std::initializer_list<Name> own) : function_(function) {
    Py_ssize_t at = 0;
    PyObject *key = nullptr, *value = nullptr;
    while (PyDict_Next(given.ptr(), &at, &key, &value) != 0) {
      const std::size_t i = place_of(key);
      const auto is_it = [=](Name one) { return one.place == i; };
      if (i >= shared_names && std::none_of(own.begin(), own.end(), is_it)) {
        fail_unknown(function, nb::cast<std::string>(nb::handle(key)));
      }
      values_[i] = value;
    }
  }

  nb::object take(Name name) const {
    const nb::handle value = values_[name.place];
    return value.is_valid() ? nb::borrow(value) : nb::none();
  }
  template <class T>
  T take(Name name, T otherwise) const {
    const nb::object value = take(name);
    return value.is_none() ? otherwise : Member<T>::from(value, {function_, name.text()});
  }
  Argument argument(Name name) const { return {function_, name.text()}; }

 private:
  /// Its place in `names`, or their number. Names in a program's text are interned, so that most are found by address.
  static std::size_t place_of(PyObject* key) {
    static const auto interned = [] {
      std::array<PyObject*, names.size()> all{};
      for (std::size_t i = 0; i < names.size(); ++i) all[i] = PyUnicode_InternFromString(names[i].data());
      return all;
    }();
    const auto found = std::find(interned.begin(), interned.end(), key);
    if (found != interned.end()) return static_cast<std::size_t>(found - interned.begin());
    const auto text = nb::cast<std::string>(nb::handle(key));
    return static_cast<std::size_t>(std::find(names.begin(), names.end(), text) - names.begin());
  }

  const char* function_;
  std::array<nb::handle, names.size()> values_{};
};

/// The arrays of one call, whatever their type.
struct Call {
  Call(const char* name, nb::handle q_from, nb::handle k_from, nb::handle v_from, const Named& named)
      : function(name),
        q(q_from, {name, "q"}),
        k(k_from, {name, "k"}),
        v(v_from, {name, "v"}),
        q_positions(named.take("q_positions"), {name, "q_positions"}),
        k_positions(named.take("k_positions"), {name, "k_positions"}),
        k_lengths(named.take("k_lengths"), {name, "k_lengths"}),
        q_starts(named.take("q_starts"), {name, "q_starts"}),
        k_starts(named.take("k_starts"), {name, "k_starts"}),
        block_table(named.take("block_table"), {name, "block_table"}),
        key_mask(named.take("key_mask"), {name, "key_mask"}),
        visible(named.take("visible"), {name, "visible"}),
        sinks(named.take("sinks")) {
    mask = mask_of(name, named.take("mask"), "; an array of what is seen goes to visible=");
    const nb::object window_given = named.take("window");
    if (!window_given.is_none()) {
      const bool is_pair = nb::isinstance<nb::tuple>(window_given) || nb::isinstance<nb::list>(window_given);
      if (!is_pair || nb::len(window_given) != 2) {
        Argument{name, "window"}.fail("(before, after) in tokens, -1 for no limit",
                                      nb::cast<std::string>(nb::repr(window_given)));
      }
      window = {Member<Index>::from(nb::object(window_given[0]), {name, "window"}),
                Member<Index>::from(nb::object(window_given[1]), {name, "window"})};
    }
    const nb::object scale_given = named.take("scale");
    if (!scale_given.is_none()) scale = Member<double>::from(scale_given, {name, "scale"});
    soft_cap = named.take<double>("soft_cap", 0.0);
    const nb::object layout = named.take("layout");
    if (!layout.is_none()) time_first = is_time_first(name, layout);
    threads = named.take<Index>("threads", 1);
    for (const Array* other : {&k, &v}) same_type(*other);
    take_regions(named.take("regions"));
    band = band_given(named.take("band"), {name, "band"});
  }

  void same_type(const Array& other) const { check_same_type(other, q, "q"); }

  template <class T>
  AttentionInputs<T> inputs() const {
    return {q.tensor<T>(time_first), k.tensor<T>(time_first), v.tensor<T>(time_first), *q_positions, *k_positions,
            block_table.view<2>()};
  }

  /// [batch, heads, q_len, k_len]; a paged cache has the keys of all blocks of a sequence.
  template <class T>
  std::array<Index, 4> scores_of(const AttentionInputs<T>& in) const {
    const auto &q_shape = in.q.shape, &k_shape = in.k.shape;
    const auto blocks = static_cast<std::size_t>(in.block_table.data == nullptr ? 1 : in.block_table.shape[1]);
    return {q_shape[0], q_shape[1], q_shape[2], static_cast<Index>(blocks * static_cast<std::size_t>(k_shape[2]))};
  }

  void take_regions(nb::handle given) { regions = regions_given(given, {function, "regions"}); }

  const char* function;
  Array q, k, v;
  PositionsArgument q_positions, k_positions;
  IndexArray k_lengths, q_starts, k_starts, block_table;
  BoolArray key_mask, visible;
  nb::object sinks;
  Mask mask = Mask::none;
  Window window;
  Band band;
  std::optional<double> scale;
  double soft_cap = 0;
  bool time_first = false;
  Index threads = 1;
  std::vector<Region> regions;  ///< none: attention everywhere alike
};

/// Options whose sinks are held here.
template <class A>
struct Options {
  AttentionOptions<A> value;
  std::optional<Array> sinks;

  /// `scores`: [batch, heads, q_len, k_len] of the call.
  Options(const Call& call, const std::array<Index, 4>& scores) : value{.mask = call.mask} {
    value.window = call.window;
    value.band = call.band;
    value.scale = call.scale;
    value.soft_cap = call.soft_cap;
    value.k_lengths = call.k_lengths.view<1>();
    value.key_mask = call.key_mask.view<2>();
    value.visible = call.visible.view<4>(scores);
    value.q_starts = call.q_starts.view<1>();
    value.k_starts = call.k_starts.view<1>();
    if (call.sinks.is_none()) return;
    sinks.emplace(call.sinks, Argument{call.function, "sinks"});
    if (sinks->type() != type_of_arithmetic) {
      sinks->argument().fail(name_of(type_of_arithmetic), name_of(sinks->type()));
    }
    value.sinks.value = sinks->view<A, 1>();
  }
  static constexpr DataType type_of_arithmetic = std::is_same_v<A, double> ? DataType::f64 : DataType::f32;
};

/// The type of results: T's own, or its arithmetic's.
template <class T, class A = Compute<T>, class Body>
nb::object with_results(DataType type, DataType of_call, Body&& body) {
  return type == of_call ? body.template operator()<T, T>() : body.template operator()<T, A>();
}

/// Throws TypeError unless results of a call may have this type.
void check_result_type(const Array& q, DataType type, const Argument& argument) {
  const DataType arithmetic = q.type() == DataType::f64 ? DataType::f64 : DataType::f32;
  if (type == q.type() || type == arithmetic) return;
  std::string wanted = std::string(name_of(q.type())) + ", as q is";
  if (arithmetic != q.type()) wanted += std::string(", or ") + name_of(arithmetic) + ", which sums are taken in";
  argument.fail(wanted, name_of(type));
}

/// [batch, heads, q_len] of a call's queries, without the axes that these were given without.
std::vector<Index> sums_shape(const Array& q, const std::array<Index, 4>& extents) {
  std::vector<Index> shape{extents[0], extents[1], extents[2]};
  shape.erase(shape.begin(), shape.end() - static_cast<std::ptrdiff_t>(q.rank() - 1));
  return shape;
}

/// [batch, heads, q_len], of which the first axes may be left out.
template <class A>
View<const A, 3> sums_of(const Array& array) {
  constexpr DataType type = arithmetic_of<A>;
  check_type(array, type);
  const std::size_t n = array.rank();
  if (n < 1 || n > 3) array.argument().fail_shape("an array of 1 to 3 axes", "shape " + shape_text(array.shape()));
  View<const A, 3> out{static_cast<const A*>(array.data()), {1, 1, 1}, {0, 0, 0}};
  for (std::size_t axis = 0; axis < n; ++axis) {
    out.shape[3 - n + axis] = array.shape()[axis];
    out.stride[3 - n + axis] = array.stride()[axis];
  }
  return out;
}

nb::object forward(nb::handle q, nb::handle k, nb::handle v, nb::handle encodings, const nb::kwargs& given) {
  const char* function = "attention";
  const Named named(function, given, {"return_lse", "out_dtype"});
  const Call call(function, q, k, v, named);
  const bool return_lse = named.take<bool>("return_lse", false);
  const nb::object out_dtype = named.take("out_dtype");
  const Argument out_argument = named.argument("out_dtype");
  const DataType out_type = out_dtype.is_none() ? call.q.type() : type_named(out_argument, out_dtype);
  check_result_type(call.q, out_type, out_argument);
  const Executor on = executor_of(call.threads, function);
  const auto run = [&]<class T, class O>() -> nb::object {
    using A = Compute<T>;
    const MadeList<A> list(function, encodings, Wanted::values);
    const AttentionInputs<T> in = call.inputs<T>();
    const Options<A> options(call, call.scores_of(in));
    const auto& shape = in.q.shape;
    const NewTensor<O> out(call.q, out_type, call.time_first, shape[2], in.v.shape[3]);
    NewArray lse{};
    View<A, 3> lse_view;
    if (return_lse) {
      lse = new_array(call.q.kind(), Options<A>::type_of_arithmetic, sums_shape(call.q, shape));
      lse_view = view_of<A, 3>(lse, {shape[0], shape[1], shape[2]});
    }
    {
      const Unlocked released;
      if (call.regions.empty()) {
        bearing::attention(in, out.tensor(), lse_view, list.terms, options.value, on);
      } else {
        bearing::attention_in_regions<T, O>(in, call.regions, out.tensor(), lse_view, list.terms, options.value, on);
      }
    }
    if (!return_lse) return out.object();
    return nb::make_tuple(out.object(), lse.object);
  };
  return with_type(call.q.type(), [&]<class T>() { return with_results<T>(out_type, call.q.type(), run); });
}

nb::object backward(nb::handle q, nb::handle k, nb::handle v, nb::handle out, nb::handle lse, nb::handle d_out,
                    nb::handle encodings, const nb::kwargs& given) {
  const char* function = "attention_backward";
  const Named named(function, given, {"d_lse"});
  const Call call(function, q, k, v, named);
  const Array outs(out, {function, "out"}), sums(lse, {function, "lse"}), d_outs(d_out, {function, "d_out"});
  const nb::object d_lse = named.take("d_lse");
  check_result_type(call.q, outs.type(), outs.argument());
  check_same_type(d_outs, outs, "out");
  const Executor on = executor_of(call.threads, function);
  const auto run = [&]<class T, class O>() -> nb::object {
    using A = Compute<T>;
    const bool first = call.time_first;
    const MadeList<A> list(function, encodings, Wanted::gradients);
    const AttentionInputs<T> in = call.inputs<T>();
    Options<A> options(call, call.scores_of(in));
    AttentionResults<O> results{outs.tensor<O>(first), sums_of<A>(sums), d_outs.tensor<O>(first)};
    std::optional<Array> d_sums;
    if (!d_lse.is_none()) {
      d_sums.emplace(d_lse, Argument{function, "d_lse"});
      results.d_lse = sums_of<A>(*d_sums);
    }
    const auto like = [&](const Array& array, const View<const T, 4>& of) {
      return NewTensor<O>(array, outs.type(), first, of.shape[2], of.shape[3]);
    };
    const NewTensor<O> d_q = like(call.q, in.q), d_k = like(call.k, in.k), d_v = like(call.v, in.v);
    nb::object d_sinks = nb::none();
    if (options.sinks) {
      const NewArray grad = new_array(options.sinks->kind(), options.sinks->type(), options.sinks->shape());
      std::memset(grad.data, 0, static_cast<std::size_t>(options.sinks->shape()[0]) * sizeof(A));
      options.value.sinks.grad = view_of<A, 1>(grad, {options.sinks->shape()[0]});
      d_sinks = grad.object;
    }
    {
      const Unlocked released;
      const AttentionGrads<O> grads{d_q.tensor(), d_k.tensor(), d_v.tensor()};
      if (call.regions.empty()) {
        bearing::attention_backward<T, O>(in, results, grads, list.terms, options.value, on);
      } else {
        bearing::attention_in_regions_backward<T, O>(in, call.regions, results, grads, list.terms, options.value, on);
      }
    }
    return nb::make_tuple(d_q.object(), d_k.object(), d_v.object(), list.gradient_arrays(), d_sinks);
  };
  return with_type(call.q.type(), [&]<class T>() { return with_results<T>(outs.type(), call.q.type(), run); });
}

void merge_into(nb::handle part, nb::handle part_lse, nb::handle out, nb::handle lse, Index threads) {
  const char* function = "merge";
  const Array parts(part, {function, "part"}), part_sums(part_lse, {function, "part_lse"});
  const Array outs = Array::writable(out, {function, "out"}), sums = Array::writable(lse, {function, "lse"});
  check_same_type(parts, outs, "out");
  const Executor on = executor_of(threads, function);
  with_type(outs.type(), [&]<class T>() {
    using A = Compute<T>;
    const auto from = parts.tensor<T>(false);
    const auto to = outs.written_tensor<T>(false);
    const auto from_lse = sums_of<A>(part_sums), read_lse = sums_of<A>(sums);
    const View<A, 3> to_lse{const_cast<A*>(read_lse.data), read_lse.shape, read_lse.stride};
    const Unlocked released;
    bearing::merge<T>(from, from_lse, to, to_lse, on);
  });
}

constexpr const char* options_text =
    "mask: Literal['none', 'causal', 'causal_top_left', 'causal_bottom_right'], window: tuple[int, int] | None = None, "
    "q_positions: Positions = None, k_positions: Positions = None, scale: float | None = None, soft_cap: float = 0.0, "
    "sinks: ArrayLike | None = None, k_lengths: ArrayLike | None = None, key_mask: ArrayLike | None = None, "
    "visible: ArrayLike | None = None, q_starts: ArrayLike | None = None, k_starts: ArrayLike | None = None, "
    "block_table: ArrayLike | None = None, layout: Literal['bhtd', 'bthd'] = 'bhtd', threads: int = 1, "
    "regions: DualChunk | SelfExtend | ReRope | Sequence[Region] | None = None, band: DistanceBand | None = None";

}  // namespace

void bind_attention(nb::module_& m) {
  static const std::string forward_sig =
      std::string("def attention(q: ArrayLike, k: ArrayLike, v: ArrayLike, encodings: Encodings = None, *, ") +
      options_text + ", out_dtype: DType | None = None, return_lse: bool = False) -> Array | tuple[Array, Array]";
  m.def(
      "_region_text",
      [](const std::string& function, nb::handle regions) {
        return text_of(regions_given(regions, {function.c_str(), "regions"}));
      },
      nb::arg("function"), nb::arg("regions").none(), nb::sig("def _region_text(function: str, regions: Any) -> str"),
      "Regions as the text that programs of JAX keep; nothing for None.");
  m.def(
      "_band_text",
      [](const std::string& function, nb::handle band) {
        const Band given = band_given(band, {function.c_str(), "band"});
        return given == Band{} ? std::string() : text_of(given);
      },
      nb::arg("function"), nb::arg("band").none(), nb::sig("def _band_text(function: str, band: Any) -> str"),
      "A band as the text that programs of JAX keep; nothing for None.");
  m.def(
      "attention", forward, nb::arg("q"), nb::arg("k"), nb::arg("v"), nb::arg("encodings") = nb::none(),
      nb::arg("options"), nb::sig(forward_sig.c_str()),
      "Computes softmax attention with any list of encodings. Its memory is linear in the lengths.\n\n"
      "    s_ij = cap(c (T q_i)·(T k_j)) + terms,   o_i = sum_j softmax(s)_ij (v_j + V[rho(i, j)])\n\n"
      "q [batch, heads, q_len, dim]: the queries: float64, float32, bfloat16 or float16. The first axes may be left "
      "out for one\n"
      "    sequence or one head, in k and v as well.\n"
      "k [batch, kv_heads, k_len, dim]: the keys, of q's type; kv_heads divides heads.\n"
      "v [batch, kv_heads, k_len, value_dim]: the values, of q's type.\n"
      "encodings: an encoding, or a list of them.\n"
      "mask: which keys a query sees: 'none' hides none, 'causal' goes by positions, so that caches and shards are "
      "right,\n"
      "    'causal_top_left' and 'causal_bottom_right' go by indices, the latter back from the last key, which is "
      "where\n"
      "    k_lengths says. It has no default. Of positions on several axes the first one decides, and where it is the "
      "same\n"
      "    the next one: a patch sees those before it in its picture.\n"
      "window: (before, after) in tokens, on the first axis of positions; -1 for no limit. A model's sliding window of "
      "w keys,\n"
      "    which is figure('masks', window=w), is (w - 1, 0): the query's own key is seen too.\n"
      "q_positions: where queries stand: None for 0, 1, 2, ...; an int p for p, p + 1, ... (p keys are in the cache "
      "already); or\n"
      "    an array [time], [batch, time] or [axes, batch, time].\n"
      "k_positions: where keys stand, in the same forms.\n"
      "scale: c; None for 1/sqrt(dim).\n"
      "soft_cap: bounds c q·k before terms are added; 0 for no bound.\n"
      "sinks [heads]: a logit for each head that takes part in a row's sum and has no value. (Those of figure() are "
      "first "
      "tokens\n"
      "    that every query sees: visible says that here.)\n"
      "k_lengths [batch]: how many keys of each sequence count.\n"
      "key_mask [batch, k_len]: True for keys that may be seen.\n"
      "visible [batch, heads, q_len, k_len]: True for keys that the query may see; any shape that broadcasts to this "
      "one.\n"
      "q_starts [sequences + 1]: where packed sequences start among queries; given together with k_starts.\n"
      "k_starts [sequences + 1]: where they start among keys.\n"
      "block_table [batch, blocks]: a paged cache, with k and v [blocks, kv_heads, block_size, ...]; it needs "
      "k_lengths.\n"
      "layout: 'bhtd', or 'bthd' for arrays with time before heads.\n"
      "threads: how many threads the call may use; 0 for all.\n"
      "regions: a DualChunk, SelfExtend or ReRope, or a list of Region: rows are turned at other positions from "
      "region to region of "
      "distances.\n"
      "band: a DistanceBand: the query sees keys whose distance behind it lies in the band alone, by positions "
      "whatever the mask\n"
      "    goes by. DistanceBand(begin=0, end=1, chunk=n) leaves the query's own chunk of n positions; not with "
      "regions.\n"
      "out_dtype: float32 keeps all bits of out where q has 16, for merge().\n\n"
      "Returns out [batch, heads, q_len, value_dim], of q's kind and type. With return_lse it returns (out, lse): "
      "lse [batch,\n"
      "heads, q_len] has the logarithms of the rows' sums. Both lack the axes that q lacks. A query that sees no key "
      "gets 0 in\n"
      "out and -inf in lse. Sums are taken in float64 for float64, else in float32.\n\n"
      "Raises ShapeError, RangeError, ValueError or TypeError, whose text names the argument.");
  static const std::string backward_sig =
      std::string("def attention_backward(q: ArrayLike, k: ArrayLike, v: ArrayLike, out: ArrayLike, lse: ArrayLike, ") +
      "d_out: ArrayLike, encodings: Encodings = None, *, " + options_text +
      ", d_lse: ArrayLike | None = None) -> tuple[Array, Array, Array, list[dict[str, Array]], Array | None]";
  m.def("attention_backward", backward, nb::arg("q"), nb::arg("k"), nb::arg("v"), nb::arg("out"), nb::arg("lse"),
        nb::arg("d_out"), nb::arg("encodings") = nb::none(), nb::arg("options"), nb::sig(backward_sig.c_str()),
        "Returns the gradients of attention(): d_q, d_k, d_v, those of parameters, and that of the sinks.\n\n"
        "The fourth is a list with a dictionary for each encoding, by parameter. The fifth is None without sinks. d_q, "
        "d_k and d_v\n"
        "have out's type.\n\n"
        "out [batch, heads, q_len, value_dim]: what attention() gave for the same arguments.\n"
        "lse [batch, heads, q_len]: what it gave with return_lse.\n"
        "d_out [batch, heads, q_len, value_dim]: the gradient of out, of its type.\n"
        "d_lse [batch, heads, q_len]: the gradient of lse; None for 0.\n\n"
        "All other arguments are those of attention().");
  m.def(
      "merge", merge_into, nb::arg("part"), nb::arg("part_lse"), nb::arg("out"), nb::arg("lse"), nb::arg("threads") = 1,
      nb::sig("def merge(part: ArrayLike, part_lse: ArrayLike, out: Array, lse: Array, threads: int = 1) -> None"),
      "Combines results of attention over disjoint sets of keys, as if they had been one set: adds part to out, in "
      "place.\n\n"
      "part [batch, heads, q_len, value_dim]: one result; the first axes may be left out.\n"
      "part_lse [batch, heads, q_len]: the logarithms of its rows' sums, as attention() returns them with return_lse.\n"
      "out [batch, heads, q_len, value_dim]: the other result, which is written.\n"
      "lse [batch, heads, q_len]: the logarithms of its rows' sums, which are written.\n"
      "threads: how many threads the call may use; 0 for all.\n\n"
      "Raises ShapeError or TypeError, whose text names the argument. Nothing is written then.");
}

}  // namespace bearing::python
