#include "jax_ffi.hpp"

#include <stdexcept>

namespace bearing::python {

namespace ffi = xla::ffi;

namespace {

template <class From, class To>
std::vector<To> converted(const Buffer& from) {
  const From* data = from.data<From>();
  std::vector<To> all(static_cast<std::size_t>(from.all()));
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<To>(data[i]);
  return all;
}

template <class T>
T value_of(ffi::ErrorOr<T> from) {
  if (from.has_error()) throw std::invalid_argument(from.error().message());
  return *from;
}

}  // namespace

Numbers::Numbers(const Buffer& from) : given_(true) {
  if (from.all() == 0) {
    own_ = {0};
    return;
  }
  switch (from.type()) {
    case ffi::DataType::S64:
      whole_ = from.data<Index>();
      return;
    case ffi::DataType::S32:
      own_ = converted<std::int32_t, Index>(from);
      return;
    case ffi::DataType::F64:
      real_ = converted<double, double>(from);
      return;
    case ffi::DataType::F32:
      real_ = converted<float, double>(from);
      return;
    default:
      throw std::invalid_argument("[bearing.jax] numbers: must be int32, int64, float32 or float64");
  }
}

Frame::Frame(const ffi::RemainingArgs& args, const ffi::RemainingRets& results, const ffi::Dictionary& attrs,
             std::size_t rank)
    : args_(args), results_(results), attrs_(attrs) {
  const auto dims = value_of(results_.get<ffi::AnyBuffer>(0))->dimensions();
  for (std::size_t axis = 0; axis + rank < dims.size(); ++axis) {
    extents_.push_back(dims[axis]);
    instances_ *= dims[axis];
  }
}

Buffer Frame::argument() { return {value_of(args_.get<ffi::AnyBuffer>(next_argument_++)), extents_.size()}; }
Buffer Frame::result() { return {*value_of(results_.get<ffi::AnyBuffer>(next_result_++)), extents_.size()}; }

Index Frame::offset(const Buffer& buffer, Index i) const {
  Index offset = 0, step = buffer.size();
  for (std::size_t axis = extents_.size(); axis-- > 0;) {
    const Index index = i % extents_[axis], extent = buffer.dims()[axis];
    i /= extents_[axis];
    if (extent != 1) offset += index * step;
    step *= extent;
  }
  return offset;
}

template <class T>
T Frame::attribute(std::string_view name) const {
  return value_of(attrs_.get<T>(name));
}
template Index Frame::attribute(std::string_view) const;
template double Frame::attribute(std::string_view) const;
template bool Frame::attribute(std::string_view) const;
template std::string_view Frame::attribute(std::string_view) const;

}  // namespace bearing::python
