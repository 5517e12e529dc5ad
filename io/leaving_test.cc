#include <gtest/gtest.h>
#include <bearing/choose.hpp>
#include <bearing/figures.hpp>
#include <bearing/io.hpp>
#include <bearing/properties.hpp>
#include <bearing/say.hpp>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace bearing {
namespace {

std::atomic<bool> leaving = false;

/// As a log of another library that is written out at the end: made before all others, so that it is destroyed after
/// them.
struct Slow {
  ~Slow() {
    if (!leaving) return;
    // What was freed before is written over, so that whoever still reads it does not find it as it was.
    std::vector<std::unique_ptr<std::string>> blocks;
    for (std::size_t i = 0; i < 64 * 1'024; ++i) blocks.push_back(std::make_unique<std::string>(i % 512, '\xff'));
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
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
/// What Slow writes is in no name; an expectation would tell nobody in a process that leaves.
void must_be_whole(std::string_view name) {
  if (name.empty() || name.find('\xff') != std::string_view::npos) std::abort();
}

void list() {
  for (const auto& kind : inspect::figure_kinds()) must_be_whole(kind.name);
  for (const auto& figure : inspect::document_figures()) must_be_whole(figure.name);
  for (const auto& answer : inspect::task_answers()) must_be_whole(answer.word);
  for (const auto& answer : inspect::kernel_answers()) must_be_whole(answer.word);
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
