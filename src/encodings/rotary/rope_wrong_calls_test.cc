#include <gtest/gtest.h>
#include <bearing/bearing.hpp>

#include <cmath>
#include <functional>
#include <limits>

// Every wrong call throws the error it should, says what must hold and what came, and has written nothing.

namespace bearing {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr Index huge = std::numeric_limits<Index>::max();

const Rope rope{.head_dim = 8, .pairing = Pairing::half};
const Rope mrope{.head_dim = 8, .pairing = Pairing::half, .axes = RopeAxes::sections({1, 1, 2})};

enum class Kind { shape, range };

struct Wrong {
  std::function<void()> call;
  Kind kind;
  const char* text;
};

/// Memory that every call is given, and what it held: x [2, 3, 5, 8] and more behind it.
class WrongCalls : public testing::Test {
 protected:
  WrongCalls() : memory(1000), gradients(100, 0.25) {
    for (std::size_t n = 0; n < memory.size(); ++n) memory[n] = static_cast<float>(n);
  }

  void expect(const std::vector<Wrong>& calls) {
    const std::vector<float> before = memory;
    const std::vector<double> gradients_before = gradients;
    for (const Wrong& wrong : calls) {
      SCOPED_TRACE(wrong.text);
      try {
        wrong.call();
        ADD_FAILURE() << "accepted";
      } catch (const ShapeError& error) {
        EXPECT_EQ(wrong.kind, Kind::shape) << error.what();
        EXPECT_STREQ(error.what(), wrong.text);
      } catch (const RangeError& error) {
        EXPECT_EQ(wrong.kind, Kind::range) << error.what();
        EXPECT_STREQ(error.what(), wrong.text);
      } catch (const std::exception& error) {
        ADD_FAILURE() << "neither ShapeError nor RangeError: " << error.what();
      }
      EXPECT_EQ(memory, before) << "something was written";
      EXPECT_EQ(gradients, gradients_before) << "something was added";
    }
  }

  View<float, 4> x(Index last = 8) { return bhtd(memory.data(), 2, 3, 5, last); }
  View<float, 4> other() { return bhtd(memory.data() + 300, 2, 3, 5, 8); }
  View<const float, 4> in() { return x(); }
  static View<float, 4> nowhere() { return bhtd<float>(nullptr, 2, 3, 5, 8); }
  View<float, 4> strided(std::array<Index, 4> stride) { return {memory.data(), {2, 3, 5, 8}, stride}; }
  View<float, 2> rows(Index offset, Index time = 5, Index pairs = 4) {
    return dense(memory.data() + offset, time, pairs);
  }

