#include <algorithm>
#include <array>
#include <bearing/encodings/alibi.hpp>
#include <bearing/encodings/sinusoidal.hpp>
#include <bearing/encodings/t5.hpp>
#include <bearing/properties.hpp>
#include <bearing/rows.hpp>
#include <cmath>
#include <numbers>

#include "inspect/claims.hpp"
#include "inspect/probes.hpp"
#include "inspect/tasks.hpp"
#include "text.hpp"

// What introductions to positional encodings often say, each measured here.

namespace bearing::inspect {

using text::concat;

namespace {

constexpr double pi = std::numbers::pi;

Claim claim(const char* name, const char* says, bool holds, std::string measured, double number) {
  return {name, says, holds ? Verdict::yes : Verdict::no, std::move(measured), number};
}

Rope rope_of(Index head_dim, double base = 10'000) {
  return {.head_dim = head_dim, .base = base, .pairing = Pairing::half};
}

// Sinusoidal

Array sinusoids(Index dim, Index time) {
  Array rows(1, time, dim);
  fill<double>(Sinusoidal{.dim = dim, .layout = SinusoidalLayout::interleaved}, {},
               View<double, 2>{rows.values.data(), {time, dim}, {dim, 1}});
  return rows;
}

Claim similarity_decreases() {
  constexpr Index steps = 4096;
  const Array rows = sinusoids(128, steps + 1);
  const View<const double, 2> first{rows.values.data(), {1, 128}, {128, 1}};
  const Decay d = decay(products(first, rows.head(0)).values);
  return claim("sinusoidal", "the similarity of two positions decreases smoothly with their distance", d.rises == 0,
               concat("dim 128: it rises at ", d.rises, " of ", steps, " steps and is negative at ", d.negative,
                      "; only its envelope falls"),
               static_cast<double>(d.rises));
}

Claim similarity_is_symmetric() {
  const Array rows = sinusoids(64, 96);
  const Array s = products(rows.head(0), rows.head(0));
  double off = 0;
  for (Index i = 0; i < 96; ++i) {
    for (Index j = 0; j < 96; ++j) off = std::max(off, std::abs(s(0, i, j) - s(0, j, i)));
  }
  return claim("sinusoidal", "the similarity of two positions is symmetrical", off == 0,
               concat("PE(i).PE(j) and PE(j).PE(i) differ by ", brief(off)), off);
}

Claim shift_is_a_sine() {
  const Array rows = sinusoids(64, 384);
  constexpr Index k = 5;
  double sine = 0;
  for (Index p = 0; p + k < 384; ++p) {
    for (Index d = 0; d < 64; ++d) sine = std::max(sine, std::abs(rows(0, p + k, d) - std::sin(rows(0, p, d))));
  }
  const double map = shift_map(rows.head(0), k).held_out;
  return claim("sinusoidal", "PE(i + k) = sin(PE(i))", sine < 1e-6,
               concat("off by up to ", brief(sine), "; it is M*PE(i), a rotation of each pair: off by ", brief(map)),
               sine);
}

Claim code_with_pi() {
  constexpr Index dim = 512;
  const std::vector<double> rates = sinusoidal_frequencies({.dim = dim, .layout = SinusoidalLayout::interleaved});
  Index fast = 0;
  double most = 0, off = 0;
  for (Index i = 0; i < dim / 2; ++i) {
    const double frequency = rates[static_cast<std::size_t>(i)];
    const double rate = static_cast<double>(i) * pi * frequency;
    fast += rate > pi ? 1 : 0;
    most = std::max(most, rate), off = std::max(off, std::abs(rate - frequency));
  }
  return claim("sinusoidal", "code: angle = position * (i*pi / 10000^(2i/d))", off < 1e-9,
               concat("that has another factor i*pi: with dim 512 pair 0 never turns, ", fast,
                      " of 256 pairs turn more than half a circle per token, the fastest ", brief(most), " rad"),
               static_cast<double>(fast));
}

Claim first_pairs_are_slow() {
  const std::vector<double> rates = sinusoidal_frequencies({.dim = 512, .layout = SinusoidalLayout::interleaved});
  return claim("sinusoidal", "the first dimensions turn slowest", rates.front() < rates.back(),
               concat("dim 512: the first pair turns by ", brief(rates.front()), " rad per token, the last by ",
                      brief(rates.back())),
               rates.front());
}

Claim longest_wavelength() {
  const double longest = wavelengths(resolve(rope_of(128))).back();
  return claim("sinusoidal", "wavelengths reach 10000*2pi = 62832 tokens", std::abs(longest - 20'000 * pi) < 1,
               concat("dim 128: the longest is ", brief(std::round(longest)), " = 2pi*10000^((d-2)/d)"), longest);
}

// T5

Claim t5_exact_to_eight() {
  const auto exact = [](T5Direction direction) {
    const T5 t5{.direction = direction};
    Index distance = 0;  // the largest with a bucket of its own, and so all smaller ones
    while (t5_bucket(t5, -distance - 1) != t5_bucket(t5, -distance - 2)) ++distance;
    return distance;
  };
  const Index both = exact(T5Direction::bidirectional), causal = exact(T5Direction::causal);
  return claim("t5", "distances up to 8 have buckets of their own", both == 8 || causal == 8,
               concat("up to ", both, " in both directions, up to ", causal, " in a decoder"),
               static_cast<double>(both));
}

// ALiBi

Claim alibi_formula() {
  double worst = 0;
  Index at = 0;
  for (Index heads = 1; heads <= 64; ++heads) {
    const std::vector<double> slopes = Alibi::published(heads).slopes;
    double off = 0;
    for (Index h = 0; h < heads; ++h) {
      const double formula = std::exp2(-8 * static_cast<double>(h + 1) / static_cast<double>(heads));
      off = std::max(off, std::abs(formula - slopes[static_cast<std::size_t>(h)]));
    }
    if (off > worst) worst = off, at = heads;
  }
  return claim("alibi", "head h of H has the slope 2^(-8h/H)", worst < 1e-12,
               concat("of the published slopes only for H a power of two; else off by up to ", brief(worst),
                      " (H = ", at, ", of 1 to 64)"),
               worst);
}

// RoPE

Claim rotation_is_its_transpose() {
  // y = R x with the gradient g of y: the gradient of x is Rᵀ g, by differences of g·R x too.
  const Rope rope{.head_dim = 4, .pairing = Pairing::interleaved, .scaling = ExplicitFrequencies{{1, 0.1}}};
  const RopeTable<double> table(rope, 4);
  std::array<double, 4> forward = {1, 2, 3, 4}, back = forward;
  const Positions at(2);
  rotate(table, bhtd(forward.data(), 1, 1, 1, 4), at);
  rotate_backward(table, bhtd(back.data(), 1, 1, 1, 4), at);
  double off = 0, wrong = 0;
  for (std::size_t d = 0; d < 4; ++d) {
    std::array<double, 4> e{};
    e[d] = 1;
    rotate(table, bhtd(e.data(), 1, 1, 1, 4), at);
    const double derivative = e[0] + 2 * e[1] + 3 * e[2] + 4 * e[3];  // linear: a difference is the derivative
    off = std::max(off, std::abs(derivative - back[d]));
    wrong = std::max(wrong, std::abs(derivative - forward[d]));
  }
  return claim(
      "rope", "the rotation is its own transpose, so gradients turn by R(i) too", wrong < 1e-12,
      concat("theta = (1, 0.1), position 2: R(i) is off by ", brief(wrong), ", its transpose R(-i) by ", brief(off)),
      wrong);
}

Claim slowest_of_llama3() {
  const double rate = resolve(rope_of(128, 500'000)).inv_freq.back();
  return claim("rope", "with base 500000 the slowest pair turns by 1/500000", std::abs(rate * 500'000 - 1) < 1e-3,
               concat("head_dim 128: by 1/", brief(std::round(1 / rate))), rate);
}

Claim example_frequencies() {
  const double second = resolve(rope_of(4)).inv_freq[1];
  return claim("rope", "head_dim 4 has theta = (1, 0.1)", std::abs(second - 0.1) < 1e-12,
               concat("with base 10000 theta = (1, ", brief(second), "); (1, 0.1) is base 100"), second);
}

Claim rotations_compose() {
  constexpr Index dim = 16;
  const RopeTable<double> table(rope_of(dim), 64);
  double off = 0;
  Normal normal(1);
  Array q = normal.array(1, 1, dim), k = normal.array(1, 1, dim);
  const auto product_at = [&](Index m, Index n) {
    Array x = q, y = k;
    rotate(table, bhtd(x.values.data(), 1, 1, 1, dim), Positions(m));
    rotate(table, bhtd(y.values.data(), 1, 1, 1, dim), Positions(n));
    return products(x.head(0), y.head(0)).values[0];
  };
  for (Index m = 0; m < 32; ++m) {
    for (Index n = 0; n < 32; ++n) off = std::max(off, std::abs(product_at(m, n) - product_at(0, n - m)));
  }
  return claim("rope", "the product of R(m)q and R(n)k depends on n - m alone", off < 1e-12,
               concat("1024 pairs of positions: off by at most ", brief(off)), off);
}

/// Whom a claim is about, and how it is measured.
struct Said {
  const char* name;
  Claim (*measure)();
};

constexpr std::array<Said, 12> said = {{{"sinusoidal", similarity_decreases},
                                        {"sinusoidal", similarity_is_symmetric},
                                        {"sinusoidal", shift_is_a_sine},
                                        {"sinusoidal", code_with_pi},
                                        {"sinusoidal", first_pairs_are_slow},
                                        {"sinusoidal", longest_wavelength},
                                        {"t5", t5_exact_to_eight},
                                        {"alibi", alibi_formula},
                                        {"rope", rotations_compose},
                                        {"rope", rotation_is_its_transpose},
                                        {"rope", slowest_of_llama3},
                                        {"rope", example_frequencies}}};

/// Those about `name`; about any, where that is null.
std::vector<Claim> measured(const std::string* name, const Executor& on) {
  std::vector<const Said*> wanted;
  for (const Said& one : said) {
    if (name == nullptr || *name == one.name) wanted.push_back(&one);
  }
  const std::vector<const char*> rows = table_names(name);
  std::vector<Claim> all(wanted.size());
  std::vector<std::vector<Claim>> table(rows.size());
  each(on, static_cast<Index>(wanted.size() + rows.size()), [&](Index task) {
    const auto i = static_cast<std::size_t>(task);
    if (i < rows.size()) {
      table[i] = table_claims(rows[i]);
    } else {
      all[i - rows.size()] = wanted[i - rows.size()]->measure();
    }
  });
  for (const std::vector<Claim>& row : table) all.insert(all.end(), row.begin(), row.end());
  return all;
}

}  // namespace

std::vector<Claim> claims(const Executor& on) { return measured(nullptr, on); }

std::vector<Claim> claims(const std::string& name, const Executor& on) { return measured(&name, on); }

}  // namespace bearing::inspect
