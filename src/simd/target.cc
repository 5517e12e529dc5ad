#include "simd/target.hpp"

#include <algorithm>
#include <atomic>
#include <bearing/error.hpp>
#include <bearing/target.hpp>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "text.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#endif

namespace bearing {
namespace {

struct Named {
  std::int64_t bit;
  std::string_view name;
  bool bf16 = false;  ///< with what has_avx512_bf16() says, which no target of Highway's stands for here
};

// Best first. The bits are Highway's; the names are its own, in lower case. What Highway 1.0.3 does not know stands
// under #ifdef.
constexpr Named all_targets[] = {
    {HWY_AVX3, "avx3_bf16", true},
#ifdef HWY_AVX10_2
    {HWY_AVX10_2, "avx10_2"},
#endif
#ifdef HWY_AVX3_SPR
    {HWY_AVX3_SPR, "avx3_spr"},
#endif
#ifdef HWY_AVX3_ZEN4
    {HWY_AVX3_ZEN4, "avx3_zen4"},
#endif
    {HWY_AVX3_DL, "avx3_dl"},
    {HWY_AVX3, "avx3"},
    {HWY_AVX2, "avx2"},
    {HWY_SSE4, "sse4"},
    {HWY_SSSE3, "ssse3"},
#ifdef HWY_SSE2
    {HWY_SSE2, "sse2"},
#endif
#ifdef HWY_NEON_BF16
    {HWY_NEON_BF16, "neon_bf16"},
#endif
    {HWY_NEON, "neon"},
#ifdef HWY_NEON_WITHOUT_AES
    {HWY_NEON_WITHOUT_AES, "neon"},  // the kernels need no AES
#endif
#ifdef HWY_LASX
    {HWY_LASX, "lasx"},
#endif
#ifdef HWY_LSX
    {HWY_LSX, "lsx"},
#endif
#ifdef HWY_PPC10
    {HWY_PPC10, "ppc10"},
#endif
#ifdef HWY_PPC9
    {HWY_PPC9, "ppc9"},
#endif
    {HWY_PPC8, "ppc8"},
#ifdef HWY_Z15
    {HWY_Z15, "z15"},
#endif
#ifdef HWY_Z14
    {HWY_Z14, "z14"},
#endif
#ifdef HWY_WASM_EMU256
    {HWY_WASM_EMU256, "wasm_emu256"},
#endif
    {HWY_WASM, "wasm"},
    {HWY_EMU128, "scalar"},
    {HWY_SCALAR, "scalar"},
};

/// What the build may always use: every machine that starts this program has it.
constexpr Named baseline{HWY_STATIC_TARGET, "baseline"};

bool machine_has_avx512_bf16() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512bf16") != 0 && __builtin_cpu_supports("avx512vbmi") != 0;
#else
  return false;
#endif
}

#if defined(__x86_64__)
/// Whether the system lets this process use the tiles' memory: Linux gives it on request, for all threads to come.
bool may_use_tiles() {
#if defined(__linux__)
  constexpr long request_permission = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  const int before = errno;
  const bool granted = ::syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
  errno = before;
  return granted;
#else
  return true;
#endif
}
#endif

bool machine_has_amx_bf16() {
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned os_saves_state = 1u << 27, tiles = 1u << 24, tiles_of_bf16 = 1u << 22;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & os_saves_state) == 0) return false;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  if ((d & tiles) == 0 || (d & tiles_of_bf16) == 0) return false;
  constexpr unsigned tile_state = 3u << 17;  // their configuration and their data
  unsigned low = 0, high = 0;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (low & tile_state) == tile_state && may_use_tiles();
#else
  return false;
#endif
}

/// Whether this build holds the target and this machine can run it. The build's own baseline needs no support.
bool usable(const Named& target) {
  // Highway asks the processor anew each time, which takes long in a virtual machine.
  static const std::int64_t bits = (hwy::SupportedTargets() | HWY_STATIC_TARGET) & HWY_TARGETS;
  return (target.bit & bits) != 0 && (!target.bf16 || machine_has_avx512_bf16());
}

/// The targets that are usable, best first. Never none: a baseline that stands in no row above is there as "baseline".
std::vector<const Named*> usable_targets() {
  std::vector<const Named*> found;
  bool with_baseline = false;
  for (const Named& target : all_targets) {
    if (!usable(target)) continue;
    with_baseline |= target.bit == baseline.bit;
    if (found.empty() || found.back()->name != target.name) found.push_back(&target);
  }
  if (!with_baseline) found.push_back(&baseline);
  return found;
}

/// The first of them. It allocates nothing: it is asked for in a first call, whatever that is.
const Named& best_target() {
  const auto* best = std::find_if(std::begin(all_targets), std::end(all_targets), usable);
  return best != std::end(all_targets) ? *best : baseline;
}

const Named& must_find(std::string_view where, std::string_view name) {
  const std::vector<const Named*> all = usable_targets();
  for (const Named* target : all) {
    if (target->name == name) return *target;
  }
  std::string known;
  for (const Named* each : all) known.append(known.empty() ? "" : ", ").append(each->name);
  throw RangeError(text::concat("[", where, "] name: must be one of ", known, ", got \"", name, "\""));
}

struct State {
  hwy::ChosenTarget chosen;
  std::atomic<const Named*> named{nullptr};

  State() {
    if (const char* wanted = std::getenv("BEARING_TARGET"); wanted != nullptr && *wanted != '\0') {
      set(must_find("BEARING_TARGET", wanted));
      return;
    }
    set(best_target());
  }
  void set(const Named& target) {
    named = &target;
    chosen.Update(target.bit);
  }
};

State& state() {
  static State one;
  return one;
}

}  // namespace

const hwy::ChosenTarget& simd::chosen() { return state().chosen; }

const simd::MemoryWalk& simd::memory_walk() {
  static const MemoryWalk best = []() -> MemoryWalk {
#if defined(__x86_64__)
    const bool amd = __builtin_cpu_is("amd") != 0;
    // The first of AMD's with this instruction is Zen 5, for which GCC 12 has no name.
    if (amd && __builtin_cpu_supports("avx512vp2intersect") != 0)
      return {.ahead = 4096, .narrow_ahead = 4096, .quarters = false, .heads = 2};
    if (amd && __builtin_cpu_supports("avx512f") != 0)
      return {.ahead = 0, .narrow_ahead = 0, .quarters = false, .heads = 8};
    if (amd) return {.ahead = 4096, .narrow_ahead = 4096, .quarters = false, .heads = 4};
    return {.ahead = 4096, .narrow_ahead = 2048, .quarters = true, .heads = 4};
#else
    return {.ahead = 4096, .narrow_ahead = 4096, .quarters = true, .heads = 4};
#endif
  }();
  return best;
}

bool simd::has_avx512_bf16() { return state().named.load()->bf16; }

bool simd::has_amx_bf16() {
  if (!has_avx512_bf16()) return false;
  static const bool has = machine_has_amx_bf16();
  return has;
}

std::string_view simd_target() { return state().named.load()->name; }

std::vector<std::string_view> simd_targets() {
  std::vector<std::string_view> names;
  for (const Named* target : usable_targets()) names.push_back(target->name);
  return names;
}

void use_simd_target(std::string_view name) { state().set(must_find("use_simd_target", name)); }

}  // namespace bearing
