#include <algorithm>
#include <bearing/encodings/rope.hpp>
#include <bearing/io.hpp>
#include <bearing/threads.hpp>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/real.hpp"
#include "walk.hpp"

// every_angle CONFIG RESULTS [FROM TO [ERROR]]
//
// Walks every position from FROM to TO − 1 (0 and 2^31 + 1) and holds the float32 cos and sin of every pair of the
// model in CONFIG, as fill() gives them, against a reference of its own: frequencies in MPFR from the papers' formulas,
// angles in exact 128-bit arithmetic, cos and sin in double. RESULTS gets a line for each 2^22 positions, and a walk
// that was interrupted goes on where it was. Exit status: 0 if all is within what rope.hpp promises, 1 if something is
// not.
//
// ERROR: a relative error to put into the reference's frequencies, so that a test can see the walk fail.

namespace bearing::exhaustive {
namespace {

using test::Real;
using test::real;

constexpr Index chunk = Index{1} << 22, rows_at_once = 512;
constexpr Index last_position = Index{1} << 31, near = Index{1} << 24;
constexpr double promised_near = 0.55, promised = 1;  // ulps: to position 2^24, and to 2^31

/// θ of pair i as the papers define it. Throws for scalings that no formula is here for.
Real frequency(const Rope& rope, Index i) {
  const Index dim = rope.rotary_dim == 0 ? rope.head_dim : rope.rotary_dim;
  const Real plain = pow(Real(rope.base), real(-2 * i) / real(dim));
  if (std::holds_alternative<NoScaling>(rope.scaling)) return plain;
  const auto* llama3 = std::get_if<Llama3Scaling>(&rope.scaling);
  if (llama3 == nullptr) throw std::runtime_error("scaling: must be none or llama3");
  const Real turns = real(llama3->trained_length) * plain / (Real(2) * Real::pi());
  if (Real(llama3->high_freq_factor) < turns) return plain;
  if (turns < Real(llama3->low_freq_factor)) return plain / Real(llama3->factor);
  const Real kept =
      (turns - Real(llama3->low_freq_factor)) / (Real(llama3->high_freq_factor) - Real(llama3->low_freq_factor));
  return (Real(1) - kept) * plain / Real(llama3->factor) + kept * plain;
}

/// θ/2π in units of 2^-128, to nearest: off by 2^-129 turns, and by 2^-98 after 2^31 steps.
Turns turns_per_token(const Rope& rope, Index pairs, double error) {
  Turns step;
  for (Index i = 0; i < pairs; ++i) {
    Real turns = frequency(rope, i) * (Real(1) + Real(error)) / (Real(2) * Real::pi());
    const auto digits = [&](double scale) {  // the next 64 bits, which leave `turns`
      turns = turns * Real(scale);
      const Real whole = floor(turns);
      turns = turns - whole;
      return whole;
    };
    digits(1);
    step.high.push_back(mpfr_get_ui(digits(0x1p64).value(), MPFR_RNDN));
    step.low.push_back(mpfr_get_ui(digits(0x1p64).value(), MPFR_RNDN));
  }
  return step;
}

/// One walker's memory.
struct Room {
  std::vector<float> cos, sin;
};

Found walk(const RopeFrequencies& f, const Turns& step, Index first, Index end, Room& room) {
  Turns at = step.times(static_cast<std::uint64_t>(first));
  Found found;
  const Index pairs = f.pairs();
  for (Index begin = first; begin < end; begin += rows_at_once) {
    const Index rows = std::min(rows_at_once, end - begin);
    fill(f, Positions(begin), dense(room.cos.data(), rows, pairs), dense(room.sin.data(), rows, pairs));
    found.see(compare(step, at, room.cos.data(), room.sin.data(), begin, rows));
  }
  return found;
}

/// The lines of a results file: one for each walk of a stretch of positions.
struct Results {
  std::map<Index, std::pair<Index, Found>> done;  ///< by first position: where it ended

