// What the library describes: specs, encodings and functions, and what bearing.torch and bearing.jax ask of encodings.

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <bearing/catalog.hpp>
#include <cstdlib>
#include <functional>
#include <type_traits>

#include "bind.hpp"
#include "encodings.hpp"
#include "functions.hpp"
#include "specs.hpp"
#include "values.hpp"

namespace bearing::python {

namespace {

const EncodingInfo& info_of(const std::string& kind) {
  if (const EncodingInfo* found = registry().encoding(kind)) return *found;
  throw nb::value_error(("[bearing] kind: must be an encoding, got " + kind).c_str());
}

const ParameterInfo& parameter_of(const EncodingInfo& info, const std::string& name) {
  for (const ParameterInfo& one : info.parameters) {
    if (one.name == name) return one;
  }
  throw nb::value_error(("[" + info.name + "] has no parameter " + name).c_str());
}

Record record_or_none(nb::handle spec) {
  const Record* record = record_of(spec);
  return record == nullptr ? Record() : *record;
}

Sizes sizes_of(const nb::dict& given) {
  Sizes sizes;
  const auto take = [&](const char* name, Index& size) {
    if (given.contains(name)) size = nb::cast<Index>(given[name]);
  };
  take("batch", sizes.batch), take("heads", sizes.heads), take("kv_heads", sizes.kv_heads);
  take("q_len", sizes.q_len), take("k_len", sizes.k_len), take("length", sizes.length);
  take("dim", sizes.dim), take("value_dim", sizes.value_dim);
  return sizes;
}

/// A spec of some model: extents that it tells are not asked of anybody.
Record some_spec(const EncodingInfo& info) {
  if (info.specs.empty() || info.spec_optional) return {};
  for (const Description& one : registry().descriptions()) {
    if (one.encoding == &info && one.spec) return one.spec({.heads = 4, .dim = 8, .length = 16});
  }
  return info.specs[0]->make();
}

/// Whether a caller must say an extent, or may, or the spec tells it.
const char* asked_of(const EncodingInfo& of, const Extent& extent, const Record& spec) {
  if (extent.size(spec, {}) != Extent::any) return "told";
  const bool may_be_told = of.spec_optional && extent.size(of.specs[0]->make(), {}) != Extent::any;
  return may_be_told || extent.or_one || extent.usual ? "may" : "must";
}

nb::dict traits_of(const EncodingInfo& encoding, const ParameterInfo& info, const Record& spec) {
  nb::list extents, or_one, asked;
  for (const Extent& extent : info.extents) {
    extents.append(extent.name), or_one.append(extent.or_one), asked.append(asked_of(encoding, extent, spec));
  }
  nb::dict of;
  of["extents"] = nb::tuple(extents), of["or_one"] = nb::tuple(or_one), of["asked"] = nb::tuple(asked);
  of["optional"] = info.optional, of["learned"] = info.learned, of["indices"] = info.indices;
  of["beside_spec"] = info.beside_spec, of["picked"] = info.picked, of["text"] = info.text;
  of["start"] = nb::make_tuple(info.start.text, info.start.number, info.start.otherwise);
  return of;
}

constexpr const char* form_word(Form form) {
  constexpr std::array words = {"none",      "distance",  "grid",        "rows_by_index",
                                "positions", "per_query", "running_sum", "dense"};
  return words[static_cast<std::size_t>(form)];
}

nb::dict traits(const std::string& kind) {
  const EncodingInfo& info = info_of(kind);
  nb::dict all, parameters;
  const Record spec = some_spec(info);
  for (const ParameterInfo& one : info.parameters) parameters[one.name.c_str()] = traits_of(info, one, spec);
  nb::list specs, settings;
  for (const RecordType* one : info.specs) specs.append(one->name);
  if (info.settings != nullptr) {
    for (const MemberInfo& one : info.settings->members) {
      settings.append(
          nb::make_tuple(one.name, python_type(one.type), object_of(info.settings->otherwise(one)), one.text));
    }
  }
  all["parameters"] = parameters, all["specs"] = nb::tuple(specs), all["settings"] = nb::tuple(settings);
  all["spec_optional"] = info.spec_optional, all["module"] = info.module, all["text"] = info.text;
  all["inputs"] = info.inputs, all["rows"] = info.rows, all["scores"] = info.scores, all["values"] = info.values;
  all["by_index"] = info.by_index, all["whole_rows"] = info.whole_rows, all["grouped"] = info.grouped;
  all["by_hand"] = info.by_hand, all["reads_content"] = info.reads_content, all["form"] = form_word(info.form);
  all["changes_dim"] = static_cast<bool>(info.out_dim);
  return all;
}

/// The parameters that an encoding of a spec has.
nb::list wanted(const std::string& kind, nb::handle spec) {
  const Record record = record_or_none(spec);
  nb::list all;
  for (const ParameterInfo& one : info_of(kind).parameters) {
    if (!one.wanted || one.wanted(record)) all.append(one.name);
  }
  return all;
}

/// Numbers of a call's array: (parameter, the first one's place, shape, strides); None where there is no array.
template <class T, int Rank>
nb::object place_of(const View<const T, Rank>& view, const Encoding& encoding,
                    const std::vector<ParameterMemory>& memory) {
  if (view.data == nullptr) return nb::none();
  for (std::size_t p = 0; p < memory.size(); ++p) {
    if (encoding.infos()[p].indices != std::is_same_v<T, Index>) continue;
    const auto* first = static_cast<const T*>(memory[p].value);
    Index count = 1;
    for (const Index extent : memory[p].shape) count *= extent;
    if (first == nullptr || std::less<>()(view.data, first) || !std::less<>()(view.data, first + count)) continue;
    nb::list shape, strides;
    for (int axis = 0; axis < Rank; ++axis) shape.append(view.shape[axis]), strides.append(view.stride[axis]);
    return nb::make_tuple(encoding.infos()[p].name, view.data - first, nb::tuple(shape), nb::tuple(strides));
  }
  throw std::logic_error("[rows_by_index] must be made of the encoding's parameters");
}

/// None where a map has no bound.
nb::object bound(Index distance) {
  return std::abs(distance) >= IndexMap::farthest ? nb::none() : nb::object(nb::int_(distance));
}

/// The products that a score is made of, as numbers and places in the encoding's float32 arrays; None for another form.
nb::object rows_by_index(const Encoding& encoding) {
  std::vector<Gradient> none;
  const std::vector<ParameterMemory> memory =
      encoding.with_whole_numbers(encoding.memory("score_mod", DataType::f32, Wanted::values, none));
  const Made<float> made = encoding.make<float>(memory);
  if (made.rows_by_index == nullptr) return nb::none();
  nb::list all;
  for (const RowsByIndex<float>& one : *made.rows_by_index) {
    const IndexMap& map = one.map;
    nb::list thresholds;
    for (Index i = 0; i < map.thresholds.shape[0]; ++i) thresholds.append(map.thresholds(i));
    nb::dict of;
    of["of_key"] = one.operand == Side::key, of["scaled"] = one.scale == RowsByIndex<float>::Scale::softmax;
    of["table"] = place_of(one.table, encoding, memory), of["shift"] = place_of(one.shift, encoding, memory);
    of["axis"] = map.axis, of["zero"] = map.zero, of["step"] = map.step;
    of["least"] = bound(map.least), of["most"] = bound(map.most);
    of["from"] = bound(map.from), of["to"] = bound(map.to);
    of["linear"] = map.linear, of["thresholds"] = thresholds;
    of["q_segments"] = place_of(map.q_segments, encoding, memory);
    of["k_segments"] = place_of(map.k_segments, encoding, memory);
    all.append(of);
  }
  return all;
}

Index out_dim(const std::string& kind, nb::handle spec, Index dim) {
  const EncodingInfo& info = info_of(kind);
  return info.out_dim ? info.out_dim(record_or_none(spec), dim) : dim;
}

/// (name, encoding, spec) of all that can be asked for by name, for a model of that size.
nb::list named(Index heads, Index dim, Index length) {
  nb::list all;
  for (const Description& one : registry().descriptions()) {
    if (one.encoding == nullptr) continue;
    const Record spec = one.spec ? one.spec({.heads = heads, .dim = dim, .length = length}) : Record();
    all.append(nb::make_tuple(one.name, one.encoding->name, spec ? spec_object(spec) : nb::none()));
  }
  return all;
}

/// A parameter's extents; None for those that only the caller knows.
nb::list extents(const std::string& kind, nb::handle spec, const std::string& parameter, const nb::dict& sizes) {
  const Record record = record_or_none(spec);
  nb::list all;
  for (const Extent& one : parameter_of(info_of(kind), parameter).extents) {
    Index size = one.size(record, sizes_of(sizes));
    if (size == Extent::any && one.usual) size = one.usual(record, sizes_of(sizes));
    all.append(size == Extent::any ? nb::none() : nb::object(nb::int_(size)));
  }
  return all;
}

/// Where training starts, float64.
nb::object start(const std::string& kind, nb::handle spec, const std::string& parameter,
                 const std::vector<Index>& shape, std::uint64_t seed, std::optional<double> number) {
  const Rule& rule = parameter_of(info_of(kind), parameter).start;
  const Record record = record_or_none(spec);
  Index count = 1;
  for (const Index extent : shape) count *= extent;
  std::vector<double> numbers(static_cast<std::size_t>(count));
  if (rule.fill) rule.fill({numbers, shape, record, seed, number});
  return numpy_array(numbers, shape);
}

/// The spec of what a text says, of a model of that size.
nb::object said(nb::handle text, Index heads, Index dim) {
  Said one = said_by(text, {"encoding", "text"});
  const Sizes& model = one.sizes();
  const Record spec = one.complete(
      {.heads = heads > 0 ? heads : model.heads, .dim = dim > 0 ? dim : model.dim, .length = model.length});
  one.finish();
  if (!spec) one.fail("has no spec: make its encoding");
  return spec_object(spec);
}

}  // namespace

void bind_described(nb::module_& m) {
  bind_spec(m);
  bind_encoding(m);
  for (const RecordType& one : registry().records()) {
    if (!one.is_setting) bind_record(m, one);
  }
  for (const EncodingInfo& one : registry().encodings()) {
    if (!one.by_hand) bind_encoding(m, one);
  }
  const auto& functions = registry().functions();
  for (auto one = functions.begin(); one != functions.end(); ++one) {
    const bool others_follow =
        std::any_of(one + 1, functions.end(), [&](const FunctionInfo& other) { return other.name == one->name; });
    def_function(m, *one, FunctionKind::plain, others_follow);
  }
  m.def("encoding", said, nb::arg("text").none(), nb::kw_only(), nb::arg("heads") = 0, nb::arg("dim") = 0,
        nb::sig("def encoding(text: str | Spec, *, heads: int = 0, dim: int = 0) -> Spec"),
        "Makes the spec of an encoding from text, as the command takes it. A spec is returned as it is.\n\n"
        "    bearing.encoding('t5:buckets=64,direction=causal')      a name, and members of its spec\n"
        "    bearing.encoding('rope:{\"head_dim\": 128, \"pairing\": \"half\"}')    its spec as JSON\n"
        "    bearing.encoding('@config.json#3')                      layer 3 of a model's file\n\n"
        "text: the text, or a spec.\n"
        "heads: how many heads the model has, for specs that have such a member and a text that does not give it; 0: "
        "not given.\n"
        "dim: how many dimensions a head has, likewise.\n\n"
        "Raises ShapeError for text that is not an encoding, ConfigError for a file or JSON that is wrong.");
  m.def("_traits", traits, nb::arg("kind"), "What is described of an encoding, beside its spec and texts.");
  m.def("_named", named, nb::arg("heads"), nb::arg("dim"), nb::arg("length"),
        "(name, encoding, spec) of all encodings that have a name, for a model of that size.");
  m.def("_out_dim", out_dim, nb::arg("kind"), nb::arg("spec").none(), nb::arg("dim"),
        "How long rows of `dim` are when an encoding has turned them.");
  m.def("_extents", extents, nb::arg("kind"), nb::arg("spec").none(), nb::arg("parameter"), nb::arg("sizes"),
        "The extents of a parameter in a model of these sizes.");
  m.def("_start", start, nb::arg("kind"), nb::arg("spec").none(), nb::arg("parameter"), nb::arg("shape"),
        nb::arg("seed"), nb::arg("number") = nb::none(),
        "A parameter's numbers where training starts; number: the rule's, where it has one.");
  m.def("_wanted", wanted, nb::arg("kind"), nb::arg("spec").none(), "The parameters that an encoding of a spec has.");
  m.def("_rows_by_index", rows_by_index, nb::arg("encoding"),
        "The products that a score is made of, where its rows are picked by an index; else None.");
}

}  // namespace bearing::python
