#pragma once

#include <bearing/gguf.hpp>
#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// GGUF files for tests, made byte by byte.

namespace bearing::gguf_test {

class File {
 public:
  /// A file with `general.architecture` and the sizes that every one has.
  static File of(const std::string& architecture, std::uint32_t layers = 4) {
    File file;
    file.architecture_ = architecture;
    file.text("general.architecture", architecture);
    file.u32("block_count", layers).u32("context_length", 4096).u32("embedding_length", 512);
    return file.u32("attention.head_count", 8).u32("attention.head_count_kv", 2);
  }

  std::uint32_t version = 3;
  std::string magic = "GGUF";

  File& u32(std::string_view key, std::uint32_t value) { return pair(key, GgufType::u32, number(value, 4)); }
  File& f32(std::string_view key, float value) {
    return pair(key, GgufType::f32, number(std::bit_cast<std::uint32_t>(value), 4));
  }
  File& flag(std::string_view key, bool value) { return pair(key, GgufType::boolean, number(value ? 1 : 0, 1)); }
  File& word(std::string_view key, std::string_view value) { return pair(key, GgufType::string, string(value)); }
  File& list(std::string_view key, const std::vector<std::int64_t>& values, GgufType type = GgufType::i32) {
    std::string bytes = number(static_cast<std::uint64_t>(type), 4) + number(values.size(), 8);
    const std::uint64_t width = type == GgufType::boolean ? 1 : 4;
    for (const std::int64_t value : values) bytes += number(static_cast<std::uint64_t>(value), width);
    return pair(key, GgufType::array, bytes);
  }
  /// A key that is not the architecture's.
  File& text(const std::string& key, std::string_view value) {
    return raw(string(key) + number(static_cast<std::uint64_t>(GgufType::string), 4) + string(value));
  }
  /// A pair's bytes as they are.
  File& raw(std::string bytes) {
    pairs_.push_back(std::move(bytes));
    return *this;
  }
  File& pair(std::string_view key, GgufType type, const std::string& value) {
    const std::string full = (key.starts_with("general.") ? "" : architecture_ + '.') + std::string(key);
    std::string bytes = string(full) + number(static_cast<std::uint64_t>(type), 4) + value;
    for (std::string& other : pairs_) {
      if (other.starts_with(string(full))) return other = std::move(bytes), *this;
    }
    return raw(std::move(bytes));
  }
  File& without(std::string_view key) {
    const std::string start = string((key.starts_with("general.") ? "" : architecture_ + '.') + std::string(key));
    std::erase_if(pairs_, [&](const std::string& bytes) { return bytes.starts_with(start); });
    return *this;
  }

  File& tensor(const std::string& name, const std::vector<float>& values) {
    std::string data;
    for (const float value : values) data += number(std::bit_cast<std::uint32_t>(value), 4);
    return tensor(name, {values.size()}, 0, std::move(data));
  }
  File& tensor(const std::string& name, const std::vector<std::uint64_t>& shape, std::uint32_t type, std::string data) {
    std::string info = string(name) + number(shape.size(), 4);
    for (const std::uint64_t extent : shape) info += number(extent, 8);
    return tensor_bytes(info + number(type, 4), std::move(data));
  }
  /// name, rank, extents and type as bytes; the offset follows.
  File& tensor_bytes(std::string info, std::string data) {
    tensors_.push_back({std::move(info), std::move(data)});
    return *this;
  }

  File& add(const GgufRope& part) {
    for (const GgufEntry& entry : part.metadata) {
      const std::string key = entry.key.substr(architecture_.size() + 1);
      if (const auto* whole = std::get_if<std::int64_t>(&entry.value)) u32(key, static_cast<std::uint32_t>(*whole));
      if (const auto* real = std::get_if<double>(&entry.value)) f32(key, static_cast<float>(*real));
      if (const auto* text = std::get_if<std::string>(&entry.value)) word(key, *text);
      if (const auto* values = std::get_if<std::vector<std::int64_t>>(&entry.value)) list(key, *values, entry.type);
    }
    for (const GgufFactors& factors : part.tensors) tensor(factors.name, factors.values);
    return *this;
  }

  /// The end of the tensors' list and all data.
  std::string bytes(std::uint64_t alignment = 32) const {
    std::string out = magic + number(version, 4) + number(tensors_.size(), 8) + number(pairs_.size(), 8);
    for (const std::string& one : pairs_) out += one;
    std::string data;
    for (const auto& [info, numbers] : tensors_) {
      out += info + number(data.size(), 8);
      data += numbers;
      data.resize((data.size() + alignment - 1) / alignment * alignment);
    }
    if (tensors_.empty()) return out;
    out.resize((out.size() + alignment - 1) / alignment * alignment);
    return out + data;
  }

  static std::string number(std::uint64_t value, std::uint64_t width) {
    std::string out;
    for (std::uint64_t i = 0; i < width; ++i) out += static_cast<char>(i < 8 ? value >> (8 * i) : 0);
    return out;
  }
  static std::string string(std::string_view text) { return number(text.size(), 8) + std::string(text); }

 private:
  std::string architecture_;
  std::vector<std::string> pairs_;
  std::vector<std::pair<std::string, std::string>> tensors_;
};

}  // namespace bearing::gguf_test
