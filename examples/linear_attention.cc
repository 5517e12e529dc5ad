// Linear attention with RoPE: its weights, which rotation keeps from summing to 1, and decoding a token at a time from
// a state whose size does not grow.

#include <bearing/encodings/rotary_rows.hpp>
#include <bearing/linear_attention.hpp>
#include <cmath>
#include <cstdio>
#include <vector>

using bearing::bhtd;
using bearing::Index;

constexpr Index tokens = 6, dim = 4;

int main() {
  // Some queries and keys. Values are the unit vectors, so that outputs are the weights.
  std::vector<double> q, k, v(tokens * tokens);
  for (Index i = 0; i < tokens * dim; ++i) {
    q.push_back(std::sin(static_cast<double>(i)));
    k.push_back(std::cos(static_cast<double>(2 * i)));
  }
  for (std::size_t i = 0; i < tokens; ++i) v[i * tokens + i] = 1;
  const bearing::LinearAttentionInputs<double> in{bhtd<const double>(q.data(), 1, 1, tokens, dim),
                                                  bhtd<const double>(k.data(), 1, 1, tokens, dim),
                                                  bhtd<const double>(v.data(), 1, 1, tokens, tokens)};
  const bearing::RopeTable<double> table(bearing::Rope{.head_dim = dim, .pairing = bearing::Pairing::half}, tokens);
  const bearing::RotaryRows<double> rope(table);

  std::vector<double> weights(tokens * tokens);
  const auto show = [&](const char* title) {
    std::puts(title);
    for (std::size_t i = 0; i < tokens; ++i) {
      double sum = 0;
      for (std::size_t j = 0; j < tokens; ++j) {
        std::printf("%7.3f", weights[i * tokens + j]);
        sum += weights[i * tokens + j];
      }
      std::printf("   sum %6.3f\n", sum);
    }
  };
  const auto out = bhtd(weights.data(), 1, 1, tokens, tokens);
  bearing::linear_attention<double>(in, out, {}, {}, {.mask = bearing::Mask::causal});
  show("weights without an encoding, queries down, keys across:");
  bearing::linear_attention<double>(in, out, {}, bearing::with(rope), {.mask = bearing::Mask::causal});
  show("with RoPE:");

  // The same again, one token a call, at its position.
  std::vector<double> s(dim * tokens), z(dim), row(tokens);
  const bearing::LinearState<double> state{bhtd(s.data(), 1, 1, dim, tokens), bearing::dense(z.data(), 1, 1, dim)};
  double apart = 0;
  for (Index t = 0; t < tokens; ++t) {
    const auto token = [&](const std::vector<double>& x, Index width) {
      return bhtd<const double>(x.data() + t * width, 1, 1, 1, width);
    };
    bearing::linear_attention<double>(
        {token(q, dim), token(k, dim), token(v, tokens), bearing::Positions(t), bearing::Positions(t)},
        bhtd(row.data(), 1, 1, 1, tokens), state, bearing::with(rope), {.mask = bearing::Mask::causal});
    for (Index j = 0; j < tokens; ++j)
      apart = std::fmax(apart, std::fabs(row[static_cast<std::size_t>(j)] - out(0, 0, t, j)));
  }
  std::printf("token by token, from a state of %d numbers: %s\n", static_cast<int>(s.size() + z.size()),
              apart < 1e-14 ? "the same" : "something else");
}
