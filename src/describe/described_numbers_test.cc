#include <gtest/gtest.h>

#include "support/attention_encodings.hpp"

// One number of each parameter of every described encoding is 0, huge, infinite or NaN. An encoding may refuse it by
// name. What it takes makes no NaN, except an infinity that meets queries and keys or was given for one token, which
// may, where a NaN does; and a NaN stays in its head.

namespace bearing {
namespace {

using test::AttentionCase;
using test::AttentionData;
using test::DescribedEncoding;
using test::Params;

/// What an encoding gives: rows [batch, heads, …], scores and values, one after the other, or inputs.
template <class A>
struct Given {
  struct Part {
    std::vector<A> numbers;
    Index heads;  ///< 0: of no head
  };
  std::vector<Part> parts;

  Index nans() const {
    Index count = 0;
    for (const Part& part : parts) {
      count += std::count_if(part.numbers.begin(), part.numbers.end(), [](A x) { return std::isnan(x); });
    }
    return count;
  }
  /// Whether these are NaN only where the others are.
  bool nan_within(const Given& others) const {
    for (std::size_t p = 0; p < parts.size(); ++p) {
      for (std::size_t n = 0; n < parts[p].numbers.size(); ++n) {
        if (std::isnan(parts[p].numbers[n]) && !std::isnan(others.parts[p].numbers[n])) return false;
      }
    }
    return true;
  }
  /// Whether other heads than this one have the same bits.
  bool same_but_for_head(Index head, const Given& others) const {
    for (std::size_t p = 0; p < parts.size(); ++p) {
      const auto& [mine, heads] = parts[p];
      const std::size_t rows = mine.size() / static_cast<std::size_t>(batch * std::max<Index>(1, heads));
      for (std::size_t n = 0; heads > 0 && n < mine.size(); ++n) {
        if (static_cast<Index>(n / rows) % heads == head) continue;
        if (std::memcmp(&mine[n], &others.parts[p].numbers[n], sizeof(A)) != 0) return false;
      }
    }
    return true;
  }

  static constexpr Index batch = 2;
};

/// An encoding in a call that it serves.
template <class A>
class Call {
 public:
  explicit Call(const DescribedEncoding& encoding) : encoding_(encoding) {
    static const test::NamedEncodings all;
    c_ = {.batch = Given<A>::batch, .heads = test::described_heads, .q_len = 4, .k_len = 6};
    if (!encoding.info->inputs) c_ = all.find(encoding.name).placed(c_);
    sizes_ = encoding.info->inputs ? small_sizes(encoding) : sizes_of(c_);
    params_.emplace(encoding.params(sizes_));
    memory_ = encoding.memory<A>(*params_, sizes_, indices_);
  }
  const std::vector<ParameterMemory>& memory() const { return memory_; }

  Given<A> of(const std::vector<ParameterMemory>& memory) const {
    const Made<A> made = encoding_.info->make<A>()(encoding_.spec, encoding_.settings_for(sizes_), memory);
    if (made.input) return inputs(made);
    if (made.rows) return rows(made);
    return scores_and_values(made);
  }

 private:
  Given<A> inputs(const Made<A>& made) const {
    const Index axes = encoding_.width() > 0 ? 2 : 1, time = 5;
    std::vector<double> at;
    for (Index n = 0; n < axes * c_.batch * time; ++n) at.push_back(static_cast<double>(n % time));
    std::vector<A> p(static_cast<std::size_t>(c_.batch * time * made.input->dim));
    fill<A>(*made.input, dense<const double>(at.data(), axes, c_.batch, time),
            dense(p.data(), c_.batch, time, made.input->dim));
    return {{{p, 0}}};
  }
  Given<A> rows(const Made<A>& made) const {
    const AttentionData<A> data(c_);
    const AttentionInputs<A> in = data.inputs();
    const Index dim = made.rows->out_dim == nullptr ? c_.dim : made.rows->out_dim(made.rows->self, c_.dim);
    std::vector<A> y(static_cast<std::size_t>(c_.batch * c_.heads * c_.q_len * dim));
    turn<A>(*made.rows, Side::query, in.q_positions, in.q, bhtd(y.data(), c_.batch, c_.heads, c_.q_len, dim));
    return {{{y, c_.heads}}};
  }
  Given<A> scores_and_values(const Made<A>& made) const {
    const AttentionData<A> data(c_);
    const AttentionInputs<A> in = data.inputs();
    const TermList<A> list = test::Made<A>{}.add(made).list;
    Given<A> all;
    const auto count = static_cast<std::size_t>(c_.batch * c_.heads * c_.q_len * c_.k_len);
    if (encoding_.info->scores) {
      std::vector<A> s(count);
      add_scores(list, {in.q_positions, in.k_positions, in.q, in.k, A{1}},
                 bhtd(s.data(), c_.batch, c_.heads, c_.q_len, c_.k_len));
      all.parts.push_back({s, c_.heads});
    }
    if (encoding_.info->values && !encoding_.info->turns_values) {
      const std::vector<A> p(count, A{0.25});
      std::vector<A> o(static_cast<std::size_t>(c_.batch * c_.heads * c_.q_len * c_.dim));
      add_values(list, in.q_positions, in.k_positions, bhtd(p.data(), c_.batch, c_.heads, c_.q_len, c_.k_len),
                 bhtd(o.data(), c_.batch, c_.heads, c_.q_len, c_.dim));
      all.parts.push_back({o, c_.heads});
    }
    return all;
  }

