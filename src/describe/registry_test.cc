#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <bearing/catalog.hpp>
#include <bearing/description.hpp>
#include <bearing/error.hpp>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "support/described.hpp"

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
  std::set<std::string> sources;
  for (const auto& file : std::filesystem::recursive_directory_iterator(root / "src")) {
    sources.insert(file.path().filename().string());
  }
  for (const Description& one : registry().descriptions()) {
    const std::string home = one.home;
    const auto expect = [&](const std::string& what, const std::string& file, bool there) {
      const bool wanted = !has_no(home, what);
      EXPECT_EQ(there, wanted) << one.name << ": its " << what << " "
                               << (wanted ? "must be written: " + file : "has come; take it out of has_no(): " + file);
    };
    const auto stands = [&](const std::string& what, const std::string& file) {
      expect(what, file, exists(root / file));
    };
    const auto in_sources = [&](const std::string& what, const std::string& file, const std::string& or_file) {
      expect(what, "src/encodings/SITE/" + file, sources.count(file) + sources.count(or_file) > 0);
    };
    stands("header", "include/bearing/encodings/" + home + ".hpp");
    in_sources("source", home + ".cc", home + "_description.cc");
    stands("reference", "include/bearing/reference/" + home + ".hpp");
    in_sources("test", home + "_test.cc", home + "_resolve_test.cc");
    stands("page", "docs/encodings/" + one.page + ".md");
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
    for (const RecordType* spec : encoding.specs) {
      EXPECT_FALSE(spec->members.empty())
          << spec->name << " states nothing: describe " << encoding.name << " with NoSpec (src/describe/makers.hpp)";
    }
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
    if (const Rule& rule = parameter.start; !rule.number.empty()) {
      rule.fill({again, one.shape, spec, 7, rule.otherwise});
      EXPECT_EQ(start, again) << info.name << "." << parameter.name << ": " << rule.number << " where nobody says it";
      rule.fill({again, one.shape, spec, 7, rule.otherwise + 1});
      EXPECT_NE(start, again) << info.name << "." << parameter.name << ": " << rule.number << " is the caller's";
    }
    one.value = numbers.emplace_back(start.begin(), start.end()).data();
  }
  const Made<A> made = info.make<A>()(spec, info.settings == nullptr ? Record{} : info.settings->make(), memory);
  EXPECT_NE(made.encoding, nullptr);
  EXPECT_EQ(made.input.has_value(), info.inputs);
  EXPECT_EQ(made.rows.has_value(), info.rows);
  EXPECT_EQ(made.term.has_value(), info.rows || info.scores || info.values);
  EXPECT_EQ(made.rows_by_index != nullptr, info.form == Form::rows_by_index);
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

TEST(Registry, EveryWordOfEverySpecMakesAnExample) {
  // Words that ask for another member too, or that this encoding has no use for.
  std::map<std::string, int> refusals = {{"[IndexEncoding] length: must be ", 0},
                                         {"[pair_axes] pairs: must ", 0},
                                         {"[pair_axes] halves: must be of the head unless ", 0},
                                         {"[XposTable] rope.axes: must be one axis", 0},
                                         {"[swin_v2_table] window.class_token: must be none", 0}};
  const inspect::SpecimenOptions size{.heads = 4, .dim = 16, .length = 16};
  for (const Description& description : registry().descriptions()) {
    if (!description.spec) continue;
    for (const auto& [changed, spec] : test::changed_words(description.spec(size))) {
      try {
        inspect::make(description, size, spec);
      } catch (const std::exception& error) {
        const auto known = std::find_if(refusals.begin(), refusals.end(), [&](const auto& refusal) {
          return std::string_view(error.what()).starts_with(refusal.first);
        });
        if (known != refusals.end()) ++known->second;
        EXPECT_NE(known, refusals.end()) << description.name << ", " << changed << ": " << error.what();
      }
    }
  }
  for (const auto& [what, times] : refusals) EXPECT_GT(times, 0) << what << ": nothing says it any more";
}

/// A parameter's numbers, drawn, with a gradient that has 1 everywhere; extents of any size are 4.
struct DrawnParameter {
  std::vector<double> numbers, gradient;
  ParameterMemory memory;

  DrawnParameter(std::vector<Index> shape, std::uint64_t seed) {
    memory.shape = std::move(shape), memory.stride.resize(memory.shape.size());
    Index count = 1;
    for (std::size_t axis = memory.shape.size(); axis-- > 0; count *= memory.shape[axis]) memory.stride[axis] = count;
    inspect::Normal draw(seed);
    for (Index i = 0; i < count; ++i) numbers.push_back(draw() / 2);
    gradient.assign(numbers.size(), 1);
    memory.value = numbers.data(), memory.grad = gradient.data();
  }
  static std::vector<Index> shape(const ParameterInfo& parameter, const Record& spec, const Sizes& sizes) {
    std::vector<Index> shape;
    for (const Extent& extent : parameter.extents) {
      const Index size = extent.size(spec, sizes);
      shape.push_back(size == Extent::any ? 4 : size);
    }
    return shape;
  }
};

/// A description that computes a parameter, in a small call.
struct ComputedCase {
  const ComputedInfo& info;
  ComputedCall call;
  std::deque<DrawnParameter> from;
  std::vector<double> weight;  ///< of the computed numbers in the loss

