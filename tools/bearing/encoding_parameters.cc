#include "encoding_parameters.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "array_files.hpp"

namespace bearing::tool {

std::vector<Index> row_major_strides(const std::vector<Index>& shape) {
  std::vector<Index> strides(shape.size());
  Index step = 1;
  for (std::size_t axis = shape.size(); axis-- > 0; step *= shape[axis]) strides[axis] = step;
  return strides;
}

template <class A>
ParameterReader<A>::ParameterReader(Said& said, const CallShape& call, CallEncodings<A>& into)
    : said_(said),
      call_(call),
      into_(into),
      sizes_{.batch = call.batch,
             .heads = call.heads,
             .kv_heads = call.kv_heads,
             .q_len = call.q_len,
             .k_len = call.k_len,
             .dim = call.dim,
             .value_dim = call.value_dim} {}

template <class A>
void ParameterReader<A>::ask_for(std::span<const ParameterInfo> parameters) {
  for (const ParameterInfo& parameter : parameters) {
    Files& files = files_[parameter.name];
    files.value = said_.take(parameter.name);
    if (!parameter.indices) files.gradient = said_.take("d_" + parameter.name);
  }
}

template <class A>
bool ParameterReader<A>::has_file(const ParameterInfo& parameter) const {
  const auto found = files_.find(parameter.name);
  return found != files_.end() && found->second.value.has_value();
}

template <class A>
Index ParameterReader<A>::met(const std::string& extent) const {
  const auto found = met_.find(extent);
  return found == met_.end() ? 0 : found->second;
}

/// Whether the extent is a member of the spec, or of a record in it, that nobody has said: a file does.
template <class A>
bool ParameterReader<A>::readable(const Extent& extent, const Record& spec) const {
  const std::vector<std::string> keys = keys_of(spec);
  return std::find(keys.begin(), keys.end(), extent.name) != keys.end() && !said_.gives(extent.name) &&
         std::find(read_.begin(), read_.end(), extent.name) == read_.end();
}

/// An extent is less than 1 where members that it depends on, which have no default, were not said.
template <class A>
void ParameterReader<A>::ask_for_members(const Extent& extent, const Record& spec) const {
  if (!spec) return;
  for (const MemberInfo& member : spec.type().members) {
    const Value value = spec.get(member.name);
    const Index* whole = std::get_if<Index>(&value);
    if (whole == nullptr || *whole != 0 || said_.gives(member.name)) continue;
    if (extent.name.find(member.name) == extent.name.npos) continue;
    said_.fail(fmt::format("{} must be given, there is no default: {}", member.name, member.text));
  }
}

/// What it must be; any, where a file may say it.
template <class A>
Index ParameterReader<A>::size(const Extent& extent, const Record& spec) const {
  if (readable(extent, spec)) return Extent::any;
  const auto told = [&] {
    try {
      return extent.size(spec, sizes_);
    } catch (const ShapeError&) {
      ask_for_members(extent, spec);
      throw;
    }
  };
  const Index size = told();
  if (size < 1) ask_for_members(extent, spec);
  if (size == Extent::any && met_.contains(extent.name)) return met_.at(extent.name);
  return size;
}

template <class A>
void ParameterReader<A>::check_extents(const ParameterInfo& parameter, const Record& spec) const {
  for (const Extent& extent : parameter.extents) size(extent, spec);
}

/// "[buckets, heads] = [any, 2]"
template <class A>
std::string ParameterReader<A>::extents_text(const ParameterInfo& parameter, const Record& spec) const {
  std::vector<std::string> names, sizes;
  for (const Extent& extent : parameter.extents) {
    const Index must = size(extent, spec);
    names.push_back(extent.name);
    sizes.push_back(must == Extent::any ? "any" : fmt::format("{}", must));
    if (extent.or_one && must != 1) sizes.back() += " or 1";
  }
  return fmt::format("[{}] = [{}]", fmt::join(names, ", "), fmt::join(sizes, ", "));
}

/// Leading extents of which 1 will do may be left out.
template <class A>
std::vector<Index> ParameterReader<A>::fitted_shape(const ParameterInfo& parameter, const std::string& file,
                                                    std::vector<Index> shape, Record& spec) {
  const std::vector<Index> found = shape;
  const std::size_t rank = parameter.extents.size();
  if (shape.size() >= parameter.fewest() && shape.size() < rank) shape.insert(shape.begin(), rank - shape.size(), 1);
  bool fits = shape.size() == rank;
  for (std::size_t i = 0; fits && i < rank; ++i) {
    const Extent& extent = parameter.extents[i];
    const Index must = size(extent, spec);
    fits = must == Extent::any ? shape[i] > 0 : shape[i] == must || (extent.or_one && shape[i] == 1);
  }
  if (!fits) {
    bad_file(file, fmt::format("{}'s {} must be {}, got {}", said_.description().name, parameter.name,
                               extents_text(parameter, spec), shape_text(found)));
  }
  for (std::size_t i = 0; i < rank; ++i) {
    const Extent& extent = parameter.extents[i];
    if (extent.or_one && shape[i] == 1) continue;
    met_.emplace(extent.name, shape[i]);
    if (!readable(extent, spec)) continue;
    set_member(spec, extent.name, shape[i]);
    read_.push_back(extent.name);
  }
  return shape;
}

template <class A>
ParameterMemory ParameterReader<A>::memory(const ParameterInfo& parameter, Record& spec, bool optional) {
  const Files& files = files_.at(parameter.name);
  if (!files.value) {
    if (optional && !files.gradient) return {};
    said_.fail(fmt::format("{}=FILE is missing: a .npy file of {}", parameter.name, extents_text(parameter, spec)));
  }
  const std::string& file = *files.value;
  const NpyArray array = read_npy(file);
  if (parameter.indices && array.dtype != "i8") bad_file(file, "the dtype must be int64 (i8), got " + array.dtype);
  ParameterMemory memory{nullptr, nullptr, fitted_shape(parameter, file, array.shape, spec), {}};
  memory.stride = row_major_strides(memory.shape);
  Index count = 1;
  for (const Index extent : memory.shape) count *= extent;
  if (parameter.indices) {
    const Index* from = reinterpret_cast<const Index*>(array.bytes.data());
    memory.value = into_.indices.emplace_back(from, from + count).data();
  } else {
    memory.value = into_.numbers.emplace_back(read_numbers<A>(file, array)).data();
  }
  if (!files.gradient) return memory;
  if (!call_.backward) said_.fail("d_" + parameter.name + " needs --d-out");
  memory.grad = into_.numbers.emplace_back(static_cast<std::size_t>(count)).data();
  into_.gradients.push_back({*files.gradient, dtype_of<A>(), array.shape, memory.grad});
  return memory;
}

template class ParameterReader<double>;
template class ParameterReader<float>;

}  // namespace bearing::tool
