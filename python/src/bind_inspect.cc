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
#include "calls.hpp"
#include "doubles.hpp"
#include "records.hpp"
#include "rope_tables.hpp"
#include "subjects.hpp"
#include "words.hpp"

namespace bearing::python {

using inspect::SpecimenOptions;

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
  const auto* signature = new std::string(std::string("def ") + name + "(encoding: Any, *, " + sizes_sig + ") -> " +
                                          returns);  // kept as long as the module
  m.def(
      name,
      [name, f](nb::handle encoding, const nb::args& more, std::optional<Index> heads, std::optional<Index> dim,
                std::optional<Index> length, std::uint64_t seed) {
        if (more.size() > 0) {
          Argument{name, "encoding"}.fail(
              std::string("one encoding; [") + name + "(one) for one in encodings] asks several",
              std::to_string(1 + more.size()));
        }
        const inspect::Subject subject = subject_of(encoding, {name, "encoding"});
        const ExampleSizes sizes{heads, dim, length, seed};
        const Description& of = subject.description;
        return errors_as(std::string("[") + name + "]", "[make]", [&] {
          return f(of, sizes.over(measured_size(of, sizes.asked(), subject.sizes)), subject.name);
        });
      },
      nb::arg("encoding").none(), nb::arg("more"), nb::arg("heads") = nb::none(), nb::arg("dim") = nb::none(),
      nb::arg("length") = nb::none(), nb::arg("seed") = 1, nb::sig(signature->c_str()), doc);
}

