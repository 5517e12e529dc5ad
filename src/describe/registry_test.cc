#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <bearing/catalog.hpp>
#include <bearing/description.hpp>
#include <bearing/error.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>
#include <utility>

// What the descriptions say of the encodings: whole, true to the files that there are, and enough to make each of them.

namespace bearing {
namespace {

using std::filesystem::exists;

/// Names, pages and files that an encoding's home does not have, each with its reason.
bool has_no(const std::string& home, const std::string& what) {
  static const std::set<std::pair<std::string, std::string>> none = {
      {"nope", "header"},       {"nope", "source"}, {"nope", "reference"}, {"nope", "test"},  // it does nothing
      {"swin_v2", "reference"},  // computes a table of swin's; its test has the network again
  };
  return none.count({home, what}) > 0;
}

TEST(Registry, EveryEncodingHasItsSixFiles) {
  const std::filesystem::path root = BEARING_SOURCE_DIR;
  std::set<std::string> tests;
  for (const auto& file : std::filesystem::recursive_directory_iterator(root / "src")) {
    tests.insert(file.path().filename().string());
  }
  for (const Description& one : registry().descriptions()) {
    const std::string home = one.home;
    const auto expect = [&](const std::string& what, bool there) {
      EXPECT_NE(there, has_no(home, what)) << one.name << ": its " << what << " is missing, or has come";
    };
    expect("header", exists(root / "include/bearing/encodings" / (home + ".hpp")));
    expect("source", tests.count(home + ".cc") > 0 || tests.count(home + "_description.cc") > 0);
    expect("reference", exists(root / "include/bearing/reference" / (home + ".hpp")));
    expect("test", tests.count(home + "_test.cc") + tests.count(home + "_resolve_test.cc") > 0);
    expect("page", exists(root / "docs/encodings" / (home + ".md")));
  }
}

/// A header's folder and the umbrella that includes all of it.
TEST(Registry, UmbrellaHeadersHaveEveryEncoding) {
  const std::filesystem::path include = std::filesystem::path(BEARING_SOURCE_DIR) / "include/bearing";
  for (const auto& [folder, umbrella] : {std::pair{"encodings", "bearing.hpp"}, {"reference", "reference.hpp"}}) {
    std::ifstream file(include / umbrella);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    for (const auto& header : std::filesystem::directory_iterator(include / folder)) {
      const std::string name = std::string(folder) + "/" + header.path().filename().string();
      EXPECT_NE(text.find("#include <bearing/" + name + ">"), std::string::npos)
          << umbrella << " must include " << name;
    }
  }
}

TEST(Registry, EveryNameIsFoundOnce) {
  std::set<std::string> names;
  for (const Description& one : registry().descriptions()) {
    SCOPED_TRACE(one.name);
    EXPECT_TRUE(names.insert(one.name).second);
    EXPECT_FALSE(one.title.empty());
    EXPECT_FALSE(one.does.empty());
    EXPECT_FALSE(one.paper.authors.empty());
    EXPECT_EQ(registry().find(one.name), &one);
    for (const std::string& alias : one.aliases) {
      EXPECT_TRUE(names.insert(alias).second) << alias;
      EXPECT_EQ(registry().find(alias), &one) << alias;
    }
  }
  EXPECT_EQ(registry().find("T5-Causal"), registry().find("t5_causal"));
  EXPECT_EQ(registry().find("RoPE mixed"), registry().find("rope_mixed"));
  EXPECT_EQ(registry().find("t5_causa"), nullptr);
}

TEST(Registry, EverythingIsSaidInWords) {
  for (const RecordType& record : registry().records()) {
    EXPECT_TRUE(record.is_setting || !record.text.empty()) << record.name;
    for (const MemberInfo& member : record.members)
      EXPECT_FALSE(member.text.empty()) << record.name << "." << member.name;
    for (const auto* functions : {&record.methods, &record.makers}) {
      for (const FunctionInfo& one : *functions) EXPECT_FALSE(one.text.empty()) << record.name << "." << one.name;
    }
  }
  for (const EncodingInfo& encoding : registry().encodings()) {
    EXPECT_FALSE(encoding.text.empty()) << encoding.name;
    EXPECT_TRUE(encoding.inputs || encoding.rows || encoding.scores || encoding.values) << encoding.name;
    EXPECT_EQ(encoding.scores, encoding.form != Form::none) << encoding.name << " must say the form of its scores";
    for (const ParameterInfo& one : encoding.parameters) {
      EXPECT_FALSE(one.text.empty()) << encoding.name << "." << one.name;
      EXPECT_NE(one.indices, one.start.fill != nullptr)
          << encoding.name << "." << one.name << " must say how it starts";
      EXPECT_NE(one.indices, !one.start.text.empty()) << encoding.name << "." << one.name;
    }
  }
  for (const FunctionInfo& one : registry().functions()) EXPECT_FALSE(one.text.empty()) << one.name;
}

TEST(Registry, MembersAreReadAndWritten) {
  for (const RecordType& type : registry().records()) {
    Record record = type.make();
    EXPECT_EQ(record, type.make()) << type.name;
    for (const MemberInfo& member : type.members) {
      SCOPED_TRACE(type.name + "." + member.name);
      Record copy = record;
      copy.set(member.name, record.get(member.name));
      EXPECT_EQ(copy, record);
      if (member.type.kind == Kind::whole) {
        copy.set(member.name, Index{77});
        EXPECT_EQ(std::get<Index>(copy.get(member.name)), 77);
        EXPECT_FALSE(copy == record);
        EXPECT_THROW(copy.set(member.name, std::string("77")), ConfigError);
      }
      if (member.type.kind != Kind::word) continue;
      for (const std::string& word : member.type.words) {
        copy.set(member.name, word);
        EXPECT_EQ(std::get<std::string>(copy.get(member.name)), word);
      }
      EXPECT_THROW(copy.set(member.name, std::string("no such word")), ConfigError);
    }
    EXPECT_THROW(record.get("no such member"), std::out_of_range);
  }
}

/// Memory whose reading ends the process, as a GPU's would.
const void* unreadable() {
  static void* const page = mmap(nullptr, std::size_t{1} << 24, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return page;
}

/// All memory that an encoding refers to.
template <class A>
std::vector<Memory> memory_of(const Made<A>& made) {
  std::vector<Memory> all;
  MemoryList list(&all, [](void* to, const char*, MemoryUse, const Memory& one) {
    static_cast<std::vector<Memory>*>(to)->push_back(one);
  });
  if (made.term && made.term->borrows != nullptr) made.term->borrows(made.term->self, list);
  if (made.input && made.input->borrows != nullptr) made.input->borrows(made.input->self, list);
  return all;
}

/// Whether the constructor refuses memory on cuda:1, or the encoding tells the calls, which refuse it.
template <class A>
bool refuses_or_tells(const EncodingInfo& info, const Record& spec, std::span<const ParameterMemory> memory) {
  try {
    const Made<A> made = info.make<A>()(spec, info.settings == nullptr ? Record{} : info.settings->make(), memory);
    const std::vector<Memory> all = memory_of(made);
    return std::any_of(all.begin(), all.end(), [](const Memory& one) { return !one.device.is_host(); });
  } catch (const ShapeError& error) {
    return std::string_view(error.what()).ends_with(": must lie in host memory, got memory on cuda:1");
  }
}

/// Made from where training starts, in both arithmetics: sizes of a small model decide the extents.
template <class A>
void make_from_start(const Description& description) {
  const inspect::SpecimenOptions size{.heads = 2, .dim = 8, .length = 16};
  const EncodingInfo& info = *description.encoding;
  const Record spec = description.spec ? description.spec(size) : Record{};
  const Sizes sizes{
      .batch = 1, .heads = 2, .kv_heads = 2, .q_len = 4, .k_len = 4, .dim = 8, .value_dim = 8, .length = 16};
  std::vector<ParameterMemory> memory;
  std::deque<std::vector<A>> numbers;
  std::deque<std::vector<Index>> indices;
  for (const ParameterInfo& parameter : info.parameters) {
    ParameterMemory& one = memory.emplace_back();
    if (parameter.optional && (info.spec_optional ? bool(spec) : parameter.wanted && !parameter.wanted(spec))) continue;
    Index count = 1;
    for (const Extent& extent : parameter.extents) {
      Index extent_size = extent.size(spec, sizes);
      if (extent_size == Extent::any && extent.usual) extent_size = extent.usual(spec, sizes);
      one.shape.push_back(extent_size == Extent::any ? 2 : extent_size);
      EXPECT_GT(one.shape.back(), 0) << info.name << "." << parameter.name << ": " << extent.name;
      count *= one.shape.back();
    }
    one.stride.resize(one.shape.size());
    Index step = 1;
    for (std::size_t axis = one.shape.size(); axis-- > 0; step *= one.shape[axis]) one.stride[axis] = step;
    if (parameter.indices) {
      one.value = indices.emplace_back(static_cast<std::size_t>(count), 0).data();
      continue;
    }
    std::vector<double> start(static_cast<std::size_t>(count), NAN), again(start);
    parameter.start.fill({start, one.shape, spec, 7});
    parameter.start.fill({again, one.shape, spec, 7});
    EXPECT_EQ(start, again) << info.name << "." << parameter.name << ": the same seed gives the same numbers";
    for (const double number : start) ASSERT_TRUE(std::isfinite(number)) << info.name << "." << parameter.name;
    one.value = numbers.emplace_back(start.begin(), start.end()).data();
  }
  const Made<A> made = info.make<A>()(spec, info.settings == nullptr ? Record{} : info.settings->make(), memory);
  EXPECT_NE(made.encoding, nullptr);
  EXPECT_EQ(made.input.has_value(), info.inputs);
  EXPECT_EQ(made.rows.has_value(), info.rows);
  EXPECT_EQ(made.term.has_value(), info.rows || info.scores || info.values);
  const std::vector<Memory> used = memory_of(made);
  for (std::size_t p = 0; p < memory.size(); ++p) {
    const auto is = [&](const Memory& one) { return one.data == memory[p].value; };
    if (memory[p].value == nullptr || std::none_of(used.begin(), used.end(), is)) continue;
    const void* const value = std::exchange(memory[p].value, unreadable());
    memory[p].device = {Device::Kind::cuda, 1};
    EXPECT_TRUE(refuses_or_tells<A>(info, spec, memory)) << info.name << "." << info.parameters[p].name;
    memory[p].device = {}, memory[p].value = value;
  }
}

TEST(Registry, EveryEncodingIsMadeFromWhereTrainingStarts) {
  for (const Description& description : registry().descriptions()) {
    SCOPED_TRACE(description.name);
    if (description.encoding == nullptr) continue;
    make_from_start<float>(description);
    make_from_start<double>(description);
  }
}

TEST(Registry, ASpecOfTheCallersIsMadeAnExample) {
  const Description& t5 = *registry().find("t5");
  Record spec = t5.spec({});
  spec.set("buckets", Index{8});
  EXPECT_EQ(inspect::make(t5, {.heads = 4}, spec).parameters, 8 * 4);
  spec.set("direction", std::string("causal"));
  EXPECT_TRUE(inspect::make(t5, {}, spec).causal);
}

}  // namespace
}  // namespace bearing
