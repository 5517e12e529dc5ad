// What the library describes: specs, encodings and functions, and what bearing.torch and bearing.jax ask of encodings.

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <bearing/catalog.hpp>

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

nb::dict traits(const std::string& kind) {
  const EncodingInfo& info = info_of(kind);
  nb::dict all, parameters;
  for (const ParameterInfo& one : info.parameters) {
    nb::list extents, or_one;
    for (const Extent& extent : one.extents) extents.append(extent.name), or_one.append(extent.or_one);
    nb::dict of;
    of["extents"] = nb::tuple(extents), of["or_one"] = nb::tuple(or_one), of["optional"] = one.optional;
    of["learned"] = one.learned, of["indices"] = one.indices;
    parameters[one.name.c_str()] = of;
  }
  all["parameters"] = parameters;
  all["inputs"] = info.inputs, all["rows"] = info.rows, all["scores"] = info.scores, all["values"] = info.values;
  all["by_index"] = info.by_index, all["whole_rows"] = info.whole_rows, all["grouped"] = info.grouped;
  all["changes_dim"] = static_cast<bool>(info.out_dim);
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
                 const std::vector<Index>& shape, std::uint64_t seed) {
  const Rule& rule = parameter_of(info_of(kind), parameter).start;
  const Record record = record_or_none(spec);
  Index count = 1;
  for (const Index extent : shape) count *= extent;
  std::vector<double> numbers(static_cast<std::size_t>(count));
  if (rule.fill) rule.fill({numbers, shape, record, seed});
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
        "The spec of an encoding that is said as the command takes it, or as a spec.\n\n"
        "    bearing.encoding('t5:buckets=64,direction=causal')      a name, and members of its spec\n"
        "    bearing.encoding('rope:{\"head_dim\": 128, \"pairing\": \"half\"}')    its spec as JSON\n"
        "    bearing.encoding('@config.json#3')                      layer 3 of a model's file\n\n"
        "heads and dim of a head: for members that are these, where the text does not give them; 0: not said.");
  m.def("_traits", traits, nb::arg("kind"), "What is described of an encoding, beside its spec and texts.");
  m.def("_named", named, nb::arg("heads"), nb::arg("dim"), nb::arg("length"),
        "(name, encoding, spec) of all encodings that have a name, for a model of that size.");
  m.def("_out_dim", out_dim, nb::arg("kind"), nb::arg("spec").none(), nb::arg("dim"),
        "How long rows of `dim` are when an encoding has turned them.");
  m.def("_extents", extents, nb::arg("kind"), nb::arg("spec").none(), nb::arg("parameter"), nb::arg("sizes"),
        "The extents of a parameter in a model of these sizes.");
  m.def("_start", start, nb::arg("kind"), nb::arg("spec").none(), nb::arg("parameter"), nb::arg("shape"),
        nb::arg("seed"), "A parameter's numbers where training starts.");
}

}  // namespace bearing::python
