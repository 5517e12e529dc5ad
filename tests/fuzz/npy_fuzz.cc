#include <bearing/error.hpp>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "../../io/npy_header.hpp"

// Any bytes either are refused with a ConfigError or have sizes that agree with the file's. Seeds: tests/corpus/npy.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    const bearing::npy::Header header = bearing::npy::parse_header(bytes, size, "fuzz.npy");
    if (header.data_offset + header.data_bytes != size) std::abort();
    // What was read can be written, and reads the same.
    const std::string again = bearing::npy::make_header(header.dtype, header.shape);
    const bearing::npy::Header copy = bearing::npy::parse_header(again, again.size() + header.data_bytes, "again.npy");
    if (copy.dtype != header.dtype || copy.shape != header.shape) std::abort();
  } catch (const bearing::ConfigError&) {
  }
  return 0;
}
