#include "described.hpp"

#include <stdexcept>

namespace bearing::bench {
namespace {

const Description& description_of(const std::string& name) {
  const Description* found = registry().find(name);
  if (found == nullptr || found->encoding == nullptr) throw std::invalid_argument("no encoding is called " + name);
  return *found;
}

Index size_of(const Extent& extent, const Record& spec, const Sizes& sizes) {
  if (extent.or_one) return 1;
  Index size = extent.size(spec, sizes);
  if (size == Extent::any && extent.usual) size = extent.usual(spec, sizes);
  return size == Extent::any ? sizes.k_len : size;
}

Described::Parameter drawn(const ParameterInfo& info, const Record& spec, const Sizes& sizes, std::uint64_t seed) {
  Described::Parameter made{&info, {}, {}, {}};
  std::size_t count = 1;
  for (const Extent& extent : info.extents) {
    made.shape.push_back(size_of(extent, spec, sizes));
    count *= static_cast<std::size_t>(made.shape.back());
  }
  std::vector<double> numbers(count);
  (info.drawn.fill ? info.drawn : info.start).fill({numbers, made.shape, spec, seed});
  made.value.assign(numbers.begin(), numbers.end());
  made.grad.resize(count);
  return made;
}

}  // namespace

Described::Described(const std::string& name, const Sizes& sizes, const Members& members)
    : info_(description_of(name).encoding) {
  Sizes all = sizes;
  all.length = sizes.k_len;
  const Description& description = description_of(name);
  if (description.spec) {
    spec_ = description.spec({.heads = sizes.heads, .dim = sizes.dim, .length = sizes.k_len});
  }
  for (const auto& [member, value] : members) spec_.set(member, value);
  if (info_->settings != nullptr) settings_ = info_->settings->make();
  if (settings_ && settings_.type().member("length") != nullptr) settings_.set("length", sizes.k_len);
  for (std::size_t p = 0; p < info_->parameters.size(); ++p) {
    const ParameterInfo& one = info_->parameters[p];
    const bool given = !one.indices && !(one.optional && info_->spec_optional && spec_);
    if (given && (!one.wanted || one.wanted(spec_))) parameters_.push_back(drawn(one, spec_, all, p + 1));
  }
}

const Made<float>& Described::made() const {
  if (made_) return *made_;
  std::vector<ParameterMemory> memory(info_->parameters.size());
  for (const Parameter& one : parameters_) {
    ParameterMemory& to = memory[static_cast<std::size_t>(one.info - info_->parameters.data())];
    to = {one.value.data(), const_cast<float*>(one.grad.data()), one.shape, std::vector<Index>(one.shape.size(), 1)};
    for (std::size_t axis = one.shape.size(); axis-- > 1;) to.stride[axis - 1] = to.stride[axis] * one.shape[axis];
  }
  made_ = std::make_shared<const Made<float>>(info_->make<float>()(spec_, settings_, memory));
  return *made_;
}

TermList<float> Described::terms() const {
  TermList<float> terms;
  terms.terms[0] = made().term.value(), terms.size = 1;
  return terms;
}

std::string home_of(const std::string& name) { return description_of(name).home; }

}  // namespace bearing::bench
