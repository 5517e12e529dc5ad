#include <fmt/format.h>

#include <bearing/target.hpp>
#include <bearing/version.hpp>

#include "commands.hpp"
#include "terminal.hpp"

namespace bearing::tool {

std::string version_text() {
#ifdef __clang__
  const std::string compiler = fmt::format("clang {}.{}.{}", __clang_major__, __clang_minor__, __clang_patchlevel__);
#else
  const std::string compiler = fmt::format("gcc {}.{}.{}", __GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__);
#endif
#ifdef BEARING_TOOL_THREADS
  const std::string threads = "oneTBB";
#else
  const std::string threads = "none";
#endif
  std::string available;
  for (std::string_view target : simd_targets()) available += fmt::format(" {}", target);
  return fmt::format(
      "bearing {}\n"
      "  SIMD target  {} (this machine and build:{})\n"
      "  build        {}, {}; threads: {}\n",
      version(), simd_target(), available, compiler, BEARING_BUILD_TYPE, threads);
}

Command version_command() {
  return {"version", "Show the version, SIMD target and build", "", {}, [] { print(version_text()); }};
}

}  // namespace bearing::tool
