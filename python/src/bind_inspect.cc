// What encodings do, in numbers: the catalog, checks with verdicts, similarity, decay, shift maps, rotary reports.

#include <nanobind/stl/optional.h>

#include <bearing/catalog.hpp>
#include <bearing/error.hpp>
#include <bearing/inspect.hpp>
#include <bearing/properties.hpp>
#include <bearing/rope_report.hpp>
#include <bearing/scores.hpp>
#include <cmath>

#include "bind.hpp"
#include "doubles.hpp"
#include "records.hpp"
#include "rope_tables.hpp"

namespace bearing::python {

using inspect::SpecimenOptions;

template <>
struct Words<Side> {
  static constexpr std::array<Word<Side>, 2> words{{{Side::query, "query"}, {Side::key, "key"}}};
};
template <>
struct Words<inspect::Contents> {
  static constexpr std::array<Word<inspect::Contents>, 2> words{
      {{inspect::Contents::alike, "alike"}, {inspect::Contents::independent, "independent"}}};
};
template <>
struct Words<inspect::Keys> {
  static constexpr std::array<Word<inspect::Keys>, 2> words{
      {{inspect::Keys::before, "before"}, {inspect::Keys::after, "after"}}};
};

namespace {

nb::object text(const std::string& value) { return nb::str(value.c_str(), value.size()); }
nb::object number(Index value) { return nb::int_(value); }
nb::object real(double value) { return nb::float_(value); }
nb::object verdict(inspect::Verdict value) { return nb::str(inspect::name(value)); }

nb::object array_of(const inspect::Array& from) {
  return numpy_array(from.values, {from.shape[0], from.shape[1], from.shape[2]});
}
nb::object array_of(const std::vector<double>& from) { return numpy_array(from, {static_cast<Index>(from.size())}); }

template <class T>
nb::list list_of(const std::vector<T>& all) {
  nb::list list;
  for (const T& one : all) list.append(nb::cast(one));
  return list;
}

View<const double, 2> matrix(const Array& of) { return of.view<double, 2>(); }

/// What a function returns that works on C++'s own things alone, with the lock let go.
template <class Work>
auto unlocked(Work&& work) {
  const Unlocked released;
  return work();
}
/// [heads, rows, cols] of a specimen.
inspect::Array cube(nb::handle from, const Argument& argument) {
  const Array given = doubles(from, argument);
  const View<const double, 3> view = given.view<double, 3>();
  inspect::Array all(view.shape[0], view.shape[1], view.shape[2]);
  for (Index h = 0; h < view.shape[0]; ++h) {
    for (Index i = 0; i < view.shape[1]; ++i) {
      for (Index j = 0; j < view.shape[2]; ++j) all(h, i, j) = view(h, i, j);
    }
  }
  return all;
}

/// Of an example; None: what the encoding says, else the usual size.
constexpr const char* sizes_sig =
    "heads: int | None = None, dim: int | None = None, length: int | None = None, seed: int = 1";
struct ExampleSizes {
  std::optional<Index> heads, dim, length;
  std::uint64_t seed;

