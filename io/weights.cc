#include <algorithm>
#include <bearing/error.hpp>
#include <bearing/safetensors.hpp>
#include <filesystem>
#include <optional>
#include <utility>

#include "json_file.hpp"
#include "posix.hpp"

namespace bearing {
namespace {

namespace fs = std::filesystem;

constexpr const char* single_file = "model.safetensors";
constexpr const char* index_file = "model.safetensors.index.json";
/// An index names each tensor of a model; the largest have a few hundred thousand.
constexpr json::Limits index_limits{.mebibytes = 24, .values = 1'000'000};
constexpr std::size_t most_files = 10'000;

std::string path_of_weights(const std::string& path) {
  posix::check_path(path);
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return path;
  for (const char* name : {single_file, index_file}) {
    std::string file = (fs::path(path) / name).string();
    if (fs::exists(file, ignored)) return file;
  }
  throw ConfigError(path + ": must hold " + single_file + " or " + index_file + ", got neither");
}

/// A name in the index's own folder: what is fetched from strangers must not reach elsewhere.
bool is_plain_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == name.npos && name.find('\\') == name.npos &&
         name.find('\0') == name.npos;
}

}  // namespace

struct Weights::Content {
  struct Place {
    std::string name;
    std::size_t shard;
  };
  std::string path;
  bool indexed = false;
  std::vector<std::string> shard_names;  // in the index's folder; of a single file its path
  std::vector<std::optional<Safetensors>> shards;
  std::vector<Place> places;  // in the order of names

  const Place* find(std::string_view name) const {
    const auto at = std::lower_bound(places.begin(), places.end(), name,
                                     [](const Place& place, std::string_view word) { return place.name < word; });
    return at != places.end() && at->name == name ? &*at : nullptr;
  }

  std::string shard_path(std::size_t shard) const {
    return indexed ? (fs::path(path).parent_path() / shard_names[shard]).string() : path;
  }

  Safetensors& open(std::size_t shard) {
    if (!shards[shard]) shards[shard].emplace(shard_path(shard));
    return *shards[shard];
  }

  void read_file() {
    shard_names.push_back(path);
    shards.emplace_back(path);
    for (const StoredTensor& tensor : shards[0]->tensors()) places.push_back({tensor.name, 0});
  }

  void read_index() {
    indexed = true;
    json::Notes notes(path);
    const json::Document document(json::read_text(path, index_limits), notes, index_limits);
    const json::Object root(document.root(), "", notes);
    const rapidjson::Value* map = root.find("weight_map");
    if (map == nullptr) root.missing("weight_map", "an object of tensors and their files");
    if (!map->IsObject()) root.wrong("weight_map", "an object of tensors and their files");
    std::map<std::string, std::size_t, std::less<>> numbers;
    for (const auto& member : map->GetObject()) {
      const std::string name(member.name.GetString(), member.name.GetStringLength());
      if (!member.value.IsString() || !is_plain_name({member.value.GetString(), member.value.GetStringLength()})) {
        notes.fail("/weight_map/" + name,
                   "must be the name of a file in the index's folder, got " + json::found(member.value));
      }
      const auto [at, is_new] =
          numbers.try_emplace(std::string(member.value.GetString(), member.value.GetStringLength()), numbers.size());
      if (is_new && numbers.size() > most_files) notes.fail("/weight_map", "must name at most 10000 files, got more");
      places.push_back({name, at->second});
    }
    std::sort(places.begin(), places.end(), [](const Place& a, const Place& b) { return a.name < b.name; });
    const auto twice = std::adjacent_find(places.begin(), places.end(),
                                          [](const Place& a, const Place& b) { return a.name == b.name; });
    if (twice != places.end()) notes.fail("/weight_map/" + twice->name, "must be there once, got it again");
    shard_names.resize(numbers.size());
    for (const auto& [name, number] : numbers) shard_names[number] = name;
    shards.resize(numbers.size());
  }
};

Weights::Weights(const std::string& path) : content_(std::make_unique<Content>()) {
  content_->path = path_of_weights(path);
  if (content_->path.ends_with(".json")) {
    content_->read_index();
  } else {
    content_->read_file();
  }
}
Weights::~Weights() = default;
Weights::Weights(Weights&&) noexcept = default;
Weights& Weights::operator=(Weights&&) noexcept = default;

const std::string& Weights::path() const { return content_->path; }
bool Weights::has(std::string_view name) const { return content_->find(name) != nullptr; }

std::vector<std::string> Weights::names() const {
  std::vector<std::string> out;
  for (const auto& place : content_->places) out.push_back(place.name);
  return out;
}

std::vector<std::string> Weights::files() const {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < content_->shard_names.size(); ++i) out.push_back(content_->shard_path(i));
  return out;
}

const StoredTensor& Weights::at(std::string_view name) {
  const Content::Place* place = content_->find(name);
  if (place == nullptr) {
    throw ConfigError(content_->path + ": must have a tensor " + json::quoted(name) + ", got none");
  }
  const StoredTensor* tensor = content_->open(place->shard).find(name);
  if (tensor == nullptr) {
    throw ConfigError(content_->path + ": /weight_map/" + place->name + ": must be a file that has the tensor, got " +
                      json::quoted(content_->shard_names[place->shard]) + " without it");
  }
  return *tensor;
}

std::map<std::string, std::string> Weights::metadata() {
  std::map<std::string, std::string> all;
  for (std::size_t shard = 0; shard < content_->shards.size(); ++shard) {
    all.insert(content_->open(shard).metadata().begin(), content_->open(shard).metadata().end());
  }
  return all;
}

void Weights::check_all() {
  for (const auto& place : content_->places) at(place.name);
  for (std::size_t shard = 0; shard < content_->shards.size(); ++shard) {
    for (const StoredTensor& tensor : content_->open(shard).tensors()) {
      const Content::Place* place = content_->find(tensor.name);
      if (place == nullptr || place->shard != shard) {
        tensor.fail("must stand in the index " + content_->path + " with this file, got " +
                    (place == nullptr ? "no entry" : json::quoted(content_->shard_names[place->shard])));
      }
    }
  }
}

}  // namespace bearing
