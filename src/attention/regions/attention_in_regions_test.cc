#include <gtest/gtest.h>
#include <bearing/encodings/alibi.hpp>
#include <bearing/encodings/rotary_rows.hpp>
#include <bearing/error.hpp>
#include <cmath>
#include <cstring>
#include <map>

#include "support/attention_encodings.hpp"
#include "support/errors.hpp"
#include "support/regions.hpp"
#include "support/targets.hpp"
#include "support/workers.hpp"

// Attention in regions, forward and backward: against the reference, central differences, and attention() where regions
// make no difference.

namespace bearing {
namespace {

const std::vector<double> four_sinks{0.5, -1, 2, 0};

struct NamedRegions {
  const char* name;
  std::vector<Region> all;
};
const std::vector<NamedRegions>& examples() {
  static const std::vector<NamedRegions> all{
      {"self-extend", regions(SelfExtend{.group = 3, .window = 7})},
      {"self-extend without a window", regions(SelfExtend{.group = 2, .window = 0})},
      {"rerope", regions(ReRope{.window = 5})},
      {"leaky rerope", regions(ReRope{.window = 5, .step = 0.125})},
      {"dual chunk", regions(DualChunk{.chunk_size = 12, .local_size = 3})},
      {"dual chunk of long chunks", regions(DualChunk{.chunk_size = 100, .local_size = 20})},
      {"one of one's own", {{.q = {.step = 0.5}, .k = {.step = 0.5}}}}};
  return all;
}

/// Few queries, blocks of both sides, a decode step; heads in groups of two.
std::vector<AttentionCase> cases() {
  std::vector<AttentionCase> all;
  for (const auto& [q_len, k_len, first] :
       {std::tuple<Index, Index, Index>{11, 20, 9}, {40, 40, 0}, {150, 330, 180}, {1, 300, 299}, {3, 90, 87}}) {
    AttentionCase c{.batch = 2, .heads = 4, .kv_heads = 2, .q_len = q_len, .k_len = k_len, .q_first = first};
    c.options.mask = Mask::causal;
    all.push_back(c);
  }
  return all;
}

template <class A>
RopeTable<A> table(Index dim = 8) {
  return RopeTable<A>(Rope{.head_dim = dim, .base = 100, .pairing = Pairing::half}, 64);
}

TEST(AttentionInRegions, GivesTheReferencesNumbers) {
  const RopeTable<double> t64 = table<double>();
  const RopeTable<float> t32 = table<float>();
  const RotaryRows<double> rope64(t64);
  const RotaryRows<float> rope32(t32);
  for (const NamedRegions& regions : examples()) {
    SCOPED_TRACE(regions.name);
    for (const AttentionCase& c : cases()) {
      const AttentionData<double> data(c);
      const auto truth = test::regions_truth(data.problem(true), regions.all, with(rope64));
      test::expect_regions<double>(data, truth, regions.all, with(rope64));
      test::expect_regions<float>(AttentionData<float>(c), truth, regions.all, with(rope32));
    }
  }
}

TEST(AttentionInRegions, GivesThemIn16BitsRoundedOnce) {
  const RopeTable<double> t64 = table<double>();
  const RopeTable<float> t32 = table<float>();
  const RotaryRows<double> rope64(t64);
  const RotaryRows<float> rope32(t32);
  const auto check = [&]<class T>(T) {
    for (const NamedRegions& regions : examples()) {
      SCOPED_TRACE(regions.name);
      const AttentionCase c = cases()[1];
      const AttentionData<T> data(c);
      const auto truth = test::regions_truth(data.problem(true), regions.all, with(rope64));
      test::expect_close(test::in_regions<T, float>(data, regions.all, with(rope32)).out, truth.out, truth.score_size,
                         c.k_len, "out in float", truth.sizes.out);
      test::expect_close(test::in_regions<T>(data, regions.all, with(rope32)).out, truth.out, truth.score_size, c.k_len,
                         "out", truth.sizes.out);
      test::expect_regions<T, float>(data, truth, regions.all, with(rope32));
    }
  };
  check(Bfloat16{});
  check(Float16{});
}

TEST(AttentionInRegions, GoesWithOtherEncodingsMasksSinksAndPacking) {
  const RopeTable<double> t64 = table<double>();
  const RotaryRows<double> rope(t64);
  const Alibi alibi{{0.25, 0.5, 0.125, 0.0625}};
  const AlibiBias<double> bias(alibi);
  const std::vector<Index> q_starts{0, 13, 13, 40}, k_starts{0, 15, 20, 50}, lengths{47, 50};
  const auto shown = std::make_unique<bool[]>(2 * 50);
  for (std::size_t j = 0; j < 100; ++j) shown[j] = j % 7 != 3;
  for (const NamedRegions& regions : examples()) {
    for (const Mask mask : {Mask::none, Mask::causal, Mask::causal_top_left, Mask::causal_bottom_right}) {
      for (unsigned bits = 0; bits < 16; ++bits) {
        SCOPED_TRACE(std::string(regions.name) + ", others " + std::to_string(bits));
        AttentionCase c{.batch = 2, .heads = 4, .kv_heads = 2, .q_len = 40, .k_len = 50, .q_first = 10};
        c.options = {.mask = mask, .scale = 0.7};
        if (bits & 1) c.options.q_starts = dense(q_starts.data(), 4), c.options.k_starts = dense(k_starts.data(), 4);
        if (bits & 2) c.options.k_lengths = dense(lengths.data(), 2), c.options.soft_cap = 1.5;
        if (bits & 4) c.options.key_mask = dense<const bool>(shown.get(), 2, 50);
        if (bits & 8) c.options.sinks = {dense(four_sinks.data(), 4)}, c.options.window = {.before = 30, .after = -1};
        const AttentionData<double> data(c);
        test::expect_regions<double>(data, test::regions_truth(data.problem(true), regions.all, with(rope, bias)),
                                     regions.all, with(rope, bias));
      }
    }
  }
}

TEST(AttentionInRegions, TakesPositionsInAnyOrder) {
  const RopeTable<double> t64 = table<double>();
  const RotaryRows<double> rope(t64);
  test::Random random(8);
  for (const bool whole : {true, false}) {
    std::vector<double> q_at, k_at;
    for (Index n = 0; n < 2 * 37; ++n) q_at.push_back(whole ? double(random.integer(0, 60)) : random.uniform(0, 60));
    for (Index n = 0; n < 2 * 70; ++n) k_at.push_back(whole ? double(random.integer(-5, 60)) : random.uniform(-5, 60));
    for (const NamedRegions& regions : examples()) {
      SCOPED_TRACE(regions.name);
      AttentionCase c{.batch = 2, .heads = 2, .kv_heads = 2, .q_len = 37, .k_len = 70};
      c.options.mask = Mask::causal;
      c.q_positions = Positions(dense<const double>(q_at.data(), 2, 37));
      c.k_positions = Positions(dense<const double>(k_at.data(), 2, 70));
      const AttentionData<double> data(c);
      test::expect_regions<double>(data, test::regions_truth(data.problem(true), regions.all, with(rope)), regions.all,
                                   with(rope));
    }
  }
}

/// Of one axis of positions, and no values and whole rows, which the reference and regions do not have.
bool goes_in_regions(const TermList<double>& terms, const AttentionCase& c) {
  return c.axes == 1 && std::none_of(terms.begin(), terms.end(), [](const Term<double>& term) {
           return term.add_values != nullptr || term.turn_values != nullptr || term.whole_rows;
         });
}

TEST(AttentionInRegions, GivesEveryEncodingsParametersTheirGradients) {
  const test::NamedEncodings all;
  Index count = 0;
  std::map<Index, RopeTable<double>> tables;  // of each width: what regions turn, beside encodings that turn nothing
  for (const test::NamedEncoding& encoding : all.all()) {
    SCOPED_TRACE(encoding.name);
    AttentionCase c = test::encoding_cases(encoding)[0];
    c.options.mask = Mask::causal;
    test::Params params = encoding.params(c);
    const auto made = encoding.make<double>(params, c);
    if (!goes_in_regions(made.list, c)) continue;
    ++count;
    const RotaryRows<double> rope(tables.try_emplace(c.dim, table<double>(c.dim)).first->second);
    TermList<double> list = made.list;
    if (std::none_of(list.begin(), list.end(), [](const auto& term) { return term.turn != nullptr; })) list.add(rope);
    const AttentionData<double> data(c);
    for (const NamedRegions& regions : {examples()[0], examples()[4]}) {
      SCOPED_TRACE(regions.name);
      params.clear_grads();
      const auto truth = test::regions_truth(data.problem(true), regions.all, list);
      std::vector<std::vector<double>> wanted;
      for (std::size_t p = 0; p < params.count(); ++p) wanted.push_back(params.grads(p));
      params.clear_grads();
      test::expect_regions<double>(data, truth, regions.all, list);
      for (std::size_t p = 0; p < params.count(); ++p) {
        test::expect_close(params.grads(p), wanted[p], 16 * std::max(4.0, truth.score_size), c.k_len, "parameter", 1);
      }
    }
  }
  EXPECT_GT(count, 15);
}

// Σ d_out·out + Σ d_lse·lse, of inputs that may be moved.
TEST(AttentionInRegions, GradientsAreCentralDifferences) {
  const RopeTable<double> t64 = table<double>();
  const RotaryRows<double> rope(t64);
  AttentionCase c{.heads = 4, .kv_heads = 2, .q_len = 25, .k_len = 25};
  c.options = {.mask = Mask::causal, .soft_cap = 2};
  c.options.sinks = {dense(four_sinks.data(), 4)};
  for (const NamedRegions& regions : examples()) {
    SCOPED_TRACE(regions.name);
    AttentionData<double> data(c);
    const auto got = test::in_regions(data, regions.all, with(rope));
    const auto value = [&] {
      const auto moved = test::in_regions(data, regions.all, with(rope));
      double sum = 0;
      for (std::size_t x = 0; x < moved.out.size(); ++x) sum += data.out_weight(x) * moved.out[x];
      for (std::size_t x = 0; x < moved.lse.size(); ++x) sum += data.lse_weight(x) * moved.lse[x];
      return sum;
    };
    const auto check = [&](double& x, double wanted) {
      const double before = x, step = 1e-5;
      x = before + step;
      const double up = value();
      x = before - step;
      const double down = value();
      x = before;
      // A third derivative of some hundred · step²/6, and 1e-16 of sums of some hundred numbers / step.
      EXPECT_NEAR((up - down) / (2 * step), wanted, 2e-8);
    };
    const Index dim = c.dim;
    for (const Index i : {0, 4, 5, 6, 11, 12, 17, 24}) {
      const Index d = i % dim, h = i % 4;
      check(data.q()(0, h, i, d), got.d_q[static_cast<std::size_t>((h * c.q_len + i) * dim + d)]);
      check(data.k()(0, h / 2, i, d), got.d_k[static_cast<std::size_t>((h / 2 * c.k_len + i) * dim + d)]);
      check(data.v()(0, h / 2, i, d), got.d_v[static_cast<std::size_t>((h / 2 * c.k_len + i) * dim + d)]);
    }
    for (Index h = 0; h < 4; ++h) check(data.sinks()(h), got.d_sinks[static_cast<std::size_t>(h)]);
  }
}

TEST(AttentionInRegions, WithinTheWindowHasTheBitsOfAttention) {
  const RopeTable<float> t32 = table<float>();
  const RotaryRows<float> rope(t32);
  for (AttentionCase c : cases()) {
    c.options.sinks = {dense(four_sinks.data(), 4)};
    const AttentionData<float> data(c);
    const auto plain = data.backward(with(rope));
    for (const auto& all : {regions(SelfExtend{.group = 4, .window = c.k_len}), regions(ReRope{.window = c.k_len}),
                            regions(DualChunk{.chunk_size = c.k_len + 2, .local_size = 2})}) {
      EXPECT_TRUE(test::in_regions(data, all, with(rope)).same_bits_as(plain)) << describe(c);
    }
    const auto far = test::in_regions(data, regions(ReRope{.window = c.k_len / 2}), with(rope));
    EXPECT_FALSE(far.same_bits_as(plain)) << describe(c);
  }
}

TEST(AttentionInRegions, HasTheSameBitsOnAnyNumberOfThreads) {
  const RopeTable<float> t32 = table<float>();
  const RotaryRows<float> rope(t32);
  for (const NamedRegions& regions : examples()) {
    SCOPED_TRACE(regions.name);
    for (const AttentionCase& c : cases()) {
      const AttentionData<float> data(c);
      const AttentionData<Bfloat16> narrow(c);
      const auto alone = test::in_regions(data, regions.all, with(rope));
      const auto narrow_alone = test::in_regions(narrow, regions.all, with(rope));
      for (const Index workers : {2, 7}) {
        test::Workers threads(workers);
        EXPECT_TRUE(test::in_regions(data, regions.all, with(rope), threads).same_bits_as(alone)) << workers;
        EXPECT_TRUE(test::in_regions(narrow, regions.all, with(rope), threads).same_bits_as(narrow_alone)) << workers;
      }
      EXPECT_TRUE(test::in_regions(data, regions.all, with(rope), test::backwards(5)).same_bits_as(alone));
    }
  }
}

TEST(AttentionInRegions, ServesEveryTarget) {
  const RopeTable<double> t64 = table<double>();
  const RopeTable<float> t32 = table<float>();
  const RotaryRows<double> rope64(t64);
  const RotaryRows<float> rope32(t32);
  for (const std::size_t n : {std::size_t{0}, std::size_t{4}}) {
    for (const AttentionCase& c : cases()) {
      const AttentionData<double> data(c);
      const AttentionData<float> in_float(c);
      const auto truth = test::regions_truth(data.problem(true), examples()[n].all, with(rope64));
      test::on_every_target([&] {
        test::expect_regions<double>(data, truth, examples()[n].all, with(rope64));
        test::expect_regions<float>(in_float, truth, examples()[n].all, with(rope32));
      });
    }
  }
}

TEST(AttentionInRegions, ReadsAPagedCache) {
  const RopeTable<float> t32 = table<float>();
  const RotaryRows<float> rope(t32);
  const std::vector<Index> lengths{250};
  AttentionCase c{.heads = 4, .kv_heads = 2, .q_len = 1, .k_len = 256, .q_first = 249};
  c.options.mask = Mask::causal, c.options.k_lengths = dense(lengths.data(), 1);
  const AttentionData<float> data(c);
  AttentionInputs<float> in = data.inputs();
  std::vector<float> k(4 * 2 * 64 * 8), v(k.size()), out(4 * 8);
  const std::vector<Index> blocks{2, 0, 3, 1};
  const auto k_blocks = bhtd(k.data(), 4, 2, 64, 8), v_blocks = bhtd(v.data(), 4, 2, 64, 8);
  for (Index x = 0; x < 256 * 2 * 8; ++x) {
    const Index j = x / 16, h = x / 8 % 2, d = x % 8, block = blocks[static_cast<std::size_t>(j / 64)];
    k_blocks(block, h, j % 64, d) = in.k(0, h, j, d), v_blocks(block, h, j % 64, d) = in.v(0, h, j, d);
  }
  in.k = k_blocks, in.v = v_blocks;
  in.block_table = dense<const Index>(blocks.data(), 1, 4);
  const AttentionOptions<float> options = data.options();
  for (const NamedRegions& regions : examples()) {
    attention_in_regions<float, float>(in, regions.all, bhtd(out.data(), 1, 4, 1, 8), {}, with(rope), options);
    EXPECT_EQ(out, test::in_regions(data, regions.all, with(rope)).out) << regions.name;
  }
  EXPECT_THROW((attention_in_regions_backward<float>(in, examples()[0].all, {}, {}, with(rope), options)), ShapeError);
}

TEST(AttentionInRegions, TakesWhatIsEmpty) {
  const RopeTable<float> t32 = table<float>();
  const RotaryRows<float> rope(t32);
  for (const auto& [batch, q_len, k_len, value_dim] :
       {std::array<Index, 4>{0, 5, 5, 8}, {1, 0, 5, 8}, {1, 5, 0, 8}, {1, 5, 5, 0}}) {
    AttentionCase c{.batch = batch, .q_len = q_len, .k_len = k_len, .value_dim = value_dim};
    c.options.mask = Mask::causal;
    const AttentionData<float> data(c);
    for (const NamedRegions& regions : examples()) {
      const auto got = test::in_regions(data, regions.all, with(rope));
      if (k_len == 0) {
        EXPECT_EQ(got.out, std::vector<float>(2 * 5 * 8));
      }
    }
  }
}

TEST(AttentionInRegions, RefusesWrongCallsAndWritesNothing) {
  const RopeTable<float> t32 = table<float>();
  const RotaryRows<float> rope(t32);
  AttentionCase c{.q_len = 9, .k_len = 9};
  c.options.mask = Mask::causal;
  const AttentionData<float> data(c);
  std::vector<float> out(2 * 9 * 8, 7), untouched = out;
  const auto call = [&](const AttentionInputs<float>& in, const std::vector<Region>& all, const Band& band = {}) {
    AttentionOptions<float> options = data.options();
    options.band = band;
    attention_in_regions<float, float>(in, all, bhtd(out.data(), 1, 2, 9, 8), {}, with(rope), options);
  };
  const auto refuse = [&](const std::vector<Region>& all, const std::string& text) {
    test::expect_error<RangeError>([&] { call(data.inputs(), all); }, "[attention_in_regions] regions: " + text);
    EXPECT_EQ(out, untouched);
  };
  const std::string follow = "must neither overlap nor leave holes: region 1 must begin where region 0 ends, at ";
  refuse({}, "must be at least one, got none");
  refuse({{.band = {.from = 0}}}, "must leave no hole: the first band has no beginning, got 0");
  refuse({{.band = {.to = 5}}}, "must leave no hole: the last band has no end, got 5");
  refuse({{.band = {.to = 5}}, {.band = {.from = 6}}}, follow + "5, got 6: there is a hole");
  refuse({{.band = {.to = 5}}, {.band = {.from = 4}}}, follow + "5, got 4: they overlap");
  refuse({{.band = {.to = 5}}, {}}, follow + "5, got no limit: they overlap");
  refuse({{}, {.band = {.from = 5}}}, follow + "no limit, got 5: they overlap");
  refuse({{.band = {.to = 5}}, {.band = {.from = 5, .chunk = 3}}},
         "must have the same chunks, got 0 in region 0 and 3 in region 1");
  refuse({{.band = {.to = 5}}, {.band = {.from = 5, .to = 3}}, {.band = {.from = 3}}},
         "must end no earlier than they begin, got 5 to 3 for region 1");
  refuse({{.q = {.group = 0}}},
         "must have a period of at least 0, a group of at least 1, a finite step and offset, and a number as the most, "
         "got 0, 0, 1, 0 and inf for the queries of region 0");
  const std::vector<Region> good = examples()[0].all;
  // The last region's rows would leave the range: the first must not have been written.
  EXPECT_THROW(call(data.inputs(), {good[0], {.band = good[1].band, .k = {.offset = 1e10}}}), RangeError);
  EXPECT_THROW(call(data.inputs(), {{.band = {.to = -4, .chunk = -1}}, {.band = {.from = -4, .chunk = -1}}}),
               RangeError);
  test::expect_error<RangeError>(
      [&] { call(data.inputs(), good, {.from = 2}); },
      "[attention_in_regions] band: must be empty, as each region has its own, got 2 to no limit");
  const AlibiBias<float> bias(Alibi{{0.25, 0.5}});
  for (const TermList<float>& list : {TermList<float>{}, with(bias)}) {
    test::expect_error<RangeError>(
        [&] {
          attention_in_regions<float, float>(data.inputs(), good, bhtd(out.data(), 1, 2, 9, 8), {}, list,
                                             data.options());
        },
        "[attention_in_regions] encodings: must have one that turns queries and keys, as RoPE does: regions say where "
        "it turns them, and nothing else, got " +
            std::to_string(list.size) + " of other kinds");
  }
  AttentionInputs<float> turned = data.inputs();
  turned.k_turned_at = Positions(3);
  test::expect_error<ShapeError>(
      [&] { call(turned, good); },
      "[attention_in_regions] k_turned_at: must be empty, as the regions say where rows are turned");
  const std::vector<Index> two_axes(2 * 9);
  AttentionInputs<float> image = data.inputs();
  image.q_positions = Positions(dense(two_axes.data(), 2, 1, 9));
  test::expect_error<ShapeError>([&] { call(image, good); },
                                 "[attention_in_regions] positions: must have one axis, got 2");
  EXPECT_EQ(out, untouched);
}

}  // namespace
}  // namespace bearing