  Sizes asked() const { return {.heads = heads.value_or(0), .dim = dim.value_or(0), .length = length.value_or(0)}; }
  /// What is given counts, so that the library refuses what is none.
  SpecimenOptions over(SpecimenOptions size) const {
    return {heads.value_or(size.heads), dim.value_or(size.dim), length.value_or(size.length), seed};
  }
};

/// def(name, f(description, size, name as it was said)) for functions of one encoding.
template <class F>
void def_of_encoding(nb::module_& m, const char* name, const char* returns, const char* doc, const F& f) {
  const auto* signature = new std::string(std::string("def ") + name + "(encoding: str | Spec, *, " + sizes_sig +
                                          ") -> " + returns);  // kept as long as the module
  m.def(
      name,
      [name, f](nb::handle encoding, std::optional<Index> heads, std::optional<Index> dim, std::optional<Index> length,
                std::uint64_t seed) {
        const Said said = said_by(encoding, {name, "encoding"});
        const Description description = said.as_description();
        const ExampleSizes sizes{heads, dim, length, seed};
        return f(description, sizes.over(measured_size(description, sizes.asked(), said.sizes())), said.shown());
      },
      nb::arg("encoding").none(), nb::kw_only(), nb::arg("heads") = nb::none(), nb::arg("dim") = nb::none(),
      nb::arg("length") = nb::none(), nb::arg("seed") = 1, nb::sig(signature->c_str()), doc);
}

void bind_catalog(nb::module_& m) {
  record<Description>(
      m, "CatalogEntry", "One encoding of the library.",
      {{"name", "str", [](const Description& e) { return text(e.name); }, "Names it in check() and the others."},
       {"title", "str", [](const Description& e) { return text(e.title); }, "Its name in full."},
       {"authors", "str", [](const Description& e) { return text(e.paper.authors); }, "Who published it."},
       {"year", "int", [](const Description& e) { return number(e.paper.year); }, "When."},
       {"source", "str", [](const Description& e) { return text(e.paper.source); }, "Where: an arXiv number, mostly."},
       {"does", "str", [](const Description& e) { return text(e.does); }, "What it does, in a few words."}});
  m.def(
      "catalog", [] { return list_of(inspect::catalog()); }, nb::sig("def catalog() -> list[CatalogEntry]"),
      "Every encoding of the library, in the order of the sites: input, query and key, score, none.");

  using inspect::Property;
  record<Property>(
      m, "Property", "A property of an encoding, measured on an example.",
      {{"name", "str", [](const Property& p) { return text(p.name); }, "'relative', 'decay', 'extensible', …"},
       {"verdict", "str", [](const Property& p) { return verdict(p.verdict); },
        "'yes', 'no', 'partly', 'learned' or 'n/a'."},
       {"evidence", "str", [](const Property& p) { return text(p.evidence); }, "One sentence with numbers."},
       {"number", "float", [](const Property& p) { return real(p.number); },
        "The one that decided; nan if none did."}});
  def_of_encoding(
      m, "check", "list[Property]",
      "Measures the properties of an encoding: unique, relative, decay, extensible, deterministic, bounded, norm,\n"
      "symmetric, shift map, parameters, memory; each with its evidence.\n\n"
      "    bearing.check('t5:buckets=64')       a name of catalog(), with members of its spec\n"
      "    bearing.check('@config.json#3')      layer 3 of a model's file, at the model's sizes\n"
      "    bearing.check(bearing.Rope(head_dim=128, pairing='half'))\n\n"
      "encoding: a spec, or text as encoding() takes it. heads, dim and length of the example: what it says of them,\n"
      "else 8, 64 and 512; of a model as much as can be measured. seed draws what would be learned.",
      [](const Description& entry, const SpecimenOptions& size, const std::string&) {
        return list_of(unlocked([&] { return inspect::check(entry, size); }));
      });

  using inspect::Comparison;
  record<Comparison>(
      m, "Comparison", "A row of the comparison of encodings.",
      {{"name", "str", [](const Comparison& c) { return text(c.name); }, "The encoding."},
       {"sites", "str", [](const Comparison& c) { return text(c.sites); }, "Where it acts."},
       {"learnable", "bool", [](const Comparison& c) -> nb::object { return nb::bool_(c.learnable); },
        "Whether training learns anything."},
       {"extensible", "str", [](const Comparison& c) { return verdict(c.extensible); }, "Past the trained length."},
       {"relative", "str", [](const Comparison& c) { return verdict(c.relative); }, "Logits depend on distance alone."},
       {"decay", "str", [](const Comparison& c) { return verdict(c.decay); }, "Falls with distance."},
       {"past_length", "str", [](const Comparison& c) { return text(c.past_length); },
        "'error', 'clamped', 'seen values' or 'unseen values'."},
       {"memory", "str", [](const Comparison& c) { return text(c.memory); }, "Growth of what is held: 'O(L)', …"},
       {"parameters", "int", [](const Comparison& c) { return number(c.parameters); },
        "How many numbers training learns."}});
  def_of_encoding(
      m, "compare", "Comparison",
      "The row of an encoding in the comparison of encodings. It is said, and its example has the size, as\n"
      "check() has it.",
      [](const Description& entry, const SpecimenOptions& size, const std::string& shown) {
        Comparison row = unlocked([&] { return inspect::compare(entry, size); });
        row.name = shown;
        return row;
      });

  using inspect::Claim;
  record<Claim>(m, "Claim", "Something that is often said of an encoding, and what measuring it gives.",
                {{"encoding", "str", [](const Claim& c) { return text(c.encoding); }, "The encoding."},
                 {"says", "str", [](const Claim& c) { return text(c.says); }, "What is said."},
                 {"holds", "str", [](const Claim& c) { return verdict(c.holds); }, "Whether it holds."},
                 {"measured", "str", [](const Claim& c) { return text(c.measured); }, "What was found."},
                 {"number", "float", [](const Claim& c) { return real(c.number); }, "The one that decided."},
                 {"picture", "dict[str, Any] | None", [](const Claim& c) { return picture_object(c.picture); },
                  "What shows it: the kind, encodings and options of figure(). None if nothing does."},
                 {"trained", "str | None",
                  [](const Claim& c) { return c.trained.empty() ? nb::object(nb::none()) : text(c.trained); },
                  "What trained models did, with the page that says how. None if none was asked."}});
  m.def(
      "claims", [] { return list_of(unlocked([] { return inspect::claims(); })); },
      nb::sig("def claims() -> list[Claim]"), "Measures what is often said of encodings; takes a while.");
}

void bind_specimen(nb::module_& m) {
  using inspect::Specimen;
  using inspect::Tokens;
  const auto* signature = new std::string(std::string("def __init__(self, encoding: str | Spec, *, ") + sizes_sig +
                                          ") -> None");  // kept as long as the module
  nb::class_<Specimen>(
      m, "Specimen",
      "An example of an encoding, behind one interface, all in float64. It is said, and has its size,\n"
      "as check() has it. Tokens are consecutive, from `first` on: 0, 1, 2, …, or the patches of an\n"
      "image, row by row.")
      .def(
          "__init__",
          [](Specimen* self, nb::handle encoding, std::optional<Index> heads, std::optional<Index> dim,
             std::optional<Index> length, std::uint64_t seed) {
            const Said said = said_by(encoding, {"Specimen", "encoding"});
            const ExampleSizes sizes{heads, dim, length, seed};
            new (self)
                Specimen(inspect::make(said.as_description(), sizes.over(example_size(sizes.asked(), said.sizes()))));
          },
          nb::arg("encoding").none(), nb::kw_only(), nb::arg("heads") = nb::none(), nb::arg("dim") = nb::none(),
          nb::arg("length") = nb::none(), nb::arg("seed") = 1, nb::sig(signature->c_str()))
      .def_prop_ro("sites", &inspect::sites, "'input', 'query/key', 'score', 'score, value' or 'none'.")
      .def_ro("width", &Specimen::width, "Of an image's grid; 0: it serves sequences.")
      .def_ro("causal", &Specimen::causal, "Meant for keys up to the query only.")
      .def_ro("parameters", &Specimen::parameters, "How many numbers training learns.")
      .def_ro("held", &Specimen::held, "Numbers that stay in memory between calls.")
      .def_ro("by_index", &Specimen::by_index, "It does not look at positions: token indices stand for them.")
      .def(
          "inputs",
          [](const Specimen& self, Index count, Index first) {
            return array_of(self.inputs(self.tokens(count, first)));
          },
          nb::arg("count"), nb::arg("first") = 0,
          nb::sig("def inputs(self, count: int, first: int = 0) -> Float64Array"),
          "What is added to the input: [1, count, dim].")
      .def(
          "turn",
          [](const Specimen& self, nb::handle x, nb::handle side, Index first) {
            const inspect::Array rows = cube(x, {"turn", "x"});
            return array_of(self.turn(enum_of<Side>(side, {"turn", "side"}), self.tokens(rows.shape[1], first), rows));
          },
          nb::arg("x").none(), nb::arg("side") = "query", nb::arg("first") = 0,
          nb::sig("def turn(self, x: ArrayLike, side: Literal['query', 'key'] = 'query', first: int = 0) -> "
                  "Float64Array"),
          "x [heads, tokens, dim] as the encoding turns it: [heads, tokens, out_dim].")
      .def(
          "logits",
          [](const Specimen& self, nb::handle q, nb::handle k, Index q_first, Index k_first) {
            const inspect::Array queries = cube(q, {"logits", "q"}), keys = cube(k, {"logits", "k"});
            return array_of(self.logits(self.tokens(queries.shape[1], q_first), self.tokens(keys.shape[1], k_first),
                                        queries, keys));
          },
          nb::arg("q").none(), nb::arg("k").none(), nb::arg("q_first") = 0, nb::arg("k_first") = 0,
          nb::sig("def logits(self, q: ArrayLike, k: ArrayLike, q_first: int = 0, k_first: int = 0) -> "
                  "Float64Array"),
          "The logits of attention [heads, queries, keys], from q [heads, queries, dim] and k [heads, keys, dim].")
      .def(
          "mean_scores",
          [](const Specimen& self, Index draws, nb::handle contents, nb::handle keys) {
            const auto what = enum_of<inspect::Contents>(contents, {"mean_scores", "contents"});
            const auto where = enum_of<inspect::Keys>(keys, {"mean_scores", "keys"});
            return array_of(inspect::mean_scores(self, draws, what, where));
          },
          nb::arg("draws") = 1, nb::arg("contents") = "alike", nb::arg("keys") = "before",
          nb::sig("def mean_scores(self, draws: int = 1, contents: Literal['alike', 'independent'] = 'alike', "
                  "keys: Literal['before', 'after'] = 'before') -> Float64Array"),
          "What attention gives a key k tokens from the query, in column k, the mean over `draws` contents:\n"
          "[1, heads, length]. decay() says what such a curve does.");
}

void bind_measures(nb::module_& m) {
  using inspect::Similarity;
  record<Similarity>(m, "Similarity", "How alike two rows are.",
                     {{"dot", "float", [](const Similarity& s) { return real(s.dot); }, "x · y"},
                      {"cosine", "float", [](const Similarity& s) { return real(s.cosine); }, "x · y / (|x| |y|)"},
                      {"distance", "float", [](const Similarity& s) { return real(s.distance); }, "|x − y|"}});
  m.def(
      "similarity",
      [](nb::handle x, nb::handle y) {
        const Array xs = doubles(x, {"similarity", "x"}), ys = doubles(y, {"similarity", "y"});
        return inspect::similarity(xs.view<double, 1>(), ys.view<double, 1>());
      },
      nb::arg("x").none(), nb::arg("y").none(), nb::sig("def similarity(x: ArrayLike, y: ArrayLike) -> Similarity"),
      "How alike two rows [dim] are.");
  m.def(
      "products",
      [](nb::handle x, nb::handle y) {
        const Array xs = doubles(x, {"products", "x"}), ys = doubles(y, {"products", "y"});
        const auto a = matrix(xs), b = matrix(ys);
        const inspect::Array all = unlocked([&] { return inspect::products(a, b); });
        return numpy_array(all.values, {all.shape[1], all.shape[2]});
      },
      nb::arg("x").none(), nb::arg("y").none(), nb::sig("def products(x: ArrayLike, y: ArrayLike) -> Float64Array"),
      "x_i · y_j of every two rows, summed in one order: [rows of x, rows of y].");
  m.def(
      "rotation_similarity",
      [](nb::handle frequencies, Index length) {
        const RopeFrequencies of = frequencies_of(frequencies, {"rotation_similarity", "frequencies"});
        return array_of(unlocked([&] { return inspect::rotation_similarity(of, length); }));
      },
      nb::arg("frequencies").none(), nb::arg("length"),
      nb::sig("def rotation_similarity(frequencies: RopeFrequencies | RopeTable | Rope, length: int) -> "
              "Float64Array"),
      "a² Σ_i cos(kθ_i) for k = 0 … length − 1: what a rotary encoding leaves of the product of a query and a key "
      "that\n"
      "are alike, k tokens apart.");

  using inspect::Decay;
  record<Decay>(
      m, "Decay", "A curve over distance 0, 1, 2, …, and what its maxima do.",
      {{"curve", "Float64Array", [](const Decay& d) { return array_of(d.curve); }, "As given."},
       {"envelope", "Float64Array", [](const Decay& d) { return array_of(d.envelope); },
        "The maximum from here on: it never rises."},
       {"octaves", "Float64Array", [](const Decay& d) { return array_of(d.octaves); },
        "Maxima over distances [2^j, 2^(j+1))."},
       {"rises", "int", [](const Decay& d) { return number(d.rises); }, "Steps that rise."},
       {"negative", "int", [](const Decay& d) { return number(d.negative); }, "Distances with a negative value."},
       {"decays", "bool", [](const Decay& d) -> nb::object { return nb::bool_(d.decays); },
        "No octave reaches higher than the one before it, and the last lies below the first and curve[0]."}});
  m.def(
      "decay",
      [](nb::handle curve) {
        return inspect::decay(Member<std::vector<double>>::from(curve, {"decay", "curve"}));
      },
      nb::arg("curve").none(), nb::sig("def decay(curve: Sequence[float] | ArrayLike) -> Decay"),
      "What a curve over distance 0, 1, 2, … does.");

  using inspect::LinearMap;
  record<LinearMap>(
      m, "LinearMap", "A fitted linear map: y = x · map.",
      {{"map", "Float64Array",
        [](const LinearMap& l) {
          return numpy_array(l.map.values, {l.map.shape[1], l.map.shape[2]});
        },
        "[dim, dim]"},
       {"rank", "int", [](const LinearMap& l) { return number(l.rank); }, "Of the rows that it was fitted to."},
       {"fitted", "float", [](const LinearMap& l) { return real(l.fitted); }, "Largest error on those rows."},
       {"held_out", "float", [](const LinearMap& l) { return real(l.held_out); },
        "The same on rows that it has not seen; nan if there are none."}});
  m.def(
      "shift_map",
      [](nb::handle rows, Index offset) {
        const Array given = doubles(rows, {"shift_map", "rows"});
        const auto all = matrix(given);
        return unlocked([&] { return inspect::shift_map(all, offset); });
      },
      nb::arg("rows").none(), nb::arg("offset"), nb::sig("def shift_map(rows: ArrayLike, offset: int) -> LinearMap"),
      "The linear map that carries the row at p to the row at p + offset for all p at once, by least squares over\n"
      "even p, judged on the odd ones between them. rows [time, dim].");
  m.def(
      "pair_shift_map",
      [](double frequency, double offset) {
        const std::array<double, 4> map = inspect::pair_shift_map(frequency, offset);
        return numpy_array(map, {2, 2});
      },
      nb::arg("frequency"), nb::arg("offset"),
      nb::sig("def pair_shift_map(frequency: float, offset: float) -> Float64Array"),
      "The map of one pair in closed form: (sin, cos)(p + offset) = map · (sin, cos)(p), [2, 2].");

  using inspect::Run;
  record<Run>(m, "Run", "Neighbouring distances with the same value.",
              {{"first", "int", [](const Run& r) { return number(r.first); }, "The first distance."},
               {"last", "int", [](const Run& r) { return number(r.last); }, "The last one, included."},
               {"value", "float", [](const Run& r) { return real(r.value); }, "What they have."}});
  m.def(
      "runs",
      [](nb::handle values, Index first) {
        const auto all = Member<std::vector<double>>::from(values, {"runs", "values"});
        return list_of(inspect::runs({all.data(), {static_cast<Index>(all.size())}, {1}}, first));
      },
      nb::arg("values").none(), nb::arg("first") = 0,
      nb::sig("def runs(values: Sequence[float] | ArrayLike, first: int = 0) -> list[Run]"),
      "The bucket map of a bias that is given for distances first, first + 1, …: where it is constant.");
  m.def(
      "correlations",
      [](nb::handle words, nb::handle positions, nb::handle w_q, nb::handle w_k) {
        const char* function = "correlations";
        const Array w = doubles(words, {function, "words"}), p = doubles(positions, {function, "positions"});
        std::optional<Array> queries, keys;
        if (!w_q.is_none()) queries = doubles(w_q, {function, "w_q"});
        if (!w_k.is_none()) keys = doubles(w_k, {function, "w_k"});
        const auto w_view = matrix(w), p_view = matrix(p);
        const auto q_view = queries ? matrix(*queries) : View<const double, 2>{},
                   k_view = keys ? matrix(*keys) : View<const double, 2>{};
        const auto all = unlocked([&] { return inspect::correlations(w_view, p_view, q_view, k_view); });
        nb::dict parts;
        const auto put = [&](const char* name, const inspect::Array& part) {
          parts[name] = numpy_array(part.values, {part.shape[1], part.shape[2]});
        };
        put("word_word", all.word_word), put("word_position", all.word_position);
        put("position_word", all.position_word), put("position_position", all.position_position);
        return parts;
      },
      nb::arg("words").none(), nb::arg("positions").none(), nb::arg("w_q") = nb::none(), nb::arg("w_k") = nb::none(),
      nb::sig("def correlations(words: ArrayLike, positions: ArrayLike, w_q: ArrayLike | None = None, "
              "w_k: ArrayLike | None = None) -> dict[str, Float64Array]"),
      "The four parts of (w_i + p_i) W_q · (w_j + p_j) W_k (Ke, He, Liu 2021, arXiv 2006.15595, figure 2), [time, "
      "time]\n"
      "each. words, positions [time, dim]; w_q, w_k [dim, head_dim], None for the identity.");
}

void bind_rope_report(nb::module_& m) {
  constexpr const char* any = "frequencies: RopeFrequencies | RopeTable | Rope";
  static const std::string waves = std::string("def wavelengths(") + any + ") -> Float64Array",
                           runs = std::string("def pair_runs(") + any + ") -> list[PairRun]",
                           unfinished = std::string("def unfinished_pairs(") + any + ", length: int) -> list[int]";
  m.def(
      "wavelengths",
      [](nb::handle f) {
        return array_of(wavelengths(frequencies_of(f, {"wavelengths", "frequencies"})));
      },
      nb::arg("frequencies").none(), nb::sig(waves.c_str()),
      "2π/|θ|, the tokens that a pair takes for one turn: [pairs]. inf for a pair that does not turn.");
  record<PairRun>(m, "PairRun", "Neighbouring pairs that a scaling treats alike.",
                  {{"change", "str", [](const PairRun& r) { return Member<PairChange>::to(r.change); },
                    "'kept', 'blended' or 'scaled'."},
                   {"first", "int", [](const PairRun& r) { return number(r.first); }, "The first pair."},
                   {"last", "int", [](const PairRun& r) { return number(r.last); }, "The last one, included."}});
  m.def(
      "pair_runs",
      [](nb::handle f) {
        return list_of(pair_runs(frequencies_of(f, {"pair_runs", "frequencies"})));
      },
      nb::arg("frequencies").none(), nb::sig(runs.c_str()), "What the scaling does to which pairs.");
  m.def(
      "unfinished_pairs",
      [](nb::handle f, Index length) {
        return list_of(unfinished_pairs(frequencies_of(f, {"unfinished_pairs", "frequencies"}), length));
      },
      nb::arg("frequencies").none(), nb::arg("length"), nb::sig(unfinished.c_str()),
      "The pairs that turn, but less than once in `length` tokens.");
  record<AngleError>(m, "AngleError", "How far an angle is off, and where.",
                     {{"radians", "float", [](const AngleError& e) { return real(e.radians); }, "How far."},
                      {"pair", "int", [](const AngleError& e) { return number(e.pair); }, "In which pair."},
                      {"position", "int", [](const AngleError& e) { return number(e.position); }, "At which token."}});
  m.def("float32_angle_error", float32_angle_error, nb::arg("rope"), nb::arg("length"), nb::arg("seq_len") = 0,
        "The largest error of angles computed in float32, as Hugging Face's code does, in the last 4,096 positions\n"
        "below `length`.");
  m.def(
      "depends_on_length",
      [](nb::handle scaling) { return depends_on_length(scaling_of(scaling, "depends_on_length")); },
      nb::arg("scaling").none(), "Whether the frequencies depend on the sequence's length: dynamic NTK and LongRoPE.");
  m.def(
      "rope_warnings",
      [](const Rope& rope, Index trained, Index longest, Index seq_len) {
        nb::list all;
        for (const std::string& warning : rope_warnings(rope, {trained, longest, seq_len})) all.append(text(warning));
        return all;
      },
      nb::arg("rope"), nb::kw_only(), nb::arg("trained") = 0, nb::arg("longest") = 0, nb::arg("seq_len") = 0,
      nb::sig("def rope_warnings(rope: Rope, *, trained: int = 0, longest: int = 0, seq_len: int = 0) -> list[str]"),
      "Warnings about the numbers, one sentence each. Lengths in tokens; 0: not known.");
}

}  // namespace

void bind_inspect(nb::module_& m) {
  bind_catalog(m);
  bind_specimen(m);
  bind_measures(m);
  bind_rope_report(m);
}

}  // namespace bearing::python
