#pragma once

#include <array>
#include <csignal>

namespace bearing::tool {

/// The process is to end as this signal ends it.
struct Interrupted {
  int signal;
};

/// While it lives, signals that end a process are remembered in place of ending it: stop_if_interrupted() throws.
class HoldSignals {
 public:
  HoldSignals();
  ~HoldSignals();
  HoldSignals(const HoldSignals&) = delete;
  HoldSignals& operator=(const HoldSignals&) = delete;

  static constexpr std::array held = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGALRM, SIGUSR1, SIGUSR2, SIGXCPU};

 private:
  std::array<struct sigaction, held.size()> before_;
};

/// Throws Interrupted if a signal came.
void stop_if_interrupted();

/// Ends the process as the signal would have.
[[noreturn]] void die_of(int signal);

}  // namespace bearing::tool
