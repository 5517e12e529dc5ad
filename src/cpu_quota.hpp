#pragma once

#include <algorithm>
#include <bearing/view.hpp>
#include <cmath>
#include <fstream>
#include <string>

namespace bearing {

/// How many CPUs' time this process' control group may use, rounded up: containers' limits, which leave the affinity as
/// it is. 0 where there is no limit. root: what stands before /proc and /sys, for tests.
inline Index cpu_quota(const std::string& root = "") {
  double least = 0;
  const auto take = [&](double quota, double period) {
    if (!(quota > 0 && period > 0)) return;
    const double cpus = std::clamp(std::ceil(quota / period), 1.0, 65'536.0);
    least = least == 0 ? cpus : std::min(least, cpus);
  };
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    // "0::/path" of version 2, "4:cpu,cpuacct:/path" of version 1.
    const std::size_t first = line.find(':'), second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    std::string controllers = ",";
    controllers.append(line, first + 1, second - first - 1).append(",");
    const bool second_version = controllers == ",,";
    if (!second_version && controllers.find(",cpu,") == std::string::npos) continue;
    // The groups above it are limits too. In a container the path may be the host's, of which only the top is there.
    std::string path = line.substr(second + 1);
    while (true) {
      std::string group = root;
      group.append("/sys/fs/cgroup").append(second_version ? "" : "/cpu").append(path).append("/");
      double quota = 0, period = 0;  // 0: no number stands there
      if (second_version) {
        std::ifstream(group + "cpu.max") >> quota >> period;
      } else {
        std::ifstream(group + "cpu.cfs_quota_us") >> quota;
        std::ifstream(group + "cpu.cfs_period_us") >> period;
      }
      take(quota, period);
      if (path.empty()) break;
      path.resize(std::min(path.size() - 1, path.find_last_of('/')));
    }
  }
  return static_cast<Index>(least);
}

}  // namespace bearing
