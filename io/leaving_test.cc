#include <gtest/gtest.h>
#include <bearing/choose.hpp>
#include <bearing/figures.hpp>
#include <bearing/io.hpp>
#include <bearing/properties.hpp>
#include <bearing/say.hpp>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>

namespace bearing {
namespace {

std::atomic<bool> leaving = false;

/// As a log of another library that is written out at the end: made before all others, so that it is destroyed after
/// them.
struct Slow {
  ~Slow() {
    if (leaving) std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
} slow __attribute__((init_priority(101)));

/// Leaves while three threads call.
template <class Call>
[[noreturn]] void leave_during(const Call& call) {
  call();
  leaving = true;
  for (int i = 0; i < 3; ++i) {
    std::thread([call] {
      while (true) call();
    }).detach();
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  std::exit(0);
}

void say() { say_encoding("rope_yarn:pairing=half,factor=4,trained_length=4096"); }
void read() { parse_hf_config(R"({"model_type": "llama", "vision_config": {"model_type": "clip_vision_model"}})"); }
void claim() { inspect::claims("sinusoidal"); }
void list() {
  for (const auto& kind : inspect::figure_kinds()) EXPECT_FALSE(kind.name.empty());
  for (const auto& figure : inspect::document_figures()) EXPECT_FALSE(figure.name.empty());
  for (const auto& answer : inspect::task_answers()) EXPECT_FALSE(answer.word.empty());
  for (const auto& answer : inspect::kernel_answers()) EXPECT_FALSE(answer.word.empty());
}

TEST(Leaving, ThreadsMayCallWhileTheProcessEnds) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a process of its own, in which nothing has been called yet
  EXPECT_EXIT(leave_during(say), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(leave_during(read), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(leave_during(claim), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(leave_during(list), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace bearing
