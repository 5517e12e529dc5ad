#include <gtest/gtest.h>
#include <set>

#include "support/attention_encodings.hpp"

// Parameters of every described encoding: wrong shapes and missing ones are refused by name before anything is
// computed, and they may lie in memory with gaps.

namespace bearing {
namespace {

using test::DescribedEncoding;
using test::Params;

std::vector<DescribedEncoding> all_described() {
  std::vector<DescribedEncoding> all = test::described_terms();
  all.insert(all.end(), test::described_inputs().begin(), test::described_inputs().end());
  return all;
}

/// A call's parameters in memory that a test may change.
struct Memory {
  explicit Memory(const DescribedEncoding& of)
      : encoding(of),
        sizes(small_sizes(of)),
        params(of.params(sizes)),
        all(of.memory<double>(params, sizes, indices)) {}

  /// What making the encoding, or a call of it, is refused with; empty if neither is.
  std::string refusal() const {
    try {
      check_call(encoding.info->make<double>()(encoding.spec, encoding.settings_for(sizes), all), encoding, sizes);
    } catch (const ShapeError& error) {
      return error.what();
    } catch (const RangeError& error) {
      return error.what();
    }
    return "";
  }

  const DescribedEncoding& encoding;
  Sizes sizes;
  Params params;
  std::vector<std::vector<Index>> indices;
  std::vector<ParameterMemory> all;
};

/// A refusal names a parameter, this one or one that it contradicts, or the encoding where it has but one kind of them.
bool names_what_is_wrong(const DescribedEncoding& encoding, const std::string& refusal) {
  const std::string text = refusal.substr(std::min(refusal.find(']'), refusal.size()));
  if (text.find(encoding.info->name) != std::string::npos) return true;
  return std::any_of(encoding.info->parameters.begin(), encoding.info->parameters.end(), [&](const ParameterInfo& one) {
    const std::string plain = one.name.substr(one.name.find('_') == 1 ? 2 : 0);  // q_group: queries.group
    return text.find(plain) != std::string::npos;
  });
}

TEST(DescribedParameters, OfAWrongShapeAreRefusedByName) {
  Index refused = 0;
  for (const DescribedEncoding& encoding : all_described()) {
    SCOPED_TRACE(encoding.name);
    const Memory right(encoding);
    ASSERT_EQ(right.refusal(), "");
    for (std::size_t p = 0; p < right.all.size(); ++p) {
      const ParameterInfo& parameter = encoding.info->parameters[p];
      for (std::size_t axis = 0; axis < right.all[p].shape.size(); ++axis) {
        if (parameter.extents[axis].size(encoding.spec, right.sizes) == Extent::any) continue;
        Memory wrong(encoding);
        ParameterMemory& one = wrong.all[p];
        one.shape[axis] += 5;
        std::fill(one.stride.begin(), one.stride.end(), 0);  // all in the memory that there is
        one.stride.back() = 1;
        one.grad = nullptr;
        if (axis + 1 == one.shape.size()) one.shape[axis] -= 6;
        if (one.shape[axis] < 1 || (one.shape[axis] == 1 && parameter.extents[axis].or_one)) continue;
        EXPECT_TRUE(names_what_is_wrong(encoding, wrong.refusal()))
            << parameter.name << ", axis " << axis << ": " << wrong.refusal();
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 200);
}

TEST(DescribedParameters, ThatAreMissingAreRefusedByName) {
  Index refused = 0;
  for (const DescribedEncoding& encoding : all_described()) {
    SCOPED_TRACE(encoding.name);
    for (std::size_t p = 0; p < encoding.given.size(); ++p) {
      if (encoding.info->parameters[p].optional) continue;
      Memory wrong(encoding);
      wrong.all[p] = {};
      EXPECT_TRUE(names_what_is_wrong(encoding, wrong.refusal()))
          << encoding.info->parameters[p].name << ": " << wrong.refusal();
      ++refused;
    }
  }
  EXPECT_GT(refused, 60);
}

TEST(DescribedParameters, AreToldWhereTheyLie) {
  for (const DescribedEncoding& encoding : all_described()) {
    SCOPED_TRACE(encoding.name);
    Params params = encoding.params(small_sizes(encoding));
    const Made<double> made = encoding.make<double>(params, small_sizes(encoding));
    std::set<const void*> told;
    MemoryList list(&told, [](void* to, const char*, MemoryUse, const bearing::Memory& memory) {
      static_cast<std::set<const void*>*>(to)->insert(memory.data);
    });
    if (made.term && made.term->borrows != nullptr) made.term->borrows(made.term->self, list);
    if (made.input && made.input->borrows != nullptr) made.input->borrows(made.input->self, list);
    for (std::size_t i = 0; i < params.count(); ++i) {
      EXPECT_TRUE(told.contains(params.values(i).data()) && told.contains(params.grads(i).data()))
          << "parameter " << i << ": add a borrows member to " << encoding.info->name << " that names it (term.hpp)";
    }
  }
}

/// Everything that attention gives, its gradients too.
std::vector<double> everything(const Made<double>& made, const test::AttentionCase& c) {
  const auto got = test::AttentionData<double>(c).backward(test::Made<double>{}.add(made).list);
  std::vector<double> all = got.out;
  for (const auto* more : {&got.lse, &got.d_q, &got.d_k, &got.d_v}) all.insert(all.end(), more->begin(), more->end());
  return all;
}

/// The same numbers with gaps between those of each axis from the last but `dense_axes` on.
std::vector<double> with_gaps(ParameterMemory& memory, std::size_t dense_axes) {
  const std::vector<Index> shape = memory.shape, stride = memory.stride;
  Index step = 1;
  for (std::size_t axis = shape.size(); axis-- > 0; step *= shape[axis] + 2) {
    memory.stride[axis] = axis + dense_axes >= shape.size() ? step : (step += 1);
  }
  std::vector<double> numbers(static_cast<std::size_t>(step + 1), std::numeric_limits<double>::quiet_NaN());
  const auto* from = static_cast<const double*>(memory.value);
  std::vector<Index> at(shape.size(), 0);
  for (bool more = true; more;) {
    Index here = 0, there = 0;
    for (std::size_t axis = 0; axis < at.size(); ++axis)
      here += at[axis] * stride[axis], there += at[axis] * memory.stride[axis];
    numbers[static_cast<std::size_t>(there)] = from[here];
    more = false;
    for (std::size_t axis = at.size(); axis-- > 0 && !more;) {
      more = ++at[axis] < shape[axis];
      if (!more) at[axis] = 0;
    }
  }
  memory.value = numbers.data();
  return numbers;
}

TEST(DescribedParameters, MayLieWithGapsInMemory) {
  const test::NamedEncodings encodings;
  Index served = 0;
  for (const DescribedEncoding& encoding : test::described_terms()) {
    SCOPED_TRACE(encoding.name);
    const test::AttentionCase c =
        encodings.find(encoding.name).placed({.heads = test::described_heads, .q_len = 4, .k_len = 6});
    Params params = encoding.params(sizes_of(c));
    const Made<double> made = encoding.make<double>(params, sizes_of(c));
    const std::vector<double> wanted = everything(made, c);
    std::vector<std::vector<Index>> indices;
    Params again = encoding.params(sizes_of(c));
    std::vector<ParameterMemory> memory = encoding.memory<double>(again, sizes_of(c), indices);
    std::vector<std::vector<double>> kept;
    for (std::size_t p = 0; p < memory.size(); ++p) {
      if (encoding.given[p] && !encoding.info->parameters[p].indices) kept.push_back(with_gaps(memory[p], 1)), ++served;
    }
    const Made<double> gaps = encoding.info->make<double>()(encoding.spec, encoding.settings_for(sizes_of(c)), memory);
    EXPECT_TRUE(test::same_bits(everything(gaps, c), wanted));
    for (std::size_t p = 0; p < params.count(); ++p) EXPECT_TRUE(test::same_bits(again.grads(p), params.grads(p))) << p;
  }
  EXPECT_GT(served, 60);
}

}  // namespace
}  // namespace bearing
