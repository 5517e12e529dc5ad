#include "encoding_spec.hpp"

#include <bearing/error.hpp>
#include <bearing/io.hpp>
#include <cctype>
#include <cstdint>
#include <cstdlib>

#include "errors.hpp"

// Any bytes as the command's --encoding: an encoding, or one line that says what is wrong with it. Seeds:
// tests/corpus/encoding_spec.

namespace {

/// Whether a number of five digits or more is there, or one of thousands: what is asked for may then be a table of
/// gigabytes.
bool asks_for_much(const std::string& spec) {
  int digits = 0;
  for (const char c : spec) {
    if (digits > 0 && (c == 'k' || c == 'M')) return true;
    digits = std::isdigit(static_cast<unsigned char>(c)) != 0 ? digits + 1 : 0;
    if (digits > 4) return true;
  }
  return false;
}

/// Takes the spec apart, asks for keys, and refuses the others; what it says as JSON says the same.
void take_apart(const std::string& spec) {
  bearing::Said said = bearing::say_encoding(spec);
  if (const auto text = said.take("missing"); text && text->size() > spec.size()) std::abort();
  const bearing::Record record = said.complete({.heads = 2, .dim = 8});
  if (record && !(bearing::parse_record(bearing::to_json(record)) == record)) std::abort();
  said.finish();
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
  if (encodings.terms.size > 2) std::abort();  // nope adds none, XLNet two
}

template <class Body>
void or_refused(const Body& body) {
  try {
    body();
  } catch (const bearing::tool::UsageError&) {
  } catch (const bearing::ConfigError&) {
  } catch (const bearing::ShapeError&) {
  } catch (const bearing::RangeError&) {
  }
}

}  // namespace

// What an unknown name is looked up in is made once, by reading a file of each model type: no input's own time.
extern "C" int LLVMFuzzerInitialize(int*, char***) {
  if (bearing::model_types_of("rope").empty()) std::abort();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string spec(reinterpret_cast<const char*>(data), size);
  or_refused([&] { take_apart(spec); });
  if (asks_for_much(spec)) return 0;
  or_refused([&] { read<double>(spec); });
  or_refused([&] { read<float>(spec); });
  return 0;
}
