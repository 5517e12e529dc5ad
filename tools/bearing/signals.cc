#include "signals.hpp"

#include <cstdlib>

namespace bearing::tool {
namespace {

volatile std::sig_atomic_t came = 0;

extern "C" void remember(int signal) { came = signal; }

}  // namespace

HoldSignals::HoldSignals() {
  for (std::size_t i = 0; i < held.size(); ++i) {
    struct sigaction action {};
    action.sa_handler = remember;  // without SA_RESTART: what waits for a full pipe is to wake
    sigemptyset(&action.sa_mask);
    sigaction(held[i], nullptr, &before_[i]);
    if (before_[i].sa_handler != SIG_IGN) sigaction(held[i], &action, nullptr);  // nohup stays
  }
}

HoldSignals::~HoldSignals() {
  for (std::size_t i = 0; i < held.size(); ++i) sigaction(held[i], &before_[i], nullptr);
}

void stop_if_interrupted() {
  if (came != 0) throw Interrupted{came};
}

void die_of(int signal) {
  std::signal(signal, SIG_DFL);
  std::raise(signal);
  std::_Exit(128 + signal);  // where it is blocked
}

}  // namespace bearing::tool
