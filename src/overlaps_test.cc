#include <gtest/gtest.h>
#include <bearing/attention.hpp>
#include <bearing/encodings/rope.hpp>
#include <bearing/encodings/rope_mixed.hpp>
#include <bearing/encodings/shaw.hpp>
#include <bearing/encodings/t5.hpp>
#include <bearing/error.hpp>
#include <bearing/linear_attention.hpp>
#include <bearing/rows.hpp>
#include <bearing/scores.hpp>
#include <string>
#include <vector>

#include "support/overlaps.hpp"

// Every function that writes, every pair of its arguments of which one is written: where they overlap, it is refused,
// both are named and nothing is written. And every one of its arguments in another device's memory.

namespace bearing {
namespace {

using namespace test::overlaps;

/// The arguments of attention, forward and backward: those that both read, as many as there are.
std::vector<Argument> attention_reads() {
  return {{"q", row_count},
          {"k", key_count},
          {"v", key_count},
          {"q_positions", batch * time},
          {"k_positions", batch * 5},
          {"k_lengths", batch, Does::read, {5, 5}},
          {"key_mask", 2},
          {"visible", score_count / 8},
          {"q_starts", 2, Does::read, {0, 3}},
          {"k_starts", 2, Does::read, {0, 5}},
          {"sinks", heads},
          {"T5.table", 32 * heads}};
}
AttentionInputs<double> attention_inputs(const std::vector<Place>& at) {
  return {read(at[0]), read(at[1], 2, 5), read(at[2], 2, 5), positions(at[3]), positions(at[4], 5)};
}
AttentionOptions<double> attention_options(const std::vector<Place>& at, const Place& d_sinks) {
  AttentionOptions<double> options{.mask = Mask::none};
  options.k_lengths = indices(at[5], batch);
  options.key_mask = flags(at[6], batch, 5);
  options.visible = flags(at[7], batch, heads, time, 5);
  options.q_starts = indices(at[8], 2);
  options.k_starts = indices(at[9], 2);
  options.sinks = {dense<const double>(at[10], heads),
                   d_sinks.data == nullptr ? View<double, 1>{} : dense(d_sinks, heads)};
  return options;
}

std::vector<Sweep> attention_sweeps() {
  std::vector<Sweep> sweeps;
  Sweep forward{"attention", attention_reads(), [](const std::vector<Place>& at) {
                  const T5Bias<double> t5({.direction = T5Direction::causal}, {dense<const double>(at[11], 32, heads)});
                  attention<double>(attention_inputs(at), rows(at[12]), dense(at[13], batch, heads, time), with(t5),
                                    attention_options(at, {}));
                }};
  forward.arguments.push_back({"out", row_count, Does::write});
  forward.arguments.push_back({"lse", lse_count, Does::write});
  sweeps.push_back(forward);
  sweeps.push_back({"attention, paged",
                    {{"block_table", batch},
                     {"k_lengths", batch, Does::read, {5, 5}},
                     {"out", row_count, Does::write},
                     {"q", row_count},
                     {"k", key_count},
                     {"v", key_count}},
                    [](const std::vector<Place>& at) {
                      AttentionInputs<double> in{read(at[3]), read(at[4], 2, 5), read(at[5], 2, 5)};
                      in.block_table = indices(at[0], batch, 1);
                      AttentionOptions<double> options{.mask = Mask::none};
                      options.k_lengths = indices(at[1], batch);
                      attention<double>(in, rows(at[2]), {}, {}, options);
                    }});
  Sweep backward{"attention_backward", attention_reads(), [](const std::vector<Place>& at) {
                   const T5Bias<double> t5({.direction = T5Direction::causal}, param(at[11], at[12], 32, heads));
                   const AttentionResults<double> results{read(at[14]), dense<const double>(at[15], batch, heads, time),
                                                          read(at[16]),
                                                          dense<const double>(at[17], batch, heads, time)};
                   attention_backward<double>(attention_inputs(at), results,
                                              {rows(at[18]), rows(at[19], 2, 5), rows(at[20], 2, 5)}, with(t5),
                                              attention_options(at, at[13]));
                 }};
  for (const Argument& more : std::vector<Argument>{{"T5.table.grad", 32 * heads, Does::write},
                                                    {"sinks.grad", heads, Does::write},
                                                    {"out", row_count},
                                                    {"lse", lse_count},
                                                    {"d_out", row_count},
                                                    {"d_lse", lse_count},
                                                    {"d_q", row_count, Does::write},
                                                    {"d_k", key_count, Does::write},
                                                    {"d_v", key_count, Does::write}}) {
    backward.arguments.push_back(more);
  }
  sweeps.push_back(backward);
  sweeps.push_back(
      {"merge",
       {{"part", row_count}, {"part_lse", lse_count}, {"out", row_count, Does::write}, {"lse", lse_count, Does::write}},
       [](const std::vector<Place>& at) {
         merge<double>(read(at[0]), dense<const double>(at[1], batch, heads, time), rows(at[2]),
                       dense(at[3], batch, heads, time));
       }});
  return sweeps;
}

LinearState<double> state(const Place& s, const Place& z) {
  return {dense(s, batch, 2, dim, dim), dense(z, batch, 2, dim)};
}
constexpr Index s_count = batch * 2 * dim * dim, z_count = batch * 2 * dim;

std::vector<Sweep> linear_sweeps() {
  const std::vector<Argument> reads{{"q", row_count},           {"k", key_count},
                                    {"v", key_count},           {"q_positions", batch * time},
                                    {"k_positions", batch * 5}, {"RopeMixed.frequencies", dim / 2}};
  const auto inputs = [](const std::vector<Place>& at) {
    return LinearAttentionInputs<double>{read(at[0]), read(at[1], 2, 5), read(at[2], 2, 5), positions(at[3]),
                                         positions(at[4], 5)};
  };
  // One set of frequencies serves any number of heads only as a group of them: as many keys as queries here.
  const auto all_heads = [=](const std::vector<Place>& at) {
    LinearAttentionInputs<double> in = inputs(at);
    in.k.shape[1] = in.v.shape[1] = in.q.shape[1] = 2;
    return in;
  };
  const RopeMixed mixed{.head_dim = dim, .axes = 1, .pairing = Pairing::half};
  Sweep forward{"linear_attention", reads, [=](const std::vector<Place>& at) {
                  const RopeMixedRows<double> rope(mixed, {dense<const double>(at[5], 1, 1, dim / 2)}, 2);
                  linear_attention<double>(all_heads(at), rows(at[6], 2), state(at[7], at[8]), with(rope),
                                           {.mask = Mask::none, .epsilon = 1});
                }};
  Sweep backward{"linear_attention_backward", reads, [=](const std::vector<Place>& at) {
                   const RopeMixedRows<double> rope(mixed, param(at[5], at[6], 1, 1, dim / 2), 2);
                   const LinearState<double> start = state(at[8], at[9]);
                   linear_attention_backward<double>(
                       all_heads(at), read(at[7], 2), {start.s, start.z},
                       {rows(at[10], 2), rows(at[11], 2, 5), rows(at[12], 2, 5), state(at[13], at[14])}, with(rope),
                       {.mask = Mask::none, .epsilon = 1});
                 }};
  for (Sweep* sweep : {&forward, &backward}) sweep->arguments[0].count = row_count / 2;
  for (const Argument& more : std::vector<Argument>{
           {"out", row_count / 2, Does::write}, {"state.s", s_count, Does::write}, {"state.z", z_count, Does::write}}) {
    forward.arguments.push_back(more);
  }
  for (const Argument& more : std::vector<Argument>{{"RopeMixed.frequencies.grad", dim / 2, Does::write},
                                                    {"d_out", row_count / 2},
                                                    {"start.s", s_count},
                                                    {"start.z", z_count},
                                                    {"d_q", row_count / 2, Does::write},
                                                    {"d_k", key_count, Does::write},
                                                    {"d_v", key_count, Does::write},
                                                    {"d_state.s", s_count, Does::write},
                                                    {"d_state.z", z_count, Does::write}}) {
    backward.arguments.push_back(more);
  }
  return {forward, backward};
}

std::vector<Sweep> score_sweeps() {
  const std::vector<Argument> reads{
      {"q_positions", batch * time}, {"k_positions", batch * 5}, {"T5.table", 32 * heads}};
  const auto with_more = [&](std::vector<Argument> more) {
    more.insert(more.begin(), reads.begin(), reads.end());
    return more;
  };
  const auto t5_of = [](const Place& value, const Place& grad) {
    Param<double, 2> table = param(value, grad, 32, heads);
    if (grad.data == nullptr) table.grad = {};
    return T5Bias<double>({.direction = T5Direction::causal}, table);
  };
  const auto shaw_of = [](const Place& value, const Place& grad) {
    Param<double, 2> table = param(value, grad, 9, dim);
    if (grad.data == nullptr) table.grad = {};
    return ShawTerm<double>({4}, table, table);
  };
  const auto inputs = [](const std::vector<Place>& at, const Place& q, const Place& k) {
    return ScoreInputs<double>{positions(at[0]), positions(at[1], 5), read(q), read(k, 2, 5)};
  };
  std::vector<Sweep> sweeps;
  sweeps.push_back({"add_scores", with_more({{"q", row_count}, {"k", key_count}, {"scores", score_count, Does::write}}),
                    [=](const std::vector<Place>& at) {
                      const auto t5 = t5_of(at[2], {});
                      add_scores(with(t5), inputs(at, at[3], at[4]), dense(at[5], batch, heads, time, 5));
                    }});
  sweeps.push_back({"add_scores_backward",
                    with_more({{"q", row_count},
                               {"k", key_count},
                               {"d_scores", score_count},
                               {"T5.table.grad", 32 * heads, Does::write},
                               {"d_q", row_count, Does::write},
                               {"d_k", key_count, Does::write}}),
                    [=](const std::vector<Place>& at) {
                      const auto t5 = t5_of(at[2], at[6]);
                      add_scores_backward(with(t5), inputs(at, at[3], at[4]),
                                          dense<const double>(at[5], batch, heads, time, 5),
                                          {rows(at[7]), rows(at[8], 2, 5)});
                    }});
  sweeps.push_back(
      {"bias_matrix",
       {{"q_positions", time}, {"k_positions", 5}, {"T5.table", 32 * heads}, {"bias", heads * time * 5, Does::write}},
       [=](const std::vector<Place>& at) {
         const auto t5 = t5_of(at[2], {});
         bias_matrix(with(t5), indices(at[0], time), indices(at[1], 5), dense(at[3], heads, time, 5));
       }});
  std::vector<Argument> of_values = with_more({{"p", score_count}, {"out", row_count, Does::write}});
  of_values[2] = {"Shaw.key", 9 * dim};
  sweeps.push_back({"add_values", of_values, [=](const std::vector<Place>& at) {
                      const auto shaw = shaw_of(at[2], {});
                      add_values(with(shaw), positions(at[0]), positions(at[1], 5),
                                 dense<const double>(at[3], batch, heads, time, 5), rows(at[4]));
                    }});
  of_values = with_more({{"p", score_count},
                         {"d_out", row_count},
                         {"Shaw.key.grad", 9 * dim, Does::write},
                         {"d_p", score_count, Does::write}});
  of_values[2] = {"Shaw.key", 9 * dim};
  sweeps.push_back({"add_values_backward", of_values, [=](const std::vector<Place>& at) {
                      const auto shaw = shaw_of(at[2], at[5]);  // key and value tied: they share a gradient
                      add_values_backward(with(shaw), positions(at[0]), positions(at[1], 5),
                                          dense<const double>(at[3], batch, heads, time, 5), read(at[4]),
                                          dense(at[6], batch, heads, time, 5));
                    }});
  return sweeps;
}

TEST(Overlaps, OfWhatAttentionWritesAreRefused) {
  for (const Sweep& sweep : attention_sweeps()) expect_all_overlaps_refused(sweep);
}
TEST(Overlaps, OfWhatLinearAttentionWritesAreRefused) {
  for (const Sweep& sweep : linear_sweeps()) expect_all_overlaps_refused(sweep);
}
TEST(Overlaps, OfScoresAndValuesAreRefused) {
  for (const Sweep& sweep : score_sweeps()) expect_all_overlaps_refused(sweep);
}
TEST(Arguments, OfOtherDevicesAreRefused) {
  for (const auto& sweeps : {attention_sweeps(), linear_sweeps(), score_sweeps()}) {
    for (const Sweep& sweep : sweeps) expect_other_devices_refused(sweep);
  }
}

TEST(Overlaps, SlicesOfOneBufferAreTaken) {
  // What a fused projection of queries, keys and values gives: [batch, time, heads + 2 + 2, dim].
  constexpr Index all = heads + 4, row = all * dim, sequence = time * row;
  std::vector<double> buffer(batch * sequence, 0.25), grads(batch * sequence), out(row_count), lse(lse_count);
  const auto slice = [&](std::vector<double>& of, Index first, Index of_heads) {
    return View<double, 4>{of.data() + first * dim, {batch, of_heads, time, dim}, {sequence, dim, row, 1}};
  };
  const auto q = slice(buffer, 0, heads), k = slice(buffer, heads, 2), v = slice(buffer, heads + 2, 2);
  const RopeTable<double> table(Rope{.head_dim = dim, .pairing = Pairing::half}, 8);
  rotate(table, q, k, {});
  attention<double>({q, k, v}, rows({out.data()}), dense(lse.data(), batch, heads, time), {}, {.mask = Mask::causal});
  const View<const double, 3> of_lse = dense<const double>(lse.data(), batch, heads, time);
  attention_backward<double>({q, k, v}, {read({out.data()}), of_lse, read({out.data()})},
                             {slice(grads, 0, heads), slice(grads, heads, 2), slice(grads, heads + 2, 2)}, {},
                             {.mask = Mask::causal});
  // The result in the queries' place of another buffer, between keys and values that stay.
  attention<double>({slice(grads, 0, heads), k, v}, q, {}, {}, {.mask = Mask::causal});
}

TEST(Overlaps, OfTiedParametersGradientsAreSums) {
  std::vector<double> table(9 * dim, 0.5), grad(9 * dim), apart_key(9 * dim), apart_value(9 * dim);
  const std::vector<double> p(score_count, 0.2), ones(row_count, 1), d_scores(score_count, 1);
  const Param<double, 2> tied = param({table.data()}, {grad.data()}, 9, dim);
  const auto run = [&](const Param<double, 2>& key, const Param<double, 2>& value) {
    const ShawTerm<double> shaw({4}, key, value);
    const ScoreInputs<double> in{
        {}, {}, bhtd(ones.data(), batch, heads, time, dim), bhtd(ones.data(), batch, 1, 5, dim)};
    add_scores_backward(with(shaw), in, dense(d_scores.data(), batch, heads, time, 5));
    add_values_backward(with(shaw), {}, {}, dense(p.data(), batch, heads, time, 5),
                        bhtd(ones.data(), batch, heads, time, dim));
  };
  run(tied, tied);
  run(param({table.data()}, {apart_key.data()}, 9, dim), param({table.data()}, {apart_value.data()}, 9, dim));
  for (std::size_t i = 0; i < grad.size(); ++i) EXPECT_NEAR(grad[i], apart_key[i] + apart_value[i], 1e-12);
}

}  // namespace
}  // namespace bearing
