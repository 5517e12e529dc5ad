#pragma once

// Runs AMX instructions on machines without them: a processor that does not know an instruction tells the system, which
// tells the process, which does here what the instruction would have done. For tests, one thread at a time.

#if defined(__x86_64__) && defined(__linux__)

#include <signal.h>
#include <ucontext.h>

#include <cstdint>
#include <cstring>

#include "attention/amx/amx_emulated.hpp"

namespace bearing::test {

class AmxTrap {
 public:
  AmxTrap() {
    state() = State();
    struct sigaction action = {};
    action.sa_sigaction = &on_illegal_instruction;
    action.sa_flags = SA_SIGINFO;
    ::sigaction(SIGILL, &action, &before_);
  }
  ~AmxTrap() { ::sigaction(SIGILL, &before_, nullptr); }
  AmxTrap(const AmxTrap&) = delete;
  AmxTrap& operator=(const AmxTrap&) = delete;

  /// What was done so far.
  Index products() const { return state().products; }
  Index configured() const { return state().configured; }
  Index released() const { return state().released; }

 private:
  struct State {
    attend::amx::TileRegister tiles[8];
    bool ready = false;
    Index products = 0, configured = 0, released = 0;
  };
  static State& state() {
    static State one;
    return one;
  }

  /// An instruction with a three-byte VEX prefix, as far as AMX goes.
  struct Instruction {
    const std::uint8_t* next;  ///< the byte behind it
    int prefix, opcode;        ///< 0: none, 1: 66, 2: F3, 3: F2
    int mod, reg, rm, third;
    std::uint64_t address = 0, stride = 0;
  };

  static std::uint64_t value_of(const ucontext_t& context, int number) {
    constexpr int places[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                                REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
    return static_cast<std::uint64_t>(context.uc_mcontext.gregs[places[number]]);
  }

  template <class T>
  static std::uint64_t displacement(const std::uint8_t*& at) {
    T x;
    std::memcpy(&x, at, sizeof x);
    at += sizeof x;
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(x));
  }

  static bool decode(const ucontext_t& context, Instruction& in) {
    const auto* at = reinterpret_cast<const std::uint8_t*>(context.uc_mcontext.gregs[REG_RIP]);
    if (at[0] != 0xC4 || (at[1] & 0x1F) != 2) return false;
    const int high_index = (at[1] & 0x40) != 0 ? 0 : 8, high_base = (at[1] & 0x20) != 0 ? 0 : 8;
    in.prefix = at[2] & 3, in.third = ~at[2] >> 3 & 15, in.opcode = at[3];
    in.mod = at[4] >> 6, in.reg = at[4] >> 3 & 7, in.rm = at[4] & 7;
    at += 5;
    if (in.mod != 3) {
      bool no_base = in.mod == 0 && in.rm == 5;
      if (in.rm == 4) {
        const int scale = *at >> 6, index = (*at >> 3 & 7) + high_index, base = *at & 7;
        ++at;
        no_base = in.mod == 0 && base == 5;
        if (index != 4) in.stride = value_of(context, index) << scale;
        if (!no_base) in.address = value_of(context, base + high_base);
      } else if (!no_base) {
        in.address = value_of(context, in.rm + high_base);
      }
      if (in.mod == 1) in.address += displacement<std::int8_t>(at);
      if (in.mod == 2 || no_base) in.address += displacement<std::int32_t>(at);
      if (in.mod == 0 && in.rm == 5) in.address += reinterpret_cast<std::uint64_t>(at);  // relative to what follows
    }
    in.next = at;
    return true;
  }

  /// Eight tiles of sixteen rows of 64 bytes: all that the kernel asks for.
  static bool good_configuration(const std::uint8_t* config) {
    for (int t = 0; t < 8; ++t) {
      if (config[16 + 2 * t] != 64 || config[17 + 2 * t] != 0 || config[48 + t] != 16) return false;
    }
    return config[0] == 1 && config[1] == 0;
  }

  static bool run(const Instruction& in) {
    using namespace attend::amx;
    State& s = state();
    auto* const memory = reinterpret_cast<std::uint8_t*>(in.address);
    const auto stride = static_cast<Index>(in.stride);
    if (in.opcode == 0x49 && in.prefix == 0 && in.mod != 3) {  // LDTILECFG
      s.ready = good_configuration(memory + in.stride);
      ++s.configured;
      return s.ready;
    }
    if (!s.ready) return false;
    if (in.opcode == 0x49 && in.prefix == 0) {  // TILERELEASE
      s.ready = false;
      ++s.released;
    } else if (in.opcode == 0x49 && in.prefix == 3) {  // TILEZERO
      s.tiles[in.reg] = TileRegister();
    } else if (in.opcode == 0x4B && (in.prefix == 3 || in.prefix == 1)) {  // TILELOADD and TILELOADDT1
      load_tile(s.tiles[in.reg], memory, stride);
    } else if (in.opcode == 0x4B && in.prefix == 2) {  // TILESTORED
      store_tile(s.tiles[in.reg], memory, stride);
    } else if (in.opcode == 0x5C && in.prefix == 2) {  // TDPBF16PS
      multiply_tiles(s.tiles[in.reg], s.tiles[in.rm], s.tiles[in.third]);
      ++s.products;
    } else {
      return false;
    }
    return true;
  }

  static void on_illegal_instruction(int signal, siginfo_t*, void* where) {
    auto& context = *static_cast<ucontext_t*>(where);
    Instruction in = {};
    if (decode(context, in) && run(in)) {
      context.uc_mcontext.gregs[REG_RIP] = reinterpret_cast<greg_t>(in.next);
    } else {
      ::signal(signal, SIG_DFL);  // not ours: happens again, and ends the process
    }
  }

  struct sigaction before_ = {};
};

}  // namespace bearing::test

#endif
