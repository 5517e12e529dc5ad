#include <dlfcn.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

// This program does not link oneTBB: it comes with the plug-in, and would go with it.

namespace bearing {
namespace {

TEST(Unload, APlugInThatUsedThreadsMayBeClosedAndOpenedAgain) {
  for (int round = 0; round < 3; ++round) {
    void* plugin = dlopen(BEARING_PLUGIN, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(plugin, nullptr) << dlerror();
    const auto runs = reinterpret_cast<int (*)(int)>(dlsym(plugin, "bearing_plugin_runs"));
    ASSERT_NE(runs, nullptr) << dlerror();
    EXPECT_EQ(runs(100), 100);
    EXPECT_EQ(dlclose(plugin), 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));  // the pool's threads look for work, and fall asleep
  }
}

}  // namespace
}  // namespace bearing
