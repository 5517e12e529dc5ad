#include "encoding_spec.hpp"

#include <bearing/error.hpp>
#include <cctype>
#include <cstdint>
#include <cstdlib>

// Any bytes as the command's --encoding: an encoding, or one line that says what is wrong with it. Seeds:
// tests/corpus/encoding_spec.

namespace {

/// Whether a number of five digits or more is there: what is asked for may then be a table of gigabytes.
bool asks_for_much(const std::string& spec) {
  int digits = 0;
  for (const char c : spec) {
    digits = std::isdigit(static_cast<unsigned char>(c)) != 0 ? digits + 1 : 0;
    if (digits > 4) return true;
  }
  return false;
}

/// Takes the spec apart, asks for its keys in every way, and refuses the others.
void take_apart(const std::string& spec) {
  bearing::tool::SpecText text(spec);
  if (text.given("missing") && text.text("missing", "").size() > spec.size()) std::abort();
  const bearing::Index whole = text.whole("max_distance", 7, 1, 1000);
  if (whole < 1 || whole > 1000) std::abort();
  if (const double base = text.number("base", 1e4); !(base - base == 0)) std::abort();
  const std::string word = text.word("pairing", {"half", "interleaved"});
  if (word != "half" && word != "interleaved") std::abort();
  text.finish();
}

template <class A>
void read(const std::string& spec) {
  const bearing::Positions start(0);
  bearing::tool::CallShape call{
      .batch = 1, .heads = 2, .kv_heads = 2, .q_len = 3, .k_len = 4, .dim = 8, .value_dim = 8};
  call.q_positions = call.k_positions = &start;
  call.seq_len = 4;
  bearing::tool::CallEncodings<A> encodings;
  bearing::tool::read_encoding<A>(spec, call, encodings);
  if (encodings.terms.size > 1) std::abort();  // nope adds none
}

template <class Body>
void or_refused(const Body& body) {
  try {
    body();
  } catch (const bearing::tool::UsageError&) {
  } catch (const bearing::ConfigError&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string spec(reinterpret_cast<const char*>(data), size);
  or_refused([&] { take_apart(spec); });
  if (asks_for_much(spec)) return 0;
  or_refused([&] { read<double>(spec); });
  or_refused([&] { read<float>(spec); });
  return 0;
}
