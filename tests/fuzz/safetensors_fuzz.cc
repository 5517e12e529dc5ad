#include <algorithm>
#include <bearing/error.hpp>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "../../io/safetensors_header.hpp"

namespace {

using bearing::safetensors::Entry;
using bearing::safetensors::Header;

/// What was read can be written, and reads the same.
void check_copy(const Header& header, std::uint64_t data_bytes) {
  std::vector<Entry> entries = header.entries;
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.begin < b.begin; });
  const std::string again = bearing::safetensors::make_header(entries, header.metadata);
  if (again.size() % 8 != 0) std::abort();
  const std::uint64_t length = bearing::safetensors::parse_length(again, again.size() + data_bytes, "again");
  if (length + 8 != again.size()) std::abort();
  const Header copy =
      bearing::safetensors::parse_header(std::string_view(again).substr(8), data_bytes, "again.safetensors");
  if (copy.metadata != header.metadata || copy.entries.size() != header.entries.size()) std::abort();
  for (std::size_t i = 0; i < copy.entries.size(); ++i) {
    const Entry &a = copy.entries[i], &b = header.entries[i];
    if (a.name != b.name || !(a.type == b.type) || a.shape != b.shape || a.begin != b.begin || a.end != b.end) {
      std::abort();
    }
  }
}

}  // namespace

// Any bytes either are refused with a ConfigError, or are tensors that fill the data to the last byte. Seeds:
// tests/corpus/safetensors.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    const std::uint64_t length = bearing::safetensors::parse_length(bytes, size, "fuzz");
    const std::uint64_t data_bytes = size - 8 - length;
    const Header header = bearing::safetensors::parse_header(bytes.substr(8, length), data_bytes, "fuzz.safetensors");
    std::uint64_t sum = 0;
    for (const Entry& entry : header.entries) {
      if (entry.end > data_bytes || entry.begin > entry.end) std::abort();
      sum += entry.end - entry.begin;
    }
    if (sum != data_bytes) std::abort();
    check_copy(header, data_bytes);
  } catch (const bearing::ConfigError&) {
  }
  return 0;
}
