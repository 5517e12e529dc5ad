#include "load_computed.hpp"

#include <algorithm>
#include <bearing/error.hpp>

namespace bearing::load {
namespace {

ParameterMemory memory_of(const Tensor& numbers) {
  ParameterMemory memory;
  memory.value = std::get<std::vector<float>>(numbers.numbers).data();
  memory.shape = numbers.shape;
  memory.stride.assign(memory.shape.size(), 1);
  for (std::size_t axis = memory.shape.size(); axis-- > 1;) {
    memory.stride[axis - 1] = memory.stride[axis] * memory.shape[axis];
  }
  return memory;
}

}  // namespace

void compute_parameter(LoadedEncoding& to, const ComputedInfo& computed, const Sizes& sizes,
                       const DistanceRange& distances) {
  ComputedCall call{.spec = to.spec, .sizes = sizes, .distances = distances};
  std::vector<ParameterMemory> from;
  std::string tensor;
  for (const ParameterInfo& info : computed.from) {
    const auto one = std::find_if(to.parameters.begin(), to.parameters.end(),
                                  [&](const LoadedParameter& other) { return other.name == info.name; });
    from.push_back(memory_of(one->numbers));
    tensor = one->tensor;
    for (std::size_t axis = 0; axis < info.extents.size(); ++axis) {
      if (info.extents[axis].name == "heads") call.sizes.heads = one->numbers.shape[axis];
    }
  }
  std::vector<Index> shape = computed.shape(call);
  Index count = 1;
  for (const Index extent : shape) {
    if (!__builtin_mul_overflow(count, extent, &count)) continue;
    throw ConfigError("the numbers of " + computed.gives + " must fit in memory, got more than 2^63");
  }
  std::vector<float> numbers(static_cast<std::size_t>(count));
  computed.compute_f32(call, from, numbers.data());
  to.spec = computed.spec_of(call);
  std::erase_if(to.parameters, [&](const LoadedParameter& one) {
    return std::any_of(computed.from.begin(), computed.from.end(),
                       [&](const ParameterInfo& info) { return info.name == one.name; });
  });
  to.parameters.insert(to.parameters.begin(), {computed.gives, tensor, Tensor{std::move(shape), std::move(numbers)}});
}

}  // namespace bearing::load
