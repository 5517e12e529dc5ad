#include <gtest/gtest.h>

#include <algorithm>
#include <bearing/choose.hpp>
#include <bearing/error.hpp>
#include <set>

#include "choose/measure.hpp"
#include "choose/rules.hpp"
#include "text.hpp"

namespace bearing::inspect {
namespace {

std::vector<std::string> named(const Advice& advice, Rank rank) {
  std::vector<std::string> all;
  for (const Option& option : advice.options) {
    if (option.rank == rank) all.push_back(option.encoding);
  }
  return all;
}

Situation small(Task task, AttentionKernel kernel = AttentionKernel::any) {
  return {.task = task, .trained = 64, .kernel = kernel, .heads = 2, .dim = 16};
}

Subject at_hand(const char* name, std::optional<Rope> rope = {}) {
  Subject subject{name, *find(name)};
  if (rope) subject.description.spec = [rope](const SpecimenOptions&) { return Record::of(*rope); };
  return subject;
}

// Whatever the situation, one option is recommended, and the kernel and the budget allow it and the alternatives.
TEST(Choose, EverySituationHasAnAnswerThatItAllows) {
  for (std::size_t task = 0; task < task_answers().size(); ++task) {
    for (std::size_t kernel = 0; kernel < kernel_answers().size(); ++kernel) {
      for (unsigned bits = 0; bits < 32; ++bits) {
        Situation s = small(static_cast<Task>(task), static_cast<AttentionKernel>(kernel));
        s.trained = 16, s.heads = 1, s.dim = 8;
        s.wanted = (bits & 1u) != 0 ? 64 : 16;
        s.causal = (bits & 2u) != 0, s.axes = (bits & 4u) != 0 ? 2 : 1;
        s.learned = (bits & 8u) != 0, s.tuning = (bits & 16u) != 0;
        SCOPED_TRACE(task_answers()[task].word + ", " + kernel_answers()[kernel].word + ", " + std::to_string(bits));
        const Advice advice = choose(s);
        ASSERT_EQ(named(advice, Rank::recommended).size(), 1u);
        EXPECT_EQ(advice.options.front().rank, Rank::recommended);
        EXPECT_FALSE(advice.unknowns.empty());
        std::set<std::string> once;
        for (const Option& option : advice.options) {
          EXPECT_TRUE(once.insert(option.encoding).second) << option.encoding << " twice";
          ASSERT_NE(find(option.name), nullptr);
          EXPECT_TRUE(option.encoding.starts_with(option.name));
          EXPECT_FALSE(option.reasons.empty());
          for (const Reason& reason : option.reasons)
            EXPECT_EQ(reason.text.find('{'), std::string::npos) << reason.text;
          EXPECT_EQ(option.unless.find('{'), std::string::npos) << option.unless;
          if (option.rank == Rank::avoid) continue;
          EXPECT_TRUE(serves(s.kernel, *find(option.name))) << option.name;
          ASSERT_TRUE(option.costs.has_value());
          EXPECT_TRUE(s.learned || option.costs->parameters == 0) << option.name;
          EXPECT_GT(*option.costs->time, 0);
          EXPECT_LT(*option.costs->time, 1e6);
        }
      }
    }
  }
}

TEST(Choose, EveryRuleNamesAnEncodingAndASource) {
  for (const Rule& rule : rules()) {
    const std::string name = rule.encoding;
    EXPECT_TRUE(name.empty() || find(name) != nullptr) << name;
    const std::string source = rule.source;
    EXPECT_TRUE(source.empty() || source == "measured" || source.starts_with("arXiv ")) << source;
    EXPECT_TRUE(*rule.because != '\0' || !rule.shows.empty()) << name;
    for (const std::string_view shown : rule.shows) {
      EXPECT_TRUE(shown == "pairs" || shown == "relative" || shown == "decay" || shown == "extensible") << shown;
    }
  }
}

TEST(Choose, WhatIsSaidToBeMeasuredIsWhatCheckMeasures) {
  std::size_t seen = 0;
  for (const Task task : {Task::generate, Task::understand, Task::images, Task::speech}) {
    Situation s = small(task);
    s.wanted = 256, s.tuning = false;
    const Advice advice = choose(s);
    for (const Option& option : advice.options) {
      if (option.encoding.find("factor=") != std::string::npos) continue;  // its spec is the rule's
      const std::vector<Property> properties = check(*find(option.name), advice.measured);
      for (const Reason& reason : option.reasons) {
        if (reason.source != "measured" || reason.text.find(": ") == std::string::npos) continue;
        const std::string evidence = reason.text.substr(reason.text.find(": ") + 2);
        const bool found = std::any_of(properties.begin(), properties.end(),
                                       [&](const Property& one) { return one.evidence + "." == evidence; });
        const bool pairs = reason.text.find("complete no turn") != std::string::npos;
        EXPECT_TRUE(found || pairs) << option.encoding << ": " << reason.text;
        seen += found ? 1 : 0;
      }
      if (!option.costs) continue;
      const Specimen specimen = make(*find(option.name), {.heads = s.heads, .dim = s.dim, .length = 64});
      EXPECT_EQ(option.costs->parameters, specimen.parameters) << option.name;
      EXPECT_EQ(option.costs->held, specimen.held) << option.name;
      EXPECT_EQ(option.costs->memory, compare(*find(option.name), advice.measured).memory) << option.name;
    }
  }
  EXPECT_GT(seen, 12u);
}

// Pairs by hand: dim 8, base 10,000, frequencies 1, 0.1, 0.01, 0.001; in 100 tokens two complete no turn (628 and 6,283
// tokens); unscaled they reach four times as far at 400 tokens, scaled by 4 no further.
TEST(Choose, PairsThatReachUnseenAnglesAreCounted) {
  const Rope plain{.head_dim = 8, .pairing = Pairing::half};
  Rope scaled = plain;
  scaled.scaling = LinearScaling{4};
  const Situation lengths{.trained = 100, .wanted = 400};
  EXPECT_EQ(pairs_seen(plain, plain, lengths).text,
            "2 of 4 pairs complete no turn in 100 tokens; at 400 2 of them reach angles that training did not show, up "
            "to 4 times as large.");
  EXPECT_EQ(pairs_seen(plain, scaled, lengths).text,
            "2 of 4 pairs complete no turn in 100 tokens; at 400 none of them reaches angles that training did not "
            "show.");
}

TEST(Choose, LengthsChangeTheAnswer) {
  Situation s = small(Task::generate);
  EXPECT_EQ(named(choose(s), Rank::recommended), std::vector<std::string>{"rope:pairing=half"});
  s.wanted = 256;
  EXPECT_EQ(named(choose(s), Rank::recommended),
            std::vector<std::string>{"rope_yarn:factor=4,trained_length=64,pairing=half"});
  s.tuning = false;
  EXPECT_EQ(named(choose(s), Rank::recommended), std::vector<std::string>{"alibi"});
  s.kernel = AttentionKernel::fused;
  const Advice fused = choose(s);
  EXPECT_EQ(named(fused, Rank::recommended),
            std::vector<std::string>{"rope_dynamic_ntk:factor=4,trained_length=64,pairing=half"});
  EXPECT_EQ(named(fused, Rank::avoid)[0], "alibi");
  EXPECT_EQ(fused.options.back().rank, Rank::avoid);
}

TEST(Choose, AModelAtHandKeepsItsNumbers) {
  Situation s = small(Task::generate);
  s.from = at_hand("rope", Rope{.head_dim = 16, .rotary_dim = 8, .base = 500'000, .pairing = Pairing::interleaved});
  EXPECT_EQ(named(choose(s), Rank::recommended)[0], "rope:head_dim=16,rotary_dim=8,base=500000,pairing=interleaved");
  s.wanted = 160;
  EXPECT_EQ(named(choose(s), Rank::recommended)[0],
            "rope_yarn:factor=2.5,trained_length=64,head_dim=16,rotary_dim=8,base=500000,pairing=interleaved");
  Rope stretched{.head_dim = 16, .pairing = Pairing::half, .scaling = YarnScaling{.factor = 4, .trained_length = 64}};
  s.from = at_hand("rope_yarn", stretched);
  EXPECT_EQ(named(choose(s), Rank::recommended)[0], "rope_yarn:factor=4,trained_length=64,head_dim=16,pairing=half")
      << "it reaches 256 already";
  s.trained = 999, s.wanted = 512;
  EXPECT_EQ(named(choose(s), Rank::recommended)[0], "rope_yarn:factor=8,trained_length=64,head_dim=16,pairing=half");
  s.trained = 64, s.wanted = 160, s.from = at_hand("alibi");
  EXPECT_EQ(named(choose(s), Rank::recommended)[0], "alibi");
  s.from = at_hand("learned");
  const Advice ends = choose(s);
  EXPECT_EQ(named(ends, Rank::avoid)[0], "learned");
  EXPECT_NE(named(ends, Rank::recommended)[0], "learned");
}

TEST(Choose, ABudgetIsKept) {
  Situation s = small(Task::images);
  EXPECT_EQ(named(choose(s), Rank::recommended)[0], "rope_mixed:pairing=interleaved");
  s.learned = false;
  const Advice none = choose(s);
  EXPECT_EQ(named(none, Rank::recommended)[0], "rope_axial:pairing=half");
  EXPECT_EQ(none.options.back().name, "nope");
  s.memory = 1;
  EXPECT_EQ(named(choose(s), Rank::recommended)[0], "cape_2d");
}

TEST(Choose, NothingIsRecommendedWhereNothingFits) {
  Situation s = small(Task::generate);
  s.from = at_hand("rope", Rope{.head_dim = 16, .pairing = Pairing::half}), s.wanted = 256, s.memory = 1;
  const Advice advice = choose(s);
  ASSERT_FALSE(advice.options.empty());
  EXPECT_TRUE(named(advice, Rank::recommended).empty());
  EXPECT_TRUE(named(advice, Rank::alternative).empty());
  EXPECT_NE(advice.options[0].reasons[0].text.find("and may hold 1."), std::string::npos);
}

TEST(Choose, AKernelServesWhatItsWayAllows) {
  const auto all = [](const char* name) {
    std::string kernels;
    for (int kernel = 0; kernel < 4; ++kernel) {
      kernels += serves(static_cast<AttentionKernel>(kernel), *find(name)) ? '1' : '0';
    }
    return kernels;
  };
  EXPECT_EQ(all("rope"), "1111");
  EXPECT_EQ(all("learned"), "1111");
  EXPECT_EQ(all("nope"), "1111");
  EXPECT_EQ(all("alibi"), "1100");
  EXPECT_EQ(all("swin_v2"), "1100");
  EXPECT_EQ(all("deberta"), "1000");
  EXPECT_EQ(all("shaw"), "1000");
  for (const char* decay : {"retention", "lightning", "forgetting"}) EXPECT_EQ(all(decay), "1101") << decay;
  EXPECT_EQ(all("gated_decay"), "1001");
}

TEST(Choose, LinearAttentionHasDecays) {
  Situation s = small(Task::generate, AttentionKernel::linear);
  for (const Index wanted : {64, 256}) {
    s.wanted = wanted;
    const Advice advice = choose(s);
    EXPECT_EQ(named(advice, Rank::recommended), std::vector<std::string>{"gated_decay"});
    EXPECT_EQ(named(advice, Rank::alternative)[0], "retention");
    EXPECT_GT(*advice.options[0].costs->time, 0);
  }
  const auto avoided = named(choose(s), Rank::avoid);  // its state holds keys as they were turned
  EXPECT_TRUE(std::any_of(avoided.begin(), avoided.end(),
                          [](const std::string& one) { return one.starts_with("rope_dynamic_ntk"); }));
  s.causal = false, s.wanted = 0;
  EXPECT_EQ(named(choose(s), Rank::recommended), std::vector<std::string>{"rope:pairing=half"});
  s.from = at_hand("retention");
  const Advice forward = choose(s);
  const auto kept = std::find_if(forward.options.begin(), forward.options.end(),
                                 [](const Option& one) { return one.name == "retention"; });
  ASSERT_NE(kept, forward.options.end());
  EXPECT_EQ(kept->rank, Rank::avoid);
  EXPECT_NE(kept->reasons[0].text.find("needs a causal mask"), std::string::npos);
  s.causal = true;
  EXPECT_EQ(named(choose(s), Rank::recommended), std::vector<std::string>{"retention"});
}

// Also those whose numbers a model computes for each call.
TEST(Choose, EveryEncodingMayBeThatOfAModelAtHand) {
  for (const Description& one : catalog()) {
    SCOPED_TRACE(one.name);
    Situation s{.trained = 64, .heads = 2, .dim = 16};
    s.from = Subject{one.name, one};
    const Advice advice = choose(s);
    ASSERT_FALSE(advice.options.empty());
    EXPECT_EQ(advice.options[0].name, one.name);
    ASSERT_EQ(advice.options[0].rank, Rank::recommended);
    EXPECT_EQ(advice.options[0].costs->time.has_value(), one.name != "bucket_bias");
  }
}

TEST(Choose, AnEncodingSaysWhetherItIsForBothSides) {
  const auto task = [](const char* name) {
    Situation s = small(Task::generate);
    s.task.reset(), s.from = at_hand(name);
    return choose(s);
  };
  for (const char* name :
       {"bert_relative_key", "wav2vec2_bert", "deberta", "deberta_v2", "t5", "gated_t5", "xlnet", "tupe"}) {
    EXPECT_EQ(task(name).situation.task, Task::understand) << name;
    EXPECT_TRUE(task(name).task_known) << name;
  }
  for (const char* name : {"t5_causal", "transformer_xl", "rope", "alibi", "learned"}) {
    EXPECT_EQ(task(name).situation.task, Task::generate) << name;
    EXPECT_FALSE(task(name).task_known) << name;
  }
  Situation sees = small(Task::generate);
  sees.task.reset(), sees.from = at_hand("rope", Rope{.head_dim = 16, .pairing = Pairing::half});
  sees.from->lengths.after = 7;
  EXPECT_EQ(choose(sees).situation.task, Task::understand) << "its layer looks both ways";
  sees.from->task = "speech";
  EXPECT_EQ(choose(sees).situation.task, Task::speech) << "its file says more";
}

TEST(Choose, NumbersOutOfRangeAreRefused) {
  const auto text = [](Situation s) {
    try {
      choose(s);
    } catch (const std::logic_error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(text({.trained = 1}), "[choose] trained: must be from 2 to 1073741824, got 1");
  EXPECT_EQ(text({.wanted = 1}), "[choose] wanted: must be from 2 to 1073741824, got 1");
  EXPECT_EQ(text({.axes = 3}), "[choose] axes: must be from 1 to 2, got 3");
  EXPECT_EQ(text({.heads = 0}), "[choose] heads: must be from 1 to 1024, got 0");
  EXPECT_EQ(text({.dim = 6}), "[choose] dim: must be a multiple of 4, got 6");
  EXPECT_EQ(text({.memory = -1}), "[choose] memory: must be from 0 to 1125899906842624, got -1");
}

}  // namespace
}  // namespace bearing::inspect
