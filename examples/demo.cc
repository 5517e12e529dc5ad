// Reads a model's config.json, says what the model does with positions, rotates queries and keys at the far end of its
// context in float32 and bfloat16, checks every element against the float64 reference, and measures.
//
//     bearing_demo config.json

#include <algorithm>
#include <bearing/bearing.hpp>
#include <bearing/io.hpp>
#include <bearing/rope_report.hpp>
#include <bearing/threads.hpp>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <exception>
#include <limits>
#include <string>
#include <vector>

#include "demo_memory.hpp"

namespace demo {
namespace {

using namespace bearing;

constexpr Index most_tokens = 4096;
constexpr int runs = 25;

/// What is rotated: one tensor of queries, one of keys.
struct Job {
  Rope rope;
  RopeFrequencies frequencies;
  Index heads, kv_heads, time, dim, first;

  Index elements() const { return (heads + kv_heads) * time * dim; }
  Positions at() const { return Positions(first); }
};

/// In memory as a model's projections leave them: token by token, the heads of one beside each other.
template <class T>
struct Tensors {
  explicit Tensors(const Job& job)
      : memory(allocate(sizeof(T) * static_cast<std::size_t>(job.elements()))),
        q(bthd(reinterpret_cast<T*>(memory.get()), 1, job.time, job.heads, job.dim)),
        k(bthd(q.data + q.size(), 1, job.time, job.kv_heads, job.dim)) {}

  Memory memory;
  View<T, 4> q, k;
};

/// About normal, mean 0 and deviation 1.2: the sum of four uniform numbers made from the index alone (splitmix64), so
/// that the input need not be kept to be known later. Exact in float32.
float seeded(Index i) {
  std::uint64_t z = (static_cast<std::uint64_t>(i) + 1) * 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  z ^= z >> 31;
  const std::uint64_t sum = (z & 0xFFFF) + ((z >> 16) & 0xFFFF) + ((z >> 32) & 0xFFFF) + (z >> 48);
  return (static_cast<float>(sum) - 131070.0f) * 0x1p-15f;
}

/// What an error may be: 3 ulp of the pair's norm in float32, the promise of rotate(); and in bfloat16 that plus the
/// rounding of the result, half a unit of its last place.
struct Accuracy {
  double max_error = 0, of_norm = 0, in_ulp = 0, of_allowed = 0;

