// Models' weights: files of tensors, and encodings with the numbers that they hold. The package's _files.py and
// _load.py make arrays and encodings of what stands here.

#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <bearing/load.hpp>
#include <bearing/safetensors.hpp>
#include <memory>
#include <utility>

#include "bind.hpp"
#include "config_given.hpp"
#include "specs.hpp"
#include "values.hpp"

namespace bearing::python {

namespace {

using Bytes = nb::ndarray<const std::uint8_t, nb::numpy, nb::ndim<1>>;

/// The map's memory as an array of bytes that keeps it alive.
nb::object bytes_of(const StoredTensor& tensor, const std::shared_ptr<Weights>& weights) {
  static const std::uint8_t none = 0;
  const std::size_t size = tensor.bytes.size();
  const void* data = size == 0 ? static_cast<const void*>(&none) : tensor.bytes.data();
  nb::capsule owner(new std::shared_ptr<Weights>(weights),
                    [](void* p) noexcept { delete static_cast<std::shared_ptr<Weights>*>(p); });
  return nb::cast(Bytes(data, {size}, owner));
}

/// (name, type, shape, bytes) of each tensor, and the files' metadata.
nb::tuple read_weights(nb::handle given) {
  const std::string path = path_of(given);
  std::shared_ptr<Weights> weights;
  std::vector<std::string> names;
  {
    const Unlocked released;
    weights = std::make_shared<Weights>(path);
    weights->check_all();
    names = weights->names();
  }
  nb::list all;
  for (const std::string& name : names) {
    const StoredTensor& tensor = weights->at(name);
    const std::string type(tensor.type.name);
    all.append(nb::make_tuple(name, type, nb::tuple(nb::cast(tensor.shape)), bytes_of(tensor, weights)));
  }
  return nb::make_tuple(all, weights->metadata());
}

using Metadata = std::map<std::string, std::string>;

void write_weights(nb::handle given, const nb::list& tensors, const Metadata& metadata, Index most_bytes) {
  const std::string path = path_of(given);
  std::vector<SafetensorsOutput> outputs;
  std::vector<nb::object> kept;
  for (const nb::handle one : tensors) {
    const auto bytes = nb::cast<nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>>(one[3]);
    kept.push_back(nb::borrow(one[3]));
    outputs.push_back({nb::cast<std::string>(nb::object(one[0])), nb::cast<std::string>(nb::object(one[1])),
                       nb::cast<std::vector<Index>>(nb::object(one[2])), bytes.data()});
  }
  const Unlocked released;
  if (most_bytes > 0) {
    write_sharded_safetensors(path, outputs, static_cast<std::uint64_t>(most_bytes), metadata);
  } else {
    write_safetensors(path, outputs, metadata);
  }
}

/// An array that keeps the vector's memory: tables are large.
nb::object array_of(Tensor&& tensor) {
  auto* numbers = std::get_if<std::vector<float>>(&tensor.numbers);
  if (numbers == nullptr || numbers->empty()) return object_of(Value(std::move(tensor)));
  auto kept = std::make_unique<std::vector<float>>(std::move(*numbers));
  float* data = kept->data();
  nb::capsule owner(kept.release(), [](void* p) noexcept { delete static_cast<std::vector<float>*>(p); });
  const std::vector<std::size_t> extents(tensor.shape.begin(), tensor.shape.end());
  return nb::cast(nb::ndarray<nb::numpy, float>(data, extents.size(), extents.data(), owner));
}

/// The numbers leave the parameters.
nb::list list_of(std::vector<LoadedParameter>& parameters) {
  nb::list out;
  for (LoadedParameter& one : parameters) {
    out.append(nb::make_tuple(one.name, one.tensor, array_of(std::move(one.numbers))));
  }
  return out;
}

nb::dict dict_of(LoadedEncoding& loaded) {
  nb::dict out;
  out["spec"] = loaded.spec ? spec_object(loaded.spec) : nb::none();
  out["kind"] = loaded.encoding == nullptr ? std::string() : loaded.encoding->name;
  out["parameters"] = list_of(loaded.parameters);
  out["factors"] = list_of(loaded.factors);
  out["per_call"] = nb::tuple(nb::cast(loaded.per_call));
  out["layers"] = nb::tuple(nb::cast(loaded.layers));
  out["part"] = loaded.part;
  out["missing"] = loaded.missing;
  return out;
}

nb::tuple tuple_of(LoadedModel& loaded) {
  nb::list inputs, layers, towers;
  for (LoadedEncoding& one : loaded.inputs) inputs.append(dict_of(one));
  for (LoadedEncoding& one : loaded.layers) layers.append(dict_of(one));
  for (LoadedModel& one : loaded.towers) towers.append(tuple_of(one));
  return nb::make_tuple(nb::cast(loaded.model), inputs, layers, towers, loaded.missing);
}

nb::tuple load(nb::handle given, Index length) {
  const std::string folder = path_of(given);
  std::unique_ptr<LoadedModel> loaded;
  {
    const Unlocked released;
    loaded = std::make_unique<LoadedModel>(load_model(folder, length));
  }
  return tuple_of(*loaded);
}

}  // namespace

void bind_files(nb::module_& m) {
  m.def("_read_weights", read_weights, nb::arg("path"),
        nb::sig("def _read_weights(path: str | bytes | os.PathLike[str]) -> tuple[Any, Any]"),
        "The tensors of a file, an index or a folder: name, type, shape and bytes; and the metadata.");
  m.def("_write_weights", write_weights, nb::arg("path"), nb::arg("tensors"), nb::arg("metadata"),
        nb::arg("most_bytes"),
        nb::sig("def _write_weights(path: str | bytes | os.PathLike[str], tensors: list[Any], metadata: dict[str, "
                "str], most_bytes: int) -> None"),
        "Writes a file, or with most_bytes several into a folder.");
  m.def(
      "_load_model", load, nb::arg("folder"), nb::arg("length"),
      nb::sig("def _load_model(folder: str | bytes | os.PathLike[str], length: int) -> tuple[Any, Any, Any, Any, Any]"),
      "A model's folder: its Model, what is known of the encodings of its inputs and layers, the same of its towers, "
      "and why nothing is.");
}

}  // namespace bearing::python