  const DescribedEncoding& encoding_;
  AttentionCase c_;
  Sizes sizes_;
  std::optional<Params> params_;
  std::vector<std::vector<Index>> indices_;
  std::vector<ParameterMemory> memory_;
};

/// One parameter in whose middle another number is put.
template <class A>
class Changed {
 public:
  Changed(const Call<A>& call, const DescribedEncoding& encoding, std::size_t parameter)
      : call_(call), info_(encoding.info->parameters[parameter]), parameter_(parameter) {
    const ParameterMemory& memory = call.memory()[parameter];
    std::size_t count = 1;
    for (const Index extent : memory.shape) count *= static_cast<std::size_t>(extent);
    const auto* numbers = static_cast<const A*>(memory.value);
    numbers_.assign(numbers, numbers + count);
  }
  bool empty() const { return numbers_.empty(); }
  /// Whether an error is about the parameter, "c: must be …", or about one of its numbers, "c[2]: must be …".
  bool names(const std::string& error) const {
    const std::string name(info_.name);
    const auto has = [&](const std::string& part) { return error.find(part) != error.npos; };
    return has('.' + name + ':') || has(' ' + name + ':') || has(' ' + name + '[');
  }
  std::size_t place() const { return numbers_.size() / 2; }

  /// The head whose the number is, −1 if it is not one's alone.
  Index head() const {
    auto left = static_cast<Index>(place());
    const std::vector<Index>& shape = call_.memory()[parameter_].shape;
    for (std::size_t axis = shape.size(); axis-- > 0; left /= shape[axis]) {
      if (info_.extents[axis].name == "heads" && shape[axis] > 1) return left % shape[axis];
    }
    return -1;
  }

  /// What the encoding gives; nothing if it refuses the number by the parameter's name.
  std::optional<Given<A>> with(A number) const {
    std::vector<A> numbers = numbers_;
    numbers[place()] = number;
    std::vector<ParameterMemory> memory = call_.memory();
    memory[parameter_].value = numbers.data();
    try {
      return call_.of(memory);
    } catch (const RangeError& error) {
      EXPECT_TRUE(names(error.what())) << error.what();
      return {};
    }
  }

 private:
  const Call<A>& call_;
  const ParameterInfo& info_;
  std::size_t parameter_;
  std::vector<A> numbers_;
};

struct Counts {
  Index taken = 0, refused = 0;
};

template <class A>
void expect_no_silent_nan(const DescribedEncoding& encoding, Counts& counts) {
  const Call<A> call(encoding);
  const Given<A> right = call.of(call.memory());
  const A infinity = std::numeric_limits<A>::infinity(), largest = std::numeric_limits<A>::max();
  for (std::size_t p = 0; p < encoding.given.size(); ++p) {
    const ParameterInfo& info = encoding.info->parameters[p];
    if (!encoding.given[p] || info.indices) continue;
    const Changed<A> changed(call, encoding, p);
    if (changed.empty()) continue;
    SCOPED_TRACE(info.name);
    ASSERT_FALSE(right.parts.empty()) << "nothing is computed with it here: values that turn are not";
    for (const A number : {A{0}, A(1e30), A(-1e30), largest, -largest}) {
      const auto given = changed.with(number);
      EXPECT_TRUE(!given || given->nans() == 0) << number;
      ++(given ? counts.taken : counts.refused);
    }
    const auto nan = changed.with(std::numeric_limits<A>::quiet_NaN());
    EXPECT_TRUE(!nan || changed.head() < 0 || nan->same_but_for_head(changed.head(), right));
    for (const A number : {infinity, -infinity}) {
      const auto given = changed.with(number);
      const bool may_be_nan = nan && (encoding.info->reads_content || !info.learned);
      EXPECT_TRUE(!given || (may_be_nan ? given->nan_within(*nan) : given->nans() == 0)) << number;
      ++(given ? counts.taken : counts.refused);
    }
  }
}

TEST(DescribedNumbers, ThatAreHugeOrInfiniteAreRefusedByNameOrMakeNoNan) {
  Counts counts;
  for (const auto* all : {&test::described_terms(), &test::described_inputs()}) {
    for (const DescribedEncoding& encoding : *all) {
      SCOPED_TRACE(encoding.name);
      expect_no_silent_nan<double>(encoding, counts);
      expect_no_silent_nan<float>(encoding, counts);
    }
  }
  EXPECT_GT(counts.taken, 1000);
  EXPECT_GT(counts.refused, 100);
}

}  // namespace
}  // namespace bearing