  void merge(const Accuracy& other) {
    max_error = std::max(max_error, other.max_error);
    of_norm = std::max(of_norm, other.of_norm);
    in_ulp = std::max(in_ulp, other.in_ulp);
    of_allowed = std::max(of_allowed, other.of_allowed);
  }
};

template <class T>
constexpr int fraction_bits = 23;
template <>
constexpr int fraction_bits<Bfloat16> = 7;

double ulp(double x, int bits) { return x == 0 ? 0 : std::ldexp(1.0, std::ilogb(x) - bits); }

template <class T>
Accuracy compare(double wanted, T got, double norm) {
  const double error = std::abs(static_cast<double>(static_cast<float>(got)) - wanted);
  const double rotation = 3 * ulp(norm, 23);
  const double allowed =
      std::is_same_v<T, float> ? rotation : rotation + ulp(std::abs(wanted) + rotation, fraction_bits<T>) / 2;
  // A NaN is an error past every bound, and must not get lost in a maximum.
  if (!(error <= allowed)) return {error, error / norm, error / ulp(norm, fraction_bits<T>), 2};
  return error == 0 ? Accuracy{} : Accuracy{error, error / norm, error / ulp(norm, fraction_bits<T>), error / allowed};
}

/// One head against reference::rotate.
template <class T>
Accuracy check_head(const Job& job, View<T, 4> x, Index h, Index seed) {
  const Index n = job.time * job.dim;
  std::vector<double> in(static_cast<std::size_t>(n)), out(in.size());
  for (Index i = 0; i < n; ++i) {
    in[static_cast<std::size_t>(i)] = static_cast<double>(static_cast<float>(T(seeded(seed + h * n + i))));
  }
  const View<double, 4> wanted = bhtd(out.data(), 1, 1, job.time, job.dim);
  reference::rotate(job.frequencies, bhtd<const double>(in.data(), 1, 1, job.time, job.dim), job.at(), wanted);
  const RopeFrequencies& f = job.frequencies;
  const Index step = f.pairing == Pairing::half ? 1 : 2, partner = f.pairing == Pairing::half ? f.pairs() : 1;
  Accuracy worst;
  for (Index t = 0; t < job.time; ++t) {
    for (Index i = 0; i < f.pairs(); ++i) {
      const Index u = f.begin + i * step, v = u + partner;
      const double norm = std::hypot(wanted(0, 0, t, u), wanted(0, 0, t, v));
      for (Index d : {u, v}) worst.merge(compare(wanted(0, 0, t, d), x(0, h, t, d), norm));
    }
    for (Index d = 0; d < job.dim; ++d) {  // what does not turn must be as it was
      const bool turns = d >= f.begin && d < f.begin + f.rotary_dim;
      if (!turns && static_cast<double>(static_cast<float>(x(0, h, t, d))) != wanted(0, 0, t, d)) worst.of_allowed = 2;
    }
  }
  return worst;
}

template <class T>
void fill_seeded(const Tensors<T>& x) {
  Index i = 0;
  for (const View<T, 4>& each : {x.q, x.k}) {
    for (Index h = 0; h < each.shape[1]; ++h) {
      for (Index t = 0; t < each.shape[2]; ++t) {
        for (Index d = 0; d < each.shape[3]; ++d) each(0, h, t, d) = T(seeded(i++));
      }
    }
  }
}

template <class T>
Accuracy check(const Job& job, const Tensors<T>& x, const Executor& on) {
  std::vector<Accuracy> per_head(static_cast<std::size_t>(job.heads + job.kv_heads));
  parallel(on, job.heads + job.kv_heads, [&](Index h) {
    Accuracy& out = per_head[static_cast<std::size_t>(h)];
    out = h < job.heads ? check_head(job, x.q, h, 0) : check_head(job, x.k, h - job.heads, x.q.size());
  });
  Accuracy worst;
  for (const Accuracy& one : per_head) worst.merge(one);
  return worst;
}

template <class Body>
double milliseconds(Body&& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

struct Speed {
  double best, median, share;  // milliseconds, milliseconds, of the memory's in-place speed
};

/// Rotation and bare memory traffic by turns on the same bytes, so that both meet the same machine. Shares compare the
/// two minima: what disturbs a run only ever makes it slower.
template <class T>
Speed measure(const Job& job, const RopeTable<float>& table, const Tensors<T>& x, const Executor& on) {
  const std::size_t bytes = sizeof(T) * static_cast<std::size_t>(job.elements());
  std::vector<double> rotations, limits;
  for (int run = 0; run < runs + 3; ++run) {
    const double limit = milliseconds([&] { touch(x.memory.get(), bytes, on); });
    const double rotation = milliseconds([&] { rotate(table, x.q, x.k, job.at(), on); });
    if (run < 3) continue;  // warming up
    limits.push_back(limit), rotations.push_back(rotation);
  }
  std::sort(rotations.begin(), rotations.end());
  const double best = rotations.front();
  return {best, rotations[rotations.size() / 2], *std::min_element(limits.begin(), limits.end()) / best};
}

Job make_job(const Model& model) {
  for (const Layer& layer : model.layers) {
    const Rope* rope = std::get_if<Rope>(&layer.encoding);
    if (rope == nullptr) continue;
    const Index context = model.context_length > 0 ? model.context_length : most_tokens;
    const Index time = std::min(context, most_tokens);
    return {*rope, resolve(*rope, context), model.heads, model.kv_heads, time, rope->head_dim, context - time};
  }
  throw ConfigError(model.file + ": no layer has a rotary encoding, so there is nothing to rotate");
}

std::string length_text(Index tokens) { return tokens > 0 ? std::to_string(tokens) : "an unstated number of"; }

void describe(const Model& model, const Job& job) {
  const RopeFrequencies& f = job.frequencies;
  const std::vector<double> tokens = wavelengths(f);
  Index changed[3] = {};
  for (const PairRun& run : pair_runs(f)) changed[static_cast<int>(run.change)] += run.last - run.first + 1;
  const bool scaled = !std::holds_alternative<NoScaling>(job.rope.scaling);
  const char* scaling_text = scaled ? scaling_name(job.rope.scaling) : "none";
  std::printf("%s: %s, %zu layers\n", model.file.c_str(), model.model_type.c_str(), model.layers.size());
  std::printf("  encoding     rotary, %s pairs, base %.10g, %lld of %lld dimensions\n",
              f.pairing == Pairing::half ? "half" : "interleaved", job.rope.base, static_cast<long long>(f.rotary_dim),
              static_cast<long long>(f.head_dim));
  std::printf("  scaling      %s: %lld pairs kept, %lld blended, %lld scaled\n", scaling_text,
              static_cast<long long>(changed[0]), static_cast<long long>(changed[1]),
              static_cast<long long>(changed[2]));
  std::printf("  wavelengths  %.4g to %.8g tokens\n", *std::min_element(tokens.begin(), tokens.end()),
              *std::max_element(tokens.begin(), tokens.end()));
  std::printf("  lengths      trained on %s tokens, context %s\n\n", length_text(model.trained_length).c_str(),
              length_text(model.context_length).c_str());
  std::printf(
      "q [1, %lld, %lld, %lld] and k [1, %lld, %lld, %lld], rotated in place at positions %lld to %lld,\n"
      "in memory token by token, as a model's projections leave them\n\n",
      static_cast<long long>(job.heads), static_cast<long long>(job.time), static_cast<long long>(job.dim),
      static_cast<long long>(job.kv_heads), static_cast<long long>(job.time), static_cast<long long>(job.dim),
      static_cast<long long>(job.first), static_cast<long long>(job.first + job.time - 1));
}

/// Rotates once and compares; prints one line. False if an element is further off than it may be.
template <class T>
bool show_accuracy(const char* name, const char* allowed, const Job& job, const RopeTable<float>& table,
                   const Tensors<T>& x, const Executor& on) {
  fill_seeded(x);
  rotate(table, x.q, x.k, job.at(), on);
  const Accuracy a = check(job, x, on);
  const bool good = a.of_allowed <= 1;
  std::printf("  %-5s %10.2g %18.2g %12.3f   %-14s %s\n", name, a.max_error, a.of_norm, a.in_ulp, allowed,
              good ? "ok" : "TOO LARGE");
  std::fflush(stdout);
  return good;
}

template <class T>
void show_speed(const char* name, const Job& job, const RopeTable<float>& table, const Tensors<T>& x,
                const Executor& all) {
  const double gigabytes = 2e-9 * sizeof(T) * static_cast<double>(job.elements());  // read and written
  for (const Executor& on : {Executor{}, all}) {
    const Speed s = measure(job, table, x, on);
    std::printf("  %-5s %7lld %12.2f %12.2f %8.1f %11.0f %%\n", name, static_cast<long long>(on.workers), s.best,
                s.median, gigabytes / (s.best * 1e-3), 100 * s.share);
    std::fflush(stdout);
    if (all.workers == 1) break;
  }
}

int run(const std::string& path) {
  const Model model = read_hf_config(path);
  const Job job = make_job(model);
  const Executor all = threads();
  describe(model, job);
  const RopeTable<float> table(job.frequencies, job.first + job.time, TableMemory::full, all);
  const Tensors<float> f32(job);
  const Tensors<Bfloat16> bf16(job);

  std::printf("every element against the float64 reference (%lld of each type)\n",
              static_cast<long long>(job.elements()));
  std::printf("  type   max error  of its pair's norm  in norm ulp   allowed\n");
  const bool good32 = show_accuracy("f32", "3 ulp", job, table, f32, all);
  const bool good16 = show_accuracy("bf16", "one rounding", job, table, bf16, all);

  std::printf("\nspeed, %s, %d runs (share: of the in-place speed of the same memory)\n",
              std::string(simd_target()).c_str(), runs);
  std::printf("  type  threads      best ms    median ms     GB/s        share\n");
  show_speed("f32", job, table, f32, all);
  show_speed("bf16", job, table, bf16, all);
  if (!good32 || !good16) std::fprintf(stderr, "bearing_demo: an error is larger than promised\n");
  return good32 && good16 ? 0 : 1;
}

}  // namespace
}  // namespace demo

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: bearing_demo CONFIG.JSON\n");
    return 2;
  }
  try {
    return demo::run(argv[1]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bearing_demo: %s\n", error.what());
    return 3;
  }
}
