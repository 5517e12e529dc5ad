// Pictures as data: what bearing._figures makes its objects of.

#include <bearing/error.hpp>
#include <bearing/figure_file.hpp>
#include <bearing/figures.hpp>
#include <bearing/io.hpp>
#include <bearing/say.hpp>

#include "bind.hpp"
#include "classes.hpp"
#include "config_given.hpp"
#include "doubles.hpp"
#include "members.hpp"
#include "specs.hpp"
#include "subjects.hpp"
#include "values.hpp"

namespace bearing::python {

using inspect::ColourMap;
using inspect::Scale;
using inspect::Stroke;

template <>
struct Words<Scale> {
  static constexpr std::array<Word<Scale>, 3> words{
      {{Scale::linear, "linear"}, {Scale::log2, "log2"}, {Scale::log10, "log10"}}};
};
template <>
struct Words<Stroke> {
  static constexpr std::array<Word<Stroke>, 5> words{{{Stroke::line, "line"},
                                                      {Stroke::dots, "dots"},
                                                      {Stroke::steps, "steps"},
                                                      {Stroke::bars, "bars"},
                                                      {Stroke::hands, "hands"}}};
};
template <>
struct Words<ColourMap> {
  static constexpr std::array<Word<ColourMap>, 3> words{{{ColourMap::sequential, "sequential"},
                                                         {ColourMap::diverging, "diverging"},
                                                         {ColourMap::categories, "categories"}}};
};

namespace {

// A struct becomes the dictionary of its members, which the dataclass of the same name is made of.

nb::object object_of(bool value) { return nb::bool_(value); }
nb::object object_of(int value) { return nb::int_(value); }
nb::object object_of(Index value) { return nb::int_(value); }
nb::object object_of(double value) { return nb::float_(value); }
nb::object object_of(const std::string& value) { return nb::str(value.c_str(), value.size()); }
nb::object object_of(const std::vector<double>& values) {
  return numpy_array(values, {static_cast<Index>(values.size())});
}
template <Worded E>
nb::object object_of(E value) {
  return Member<E>::to(value);
}

nb::object object_of(const inspect::Tick& tick);
nb::object object_of(const inspect::Axis& axis);
nb::object object_of(const inspect::Series& series);
nb::object object_of(const inspect::Band& band);
nb::object object_of(const inspect::Cells& cells);
nb::object object_of(const inspect::Guide& guide);
nb::object object_of(const inspect::Note& note);
nb::object object_of(const inspect::Panel& panel);
nb::object object_of(const inspect::FigureKind& kind);
nb::object object_of(const inspect::DocumentFigure& figure);

template <class T>
nb::object object_of(const std::optional<T>& value) {
  return value ? object_of(*value) : nb::none();
}
template <class T>
nb::object object_of(const std::vector<T>& all) {
  nb::list list;
  for (const T& one : all) list.append(object_of(one));
  return nb::tuple(list);
}

/// The object of a class of bearing._figures, from its members by name.
class Members {
 public:
  explicit Members(const char* type) : type_(type) {}
  template <class T>
  Members& with(const char* name, const T& value) {
    all_[name] = object_of(value);
    return *this;
  }
  Members& with_object(const char* name, nb::object value) {
    all_[name] = std::move(value);
    return *this;
  }
  nb::object made() const { return nb::module_::import_("bearing._figures").attr(type_)(**all_); }

