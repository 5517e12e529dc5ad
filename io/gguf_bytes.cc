#include <bearing/gguf.hpp>
#include <bit>
#include <type_traits>

#include "gguf_header.hpp"

// A GGUF file from its parts. gguf_header.hpp says what stands where.

namespace bearing {
namespace {

constexpr std::size_t alignment = 32;

std::string number(std::uint64_t value, std::uint64_t width) {
  std::string out;
  for (std::uint64_t i = 0; i < width; ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
  return out;
}
std::string word(GgufType type) { return number(static_cast<std::uint64_t>(type), 4); }
std::string text(std::string_view of) { return number(of.size(), 8) + std::string(of); }
std::string real(float of) { return number(std::bit_cast<std::uint32_t>(of), 4); }

std::string value_of(const GgufEntry& entry) {
  const std::uint64_t width = gguf::width_of(entry.type);
  const auto whole = [&](std::int64_t value) { return number(static_cast<std::uint64_t>(value), width); };
  return std::visit(
      [&](const auto& value) -> std::string {
        using Value = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<Value, std::string>) {
          return word(entry.type) + text(value);
        } else if constexpr (std::is_same_v<Value, double>) {
          return word(entry.type) + (entry.type == GgufType::f32 ? real(static_cast<float>(value))
                                                                 : number(std::bit_cast<std::uint64_t>(value), 8));
        } else if constexpr (std::is_same_v<Value, std::int64_t>) {
          return word(entry.type) + whole(value);
        } else {
          std::string out = word(GgufType::array) + word(entry.type) + number(value.size(), 8);
          for (const std::int64_t one : value) out += whole(one);
          return out;
        }
      },
      entry.value);
}

void align(std::string& bytes) { bytes.resize((bytes.size() + alignment - 1) / alignment * alignment); }

}  // namespace

std::string gguf_bytes(const GgufModel& model) {
  const std::vector<GgufEntry>& pairs = model.part.metadata;
  const std::vector<GgufFactors>& tensors = model.part.tensors;
  std::string out = "GGUF" + number(3, 4) + number(tensors.size(), 8) + number(pairs.size() + 1, 8);
  out += text("general.architecture") + word(GgufType::string) + text(model.architecture);
  for (const GgufEntry& entry : pairs) out += text(entry.key) + value_of(entry);
  std::string data;
  for (const GgufFactors& one : tensors) {
    const std::uint64_t rank = 1, float32 = 0;
    out +=
        text(one.name) + number(rank, 4) + number(one.values.size(), 8) + number(float32, 4) + number(data.size(), 8);
    for (const float value : one.values) data += real(value);
    align(data);
  }
  if (tensors.empty()) return out;
  align(out);
  return out + data;
}

}  // namespace bearing
