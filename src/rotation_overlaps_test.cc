#include <gtest/gtest.h>
#include <bearing/attention.hpp>
#include <bearing/encodings/cape.hpp>
#include <bearing/encodings/learned.hpp>
#include <bearing/encodings/rope.hpp>
#include <bearing/encodings/rope_gradients.hpp>
#include <bearing/encodings/rope_mixed.hpp>
#include <bearing/encodings/rope_rebase.hpp>
#include <bearing/encodings/swin_v2.hpp>
#include <bearing/encodings/transformer_xl.hpp>
#include <bearing/encodings/xpos.hpp>
#include <bearing/rows.hpp>
#include <string>
#include <vector>

#include "support/overlaps.hpp"

// What overlaps in calls that turn rows, make tables or take their gradients is refused.

namespace bearing {
namespace {

using namespace test::overlaps;

std::vector<Sweep> row_sweeps() {
  constexpr Index input_count = batch * time * dim;
  const Argument at_positions{"positions", batch * time};
  const auto learned = [](const Place& value, const Place& grad) {
    Param<double, 2> table = param(value, grad, 6, dim);
    if (grad.data == nullptr) table.grad = {};
    return LearnedInputs<double>({.length = 6, .dim = dim}, table);
  };
  const auto turned = [](const Place& value, const Place& grad) {
    Param<double, 3> frequencies = param(value, grad, 1, 1, dim / 2);
    if (grad.data == nullptr) frequencies.grad = {};
    return RopeMixedRows<double>({.head_dim = dim, .axes = 1, .pairing = Pairing::half}, frequencies, heads);
  };
  return {
      {"fill",
       {at_positions, {"Learned.table", 6 * dim}, {"rows", input_count, Does::write}},
       [=](const std::vector<Place>& at) {
         fill(learned(at[1], {}), positions(at[0]), dense(at[2], batch, time, dim));
       }},
      {"add",
       {at_positions, {"Learned.table", 6 * dim}, {"x", input_count, Does::write}},
       [=](const std::vector<Place>& at) {
         add(learned(at[1], {}), positions(at[0]), dense(at[2], batch, time, dim));
       }},
      {"add_backward",
       {at_positions, {"Learned.table", 6 * dim}, {"Learned.table.grad", 6 * dim, Does::write}, {"d_x", input_count}},
       [=](const std::vector<Place>& at) {
         add_backward(learned(at[1], at[2]), positions(at[0]), dense<const double>(at[3], batch, time, dim));
       }},
      {"turn",
       {at_positions, {"RopeMixed.frequencies", dim / 2}, {"x", row_count}, {"y", row_count, Does::write}},
       [=](const std::vector<Place>& at) {
         turn<double>(turned(at[1], {}), Side::query, positions(at[0]), read(at[2]), rows(at[3]));
       }},
      {"turn_backward",
       {at_positions,
        {"RopeMixed.frequencies", dim / 2},
        {"RopeMixed.frequencies.grad", dim / 2, Does::write},
        {"x", row_count},
        {"d_y", row_count},
        {"d_x", row_count, Does::write}},
       [=](const std::vector<Place>& at) {
         turn_backward<double>(turned(at[1], at[2]), Side::query, positions(at[0]), read(at[3]), read(at[4]),
                               rows(at[5]));
       }},
  };
}

std::vector<Sweep> rope_sweeps() {
  static const Rope rope{.head_dim = dim, .pairing = Pairing::half};
  static const RopeTable<double> table(rope, 8);
  const Argument at_positions{"positions", batch * time};
  std::vector<Sweep> sweeps{
      {"rotate",
       {at_positions, {"x", row_count, Does::write}},
       [](const std::vector<Place>& at) { rotate(table, rows(at[1]), positions(at[0])); }},
      {"rotate, two",
       {at_positions, {"q", row_count, Does::write}, {"k", row_count / 2, Does::write}},
       [](const std::vector<Place>& at) { rotate(table, rows(at[1]), rows(at[2], 2), positions(at[0])); }},
      {"rotate, two at their own",
       {{"q_positions", batch * time},
        {"k_positions", batch * time},
        {"q", row_count, Does::write},
        {"k", row_count / 2, Does::write}},
       [](const std::vector<Place>& at) {
         rotate(table, rows(at[2]), positions(at[0]), rows(at[3], 2), positions(at[1]));
       }},
      {"rotate_to",
       {at_positions, {"in", row_count}, {"out", row_count, Does::write}},
       [](const std::vector<Place>& at) { rotate_to(table, read(at[1]), rows(at[2]), positions(at[0])); }},
      {"rotate_backward",
       {at_positions, {"d", row_count, Does::write}},
       [](const std::vector<Place>& at) { rotate_backward(table, rows(at[1]), positions(at[0])); }},
      {"rotate_backward_to",
       {at_positions, {"d_out", row_count}, {"d_in", row_count, Does::write}},
       [](const std::vector<Place>& at) { rotate_backward_to(table, read(at[1]), rows(at[2]), positions(at[0])); }},
      {"rotate_parameter_gradients",
       {at_positions,
        {"y", row_count},
        {"d_y", row_count},
        {"gradients.inv_freq", dim / 2, Does::write},
        {"gradients.positions", batch * time, Does::write},
        {"gradients.attention_factor", 1, Does::write, {}, Is::pointer}},
       [](const std::vector<Place>& at) {
         rotate_parameter_gradients(table.frequencies(), read(at[1]), read(at[2]), positions(at[0]),
                                    {dense(at[3], dim / 2), dense(at[4], 1, batch, time), at[5].data});
       }},
      {"fill, cos and sin",
       {{"positions", time}, {"cos", time * dim / 2, Does::write}, {"sin", time * dim / 2, Does::write}},
       [](const std::vector<Place>& at) {
         fill(table.frequencies(), indices(at[0], time), dense(at[1], time, dim / 2), dense(at[2], time, dim / 2));
       }},
      {"rebase",
       {{"old_positions", batch * time}, {"new_positions", batch * time}, {"k", row_count, Does::write}},
       [](const std::vector<Place>& at) {
         rebase(table.frequencies(), positions(at[0]), table.frequencies(), positions(at[1]), rows(at[2]));
       }},
      {"rebase, xPos",
       {{"old_positions", batch * time}, {"new_positions", batch * time}, {"k", row_count, Does::write}},
       [](const std::vector<Place>& at) { rebase(Xpos{rope}, positions(at[0]), positions(at[1]), rows(at[2])); }},
  };
  return sweeps;
}

std::vector<Sweep> table_sweeps() {
  return {
      {"resize",
       {{"from", 4 * dim}, {"to", 6 * dim, Does::write}},
       [](const std::vector<Place>& at) {
         resize(Interpolation::linear, 0, dense<const double>(at[0], 4, dim), dense(at[1], 6, dim));
       }},
      {"cape_positions",
       {{"positions", batch * time}, {"to", batch * time, Does::write}},
       [](const std::vector<Place>& at) {
         cape_positions(Cape{.dim = dim}, positions(at[0]), dense(at[1], batch, time), {});
       }},
      {"swin_v2_table",
       {{"w1", 10}, {"b1", 5}, {"w2", 5 * heads}, {"table", 9 * heads, Does::write}},
       [](const std::vector<Place>& at) {
         const SwinV2Network<double> network{param(at[0], {}, 5, 2), param(at[1], {}, 5), param(at[2], {}, heads, 5)};
         swin_v2_table(SwinV2{.window = {2, 2}}, network, dense(at[3], 9, heads));
       }},
      {"swin_v2_table_backward",
       {{"w1", 10},
        {"b1", 5},
        {"w2", 5 * heads},
        {"w1.grad", 10, Does::write},
        {"b1.grad", 5, Does::write},
        {"w2.grad", 5 * heads, Does::write},
        {"d_table", 9 * heads}},
       [](const std::vector<Place>& at) {
         const SwinV2Network<double> network{param(at[0], at[3], 5, 2), param(at[1], at[4], 5),
                                             param(at[2], at[5], heads, 5)};
         swin_v2_table_backward(SwinV2{.window = {2, 2}}, network, dense<const double>(at[6], 9, heads));
       }},
      {"transformer_xl_relative",
       {{"w_r", heads * dim * dim}, {"r", heads * 6 * dim, Does::write}},
       [](const std::vector<Place>& at) {
         transformer_xl_relative<double>({}, dense<const double>(at[0], heads * dim, dim), dense(at[1], heads, 6, dim));
       }},
      {"transformer_xl_relative_backward",
       {{"d_r", heads * 6 * dim}, {"d_w_r", heads * dim * dim, Does::write}},
       [](const std::vector<Place>& at) {
         transformer_xl_relative_backward<double>({}, dense<const double>(at[0], heads, 6, dim),
                                                  dense(at[1], heads * dim, dim));
       }},
  };
}

TEST(RotationOverlaps, OfRowsAreRefused) {
  for (const Sweep& sweep : row_sweeps()) expect_all_overlaps_refused(sweep);
}
TEST(RotationOverlaps, OfWhatARotationWritesAreRefused) {
  for (const Sweep& sweep : rope_sweeps()) expect_all_overlaps_refused(sweep);
}
TEST(RotationOverlaps, OfTablesAreRefused) {
  for (const Sweep& sweep : table_sweeps()) expect_all_overlaps_refused(sweep);
}

TEST(RotationArguments, OfOtherDevicesAreRefused) {
  for (const auto& sweeps : {row_sweeps(), rope_sweeps(), table_sweeps()}) {
    for (const Sweep& sweep : sweeps) expect_other_devices_refused(sweep);
  }
}

}  // namespace
}  // namespace bearing