void bind_catalog(nb::module_& m) {
  record<Description>(
      m, "CatalogEntry", "One encoding of the library.",
      {{"name", "str", [](const Description& e) { return text(e.name); },
        "The name that check() and other functions take."},
       {"title", "str", [](const Description& e) { return text(e.title); }, "The encoding's name in full."},
       {"authors", "str", [](const Description& e) { return text(e.paper.authors); }, "The authors of its paper."},
       {"year", "int", [](const Description& e) { return number(e.paper.year); }, "The year of its paper."},
       {"source", "str", [](const Description& e) { return text(e.paper.source); },
        "Where the paper is found: most often its arXiv number."},
       {"does", "str", [](const Description& e) { return text(e.does); }, "What it does, in a few words."}});
  m.def(
      "catalog", [] { return list_of(inspect::catalog()); }, nb::sig("def catalog() -> list[CatalogEntry]"),
      "Lists every encoding of the library, in the order of the sites: input, query and key, score, none.");

  using inspect::Property;
  record<Property>(m, "Property", "A property of an encoding, measured on an example.",
                   {{"name", "str", [](const Property& p) { return text(p.name); },
                     "The property's name: 'relative', 'decay', 'extensible', …"},
                    {"verdict", "str", [](const Property& p) { return verdict(p.verdict); },
                     "'yes', 'no', 'partly', 'learned' or 'n/a'."},
                    {"evidence", "str", [](const Property& p) { return text(p.evidence); },
                     "What was measured: one sentence with numbers."},
                    {"number", "float", [](const Property& p) { return real(p.number); },
                     "The number that decided the verdict; nan if none did."}});
  def_of_encoding(
      m, "check", "list[Property]",
      "Measures the properties of an encoding, each with its evidence.\n\n"
      "They are unique, relative, decay, extensible, deterministic, bounded, norm, symmetric, shift map, parameters "
      "and memory.\n\n"
      "    bearing.check('t5:buckets=64')       a name of catalog(), with members of its spec\n"
      "    bearing.check('@config.json#3')      layer 3 of a model's file, at the model's sizes\n"
      "    bearing.check(bearing.Rope(head_dim=128, pairing='half'))\n"
      "    bearing.check(bearing.load('model').inputs[0])  with the numbers that its weights hold\n"
      "    bearing.check(model.layers[0].bias)             a module of bearing.torch, with its parameters\n\n"
      "Of an encoding with its own numbers these are measured, and none is drawn: no verdict is 'learned', and the "
      "last "
      "two\nproperties say where the numbers end.\n\n"
      "encoding: text as encoding() takes it, a spec, a table, an encoding with its numbers, or a module of "
      "bearing.torch, whose\nparameters are measured as they are now. Of a module that computes some of them for each "
      "call, give what its encoding(…)\nreturns. A Model or a config of transformers will do if all of its layers have "
      "one encoding.\n"
      "heads: how many heads the example has; if not given, as many as the spec or the model's file says, else 8.\n"
      "dim: how many dimensions a head of it has, likewise, else 64.\n"
      "length: how many tokens it has, likewise, else 512. For a model's file sizes are reduced to what can be "
      "measured.\n"
      "Numbers that belong to tokens, such as a learned table's, are measured up to their last one. "
      "Patches of an image fill a grid: the spec's own, else the largest square of at most so many; compare() says how "
      "many\nthey are.\n"
      "seed: draws the numbers that a model would learn.\n\n"
      "Raises ShapeError or RangeError for sizes that the encoding cannot have, and TypeError for something that is "
      "not an encoding.",
      [](const Description& entry, const SpecimenOptions& size, const std::string&) {
        return list_of(unlocked([&] { return inspect::check(entry, size); }));
      });

  using inspect::Comparison;
  record<Comparison>(
      m, "Comparison", "A row of the table that compares encodings.",
      {{"name", "str", [](const Comparison& c) { return text(c.name); }, "The encoding's name."},
       {"sites", "str", [](const Comparison& c) { return text(c.sites); }, "The sites that it acts on."},
       {"learnable", "bool", [](const Comparison& c) -> nb::object { return nb::bool_(c.learnable); },
        "Whether training learns anything."},
       {"extensible", "str", [](const Comparison& c) { return verdict(c.extensible); },
        "Whether it serves positions past the trained length."},
       {"relative", "str", [](const Comparison& c) { return verdict(c.relative); },
        "Whether logits depend on the distance alone."},
       {"decay", "str", [](const Comparison& c) { return verdict(c.decay); }, "Whether scores fall with the distance."},
       {"past_length", "str", [](const Comparison& c) { return text(c.past_length); },
        "What positions past the length give: 'error', 'clamped', 'seen values' or 'unseen values'."},
       {"memory", "str", [](const Comparison& c) { return text(c.memory); },
        "How the numbers that it holds grow with the length: 'O(L)', …; of its own numbers, where they end: 'ends at "
        "512'."},
       {"length", "int", [](const Comparison& c) { return number(c.length); },
        "How many tokens were measured: of an image whole rows of its grid."},
       {"parameters", "int", [](const Comparison& c) { return number(c.parameters); },
        "How many numbers training learns."},
       {"own_numbers", "bool", [](const Comparison& c) -> nb::object { return nb::bool_(c.own_numbers); },
        "Whether numbers that were given were measured, such as a trained model's, and none was drawn."}});
  def_of_encoding(m, "compare", "Comparison",
                  "Measures what the table that compares encodings says of one: its row. Arguments and errors are "
                  "those of check().",
                  [](const Description& entry, const SpecimenOptions& size, const std::string& shown) {
                    Comparison row = unlocked([&] { return inspect::compare(entry, size); });
                    row.name = shown;
                    return row;
                  });

  using inspect::Claim;
  record<Claim>(
      m, "Claim", "A statement that is often made about an encoding, and what was measured.",
      {{"encoding", "str", [](const Claim& c) { return text(c.encoding); }, "The encoding's name."},
       {"says", "str", [](const Claim& c) { return text(c.says); }, "The statement."},
       {"holds", "str", [](const Claim& c) { return verdict(c.holds); },
        "Whether the statement holds: a verdict as in Property."},
       {"measured", "str", [](const Claim& c) { return text(c.measured); }, "What was measured."},
       {"number", "float", [](const Claim& c) { return real(c.number); }, "The number that decided the verdict."},
       {"picture", "dict[str, Any] | None", [](const Claim& c) { return picture_object(c.picture); },
        "The kind, encodings and options of figure() for a picture that shows it, or None."},
       {"trained", "str | None",
        [](const Claim& c) { return c.trained.empty() ? nb::object(nb::none()) : text(c.trained); },
        "What trained models did, with the page that says how, or None if none was asked."}});
  m.def(
      "claims", [] { return list_of(unlocked([] { return inspect::claims(); })); },
      nb::sig("def claims() -> list[Claim]"),
      "Measures the statements that are often made about encodings. It takes some seconds.");
}