  std::vector<float> memory;
  std::vector<double> gradients;
  const RopeTable<float> table{rope, 10};
  const RopeTable<float> three_axes{mrope, 10};
  const std::vector<Index> integers = std::vector<Index>(100, 1);
  const std::vector<double> doubles = std::vector<double>(100, 1);
};

TEST_F(WrongCalls, TensorsOfTheWrongShapeOrMemoryAreRefused) {
  expect({
      {[&] { rotate(table, x(7), {}); }, Kind::shape,
       "[rotate] x: must have a last extent of head_dim = 8, got 7; shape is [2, 3, 5, 7]"},
      {[&] { rotate(table, bhtd(memory.data(), 2, 3, 0, 16), {}); }, Kind::shape,
       "[rotate] x: must have a last extent of head_dim = 8, got 16; shape is [2, 3, 0, 16]"},
      {[&] { rotate(table, bhtd(memory.data(), -1, 3, 5, 8), {}); }, Kind::shape,
       "[rotate] x: must have extents of at least 0, got shape [-1, 3, 5, 8]"},
      {[&] { rotate(table, nowhere(), {}); }, Kind::shape,
       "[rotate] x: must have memory, got a null pointer; shape is [2, 3, 5, 8]"},
      {[&] {
         rotate(table, strided({120, 0, 8, 1}), {});
       },
       Kind::shape, "[rotate] x: no two elements may share memory, got strides [120, 0, 8, 1] for shape [2, 3, 5, 8]"},
      {[&] {
         rotate(table, strided({120, 40, 4, 1}), {});
       },
       Kind::shape, "[rotate] x: no two elements may share memory, got strides [120, 40, 4, 1] for shape [2, 3, 5, 8]"},
      {[&] {
         rotate(table, strided({120, 40, -7, 1}), {});
       },
       Kind::shape,
       "[rotate] x: no two elements may share memory, got strides [120, 40, -7, 1] for shape [2, 3, 5, 8]"},
      {[&] {
         rotate(table, strided({60, 40, 8, 1}), {});
       },
       Kind::shape, "[rotate] x: no two elements may share memory, got strides [60, 40, 8, 1] for shape [2, 3, 5, 8]"},
      {[&] { rotate_to(table, in(), bhtd(memory.data() + 300, 2, 3, 4, 8), {}); }, Kind::shape,
       "[rotate_to] out: must have the shape of in, [2, 3, 5, 8], got [2, 3, 4, 8]"},
      {[&] { rotate_to(table, View<const float, 4>(x(7)), x(7), {}); }, Kind::shape,
       "[rotate_to] in: must have a last extent of head_dim = 8, got 7; shape is [2, 3, 5, 7]"},
      {[&] { rotate_to(table, in(), nowhere(), {}); }, Kind::shape,
       "[rotate_to] out: must have memory, got a null pointer; shape is [2, 3, 5, 8]"},
      {[&] { rotate_to(table, View<const float, 4>(nowhere()), other(), {}); }, Kind::shape,
       "[rotate_to] in: must have memory, got a null pointer; shape is [2, 3, 5, 8]"},
      {[&] {
         rotate_to(table, View<const float, 4>(other()), strided({120, 0, 8, 1}), {});
       },
       Kind::shape,
       "[rotate_to] out: no two elements may share memory, got strides [120, 0, 8, 1] for shape [2, 3, 5, 8]"},
      {[&] { rotate_to(table, in(), bhtd(memory.data() + 1, 2, 3, 5, 8), {}); }, Kind::shape,
       "[rotate_to] out: must be the input's own view or share no memory with it, got views that overlap"},
      {[&] { rotate_to(table, in(), bthd(memory.data(), 2, 5, 3, 8), {}); }, Kind::shape,
       "[rotate_to] out: must be the input's own view or share no memory with it, got views that overlap"},
      {[&] { rotate_to(table, in(), bhtd(memory.data() + 239, 2, 3, 5, 8), {}); }, Kind::shape,
       "[rotate_to] out: must be the input's own view or share no memory with it, got views that overlap"},
  });
}

TEST_F(WrongCalls, SizesThatCannotBeCountedAreRefused) {
  expect({
      {[&] {
         rotate(table, View<float, 4>{memory.data(), {Index{1} << 40, Index{1} << 40, 1, 8}, {8, 8, 8, 1}}, {});
       },
       Kind::shape, "[rotate] x: must span at most 2^60 bytes, got shape [1099511627776, 1099511627776, 1, 8]"},
      {[&] {
         rotate(table, View<float, 4>{memory.data(), {huge, 1, 1, 8}, {8, 8, 8, 1}}, {});
       },
       Kind::shape, "[rotate] x: must span at most 2^60 bytes, got shape [9223372036854775807, 1, 1, 8]"},
      {[&] {
         rotate(table, strided({huge, 40, 8, 1}), {});
       },
       Kind::shape,
       "[rotate] x: must span at most 2^60 bytes, got strides [9223372036854775807, 40, 8, 1] for shape [2, 3, 5, 8]"},
      {[&] {
         rotate(table, strided({std::numeric_limits<Index>::min(), 40, 8, 1}), {});
       },
       Kind::shape,
       "[rotate] x: must span at most 2^60 bytes, got strides [-9223372036854775808, 40, 8, 1] for shape [2, 3, 5, 8]"},
  });
}

TEST_F(WrongCalls, PositionsThatDoNotFitAreRefused) {
  const double bad[] = {0, nan, infinity, -infinity, 2147483648.5};
  const Index far[] = {0, max_position + 1, -max_position - 1, huge, 5};
  const auto at = [&](double value) {
    static std::vector<double> five;
    five = {0, 1, 2, value, 4};
    return dense<const double>(five.data(), 5);
  };
  const auto whole = [&](Index value) {
    static std::vector<Index> five;
    five = {0, 1, 2, value, 4};
    return dense<const Index>(five.data(), 5);
  };
  expect({
      {[&] { rotate(table, x(), dense(integers.data(), 4)); }, Kind::shape,
       "[rotate] positions: must have 5 tokens, got 4"},
      {[&] { rotate(table, x(), dense(doubles.data(), 6)); }, Kind::shape,
       "[rotate] positions: must have 5 tokens, got 6"},
      {[&] { rotate(table, x(), dense(integers.data(), 3, 5)); }, Kind::shape,
       "[rotate] positions: must have 2 sequences, got 3"},
      {[&] { rotate(table, x(), dense(integers.data(), 3, 2, 5)); }, Kind::shape,
       "[rotate] positions: must have 1 axis, got 3"},
      {[&] { rotate(three_axes, x(), dense(integers.data(), 2, 2, 5)); }, Kind::shape,
       "[rotate] positions: must have 3 axes, or 1 for all of them, got 2"},
      {[&] { rotate(table, x(), dense<const Index>(nullptr, 5)); }, Kind::shape,
       "[rotate] positions: must point to positions, got null"},
      {[&] { rotate(table, x(), Positions::starting_at(dense(integers.data(), 3))); }, Kind::shape,
       "[rotate] positions: must have 2 sequences, got 3"},
      {[&] { rotate(table, x(), at(bad[1])); }, Kind::range,
       "[rotate] positions: must be from -2^31 to 2^31, got nan at [axis 0, batch 0, time 3]"},
      {[&] { rotate(table, x(), at(bad[2])); }, Kind::range,
       "[rotate] positions: must be from -2^31 to 2^31, got inf at [axis 0, batch 0, time 3]"},
      {[&] { rotate(table, x(), at(bad[3])); }, Kind::range,
       "[rotate] positions: must be from -2^31 to 2^31, got -inf at [axis 0, batch 0, time 3]"},
      {[&] { rotate(table, x(), at(bad[4])); }, Kind::range,
       "[rotate] positions: must be from -2^31 to 2^31, got 2147483648.5 at [axis 0, batch 0, time 3]"},
      {[&] { rotate(table, x(), whole(far[1])); }, Kind::range,
       "[rotate] positions: must be from -2^31 to 2^31, got 2147483649 at [axis 0, batch 0, time 3]"},
      {[&] { rotate(table, x(), whole(far[2])); }, Kind::range,
       "[rotate] positions: must be from -2^31 to 2^31, got -2147483649 at [axis 0, batch 0, time 3]"},
      {[&] { rotate(table, x(), whole(far[3])); }, Kind::range,
       "[rotate] positions: must be from -2^31 to 2^31, got 9223372036854775807 at [axis 0, batch 0, time 3]"},
      {[&] { rotate(table, x(), Positions(max_position + 1)); }, Kind::range,
       "[rotate] positions: must be from -2^31 to 2^31, got 2147483649 at [axis 0, batch 0, time 0]"},
      {[&] { rotate(table, x(), Positions(max_position - 3)); }, Kind::range,
       "[rotate] positions: must be from -2^31 to 2^31, got 2147483645 + 4 at [axis 0, batch 0, time 4]"},
      {[&] { rotate(table, x(), Positions(-huge)); }, Kind::range,
       "[rotate] positions: must be from -2^31 to 2^31, got -9223372036854775807 at [axis 0, batch 0, time 0]"},
      {[&] {
         const Index firsts[] = {0, max_position - 3};
         rotate(table, x(), Positions::starting_at(dense(firsts, 2)));
       },
       Kind::range, "[rotate] positions: must be from -2^31 to 2^31, got 2147483645 + 4 at [axis 0, batch 1, time 4]"},
  });
}

TEST_F(WrongCalls, RowsThatAGivenTableDoesNotHaveAreRefused) {
  const std::vector<float> numbers(12, 1);
  const auto given = RopeTable<float>::from_cos_sin(rope, dense(numbers.data(), 3, 4), dense(numbers.data(), 3, 4));
  const auto empty = RopeTable<float>::from_cos_sin(rope, dense(numbers.data(), 0, 4), dense(numbers.data(), 0, 4));
  const auto one = bhtd(memory.data(), 1, 1, 1, 8);
  const double half = 0.5;
  expect({
      {[&] { rotate(given, x(), {}); }, Kind::range,
       "[rotate] positions: must be a position of the given table, which has 0 to 2, got 3"},
      {[&] { rotate(given, one, Positions(-1)); }, Kind::range,
       "[rotate] positions: must be a position of the given table, which has 0 to 2, got -1"},
      {[&] { rotate(given, one, dense(&half, 1)); }, Kind::range,
       "[rotate] positions: must be a position of the given table, which has 0 to 2, got 0.5"},
      {[&] { rotate(empty, one, {}); }, Kind::range,
       "[rotate] positions: must be a position of the given table, which has none, got 0"},
      {[&] { rotate_backward(given, one, Positions(3)); }, Kind::range,
       "[rotate_backward] positions: must be a position of the given table, which has 0 to 2, got 3"},
  });
}

TEST_F(WrongCalls, QueriesAreNotTurnedWhenTheKeysAreWrong) {
  expect({
      {[&] { rotate(table, x(7), other(), {}); }, Kind::shape,
       "[rotate] q: must have a last extent of head_dim = 8, got 7; shape is [2, 3, 5, 7]"},
      {[&] { rotate(table, x(), bhtd(memory.data() + 300, 2, 3, 5, 6), {}); }, Kind::shape,
       "[rotate] k: must have a last extent of head_dim = 8, got 6; shape is [2, 3, 5, 6]"},
      {[&] { rotate(table, x(), bhtd(memory.data() + 300, 2, 3, 6, 8), dense(integers.data(), 5)); }, Kind::shape,
       "[rotate] positions: must have 6 tokens, got 5"},
      {[&] { rotate(table, x(), {}, other(), dense(integers.data(), 3, 5)); }, Kind::shape,
       "[rotate] k_positions: must have 2 sequences, got 3"},
      {[&] { rotate(table, x(), Positions(max_position + 1), other(), {}); }, Kind::range,
       "[rotate] q_positions: must be from -2^31 to 2^31, got 2147483649 at [axis 0, batch 0, time 0]"},
      {[&] { rotate(table, x(), {}, other(), Positions(max_position + 1)); }, Kind::range,
       "[rotate] k_positions: must be from -2^31 to 2^31, got 2147483649 at [axis 0, batch 0, time 0]"},
      {[&] { rotate(table, x(), x(), {}); }, Kind::shape,
       "[rotate] k: must share no memory with q, got tensors that overlap"},
      {[&] { rotate(table, x(), bhtd(memory.data() + 300, 2, 3, 6, 8), Positions(3)); }, Kind::shape,
       "[rotate] k: must have the batch and time of q, [2, 3, 5, 8], as both stand at the same positions, got "
       "[2, 3, 6, 8]"},
      {[&] { rotate(table, x(), bhtd(memory.data() + 300, 1, 3, 5, 8), dense(integers.data(), 5)); }, Kind::shape,
       "[rotate] k: must have the batch and time of q, [2, 3, 5, 8], as both stand at the same positions, got "
       "[1, 3, 5, 8]"},
  });
}

TEST_F(WrongCalls, BackwardNamesItselfAndItsArguments) {
  expect({
      {[&] { rotate_backward(table, x(7), {}); }, Kind::shape,
       "[rotate_backward] d: must have a last extent of head_dim = 8, got 7; shape is [2, 3, 5, 7]"},
      {[&] {
         rotate_backward(table, strided({0, 40, 8, 1}), {});
       },
       Kind::shape,
       "[rotate_backward] d: no two elements may share memory, got strides [0, 40, 8, 1] for shape [2, 3, 5, 8]"},
      {[&] { rotate_backward_to(table, in(), bhtd(memory.data() + 300, 2, 3, 1, 8), {}); }, Kind::shape,
       "[rotate_backward_to] d_in: must have the shape of d_out, [2, 3, 5, 8], got [2, 3, 1, 8]"},
      {[&] { rotate_backward_to(table, in(), other(), dense(integers.data(), 6)); }, Kind::shape,
       "[rotate_backward_to] positions: must have 5 tokens, got 6"},
  });
}

TEST_F(WrongCalls, TablesThatCannotBeAreRefused) {
  const std::vector<float> numbers(40, 1);
  const auto given = [&](Index length, Index pairs) { return dense(numbers.data(), length, pairs); };
  const RopeTable<float> compact(rope, 10, {.memory = TableMemory::compact});
  Rope odd = rope;
  odd.rotary_dim = 5;
  Rope large = rope, small = rope, elsewhere = rope;
  large.attention_factor = 1e39, small.attention_factor = 1e-50;
  elsewhere.part.where = static_cast<RotaryPart::Where>(9);
  expect({
      {[&] { RopeTable<float>(large, 10); }, Kind::range,
       "[RopeTable] attention_factor: must be finite and not 0 in float, got 1e+39"},
      {[&] { RopeTable<float>(small, 10); }, Kind::range,
       "[RopeTable] attention_factor: must be finite and not 0 in float, got 1e-50"},
      {[&] { RopeTable<float>(rope, 10, {.memory = static_cast<TableMemory>(7)}); }, Kind::range,
       "[RopeTable] memory: must be full or compact, got 7"},
      {[&] { RopeTable<float>(elsewhere, 10); }, Kind::shape,
       "[resolve] part.where: must be first, last or window, got 9"},
      {[&] { RopeTable<float>(rope, -1); }, Kind::range, "[RopeTable] length: must be from 0 to 2^31, got -1"},
      {[&] { RopeTable<double>(rope, max_position + 1); }, Kind::range,
       "[RopeTable] length: must be from 0 to 2^31, got 2147483649"},
      {[&] { RopeTable<float>(rope, huge); }, Kind::range,
       "[RopeTable] length: must be from 0 to 2^31, got 9223372036854775807"},
      {[&] { RopeTable<double>(Rope{.head_dim = 65'536, .pairing = Pairing::half}, max_position); }, Kind::range,
       "[RopeTable] length: must fit in memory, got 2147483648 positions of 524288 bytes"},
      {[&] { RopeTable<float>(odd, 10); }, Kind::shape,
       "[resolve] rotary_dim: must be even and from 2 to head_dim = 8, got 5"},
      {[&] { RopeTable<float>(rope, 10, {.seq_len = -1}); }, Kind::range,
       "[resolve] seq_len: must be from 0 to 2^31, got -1"},
      {[&] { compact.cos(); }, Kind::shape,
       "[RopeTable::cos] table: must be a full one (TableMemory::full), got a compact one"},
      {[&] { compact.sin(); }, Kind::shape,
       "[RopeTable::sin] table: must be a full one (TableMemory::full), got a compact one"},
      {[&] { RopeTable<float>::from_cos_sin(rope, given(3, 5), given(3, 5)); }, Kind::shape,
       "[from_cos_sin] cos: must have shape [length, pairs] with 4 pairs, got [3, 5]"},
      {[&] { RopeTable<float>::from_cos_sin(rope, given(3, 4), given(2, 4)); }, Kind::shape,
       "[from_cos_sin] sin: must have the shape of cos, [3, 4], got [2, 4]"},
      {[&] { RopeTable<float>::from_cos_sin(rope, given(3, 4), dense<const float>(nullptr, 3, 4)); }, Kind::shape,
       "[from_cos_sin] sin: must have memory, got a null pointer; shape is [3, 4]"},
      {[&] { RopeTable<float>::from_cos_sin(rope, dense<const float>(nullptr, 3, 4), given(3, 4)); }, Kind::shape,
       "[from_cos_sin] cos: must have memory, got a null pointer; shape is [3, 4]"},
      {[&] { RopeTable<float>::from_cos_sin(rope, given(-3, 4), given(-3, 4)); }, Kind::shape,
       "[from_cos_sin] cos: must have extents of at least 0, got shape [-3, 4]"},
      {[&] { RopeTable<float>::from_cos_sin(odd, given(3, 2), given(3, 2)); }, Kind::shape,
       "[from_cos_sin] rotary_dim: must be even and from 2 to head_dim = 8, got 5"},
  });
}

/// RopeFrequencies are plain data that anyone may build, so a table must not trust them.
TEST_F(WrongCalls, FrequenciesThatContradictThemselvesAreRefused) {
  const auto broken = [](auto change) {
    return [change] {
      RopeFrequencies frequencies = resolve(mrope);
      change(frequencies);
      RopeTable<float>(frequencies, 10);
    };
  };
  expect({
      {broken([](auto& f) { f.inv_freq.pop_back(); }), Kind::shape,
       "[RopeFrequencies] inv_freq: must have one entry per pair, 4, got 3"},
      {broken([](auto& f) { f.quarter_turns.resize(4); }), Kind::shape,
       "[RopeFrequencies] quarter_turns: must have three entries per pair, 12, got 4"},
      {broken([](auto& f) { f.axis.clear(); }), Kind::shape,
       "[RopeFrequencies] axis: must have one entry per pair, 4, got 0"},
      {broken([](auto& f) { f.axis[2] = 3; }), Kind::shape, "[RopeFrequencies] axis: must be from 0 to 2, got 3"},
      {broken([](auto& f) { f.pairing = static_cast<Pairing>(7); }), Kind::shape,
       "[RopeFrequencies] pairing: must be interleaved or half, got 7"},
      {broken([](auto& f) { f.angles = static_cast<Angles>(7); }), Kind::shape,
       "[RopeFrequencies] angles: must be exact or as_float32, got 7"},
      {broken([](auto& f) { f.axes = 5; }), Kind::shape, "[RopeFrequencies] axes: must be from 1 to 4, got 5"},
      {broken([](auto& f) { f.rotary_dim = 10; }), Kind::shape,
       "[RopeFrequencies] rotary_dim: must be even and from 2 to head_dim = 8, got 10"},
      {broken([](auto& f) { f.begin = 1; }), Kind::shape,
       "[RopeFrequencies] begin: must be from 0 to head_dim - rotary_dim = 0, got 1"},
      {broken([](auto& f) { f.quarter_turns[0] = nan; }), Kind::range,
       "[RopeFrequencies] quarter_turns: must be finite, got nan"},
      {broken([](auto& f) { f.quarter_turns[0] = 1e243; }), Kind::shape,
       "[RopeFrequencies] quarter_turns: must be inv_freq + inv_freq_rest times 2/π, got 1e+243 for 1 of pair 0"},
      {broken([](auto& f) { f.inv_freq[0] = 0.5; }), Kind::shape,
       "[RopeFrequencies] quarter_turns: must be inv_freq + inv_freq_rest times 2/π, got 0.6366197723675814 for 0.5 of "
       "pair 0"},
      {broken([](auto& f) { f.inv_freq[0] = -1; }), Kind::shape,
       "[RopeFrequencies] quarter_turns: must be inv_freq + inv_freq_rest times 2/π, got 0.6366197723675814 for -1 of "
       "pair 0"},
      {broken([](auto& f) { f.inv_freq_rest[0] = 1e-20; }), Kind::shape,
       "[RopeFrequencies] quarter_turns: must be inv_freq + inv_freq_rest times 2/π, got 0.6366197723675814 for 1 of "
       "pair 0"},
      {broken([](auto& f) { f.quarter_turns[5] = 1e-20; }), Kind::shape,
       "[RopeFrequencies] quarter_turns: must be inv_freq + inv_freq_rest times 2/π, got 0.06366197723675814 for 0.1 "
       "of pair 1"},
      {broken([](auto& f) { f.quarter_turns[9] = 1e-3; }), Kind::shape,
       "[RopeFrequencies] quarter_turns: must be inv_freq + inv_freq_rest times 2/π, got 0.06366197723675814 for 0.1 "
       "of pair 1"},
      {broken([](auto& f) { f.inv_freq[0] = 1e300, f.quarter_turns[0] = 6e299; }), Kind::range,
       "[RopeFrequencies] inv_freq: must be at most 2^13 radians per token, got 1e+300"},
      {broken([](auto& f) { f.attention_factor = 0; }), Kind::range,
       "[RopeFrequencies] attention_factor: must not be 0, got 0"},
      {broken([](auto& f) { f.attention_factor = 1e-50, f.angles = Angles::as_float32; }), Kind::range,
       "[RopeFrequencies] attention_factor: must not be 0, got 0"},
  });
}

TEST_F(WrongCalls, FillRefusesRowsThatDoNotFit) {
  const RopeFrequencies f = resolve(rope), three = resolve(mrope);
  expect({
      {[&] { fill(f, {}, rows(0, 5, 3), rows(100, 5, 3)); }, Kind::shape,
       "[fill] cos: must have shape [time, pairs] with 4 pairs, got [5, 3]"},
      {[&] { fill(f, {}, rows(0), rows(100, 4)); }, Kind::shape,
       "[fill] sin: must have the shape of cos, [5, 4], got [4, 4]"},
      {[&] { fill(f, {}, dense<float>(nullptr, 5, 4), rows(100)); }, Kind::shape,
       "[fill] cos: must have memory, got a null pointer; shape is [5, 4]"},
      {[&] { fill(f, {}, rows(0), dense<float>(nullptr, 5, 4)); }, Kind::shape,
       "[fill] sin: must have memory, got a null pointer; shape is [5, 4]"},
      {[&] { fill(f, {}, rows(0, -5), rows(100, -5)); }, Kind::shape,
       "[fill] cos: must have extents of at least 0, got shape [-5, 4]"},
      {[&] { fill(f, dense(integers.data(), 6), rows(0), rows(100)); }, Kind::shape,
       "[fill] positions: must have 5 tokens, got 6"},
      {[&] { fill(f, dense(integers.data(), 2, 5), rows(0), rows(100)); }, Kind::shape,
       "[fill] positions: must have 1 sequence, got 2"},
      {[&] { fill(three, dense(integers.data(), 2, 1, 5), rows(0), rows(100)); }, Kind::shape,
       "[fill] positions: must have 3 axes, or 1 for all of them, got 2"},
      {[&] { fill(f, Positions(max_position), rows(0), rows(100)); }, Kind::range,
       "[fill] positions: must be from -2^31 to 2^31, got 2147483648 + 4 at [axis 0, batch 0, time 4]"},
  });
}

TEST_F(WrongCalls, GradientsRefuseWhatDoesNotFitTogether) {
  const RopeFrequencies f = resolve(rope);
  const auto theta = [&](Index pairs) { return dense(gradients.data(), pairs); };
  const auto d_positions = [&](Index axes, Index batch, Index time) {
    return dense(gradients.data(), axes, batch, time);
  };
  const View<const float, 4> y = x(), d_y = other(), short_y = x(7);
  const View<const float, 4> short_d = bhtd<const float>(memory.data() + 300, 2, 3, 4, 8);
  expect({
      {[&] { rotate_parameter_gradients(f, short_y, short_y, {}, {.inv_freq = theta(4)}); }, Kind::shape,
       "[rotate_parameter_gradients] y: must have a last extent of head_dim = 8, got 7; shape is [2, 3, 5, 7]"},
      {[&] { rotate_parameter_gradients(f, y, short_d, {}, {.inv_freq = theta(4)}); }, Kind::shape,
       "[rotate_parameter_gradients] d_y: must have the shape of y, [2, 3, 5, 8], got [2, 3, 4, 8]"},
      {[&] { rotate_parameter_gradients(f, View<const float, 4>(nowhere()), d_y, {}, {.inv_freq = theta(4)}); },
       Kind::shape, "[rotate_parameter_gradients] y: must have memory, got a null pointer; shape is [2, 3, 5, 8]"},
      {[&] { rotate_parameter_gradients(f, y, d_y, {}, {.inv_freq = theta(8)}); }, Kind::shape,
       "[rotate_parameter_gradients] gradients.inv_freq: must have one element per pair, 4, got 8"},
      {[&] { rotate_parameter_gradients(f, y, d_y, {}, {.positions = d_positions(1, 2, 4)}); }, Kind::shape,
       "[rotate_parameter_gradients] gradients.positions: must have shape [axes, batch, time] = [1, 2, 5], got [1, 2, "
       "4]"},
      {[&] { rotate_parameter_gradients(f, y, d_y, dense(integers.data(), 4), {.inv_freq = theta(4)}); }, Kind::shape,
       "[rotate_parameter_gradients] positions: must have 5 tokens, got 4"},
      {[&] { rotate_parameter_gradients(f, y, d_y, Positions(huge), {.inv_freq = theta(4)}); }, Kind::range,
       "[rotate_parameter_gradients] positions: must be from -2^31 to 2^31, got 9223372036854775807 at [axis 0, "
       "batch 0, "
       "time 0]"},
  });
}

TEST_F(WrongCalls, RebaseRefusesEncodingsOfAnotherGeometry) {
  const RopeFrequencies f = resolve(rope);
  const auto changed = [](auto change) {
    Rope other = rope;
    change(other);
    return resolve(other);
  };
  const auto to = [&](const RopeFrequencies& other) { rebase(f, {}, other, {}, x()); };
  const auto wider = changed([](Rope& r) { r.head_dim = 10; });
  const auto narrower = changed([](Rope& r) { r.rotary_dim = 6; });
  const auto last = changed([](Rope& r) { r.rotary_dim = 6, r.part = RotaryPart::last(); });
  const auto interleaved = changed([](Rope& r) { r.pairing = Pairing::interleaved; });
  const auto three = resolve(mrope);
  auto other_three = three;
  std::swap(other_three.axis.front(), other_three.axis.back());
  expect({
      {[&] { to(wider); }, Kind::shape, "[rebase] to: must have the same head_dim as from, 8, got 10"},
      {[&] { to(narrower); }, Kind::shape, "[rebase] to: must have the same rotary_dim as from, 8, got 6"},
      {[&] { rebase(narrower, {}, last, {}, x()); }, Kind::shape,
       "[rebase] to: must have the same begin as from, 0, got 2"},
      {[&] { to(interleaved); }, Kind::shape, "[rebase] to: must have the same pairing as from, half, got interleaved"},
      {[&] { to(three); }, Kind::shape, "[rebase] to: must have the same number of axes as from, 1, got 3"},
      {[&] { rebase(three, {}, other_three, {}, x()); }, Kind::shape,
       "[rebase] to: each pair must be turned by the same axis as in from, 0 for pair 0, got 2"},
      {[&] { rebase(f, {}, f, {}, x(7)); }, Kind::shape,
       "[rebase] k: must have a last extent of head_dim = 8, got 7; shape is [2, 3, 5, 7]"},
      {[&] { rebase(f, {}, f, {}, nowhere()); }, Kind::shape,
       "[rebase] k: must have memory, got a null pointer; shape is [2, 3, 5, 8]"},
      {[&] {
         rebase(f, {}, f, {}, strided({120, 0, 8, 1}));
       },
       Kind::shape, "[rebase] k: no two elements may share memory, got strides [120, 0, 8, 1] for shape [2, 3, 5, 8]"},
      {[&] { rebase(f, dense(integers.data(), 4), f, {}, x()); }, Kind::shape,
       "[rebase] old_positions: must have 5 tokens, got 4"},
      {[&] { rebase(f, {}, f, dense(integers.data(), 4), x()); }, Kind::shape,
       "[rebase] new_positions: must have 5 tokens, got 4"},
      {[&] { rebase(f, {}, f, Positions(huge), x()); }, Kind::range,
       "[rebase] new_positions: must be from -2^31 to 2^31, got 9223372036854775807 at [axis 0, batch 0, time 0]"},
      {[&] { shift(f, max_position + 1, x()); }, Kind::range,
       "[shift] by: must be from -2^31 to 2^31, got 2147483649 at [axis 0, batch 0, time 0]"},
      {[&] { shift(f, 1, x(7)); }, Kind::shape,
       "[shift] k: must have a last extent of head_dim = 8, got 7; shape is [2, 3, 5, 7]"},
      {[&] { shift(resolve(rope, 0, Angles::as_float32), 1, x()); }, Kind::range,
       "[shift] frequencies: must have exact angles, as the roundings of float32 angles depend on both positions, "
       "which rebase() takes, got Angles::as_float32"},
  });
}

TEST_F(WrongCalls, ATableIsToldTheLengthThatItsFrequenciesDependOn) {
  Rope dynamic = rope, longrope = rope;
  dynamic.scaling = DynamicNtkScaling{.factor = 2, .trained_length = 64};
  const std::vector<double> ones(static_cast<std::size_t>(rope.head_dim / 2), 1.0);
  longrope.scaling = LongRopeScaling{.short_factor = ones, .long_factor = ones, .trained_length = 64, .factor = 2};
  expect({
      {[&] { RopeTable<float>(dynamic, 4096); }, Kind::range,
       "[RopeTable] seq_len: must be given, as the frequencies of dynamic depend on how long the sequence is, got 0"},
      {[&] { RopeTable<double>(longrope, 4096, {.memory = TableMemory::compact}); }, Kind::range,
       "[RopeTable] seq_len: must be given, as the frequencies of longrope depend on how long the sequence is, got 0"},
  });
  EXPECT_NO_THROW(RopeTable<float>(dynamic, 128, {.seq_len = 64}));
  EXPECT_NO_THROW(RopeTable<float>(resolve(dynamic, 64), 128));
}

TEST_F(WrongCalls, XposRefusesNumbersThatCannotBe) {
  const auto table_of = [](auto change) {
    return [change] {
      Xpos xpos{.rope = rope};
      change(xpos);
      XposTable<float>(xpos, 10);
    };
  };
  Xpos stretched{.rope = rope};
  stretched.rope.scaling = DynamicNtkScaling{.factor = 2, .trained_length = 64};
  expect({
      {table_of([](Xpos& x) { x.scale_base = 0; }), Kind::range,
       "[XposTable] scale_base: must be finite and above 0, got 0"},
      {table_of([](Xpos& x) { x.scale_base = nan; }), Kind::range,
       "[XposTable] scale_base: must be finite and above 0, got nan"},
      {table_of([](Xpos& x) { x.gamma = -0.4; }), Kind::range,
       "[XposTable] gamma: must be finite and above 0, got -0.4"},
      {table_of([](Xpos& x) { x.centre = infinity; }), Kind::range,
       "[XposTable] centre: must be within 2^31 of 0, got inf"},
      {table_of([](Xpos& x) { x.centre = 1e6; }), Kind::range,
       "[XposTable] length: must keep xPos factors from 2^-100 to 2^100, got position 0, too far from the centre "
       "1e+06"},
      {table_of([](Xpos& x) { x.rope = mrope; }), Kind::shape,
       "[XposTable] rope.axes: must be one axis, as xPos decays along one distance, got several"},
      {[&] { XposTable<float>(stretched, 10); }, Kind::range,
       "[XposTable] seq_len: must be given, as the frequencies of dynamic depend on how long the sequence is, got 0"},
      {[] { XposTable<float>({.rope = rope}, -1); }, Kind::range, "[XposTable] length: must be from 0 to 2^31, got -1"},
      {[] { XposTable<double>({.rope = rope}, -1, {.memory = TableMemory::compact}); }, Kind::range,
       "[XposTable] length: must be from 0 to 2^31, got -1"},
      {[&] { rebase(stretched, {}, Positions(1), x()); }, Kind::range,
       "[rebase] rope.scaling: must give the same frequencies at every length, as ExplicitFrequencies with those of "
       "the "
       "keys' table do, got dynamic"},
      {[&] { rebase(Xpos{.rope = rope}, {}, Positions(30'000), x()); }, Kind::range,
       "[rebase] new_positions: must keep xPos factors from 2^-100 to 2^100, got a move by 30000"},
      {[&] { rebase(Xpos{.rope = rope, .gamma = nan}, {}, {}, x()); }, Kind::range,
       "[rebase] gamma: must be finite and above 0, got nan"},
      {[&] { rebase(Xpos{.rope = rope}, dense(integers.data(), 4), {}, x()); }, Kind::shape,
       "[rebase] old_positions: must have 5 tokens, got 4"},
      {[] { xpos_decay({.rope = {.head_dim = -4, .pairing = Pairing::half}}); }, Kind::shape,
       "[xpos_decay] rope.head_dim: must be from 2 to 65536, got -4"},
  });
}

}  // namespace
}  // namespace bearing
