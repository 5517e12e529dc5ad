#pragma once

#include <bearing/catalog.hpp>
#include <bearing/executor.hpp>
#include <bearing/export.hpp>
#include <bearing/figures.hpp>
#include <bearing/properties.hpp>
#include <functional>
#include <optional>
#include <string>
#include <vector>

// Which encoding, for a situation: rules that a person can read and dispute (src/choose/rules.cc), each with its
// source, and numbers that are measured at the situation's size. docs/guide/choose.md says how answers are made.

namespace bearing::inspect {

enum class Task { generate, understand, translate, images, speech, unordered };

/// What attention is computed by.
enum class AttentionKernel {
  any,     ///< this library's, or one that takes any score: FlexAttention
  bias,    ///< takes a bias matrix, or slopes per head
  fused,   ///< takes q, k and v only
  linear,  ///< linear attention: no scores to add to, but a state that may decay
};

/// A word that a person answers with, and what it means.
struct Answer {
  std::string word, text;
};
/// In the order of the enumerators.
BEARING_EXPORT const std::vector<Answer>& task_answers();
BEARING_EXPORT const std::vector<Answer>& kernel_answers();

struct Situation {
  /// Empty: what a model at hand is for, by its encoding (patches: images), its file's class (Subject::task) or a layer
  /// or encoding that looks both ways (understand); else generate.
  std::optional<Task> task = {};
  /// Tokens, or patches. What the scaling of a model at hand states counts more; 0: its file does not say (`longest`).
  Index trained = 2048;
  bool assumed = false;             ///< nobody said `trained`: it is the default
  Index wanted = 0;                 ///< the longest that it is to serve; 0: as long as it is used now
  Index longest = 0;                ///< what the file of a model at hand promises; 0: as trained and scaled
  Index window = 0;                 ///< how many tokens back a token of a model at hand sees; 0: all
  std::optional<bool> causal = {};  ///< empty: by the task
  Index axes = 0;                   ///< coordinates of a position, 1 or 2; 0: the model's, or by the task
  AttentionKernel kernel = AttentionKernel::any;
  bool learned = true;               ///< an encoding may have learned numbers
  bool tuning = true;                ///< the model can be trained a little at the wanted length
  Index memory = 0;                  ///< most bytes that an encoding may hold, in float32; 0: any number
  Index heads = 8, dim = 64;         ///< of a layer's attention
  std::optional<Subject> from = {};  ///< a model at hand, which cannot be trained anew: what it has
  std::uint64_t seed = 1;            ///< draws what would be learned
  /// Names of models that have an encoding, by its name in the catalog: model_types_of() of bearing::io. Null: none.
  std::function<std::vector<std::string>(const std::string& encoding)> models = {};
};

enum class Rank { recommended, alternative, avoid };
BEARING_EXPORT const char* name(Rank rank);

struct Reason {
  std::string text;    ///< a sentence
  std::string source;  ///< "arXiv 2108.12409", "measured", or empty: it follows from the situation
};

/// What an encoding takes.
struct Costs {
  Index parameters = 0;     ///< numbers that training learns, in one layer
  Index held = 0;           ///< numbers that stay in memory, at the measured length
  std::string memory = {};  ///< how these grow with the length: "none", "O(1)", "O(L)"
  /// Attention with it over attention without, one head in float32 on one thread, measured now; 1 for what acts on the
  /// input, which no layer pays for. Empty: it goes by indices that the caller gives, and was not timed.
  std::optional<double> time = 1;
};

struct Option {
  Rank rank = Rank::alternative;
  std::string encoding;              ///< as say_encoding() takes it, with all that a call must know
  std::string name, title;           ///< in the catalog
  std::vector<Reason> reasons = {};  ///< at least one
  std::optional<Costs> costs = {};   ///< of what can be used here
  std::vector<std::string> models = {};
  std::string unless = {};  ///< what would change the answer; empty: nothing that is known
};

struct Advice {
  Situation situation = {};                ///< with what was left open filled in
  bool task_known = true;                  ///< false: a model at hand does not say what it is for
  SpecimenOptions measured = {};           ///< the size at which properties were measured
  Index timed = 0;                         ///< tokens at which attention was timed
  std::vector<Option> options = {};        ///< the recommended one first, if any fits; those to avoid last
  std::vector<std::string> unknowns = {};  ///< questions that have no known answer
};

/// Whether a kernel can serve an encoding; of linear attention: where it is causal, if the encoding is a decay.
BEARING_EXPORT bool serves(AttentionKernel kernel, const Description& encoding);

/// Puts a model at hand into a situation: its encoding, its sizes, how far it was trained and what its file promises.
/// Where it says nothing of how far, `assumed` says so.
BEARING_EXPORT void take_model(Situation& situation, Subject model);

/// Recommends an encoding: the first option, unless the situation rules out all that are known; then all options are to
/// be avoided. Throws RangeError "[choose] NAME: …" for a number out of
/// range and ShapeError for a dim that is not a multiple of 4. The trained length must be known where more is wanted
/// than the model reaches.
BEARING_EXPORT Advice choose(const Situation& situation, const Executor& on = {});

}  // namespace bearing::inspect
