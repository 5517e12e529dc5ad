// Attention by itself does not know the order of its tokens: shuffle them, and its outputs are shuffled the same way.
// An encoding breaks that, and positions, not places in memory, say what the order is.

#include <algorithm>
#include <bearing/attention.hpp>
#include <bearing/encodings/alibi.hpp>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <string>
#include <vector>

using bearing::Index;

constexpr Index tokens = 6, dim = 4;
using Rows = std::vector<double>;  // [tokens, dim]

Rows attend(const Rows& x, const bearing::TermList<double>& terms, const bearing::Positions& at) {
  const auto rows = bearing::bhtd(x.data(), 1, 1, tokens, dim);  // q, k and v are x itself: no projections
  Rows out(x.size());
  bearing::attention<double>({rows, rows, rows, at, at}, bearing::bhtd(out.data(), 1, 1, tokens, dim), {}, terms,
                             {.mask = bearing::Mask::none});
  return out;
}

/// Row t of what is returned is row order[t] of x.
Rows shuffle(const Rows& x, const std::vector<Index>& order) {
  Rows y;
  for (const Index t : order) y.insert(y.end(), x.begin() + t * dim, x.begin() + (t + 1) * dim);
  return y;
}

std::string compare(const Rows& a, const Rows& b) {
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most < 1e-12 ? "the shuffled outputs" : "other outputs";
}

int main() {
  Rows x;
  for (Index i = 0; i < tokens * dim; ++i) x.push_back(std::sin(static_cast<double>(i * i)));
  const std::vector<Index> order = {3, 0, 5, 1, 4, 2};
  const bearing::Positions shuffled(bearing::dense(order.data(), tokens));

  const bearing::Alibi alibi{{0.5}};
  const bearing::AlibiBias<double> bias(alibi);
  const auto none = bearing::TermList<double>{}, encoded = bearing::with(bias);

  const Rows y = shuffle(x, order);
  std::printf("no encoding, tokens shuffled:                %s\n",
              compare(attend(y, none, {}), shuffle(attend(x, none, {}), order)).c_str());
  std::printf("ALiBi, tokens shuffled:                      %s\n",
              compare(attend(y, encoded, {}), shuffle(attend(x, encoded, {}), order)).c_str());
  std::printf("ALiBi, tokens and their positions shuffled:  %s\n",
              compare(attend(y, encoded, shuffled), shuffle(attend(x, encoded, {}), order)).c_str());
}