  explicit ComputedCase(const Description& description)
      : info(*description.computed),
        call{description.spec({.heads = 2, .dim = 8, .length = 16}),
             {.batch = 1, .heads = 2, .kv_heads = 2, .q_len = 4, .k_len = 5, .dim = 8, .value_dim = 8, .length = 16},
             {-4, 3}} {
    for (const ParameterInfo& one : info.from) {
      from.emplace_back(DrawnParameter::shape(one, call.spec, call.sizes), from.size() + 1);
    }
    Index count = 1;
    for (const Index extent : info.shape(call)) count *= extent;
    inspect::Normal draw(9);
    for (Index i = 0; i < count; ++i) weight.push_back(draw());
  }
  std::vector<ParameterMemory> memory() const {
    std::vector<ParameterMemory> all;
    for (const DrawnParameter& one : from) all.push_back(one.memory);
    return all;
  }
  std::vector<double> numbers() const {
    std::vector<double> all(weight.size(), NAN);
    info.compute<double>()(call, memory(), all.data());
    return all;
  }
  /// Σ weight · number, and the same of their sizes.
  std::pair<double, double> loss() const {
    const std::vector<double> all = numbers();
    std::pair<double, double> sums{0, 0};
    for (std::size_t i = 0; i < all.size(); ++i) {
      sums.first += weight[i] * all[i], sums.second += std::abs(weight[i] * all[i]);
    }
    return sums;
  }
};

TEST(Registry, WhatIsComputedIsDescribed) {
  for (const Description& description : registry().descriptions()) {
    if (description.computed == nullptr) continue;
    SCOPED_TRACE(description.name);
    const ComputedCase one(description);
    EXPECT_EQ(one.info.parameter().name, one.info.gives);
    EXPECT_TRUE(description.encoding == nullptr || description.encoding == one.info.encoding);
    const std::vector<const ParameterInfo*> all = description.parameters();
    for (const ParameterInfo& learned : one.info.from) {
      EXPECT_TRUE(learned.learned && !learned.text.empty() && learned.start.fill != nullptr) << learned.name;
      EXPECT_EQ(std::count(all.begin(), all.end(), &learned), 1) << learned.name;
      for (const Extent& extent : learned.extents) {
        EXPECT_EQ(one.call.spec.type().member(extent.name), nullptr) << extent.name << ": a file would say it too late";
      }
    }
    for (const EncodingInfo* beside : description.beside) EXPECT_TRUE(beside->scores) << beside->name;
  }
}

TEST(Registry, TheEncodingTakesWhatIsComputed) {
  for (const Description& description : registry().descriptions()) {
    if (description.computed == nullptr) continue;
    SCOPED_TRACE(description.name);
    const ComputedCase one(description);
    std::deque<DrawnParameter> others;
    std::vector<ParameterMemory> parameters;
    const Record spec = one.info.spec_of(one.call);
    for (const ParameterInfo& parameter : one.info.encoding->parameters) {
      const bool computed = parameter.name == one.info.gives;
      others.emplace_back(computed ? one.info.shape(one.call) : DrawnParameter::shape(parameter, spec, one.call.sizes),
                          1);
      if (computed) others.back().numbers = one.numbers();
      others.back().memory.value = others.back().numbers.data();
      parameters.push_back(others.back().memory);
    }
    const Made<double> made = one.info.encoding->make<double>()(spec, {}, parameters);
    EXPECT_TRUE(made.term.has_value());
  }
}

TEST(Registry, WhatIsComputedInFloatIsTheSameToRounding) {
  for (const Description& description : registry().descriptions()) {
    if (description.computed == nullptr) continue;
    SCOPED_TRACE(description.name);
    ComputedCase one(description);
    std::deque<std::vector<float>> narrow;
    std::vector<ParameterMemory> memory = one.memory();
    for (std::size_t p = 0; p < memory.size(); ++p) {
      std::vector<double>& numbers = one.from[p].numbers;
      narrow.emplace_back(numbers.begin(), numbers.end());
      std::copy(narrow.back().begin(), narrow.back().end(), numbers.begin());  // the same numbers in both
      memory[p].value = narrow.back().data(), memory[p].grad = nullptr;
    }
    const std::vector<double> wanted = one.numbers();
    std::vector<float> got(wanted.size(), NAN);
    one.info.compute<float>()(one.call, memory, got.data());
    // Sums of a few products of sizes about 1, times at most 4: some 2^-24 each.
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(static_cast<double>(got[i]), wanted[i], 0x1p-18);
  }
}

TEST(Registry, GradientsOfWhatIsComputedAreCentralDifferences) {
  int checked = 0;
  for (const Description& description : registry().descriptions()) {
    if (description.computed == nullptr) continue;
    SCOPED_TRACE(description.name);
    ++checked;
    ComputedCase one(description);
    one.info.backward<double>()(one.call, one.memory(), one.weight.data());
    for (std::size_t p = 0; p < one.from.size(); ++p) {
      SCOPED_TRACE(one.info.from[p].name);
      DrawnParameter& parameter = one.from[p];
      double most = 0;
      for (std::size_t i = 0; i < parameter.numbers.size(); ++i) {
        const double kept = parameter.numbers[i], step = 1e-5;
        parameter.numbers[i] = kept + step;
        const auto [above, size] = one.loss();
        parameter.numbers[i] = kept - step;
        const double slope = (above - one.loss().first) / (2 * step);
        parameter.numbers[i] = kept;
        // Off by step²/6 of a third derivative of a few hundred, and by the sums' rounding over the step.
        EXPECT_NEAR(parameter.gradient[i] - 1, slope, 1e-8 + size * 0x1p-48 / step) << i;
        most = std::max(most, std::abs(slope));
      }
      EXPECT_GT(most, 1e-3);
    }
  }
  EXPECT_GT(checked, 0);
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
