#include "encoding_computed.hpp"

#include <algorithm>

namespace bearing::tool {
namespace {

/// The distances between all queries and all keys.
DistanceRange distances_of(Said& said, const CallShape& call) {
  const auto range_of = [&](const char* argument, const Positions& at, Index time) {
    at.check("attend", argument, 1, call.batch, time);
    if (!at.integral()) said.fail("needs whole positions");
    std::pair<Index, Index> range{max_position, -max_position};
    for (Index b = 0; b < call.batch; ++b) {
      for (Index t = 0; t < time; ++t) {
        const Index position = at.integer(0, b, t);
        range = {std::min(range.first, position), std::max(range.second, position)};
      }
    }
    return range;
  };
  const auto [q_low, q_high] = range_of("q_positions", *call.q_positions, call.q_len);
  const auto [k_low, k_high] = range_of("k_positions", *call.k_positions, call.k_len);
  return {k_low - q_high, k_high - q_low};
}

/// Row-major zeros that live as long as the call.
template <class A>
A* zeros(Said& said, const std::vector<Index>& shape, CallEncodings<A>& into) {
  Index count = 1;
  for (const Index size : shape) {
    if (size > 0 && count > (Index{1} << 31) / size) said.fail("needs a table of more than 2^31 numbers");
    count *= size;
  }
  return into.numbers.emplace_back(static_cast<std::size_t>(count)).data();
}

std::string names_of(const std::vector<ParameterInfo>& parameters) {
  std::string names;
  for (const ParameterInfo& one : parameters) names += (names.empty() ? "" : ", ") + one.name;
  return names;
}

/// Members that follow from the call must not be said to be something else.
void check_said(Said& said, const ComputedInfo& info, const Record& spec, const Record& computed) {
  if (!spec || !computed || &spec.type() != &computed.type()) return;
  const Record defaults = spec.type().make();
  for (const MemberInfo& member : spec.type().members) {
    const auto as_in = [&](const Record& other) {
      Record changed = spec;
      changed.set(member.name, other.get(member.name));
      return changed == spec;
    };
    if (as_in(computed)) continue;
    if (!said.take(member.name) && as_in(defaults)) continue;  // JSON has all members
    said.fail(member.name + ": follows from the positions where " + names_of(info.from) +
              " is given: leave it out, or give " + info.gives);
  }
}

}  // namespace

const ComputedInfo* computed_of(const Said& said) {
  const Description& description = said.description();
  const ComputedInfo* computed = description.computed;
  if (computed == nullptr || description.encoding == nullptr || !said.gives(computed->gives)) return computed;
  for (const ParameterInfo& one : computed->from) {
    if (said.gives(one.name)) {
      said.fail(computed->gives + " is computed from " + names_of(computed->from) + ": give one of them");
    }
  }
  return nullptr;
}

template <class A>
ParameterMemory compute(Said& said, const CallShape& call, const ComputedInfo& info, ParameterReader<A>& read,
                        Record& spec, CallEncodings<A>& into) {
  const ComputedCall for_call{spec, read.sizes(), info.by_distance ? distances_of(said, call) : DistanceRange{}};
  const Record encoding_spec = info.spec_of(for_call);
  check_said(said, info, spec, encoding_spec);
  read.check_extents(info.parameter(), encoding_spec);
  std::vector<ParameterMemory> from;
  for (const ParameterInfo& one : info.from) from.push_back(read.memory(one, spec));
  ParameterMemory memory{nullptr, nullptr, info.shape(for_call), {}};
  memory.stride = row_major_strides(memory.shape);
  A* const numbers = zeros(said, memory.shape, into);
  info.compute<A>()(for_call, from, numbers);
  memory.value = numbers;
  if (std::any_of(from.begin(), from.end(), [](const ParameterMemory& one) { return one.grad != nullptr; })) {
    A* const gradient = zeros(said, memory.shape, into);
    memory.grad = gradient;
    into.after_backward.push_back([&info, for_call, from, gradient] { info.backward<A>()(for_call, from, gradient); });
  }
  spec = encoding_spec;
  return memory;
}

template ParameterMemory compute(Said&, const CallShape&, const ComputedInfo&, ParameterReader<double>&, Record&,
                                 CallEncodings<double>&);
template ParameterMemory compute(Said&, const CallShape&, const ComputedInfo&, ParameterReader<float>&, Record&,
                                 CallEncodings<float>&);

}  // namespace bearing::tool
