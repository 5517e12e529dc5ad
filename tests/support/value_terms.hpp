#pragma once

#include "support/terms.hpp"

// The value site of an encoding, as terms.hpp has the score site: agreement with a reference that says what a unit of
// probability adds to a feature of the output, gradients of p and of the parameters against central differences of
// it, the same bits for any executor. A case's `dim` is the values'; its weights are the probabilities, its queries the
// gradients of the output.

namespace bearing::test {

/// What add_values() makes of an output of zeros.
template <class A, class Make>
std::vector<A> values_of(const Make& make, Params& params, const ScoreData& data, const ScoreCase& c,
                         const Executor& on = {}) {
  std::vector<A> out(static_cast<std::size_t>(c.batch * c.heads * c.q_len * c.dim));
  const auto encoding = make.template operator()<A>(params);
  add_values(with(encoding), data.q_positions(), data.k_positions(), data.template weights<A>(),
             bhtd(out.data(), c.batch, c.heads, c.q_len, c.dim), on);
  return out;
}

/// reference(params, score, d): feature d of the vector of that score's distance.
///
/// A sum of k_len products is off by at most k_len + 2 roundings of the sum of their sizes (Higham, eq. 3.5), in
/// whatever order it is taken: 2^-53 each in double, 2^-24 in float.
template <class Make, class Reference>
void expect_reference_values(const Make& make, Params& params, const std::vector<ScoreCase>& cases,
                             const Reference& reference) {
  for (const ScoreCase& c : cases) {
    ScoreData data(c);
    std::vector<double> truth, size;
    for (Index b = 0; b < c.batch; ++b) {
      for (Index h = 0; h < c.heads; ++h) {
        for (Index i = 0; i < c.q_len; ++i) {
          const std::size_t row = truth.size();
          truth.resize(row + static_cast<std::size_t>(c.dim));
          size.resize(truth.size());
          for (Index j = 0; j < c.k_len; ++j) {
            const Score score = data.at(b, h, i, j, 1);
            for (Index d = 0; d < c.dim; ++d) {
              const double product = data.weight(b, h, i, j) * reference(params, score, d);
              truth[row + static_cast<std::size_t>(d)] += product;
              size[row + static_cast<std::size_t>(d)] += std::abs(product);
            }
          }
        }
      }
    }
    const auto roundings = static_cast<double>(c.k_len + 2);
    on_every_target([&] {
      const std::vector<double> o64 = values_of<double>(make, params, data, c);
      const std::vector<float> o32 = values_of<float>(make, params, data, c);
      for (std::size_t x = 0; x < truth.size(); ++x) {
        ASSERT_NEAR(o64[x], truth[x], 2 * 0x1p-53 * roundings * size[x]) << "double, element " << x;
        ASSERT_NEAR(static_cast<double>(o32[x]), truth[x], 0x1p-24 * roundings * size[x]) << "float, element " << x;
      }
    });
  }
}

/// Central differences of the loss Σ w·o in every probability and parameter, where the case is small: the loss is
/// linear in each of them, so only rounding remains, 2^-53 of the loss over a step of 2^-17.
template <class Make, class Reference>
void expect_value_gradients(const Make& make, Params& params, const std::vector<ScoreCase>& cases,
                            const Reference& reference) {
  const double step = 0x1p-17;
  for (const ScoreCase& c : cases) {
    if (c.q_len * c.k_len > 400) continue;
    ScoreData data(c);
    const View<const double, 4> d_out = data.inputs<double>(1).q;
    std::vector<double> p, d_p(static_cast<std::size_t>(c.batch * c.heads * c.q_len * c.k_len), 0.5);
    over_scores(c, [&](Index b, Index h, Index i, Index j) { p.push_back(data.weight(b, h, i, j)); });
    params.clear_grads();
    const auto encoding = make.template operator()<double>(params);
    add_values_backward(with(encoding), data.q_positions(), data.k_positions(), data.weights<double>(), d_out,
                        bhtd(d_p.data(), c.batch, c.heads, c.q_len, c.k_len));

    const auto loss_of = [&](Index b, Index h, Index i, Index j) {  // of a unit of probability
      const Score score = data.at(b, h, i, j, 1);
      double sum = 0;
      for (Index d = 0; d < c.dim; ++d) sum += d_out(b, h, i, d) * reference(params, score, d);
      return sum;
    };
    std::size_t x = 0;
    over_scores(c, [&](Index b, Index h, Index i, Index j) {
      // The loss is Σ p·loss_of(score): its slope in p is loss_of itself. d_p began at a half: gradients are added.
      ASSERT_NEAR(d_p[x], 0.5 + loss_of(b, h, i, j), 1e-13) << "p, element " << x;
      ++x, ++compared_gradients();
    });
    const auto loss = [&] {
      double sum = 0;
      std::size_t at = 0;
      over_scores(c, [&](Index b, Index h, Index i, Index j) { sum += p[at++] * loss_of(b, h, i, j); });
      return sum;
    };
    for (std::size_t which = 0; which < params.count(); ++which) {
      std::vector<double>& values = params.values(which);
      const std::size_t stride = std::max<std::size_t>(1, values.size() / 400);
      for (std::size_t y = 0; y < values.size(); y += stride) {
        const double value = values[y];
        values[y] = value + step;
        const double above = loss();
        values[y] = value - step;
        const double below = loss();
        values[y] = value;
        // Some 500 summands of at most 10: 500 · 10 · 2^-53 / 2^-17 is 1e-7 at worst.
        ASSERT_NEAR(params.grads(which)[y], (above - below) / (2 * step), 1e-7)
            << "parameter " << which << " element " << y << ", q_len " << c.q_len << ", k_len " << c.k_len;
        ++compared_gradients();
      }
    }
  }
}

/// Outputs and gradients have the same bits on one thread, on three, and with tasks run backwards.
template <class Make>
void expect_same_value_bits_for_any_executor(const Make& make, Params& params, const std::vector<ScoreCase>& cases) {
  for (const ScoreCase& c : cases) {
    std::vector<std::vector<double>> seen;
    Workers three(3);
    for (const Executor& on : {Executor{}, Executor(three), backwards(4)}) {
      ScoreData data(c);
      params.clear_grads();
      std::vector<double> all = values_of<double>(make, params, data, c, on);
      std::vector<double> d_p(static_cast<std::size_t>(c.batch * c.heads * c.q_len * c.k_len));
      const auto encoding = make.template operator()<double>(params);
      add_values_backward(with(encoding), data.q_positions(), data.k_positions(), data.weights<double>(),
                          data.inputs<double>(1).q, bhtd(d_p.data(), c.batch, c.heads, c.q_len, c.k_len), on);
      all.insert(all.end(), d_p.begin(), d_p.end());
      for (std::size_t x = 0; x < params.count(); ++x) {
        all.insert(all.end(), params.grads(x).begin(), params.grads(x).end());
      }
      seen.push_back(all);
    }
    for (std::size_t i = 1; i < seen.size(); ++i) {
      ASSERT_EQ(seen[0].size(), seen[i].size());
      ASSERT_EQ(std::memcmp(seen[0].data(), seen[i].data(), seen[0].size() * sizeof(double)), 0);
    }
  }
}

}  // namespace bearing::test
