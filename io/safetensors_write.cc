#include <algorithm>
#include <bearing/error.hpp>
#include <bearing/safetensors.hpp>
#include <cstdio>
#include <functional>
#include <set>

#include "json_file.hpp"
#include "safetensors_header.hpp"
#include "utf8.hpp"

namespace bearing {
namespace {

using safetensors::Entry;

[[noreturn]] void fail(const std::string& text) { throw ShapeError("[write_safetensors] " + text); }

void check_text(std::string_view text, const char* what) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8::first_character(text.substr(at)).bytes;
    if (length == 0) fail(std::string(what) + ": must be UTF-8, got " + json::quoted(text.substr(0, at)) + " and more");
    at += length;
  }
  if (text.size() > safetensors::longest_string) fail(std::string(what) + ": must have at most 4 MiB");
}

/// What the header says of a tensor that begins there.
Entry entry_of(const SafetensorsOutput& tensor, std::uint64_t begin) {
  const StoredType* type = safetensors::find_type(tensor.type);
  if (type == nullptr)
    fail("type: must be one of the format's (F32, BF16, I64, ...), got " + json::quoted(tensor.type));
  const std::string named = " for " + json::quoted(tensor.name);
  if (tensor.shape.size() > safetensors::most_axes) {
    fail("shape: must have at most 32 extents, got " + std::to_string(tensor.shape.size()) + named);
  }
  std::uint64_t bytes = 0;
  if (!safetensors::total_bytes(tensor.shape, type->bits, bytes)) {
    fail("shape: extents must be at least 0 and fill whole bytes, fewer than 2^60, also without those of 0, got " +
         safetensors::shape_text(tensor.shape) + " of " + tensor.type + named);
  }
  if (tensor.data == nullptr && bytes > 0) fail("data: must not be null, got null" + named);
  if (tensor.name == "__metadata__") fail("name: must not be __metadata__, which the format keeps for itself");
  check_text(tensor.name, "name");
  if (bytes > ~std::uint64_t{0} / 2 - begin) fail("tensors: must have fewer than 2^63 bytes together");
  return {tensor.name, *type, tensor.shape, begin, begin + bytes};
}

void check_all(const std::vector<SafetensorsOutput>& tensors, const std::map<std::string, std::string>& metadata) {
  if (tensors.size() > safetensors::most_tensors) fail("tensors: must be at most 250000");
  std::set<std::string_view> names;
  for (const SafetensorsOutput& tensor : tensors) {
    if (!names.insert(tensor.name).second)
      fail("name: must be there once, got " + json::quoted(tensor.name) + " again");
  }
  std::size_t bytes = 0;
  for (const auto& [key, value] : metadata) {
    check_text(key, "metadata");
    check_text(value, "metadata");
    bytes += key.size() + value.size();
  }
  if (bytes > safetensors::most_metadata) fail("metadata: must have at most 16 MiB");
}

std::string shard_name(std::size_t shard, std::size_t count) {
  if (count == 1) return "model.safetensors";
  char text[64];
  std::snprintf(text, sizeof text, "model-%05zu-of-%05zu.safetensors", shard + 1, count);
  return text;
}

/// Which tensors each file gets.
std::vector<std::vector<SafetensorsOutput>> shards_of(const std::vector<SafetensorsOutput>& tensors,
                                                      std::uint64_t most_bytes) {
  std::vector<std::vector<SafetensorsOutput>> shards(1);
  std::uint64_t full = 0;
  for (const SafetensorsOutput& tensor : tensors) {
    const std::uint64_t bytes = entry_of(tensor, 0).end;
    if (!shards.back().empty() && (bytes > most_bytes || full > most_bytes - bytes)) {
      shards.emplace_back();
      full = 0;
    }
    shards.back().push_back(tensor);
    full += bytes;
  }
  return shards;
}

}  // namespace

void add_safetensors(WholeFiles& files, const std::string& path, const std::vector<SafetensorsOutput>& tensors,
                     const std::map<std::string, std::string>& metadata) {
  check_all(tensors, metadata);
  std::vector<const SafetensorsOutput*> order;
  order.reserve(tensors.size());
  for (const SafetensorsOutput& tensor : tensors) order.push_back(&tensor);
  // A type that the format does not have is refused below.
  std::sort(order.begin(), order.end(), [](const SafetensorsOutput* a, const SafetensorsOutput* b) {
    const StoredType *first = safetensors::find_type(a->type), *second = safetensors::find_type(b->type);
    return first != second ? std::less<>()(first, second) : a->name < b->name;
  });
  std::vector<Entry> entries;
  std::vector<std::string_view> parts(1);
  for (const SafetensorsOutput* tensor : order) {
    entries.push_back(entry_of(*tensor, entries.empty() ? 0 : entries.back().end));
    const Entry& entry = entries.back();
    parts.emplace_back(static_cast<const char*>(tensor->data), static_cast<std::size_t>(entry.end - entry.begin));
  }
  const std::string header = safetensors::make_header(entries, metadata);
  if (header.size() > safetensors::preamble + safetensors::max_header_length) {
    fail("tensors: their names and shapes must fit in a header of 100000000 bytes, got " +
         std::to_string(header.size()));
  }
  parts[0] = header;
  files.add(path, parts);
}

void write_safetensors(const std::string& path, const std::vector<SafetensorsOutput>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  WholeFiles files;
  add_safetensors(files, path, tensors, metadata);
  files.commit();
}

void write_sharded_safetensors(const std::string& folder, const std::vector<SafetensorsOutput>& tensors,
                               std::uint64_t most_bytes, const std::map<std::string, std::string>& metadata) {
  check_all(tensors, metadata);
  const auto shards = shards_of(tensors, most_bytes);
  if (shards.size() > 99'999) {
    fail("most_bytes: must make at most 99999 files, got " + std::to_string(shards.size()));
  }
  const std::string prefix = folder.empty() ? "" : folder.ends_with('/') ? folder : folder + '/';
  WholeFiles files;
  std::map<std::string, std::string> places;
  std::uint64_t total = 0;
  for (std::size_t shard = 0; shard < shards.size(); ++shard) {
    const std::string name = shard_name(shard, shards.size());
    add_safetensors(files, prefix + name, shards[shard], metadata);
    for (const SafetensorsOutput& tensor : shards[shard]) {
      places[tensor.name] = name;
      total += entry_of(tensor, 0).end;
    }
  }
  std::string index = "{\"metadata\": {\"total_size\": " + std::to_string(total) + "}, \"weight_map\": {";
  for (const auto& [tensor, file] : places) {
    index += (index.back() == '{' ? "\n  " : ",\n  ") + safetensors::quoted_json(tensor) + ": \"" + file + '"';
  }
  index += "\n}}\n";
  if (shards.size() > 1) files.add(prefix + "model.safetensors.index.json", {index});
  files.commit();
}

}  // namespace bearing