void bind_specimen(nb::module_& m) {
  using inspect::Specimen;
  using inspect::Tokens;
  const auto* signature = new std::string(std::string("def __init__(self, encoding: Any, *, ") + sizes_sig +
                                          ") -> None");  // kept as long as the module
  nb::class_<Specimen>(m, "Specimen",
                       "An example of an encoding, with one interface for all encodings, in float64.\n\n"
                       "Arguments and errors are those of check(). Tokens are consecutive, from `first` on: 0, 1, 2, … "
                       "of a sequence, or the\n"
                       "patches of an image, row by row.")
      .def(
          "__init__",
          [](Specimen* self, nb::handle encoding, std::optional<Index> heads, std::optional<Index> dim,
             std::optional<Index> length, std::uint64_t seed) {
            const inspect::Subject subject = subject_of(encoding, {"Specimen", "encoding"});
            const ExampleSizes sizes{heads, dim, length, seed};
            errors_as("[Specimen]", "[make]", [&] {
              new (self)
                  Specimen(inspect::make(subject.description, sizes.over(example_size(sizes.asked(), subject.sizes))));
            });
          },
          nb::arg("encoding").none(), nb::kw_only(), nb::arg("heads") = nb::none(), nb::arg("dim") = nb::none(),
          nb::arg("length") = nb::none(), nb::arg("seed") = 1, nb::sig(signature->c_str()))
      .def("__repr__",
           [](const Specimen& s) {
             std::string text = "Specimen(sites='" + inspect::sites(s) +
                                "', parameters=" + std::to_string(s.parameters) + ", held=" + std::to_string(s.held);
             if (s.grid.height > 0) {
               text += ", height=" + std::to_string(s.grid.height) + ", width=" + std::to_string(s.grid.width);
             }
             if (s.causal) text += ", causal=True";
             if (s.by_index) text += ", by_index=True";
             return text + ")";
           })
      .def_prop_ro("sites", &inspect::sites, "'input', 'query/key', 'score', 'score, value' or 'none'.")
      .def_prop_ro(
          "height", [](const Specimen& s) { return s.grid.height; },
          "The height of the image's grid in patches; 0 for an encoding of sequences.")
      .def_prop_ro(
          "width", [](const Specimen& s) { return s.grid.width; },
          "The width of the image's grid in patches; 0 for an encoding of sequences.")
      .def_ro("causal", &Specimen::causal, "Whether it is meant only for keys up to the query.")
      .def_ro("parameters", &Specimen::parameters, "How many numbers training learns.")
      .def_ro("held", &Specimen::held, "How many numbers stay in memory between calls.")
      .def_ro("by_index", &Specimen::by_index, "Whether it goes by the tokens' indices and not by their positions.")
      .def_ro("own_numbers", &Specimen::own_numbers,
              "Whether its numbers are those that were given, such as a trained model's, and none is drawn.")
      .def_ro("own_tokens", &Specimen::own_tokens,
              "How many tokens, from 0 on, have such numbers; 0 if no end was found.")
      .def(
          "inputs",
          [](const Specimen& self, Index count, Index first) {
            return array_of(self.inputs(self.tokens(count, first)));
          },
          nb::arg("count"), nb::arg("first") = 0,
          nb::sig("def inputs(self, count: int, first: int = 0) -> Float64Array"),
          "Returns what is added to the input: [1, count, dim].")
      .def(
          "turn",
          [](const Specimen& self, nb::handle x, nb::handle side, Index first) {
            const inspect::Array rows = cube(x, {"turn", "x"});
            return array_of(self.turn(enum_of<Side>(side, {"turn", "side"}), self.tokens(rows.shape[1], first), rows));
          },
          nb::arg("x").none(), nb::arg("side") = "query", nb::arg("first") = 0,
          nb::sig("def turn(self, x: ArrayLike, side: Literal['query', 'key'] = 'query', first: int = 0) -> "
                  "Float64Array"),
          "Returns x [heads, tokens, dim] as the encoding turns it: [heads, tokens, out_dim].")
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
          "Returns the logits of attention [heads, queries, keys], from q [heads, queries, dim] and k [heads, keys, "
          "dim].")
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
          "Returns the mean score of a key k tokens from the query, in column k: [1, heads, length].\n\n"
          "draws: how many contents the mean is taken over.\n"
          "contents: 'alike' if query and key have the same content, 'independent' if theirs are drawn apart.\n"
          "keys: 'before' or 'after' the query.\n\n"
          "decay() describes such a curve. Raises RangeError for draws below 1.");
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
      "Measures how alike two rows [dim] are. Raises ShapeError unless they are of one length.");
  m.def(
      "products",
      [](nb::handle x, nb::handle y) {
        const Array xs = doubles(x, {"products", "x"}), ys = doubles(y, {"products", "y"});
        const auto a = matrix(xs), b = matrix(ys);
        const inspect::Array all = unlocked([&] { return inspect::products(a, b); });
        return numpy_array(all.values, {all.shape[1], all.shape[2]});
      },
      nb::arg("x").none(), nb::arg("y").none(), nb::sig("def products(x: ArrayLike, y: ArrayLike) -> Float64Array"),
      "Returns x_i · y_j of every two rows: [rows of x, rows of y]. Raises ShapeError unless rows are of one length.");
  m.def(
      "rotation_similarity",
      [](nb::handle frequencies, Index length) {
        const RopeFrequencies of = frequencies_of(frequencies, {"rotation_similarity", "frequencies"});
        return array_of(unlocked([&] { return inspect::rotation_similarity(of, length); }));
      },
      nb::arg("frequencies").none(), nb::arg("length"),
      nb::sig("def rotation_similarity(frequencies: RopeFrequencies | RopeTable | Rope, length: int) -> "
              "Float64Array"),
      "Returns a² Σ_i cos(kθ_i) for k = 0 … length − 1.\n\n"
      "This is the product of a query and an equal key k tokens away under a rotary encoding, if all pairs have norm "
      "1.");

  using inspect::Decay;
  record<Decay>(
      m, "Decay", "A curve over distances 0, 1, 2, …, and how its maxima fall.",
      {{"curve", "Float64Array", [](const Decay& d) { return array_of(d.curve); }, "The curve as it was given."},
       {"envelope", "Float64Array", [](const Decay& d) { return array_of(d.envelope); },
        "At each distance the maximum of the curve from there on. It never rises."},
       {"octaves", "Float64Array", [](const Decay& d) { return array_of(d.octaves); },
        "The maxima over distances [2^j, 2^(j+1))."},
       {"rises", "int", [](const Decay& d) { return number(d.rises); }, "How many steps of the curve rise."},
       {"negative", "int", [](const Decay& d) { return number(d.negative); },
        "How many distances have a negative value."},
       {"decays", "bool", [](const Decay& d) -> nb::object { return nb::bool_(d.decays); },
        "Whether it decays: no octave's maximum is above the one before it, and the last is below the first and "
        "curve[0]."}});
  m.def(
      "decay",
      [](nb::handle curve) {
        return inspect::decay(Member<std::vector<double>>::from(curve, {"decay", "curve"}));
      },
      nb::arg("curve").none(), nb::sig("def decay(curve: Sequence[float] | ArrayLike) -> Decay"),
      "Describes how a curve over distances 0, 1, 2, … falls. Raises RangeError for a curve with NaN.");

  using inspect::LinearMap;
  record<LinearMap>(
      m, "LinearMap", "A fitted linear map: y = x · map.",
      {{"map", "Float64Array",
        [](const LinearMap& l) {
          return numpy_array(l.map.values, {l.map.shape[1], l.map.shape[2]});
        },
        "[dim, dim]: the matrix."},
       {"rank", "int", [](const LinearMap& l) { return number(l.rank); },
        "The rank of the rows that it was fitted to."},
       {"fitted", "float", [](const LinearMap& l) { return real(l.fitted); }, "The largest error on those rows."},
       {"held_out", "float", [](const LinearMap& l) { return real(l.held_out); },
        "The largest error on rows that it was not fitted to; nan if there are none."}});
  m.def(
      "shift_map",
      [](nb::handle rows, Index offset) {
        const Array given = doubles(rows, {"shift_map", "rows"});
        const auto all = matrix(given);
        return unlocked([&] { return inspect::shift_map(all, offset); });
      },
      nb::arg("rows").none(), nb::arg("offset"), nb::sig("def shift_map(rows: ArrayLike, offset: int) -> LinearMap"),
      "Fits the linear map from the row at p to the row at p + offset, one map for all p.\n\n"
      "It is fitted to even p by least squares and tried on odd p. Only a small held_out error shows that there is "
      "such a map.\n\n"
      "rows [time, dim]: row p belongs to position p.\n"
      "offset: how many positions the map moves.\n\n"
      "Raises ShapeError unless 0 <= offset < time.");
  m.def(
      "pair_shift_map",
      [](double frequency, double offset) {
        const std::array<double, 4> map = inspect::pair_shift_map(frequency, offset);
        return numpy_array(map, {2, 2});
      },
      nb::arg("frequency"), nb::arg("offset"),
      nb::sig("def pair_shift_map(frequency: float, offset: float) -> Float64Array"),
      "Returns the map of one pair in closed form [2, 2]: (sin, cos)(p + offset) = map · (sin, cos)(p).");

  using inspect::Run;
  record<Run>(m, "Run", "Neighbouring distances with the same value.",
              {{"first", "int", [](const Run& r) { return number(r.first); }, "The first distance."},
               {"last", "int", [](const Run& r) { return number(r.last); }, "The last one; it belongs to the run."},
               {"value", "float", [](const Run& r) { return real(r.value); }, "Their value."}});
  m.def(
      "runs",
      [](nb::handle values, Index first) {
        const auto all = Member<std::vector<double>>::from(values, {"runs", "values"});
        return list_of(inspect::runs({all.data(), {static_cast<Index>(all.size())}, {1}}, first));
      },
      nb::arg("values").none(), nb::arg("first") = 0,
      nb::sig("def runs(values: Sequence[float] | ArrayLike, first: int = 0) -> list[Run]"),
      "Finds the runs of equal values in a bias: its bucket map. values are those at distances first, first + 1, ….");
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
      "Returns the four parts of (w_i + p_i) W_q · (w_j + p_j) W_k, [time, time] each, by name.\n\n"
      "words [time, dim]: w.\n"
      "positions [time, dim]: p.\n"
      "w_q [dim, head_dim]: W_q; None for the identity.\n"
      "w_k [dim, head_dim]: W_k; None for the identity.\n\n"
      "Raises ShapeError for shapes that do not fit each other. Ke, He, Liu 2021, arXiv 2006.15595, figure 2.");
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
      "Returns the wavelengths [pairs], 2π/|θ|: how many tokens a pair takes for one turn; inf for a pair that does "
      "not turn.");
  record<PairRun>(
      m, "PairRun", "Neighbouring pairs that a scaling treats alike.",
      {{"change", "str", [](const PairRun& r) { return Member<PairChange>::to(r.change); },
        "What the scaling does to them: 'kept', 'blended' or 'scaled'."},
       {"first", "int", [](const PairRun& r) { return number(r.first); }, "The first pair."},
       {"last", "int", [](const PairRun& r) { return number(r.last); }, "The last one; it belongs to the run."}});
  m.def(
      "pair_runs",
      [](nb::handle f) {
        return list_of(pair_runs(frequencies_of(f, {"pair_runs", "frequencies"})));
      },
      nb::arg("frequencies").none(), nb::sig(runs.c_str()),
      "Lists runs of neighbouring pairs that the scaling treats alike.");
  m.def(
      "unfinished_pairs",
      [](nb::handle f, Index length) {
        return list_of(unfinished_pairs(frequencies_of(f, {"unfinished_pairs", "frequencies"}), length));
      },
      nb::arg("frequencies").none(), nb::arg("length"), nb::sig(unfinished.c_str()),
      "Lists the pairs that turn, but less than once in `length` tokens.");
  record<AngleError>(
      m, "AngleError", "The error of an angle, and where it occurs.",
      {{"radians", "float", [](const AngleError& e) { return real(e.radians); }, "The error in radians."},
       {"pair", "int", [](const AngleError& e) { return number(e.pair); }, "The pair in which it occurs."},
       {"position", "int", [](const AngleError& e) { return number(e.position); },
        "The position at which it occurs."}});
  m.def("float32_angle_error", float32_angle_error, nb::arg("rope"), nb::arg("length"), nb::arg("seq_len") = 0,
        "Returns the largest error of angles that are computed in float32, as Hugging Face's code computes them.\n\n"
        "It looks at all pairs and at the last 4,096 positions below `length`. Raises as resolve(), and RangeError for "
        "a length\n"
        "below 1.");
  m.def(
      "depends_on_length",
      [](nb::handle scaling) { return depends_on_length(scaling_of(scaling, "depends_on_length")); },
      nb::arg("scaling").none(), nb::sig("def depends_on_length(scaling: Spec) -> bool"),
      "Says whether the frequencies depend on the sequence's length: those of dynamic NTK and LongRoPE do.");
  m.def(
      "rope_warnings",
      [](const Rope& rope, Index trained, Index longest, Index seq_len) {
        nb::list all;
        for (const std::string& warning : rope_warnings(rope, {trained, longest, seq_len})) all.append(text(warning));
        return all;
      },
      nb::arg("rope"), nb::kw_only(), nb::arg("trained") = 0, nb::arg("longest") = 0, nb::arg("seq_len") = 0,
      nb::sig("def rope_warnings(rope: Rope, *, trained: int = 0, longest: int = 0, seq_len: int = 0) -> list[str]"),
      "Returns warnings about a rotary encoding's numbers, one sentence each.\n\n"
      "trained: how many tokens the model was trained for; 0 if not known.\n"
      "longest: how many tokens it is to serve; 0 if not known.\n"
      "seq_len: how many tokens the frequencies serve; 0 if not known.");
}

}  // namespace

void bind_inspect(nb::module_& m) {
  bind_catalog(m);
  bind_specimen(m);
  bind_measures(m);
  bind_rope_report(m);
}

}  // namespace bearing::python