  static Results read(const std::string& path) {
    Results results;
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
      Index first = 0, end = 0, past_half = 0;
      Found found;
      const int read = std::sscanf(line.c_str(), "%td %td cos %lf %td %td sin %lf %td %td past_half %td;", &first, &end,
                                   &found.cos.ulps, &found.cos.position, &found.cos.pair, &found.sin.ulps,
                                   &found.sin.position, &found.sin.pair, &past_half);
      found.past_half = past_half;
      if (read == 9 && line.back() == ';') results.done[first] = {end, found};
    }
    return results;
  }
};

std::string line_of(Index first, Index end, const Found& f) {
  char text[256];
  std::snprintf(text, sizeof text, "%td %td cos %.6f %td %td sin %.6f %td %td past_half %td;\n", first, end, f.cos.ulps,
                f.cos.position, f.cos.pair, f.sin.ulps, f.sin.position, f.sin.pair, f.past_half);
  return text;
}

struct Walk {
  Index from = 0, to = last_position + 1;
  double error = 0;
};

void report(const char* what, const Found& found) {
  const auto place = [](const char* name, const Worst& worst) {
    std::printf("  %s: at most %.4f ulp, at position %td, pair %td\n", name, worst.ulps, worst.position, worst.pair);
  };
  std::printf("%s\n", what);
  place("cos", found.cos), place("sin", found.sin);
  std::printf("  not the nearest float32: %td\n", found.past_half);
}

int run(const std::string& config, const std::string& path, const Walk& asked) {
  const Rope rope = std::get<Rope>(read_hf_config(config).layers.at(0).encoding);
  const RopeFrequencies f = resolve(rope);
  if (f.attention_factor != 1) throw std::runtime_error("attention factor: must be 1");
  const Turns step = turns_per_token(rope, f.pairs(), asked.error);

  Results results = Results::read(path);
  std::ofstream file(path, std::ios::app);
  const Executor on = threads();
  const Index workers = on.workers;
  const auto size = static_cast<std::size_t>(rows_at_once * f.pairs());
  std::vector<Room> rooms(static_cast<std::size_t>(workers), Room{std::vector<float>(size), std::vector<float>(size)});

  std::vector<Index> remaining;
  for (Index first = asked.from; first < asked.to; first += chunk) {
    if (!results.done.contains(first)) remaining.push_back(first);
  }
  const auto begun = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < remaining.size(); i += static_cast<std::size_t>(workers)) {
    const auto count = std::min(static_cast<std::size_t>(workers), remaining.size() - i);
    std::vector<Found> found(count);
    parallel(on, static_cast<Index>(count), [&](Index n) {
      const auto k = static_cast<std::size_t>(n);
      found[k] = walk(f, step, remaining[i + k], std::min(remaining[i + k] + chunk, asked.to), rooms[k]);
    });
    for (std::size_t k = 0; k < count; ++k) {
      const Index end = std::min(remaining[i + k] + chunk, asked.to);
      results.done[remaining[i + k]] = {end, found[k]};
      file << line_of(remaining[i + k], end, found[k]);
    }
    if (!file.flush()) throw std::runtime_error(path + ": cannot be written");
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begun;
    const double share = static_cast<double>(i + count) / static_cast<double>(remaining.size());
    std::fprintf(stderr, "\r%5.1f %%, %.0f s left ", share * 100, passed.count() * (1 / share - 1));
  }
  std::fputc('\n', stderr);

  Found close, all;
  for (const auto& [first, rest] : results.done) {
    if (first >= asked.from && rest.first <= asked.to) {
      all.see(rest.second);
      if (rest.first <= near) close.see(rest.second);
    }
  }
  if (asked.from < near) report("positions to 2^24", close);
  report("all positions walked", all);
  const auto worst = [](const Found& found) { return std::max(found.cos.ulps, found.sin.ulps); };
  return worst(close) <= promised_near && worst(all) <= promised ? 0 : 1;
}

}  // namespace
}  // namespace bearing::exhaustive

int main(int count, char** words) {
  using bearing::exhaustive::Walk;
  if (count != 3 && count != 5 && count != 6) {
    std::fprintf(stderr, "usage: every_angle CONFIG RESULTS [FROM TO [ERROR]]\n");
    return 2;
  }
  try {
    Walk walk;
    if (count > 3) walk.from = std::stoll(words[3]), walk.to = std::stoll(words[4]);
    if (count > 5) walk.error = std::stod(words[5]);
    return bearing::exhaustive::run(words[1], words[2], walk);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "every_angle: %s\n", error.what());
    return 3;
  }
}