 private:
  const char* type_;
  nb::dict all_;
};

nb::object object_of(const inspect::Tick& tick) {
  return Members("Tick").with("at", tick.at).with("text", tick.text).made();
}

nb::object object_of(const inspect::Axis& axis) {
  return Members("Axis")
      .with("title", axis.title)
      .with("first", axis.first)
      .with("last", axis.last)
      .with("scale", axis.scale)
      .with("ticks", axis.ticks)
      .made();
}

nb::object object_of(const inspect::Series& series) {
  return Members("Series")
      .with("label", series.label)
      .with("x", series.x)
      .with("y", series.y)
      .with("stroke", series.stroke)
      .with("colour", series.colour)
      .with("shade", series.shade)
      .with("faint", series.faint)
      .made();
}

nb::object object_of(const inspect::Band& band) {
  return Members("Band")
      .with("label", band.label)
      .with("x", band.x)
      .with("low", band.low)
      .with("high", band.high)
      .with("colour", band.colour)
      .made();
}

nb::object object_of(const inspect::Cells& cells) {
  return Members("Cells")
      .with_object("values", numpy_array(cells.values, {cells.rows, cells.cols}))
      .with("x_first", cells.x_first)
      .with("x_step", cells.x_step)
      .with("y_first", cells.y_first)
      .with("y_step", cells.y_step)
      .with("map", cells.map)
      .with("low", cells.low)
      .with("high", cells.high)
      .with("title", cells.title)
      .with("categories", cells.categories)
      .made();
}

nb::object object_of(const inspect::Guide& guide) {
  return Members("Guide").with("upright", guide.upright).with("at", guide.at).with("text", guide.text).made();
}

nb::object object_of(const inspect::Note& note) {
  return Members("Note").with("x", note.x).with("y", note.y).with("text", note.text).made();
}

nb::object object_of(const inspect::Panel& panel) {
  return Members("Panel")
      .with("title", panel.title)
      .with("x", panel.x)
      .with("y", panel.y)
      .with("round", panel.round)
      .with("cells", panel.cells)
      .with("bands", panel.bands)
      .with("guides", panel.guides)
      .with("series", panel.series)
      .with("notes", panel.notes)
      .made();
}

nb::object object_of(const inspect::Figure& figure) {
  return Members("Figure")
      .with("kind", figure.kind)
      .with("title", figure.title)
      .with("text", figure.text)
      .with("panels", figure.panels)
      .with("columns", figure.columns)
      .made();
}

nb::object object_of(const inspect::FigureKind& kind) {
  return Members("FigureKind")
      .with("name", kind.name)
      .with("shows", kind.shows)
      .with("fewest", kind.fewest)
      .with("most", kind.most)
      .with("takes", kind.takes)
      .made();
}

// Options.

/// [1, rows, cols] of a matrix.
inspect::Array matrix_of(nb::handle from, const Argument& argument) {
  const Array given = doubles(from, argument);
  const View<const double, 2> view = given.view<double, 2>();
  inspect::Array all(1, view.shape[0], view.shape[1]);
  for (Index i = 0; i < view.shape[0]; ++i) {
    for (Index j = 0; j < view.shape[1]; ++j) all(0, i, j) = view(i, j);
  }
  return all;
}

inspect::FigureOptions options_of(const nb::dict& given) {
  inspect::FigureOptions options;
  const auto take = [&]<class T>(const char* name, T& to) {
    if (given.contains(name)) to = Member<T>::from(given[name], {"figure", name});
  };
  const auto take_optional = [&]<class T>(const char* name, std::optional<T>& to) {
    if (given.contains(name)) take(name, to.emplace());
  };
  take("heads", options.heads), take("dim", options.dim), take("length", options.length), take("seed", options.seed);
  if (given.contains("what") && !nb::try_cast(given["what"], options.what)) {
    Place{"figure", "what"}.fail("str", given["what"]);
  }
  take("positions", options.positions), take("dims", options.dims);
  take_optional("head", options.head), take_optional("offset", options.offset), take_optional("causal", options.causal);
  take("window", options.window), take("sinks", options.sinks), take("packed", options.packed);
  const auto take_matrix = [&](const char* name, std::optional<inspect::Array>& to) {
    if (given.contains(name)) to = matrix_of(given[name], {"figure", name});
  };
  take_matrix("words", options.words), take_matrix("w_q", options.w_q), take_matrix("w_k", options.w_k);
  return options;
}

nb::dict dict_of(const inspect::FigureOptions& options) {
  nb::dict all;
  const auto add = [&]<class T>(const char* name, const T& value, const T& otherwise) {
    if (value != otherwise) all[name] = object_of(value);
  };
  const inspect::FigureOptions plain;
  add("heads", options.heads, plain.heads), add("dim", options.dim, plain.dim);
  add("length", options.length, plain.length), add("what", options.what, plain.what);
  if (options.seed != plain.seed) all["seed"] = nb::int_(options.seed);
  add("positions", options.positions, plain.positions), add("dims", options.dims, plain.dims);
  add("head", options.head, plain.head), add("offset", options.offset, plain.offset);
  add("causal", options.causal, plain.causal), add("window", options.window, plain.window);
  add("sinks", options.sinks, plain.sinks), add("packed", options.packed, plain.packed);
  return all;
}

nb::object object_of(const inspect::DocumentFigure& figure) {
  return Members("DocumentFigure")
      .with("document", figure.document)
      .with("name", figure.name)
      .with("says", figure.says)
      .with("kind", figure.kind)
      .with("encodings", figure.encodings)
      .with_object("options", dict_of(figure.options))
      .made();
}

}  // namespace

nb::object picture_object(const inspect::Picture& picture) {
  if (picture.kind.empty()) return nb::none();
  nb::dict all;
  all["kind"] = object_of(picture.kind), all["encodings"] = object_of(picture.encodings);
  all["options"] = dict_of(picture.options);
  return all;
}

namespace {

nb::object figure(nb::handle called, const nb::list& encodings, const nb::dict& given, nb::handle threads) {
  std::string kind;
  if (!nb::try_cast(called, kind)) Place{"figure", "kind"}.fail("str", called);
  std::vector<inspect::Subject> subjects;
  for (const nb::handle one : encodings) {
    for (inspect::Subject& subject : subjects_of(one, {"figure", "encodings"})) subjects.push_back(std::move(subject));
  }
  inspect::FigureOptions options = options_of(given);
  options.on = executor_of(Member<Index>::from(threads, {"figure", "threads"}), "figure");
  inspect::Figure made;
  {
    const Unlocked released;
    made = inspect::figure(kind, subjects, options);
  }
  return object_of(made);
}

// Colours: red, green and blue, 0 … 1, one row for each.

nb::object rows_of(const std::vector<inspect::Colour>& colours) {
  std::vector<double> all;
  for (const inspect::Colour& colour : colours) {
    for (const int part : {colour.red, colour.green, colour.blue}) all.push_back(part / 255.0);
  }
  return numpy_array(all, {static_cast<Index>(colours.size()), 3});
}

template <class Colours>
nb::object colours(nb::handle at, const char* function, const Colours& colour_at) {
  std::vector<inspect::Colour> all;
  for (const double x : Member<std::vector<double>>::from(at, {function, "x"})) all.push_back(colour_at(x));
  return rows_of(all);
}

/// The entry of the catalog that a spec is an encoding of, or None.
nb::object entry(nb::handle spec) {
  const Record* record = record_of(spec);
  const Description* found = record == nullptr ? nullptr : description_of(*record);
  return found == nullptr ? nb::none() : nb::cast(*found);
}

/// What notebooks show of a class: HTML that a function of bearing._html makes.
void def_html(const nb::module_& m, const char* type, const char* function) {
  def_method(
      m.attr(type), "_repr_html_",
      [function](nb::handle self) { return nb::module_::import_("bearing._html").attr(function)(self); },
      nb::sig("def _repr_html_(self) -> str"));
}

}  // namespace

void bind_figures(nb::module_& m) {
  m.def("_entry", entry, nb::arg("spec").none(), "The entry of the catalog that a spec is an encoding of, or None.");
  def_html(m, "Spec", "spec"), def_html(m, "RopeTable", "rope_table"), def_html(m, "Encoding", "encoding");
  def_html(m, "Model", "model");
  m.def("_figure", figure, nb::arg("kind").none(), nb::arg("encodings"), nb::arg("options"), nb::arg("threads").none(),
        "The Figure of encodings, given as figure() takes them.");
  m.def(
      "_read_figure", [](nb::handle path) { return object_of(inspect::read_figure(path_of(path))); }, nb::arg("path"),
      "The Figure in a file of JSON.");
  m.def(
      "_parse_figure", [](const std::string& json) { return object_of(inspect::parse_figure(json)); }, nb::arg("json"),
      "The Figure in a text of JSON.");
  m.def(
      "_figure_kinds", [] { return object_of(inspect::figure_kinds()); }, "FigureKinds.");
  m.def(
      "_document_figures", [] { return object_of(inspect::document_figures()); }, "DocumentFigures.");
  m.def(
      "palette", [] { return rows_of(inspect::palette()); }, nb::sig("def palette() -> Float64Array"),
      "Returns colours [colours, 3] that colour-blind eyes can tell apart and that are seen on white and on black.\n\n"
      "Each is red, green and blue in 0 ... 1.");
  const auto def = [&](const char* name, inspect::Colour (*colour_at)(double), const char* doc) {
    m.def(
        name, [name, colour_at](nb::handle x) { return colours(x, name, colour_at); }, nb::arg("x").none(),
        nb::sig(kept(std::string("def ") + name + "(x: Sequence[float] | ArrayLike) -> Float64Array")), doc);
  };
  def("sequential_colour", inspect::sequential_colour,
      "Returns the colours [numbers, 3] of numbers in 0 ... 1.\n\n"
      "The lightness rises evenly, so that the order is seen in grey too.");
  def("diverging_colour", inspect::diverging_colour,
      "Returns the colours [numbers, 3] of numbers in 0 ... 1, from blue through grey, at 1/2, to yellow.");
  def("family_colour", inspect::family_colour,
      "Returns the colours [numbers, 3] of the members of an ordered family, 0 ... 1.\n\n"
      "They are those sequential colours that are seen on white and on black.");
}

}  // namespace bearing::python
