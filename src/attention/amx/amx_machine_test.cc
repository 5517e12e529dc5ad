#include <gtest/gtest.h>
#include <cmath>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "simd/target.hpp"
#include "support/amx_heads.hpp"
#include "support/amx_trap.hpp"

// The instructions themselves against their emulation, and which kernels serve.

namespace bearing::attend::amx {
namespace {

using test::tiles::expect_same_bits;
using test::tiles::Head;
using test::tiles::infinity;
using test::tiles::Result;
using test::tiles::run;

#if defined(__x86_64__)

/// Says what ran: a test that runs nothing must not look like one that did.
void report(const std::string& what) { std::cout << "[   AMX    ] " << what << std::endl; }

/// Whether the upper halves of vectors hold something, as the processor tells: instructions of SSE are slow then.
bool upper_halves_in_use() {
  unsigned low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(1));  // there on whatever has AVX-512
  return (low & 4) != 0;
}

void expect_the_emulations_bits(const Head& head) {
  const Result of_machine = run(head, machine);
  EXPECT_FALSE(upper_halves_in_use());
  expect_same_bits(of_machine, run(head, emulated));
}

TEST(AmxTest, AmxInstructionsEqualTheirEmulation) {
  std::vector<Head> heads = {Head(33, 150, 64, 32, 21, 2), Head(70, 300, 32, 64, 22), Head(40, 70, 128, 128, 23)};
  heads[1].window(90);
  heads[2].bias_by_distance([](Index n) { return -0.1 * static_cast<double>(std::abs(n)); });
  for (std::size_t n = 0; n < 3; ++n) heads.push_back(heads[n].in_pieces());
  if (simd::has_amx_bf16()) {
    report("the instructions ran on this machine's tiles");
    EXPECT_EQ(kernels(), &machine);
    for (const Head& head : heads) expect_the_emulations_bits(head);
    return;
  }
  EXPECT_EQ(kernels(), nullptr) << "without AMX the float kernels serve";
#if defined(__linux__)
  if (simd::has_avx512_bf16()) {
    report("no AMX here: its instructions were trapped and done in software; the vectors ran on this machine");
    test::AmxTrap trap;
    for (const Head& head : heads) expect_the_emulations_bits(head);
    EXPECT_GT(trap.products(), 0);
    EXPECT_EQ(trap.configured(), 6);
    EXPECT_EQ(trap.released(), 6);
    return;
  }
#endif
  report("neither AMX nor AVX-512's bfloat16 here: nothing of it ran, and dispatch was seen to choose float");
}

#endif

TEST(AmxTest, ServesWholeTilesAndPositiveScales) {
  EXPECT_TRUE(usable(64, 128, 0.125f));
  EXPECT_TRUE(usable(256, 32, 1));
  EXPECT_FALSE(usable(48, 64, 1));
  EXPECT_FALSE(usable(64, 8, 1));
  EXPECT_FALSE(usable(288, 64, 1));
  EXPECT_FALSE(usable(64, 64, -1));
  EXPECT_FALSE(usable(64, 64, 0));
  EXPECT_FALSE(usable(64, 64, infinity));
}

TEST(AmxTest, ATestsChoiceOfKernelHoldsUntilItIsTakenBack) {
  const Kernels* before = kernels();
  force_kernels(&emulated);
  EXPECT_EQ(kernels(), &emulated);
  force_kernels(std::nullopt);
  EXPECT_EQ(kernels(), before);
}

}  // namespace
}  // namespace bearing::attend::amx
