#include <gtest/gtest.h>
#include <bearing/encodings/rope.hpp>

#include "support/rotation.hpp"
#include "support/targets.hpp"

namespace bearing {
namespace {

using test::Guarded;
using test::is_rotation;
using test::Layout;
using test::PositionTensor;
using test::Random;
using test::reference_rotation;
using test::Shape;

TEST(RotateBackward, EqualsTheReferencesTranspose) {
  Random random(111);
  for (const Rope& rope : test::ropes(20)) {
    test::for_each_type([&](auto type) {
      using T = decltype(type);
      RopeFrequencies frequencies = resolve(rope);
      frequencies.attention_factor = 1.25;
      RopeFrequencies back = frequencies;  // the transpose of a·R(φ) is a·R(−φ)
      for (double& theta : back.inv_freq) theta = -theta;
      for (double& theta : back.inv_freq_rest) theta = -theta;
      const RopeTable<Compute<T>> table(frequencies, 20);
      Guarded<T> d_y({2, 2, 11, 20}, Layout::bthd);
      d_y.fill(random);
      PositionTensor<Index> at(1, 2, 11);
      at.fill(random, 0, 60);
      const auto expected = reference_rotation(back, d_y, at);
      test::on_every_target([&] {
        Guarded<T> d_x({2, 2, 11, 20}, Layout::padded);
        rotate_backward_to(table, d_y.read(), d_x.view(), at);
        EXPECT_TRUE(is_rotation(back, d_y, expected, d_x));
        EXPECT_TRUE(d_x.guards_intact());
        Guarded<T> in_place({2, 2, 11, 20}, Layout::bthd);
        in_place.copy(d_y.read());
        rotate_backward(table, in_place.view(), at);
        EXPECT_TRUE(test::same_bits(in_place.values(), d_x.values()));
      });
    });
  }
}

// ⟨Rx, y⟩ = ⟨x, Rᵀy⟩; relative to |x||y|, where sums of some thousand products in double leave about 1e-15.
TEST(RotateBackward, IsTheAdjointOfForward) {
  Random random(112);
  for (Index head_dim : test::head_dims) {
    for (Rope rope : test::ropes(head_dim)) {
      RopeFrequencies frequencies = resolve(rope);
      frequencies.attention_factor = 1.3;
      const RopeTable<double> table(frequencies, 50);
      const Shape shape{2, 3, 11, head_dim};
      Guarded<double> x(shape, Layout::bthd), y(shape, Layout::bhtd), forward(shape, Layout::padded),
          backward(shape, Layout::reversed);
      x.fill(random);
      y.fill(random);
      PositionTensor<Index> at(1, 2, 11);
      at.fill(random, 1, 5000);
      rotate_to(table, x.read(), forward.view(), at);
      rotate_backward_to(table, y.read(), backward.view(), at);
      double left = 0, right = 0, x_norm = 0, y_norm = 0;
      x.for_each([&](Index b, Index h, Index t, Index d) {
        left += forward.view()(b, h, t, d) * y.view()(b, h, t, d);
        right += x.view()(b, h, t, d) * backward.view()(b, h, t, d);
        x_norm += x.view()(b, h, t, d) * x.view()(b, h, t, d);
        y_norm += y.view()(b, h, t, d) * y.view()(b, h, t, d);
      });
      EXPECT_NEAR(left, right, 1e-12 * std::sqrt(x_norm * y_norm)) << test::describe(rope);
    }
  }
}

}  // namespace
}  // namespace bearing
