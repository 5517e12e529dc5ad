// rope_bench [--peers=PYTHON] [--full] [--quick] [--progress=RUNS] [Google Benchmark's options]: scripts/bench gives
// the settings that make its ratios stable.

#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include <bearing/target.hpp>
#include <bearing/version.hpp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <string>
#include <string_view>

#include "buffers.hpp"
#include "harness.hpp"
#ifdef BEARING_BENCH_PEERS
#include "peers.hpp"
#endif

namespace {

/// What the system says of the first processor.
std::string cpu_info(std::string_view key) {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with(key) && line.find(':') + 2 < line.size()) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

/// The generation, where virtual machines hide the model's name.
std::string machine_name() {
  const std::string vendor = cpu_info("vendor_id"), family = cpu_info("cpu family"), model = cpu_info("model\t");
  if (vendor == "GenuineIntel")
    return cpu_info("flags").find(" amx_bf16") != std::string::npos ? "Intel with AMX" : "Intel";
  if (vendor != "AuthenticAMD") return cpu_info("model name");
  if (family != "25" && family != "26") return "AMD";
  const int number = std::stoi(model);
  const auto within = [number](int first, int last) { return first <= number && number <= last; };
  if (family == "26") return within(0x00, 0x4f) || within(0x60, 0x7f) ? "AMD Zen 5" : "AMD";
  return within(0x10, 0x1f) || within(0x60, 0xff) ? "AMD Zen 4" : "AMD Zen 3";
}

struct OwnOptions {
  std::string interpreter;  // --peers=
  bool full = false;        // --full: the longest sequences too
  bool quick = false;       // --quick: fewer turns of long cases
  int runs = 0;             // --progress=: of about so many, a line a minute on descriptor 3
};

/// Takes them out of the arguments.
OwnOptions take_own_options(int& argc, char** argv) {
  constexpr std::string_view peers = "--peers=", progress = "--progress=";
  OwnOptions own;
  int kept = 1;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument.starts_with(peers)) {
      own.interpreter = argument.substr(peers.size());
    } else if (argument.starts_with(progress)) {
      own.runs = std::stoi(std::string(argument.substr(progress.size())));
    } else if (argument == "--full") {
      own.full = true;
    } else if (argument == "--quick") {
      own.quick = true;
    } else {
      argv[kept++] = argv[i];
    }
  }
  argc = kept;
  return own;
}

/// The first line of a file of the system's.
std::string line_of(const char* path) {
  std::ifstream file(path);
  std::string line;
  return std::getline(file, line) && !line.empty() ? line : "unknown";
}

/// Whether tensors really lie on huge pages, which the system may refuse.
std::string huge_pages() {
  constexpr std::size_t bytes = std::size_t{64} << 20;
  const bearing::bench::HugeBuffer probe(bytes);
  std::memset(probe.as<char>(), 1, bytes);
  std::ifstream maps("/proc/self/smaps_rollup");
  for (std::string line; std::getline(maps, line);) {
    if (!line.starts_with("AnonHugePages:")) continue;
    return std::strtoull(line.c_str() + sizeof "AnonHugePages:", nullptr, 10) * 1024 >= bytes / 2 ? "huge" : "small";
  }
  return "unknown";
}

void describe_machine() {
  // Someone else's work on our core would be counted as ours. Only root may ask for this.
  const bool first = setpriority(PRIO_PROCESS, 0, -20) == 0;
  benchmark::AddCustomContext("priority", first ? "nice -20" : "normal");
  benchmark::AddCustomContext("cpu", cpu_info("model name"));
  const std::string target(bearing::simd_target());
  benchmark::AddCustomContext("simd_target", target);
  const char* const forced = std::getenv("BEARING_TARGET");
  const bool is_forced = forced != nullptr && *forced != '\0';
  if (is_forced) benchmark::AddCustomContext("forced_by", "BEARING_TARGET");
  benchmark::AddCustomContext("machine", machine_name() + (is_forced ? ", " + target + " forced" : ""));
  benchmark::AddCustomContext("bearing", bearing::version());
  benchmark::AddCustomContext("governor", line_of("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"));
  benchmark::AddCustomContext("pages", huge_pages());
}

}  // namespace

int main(int argc, char** argv) try {
  const OwnOptions own = take_own_options(argc, argv);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  describe_machine();
  if (own.quick) bearing::bench::be_quick();
  if (own.runs > 0) bearing::bench::say_progress(3, own.runs);
  // oneTBB counts the processors once; it must not do so while a case keeps the program on one of them.
  bearing::parallel(bearing::bench::executor(2), 2, [](bearing::Index) {});
  bearing::bench::add_rotation_cases();
  bearing::bench::add_decode_cases();
  bearing::bench::add_axes_cases();
  bearing::bench::add_table_cases();
  bearing::bench::add_input_cases();
  bearing::bench::add_score_cases();
  bearing::bench::add_relation_cases();
  bearing::bench::add_attention_cases(own.full);
  bearing::bench::add_attention_data_cases();
  bearing::bench::add_attention_backward_cases();
  bearing::bench::add_linear_attention_cases();
  if (!own.interpreter.empty()) {
#ifdef BEARING_BENCH_PEERS
    bearing::bench::add_peer_cases(own.interpreter);
#else
    std::fputs("rope_bench: --peers: this build has none; configure with -DBEARING_BENCH_PEERS=ON\n", stderr);
    return 2;
#endif
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "rope_bench: %s\n", e.what());
  return 1;
}
