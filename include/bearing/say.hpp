#pragma once

#include <bearing/catalog.hpp>
#include <bearing/description.hpp>
#include <bearing/figures.hpp>
#include <bearing/io.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// One way to say an encoding in words. The command takes it everywhere, Python in encoding(). Link `bearing::io`.
//
//     t5                           a name of the catalog or an alias, in any case
//     t5:buckets=64                … with members of its spec; lists are 1:2:3 or a .npy file
//     t5:{"buckets": 64, …}        … with its spec as JSON
//     {"type": "T5", …}            a spec as JSON
//     t5.json                      the same in a file
//     @config.json#3               layer 3 of a model's file, or of the file in a folder, at the model's sizes;
//                                  @model.gguf#3 likewise
//     @config.json#input           what is on its input; #encoder.input and #decoder.input, where both have one;
//                                  #x.input, … where one part has several: ModelInput::label
//
// After JSON, a file and @…, as after a name, :KEY=VALUE,… may follow.

namespace bearing {

/// An encoding as a text says it. Errors are a ShapeError "[encoding] NAME: …", or a ConfigError where a file or JSON
/// is wrong.
class BEARING_EXPORT Said {
 public:
  Said(std::string text, const Description& description, Record spec = {}, Sizes sizes = {}, RopeLengths lengths = {},
       std::string task = {})
      : text_(std::move(text)),
        description_(&description),
        spec_(std::move(spec)),
        sizes_(sizes),
        lengths_(lengths),
        task_(std::move(task)) {}

  const std::string& text() const { return text_; }
  /// The text, a name as the catalog has it.
  std::string shown() const;
  const Description& description() const { return *description_; }
  /// Sizes of the model, where a model's file gives them, else those of the spec (head_dim, heads, length); else 0.
  Sizes sizes() const;
  /// Of the model, where a model's file gives them; else 0.
  const RopeLengths& lengths() const { return lengths_; }
  /// What the model is for, where a model's file says it (Model::task); else "".
  const std::string& task() const { return task_; }

  /// The value that the text gives for a key that is no member of the spec: a parameter's file, a setting.
  std::optional<std::string> take(const std::string& key);
  /// The same as a value of that type; `otherwise` if the text does not give it.
  Value take(const std::string& key, const ValueType& type, const Value& otherwise);
  /// Whether the text gives a member of the spec. JSON and models give all.
  bool gives(std::string_view member) const;

  /// The spec of an example of that size: what the name stands for, with the members that the text gives; members named
  /// head_dim, dim and heads that it does not give come from the example. Empty if the encoding has no spec.
  Record example(const inspect::SpecimenOptions& size);
  /// The spec of a model: defaults, what the name stands for, and the members that the text gives. Members named
  /// head_dim, dim and heads that have no default come from the call. Throws ShapeError if another member without a
  /// default is missing.
  Record complete(const Sizes& call);
  /// The description with that spec for its examples. Throws as finish() does, and for a head_dim or dim above
  /// largest_own_dim: RangeError, of a model's file ConfigError.
  Description as_description() const;
  /// Sets the record's members, and those of the records in it, that the text gives.
  void apply(Record& to);
  /// Throws unless every key was a member of the spec, or was taken.
  void finish() const;

  /// Adds KEY=VALUE,…
  void add_keys(std::string_view text);
  [[noreturn]] void fail(const std::string& what) const;

 private:
  void check_extents(const Record& spec) const;
  struct Key {
    std::string name, text;
    bool used = false;   ///< it was looked up
    bool taken = false;  ///< it is no member of the spec
  };

  std::string text_;
  const Description* description_;
  Record spec_;
  Sizes sizes_;
  RopeLengths lengths_;
  std::string task_;
  std::vector<Key> keys_ = {};
  std::vector<std::string> known_ = {};
};

/// Throws ConfigError for a model's file whose layers are of several kinds: "say which layer".
BEARING_EXPORT Said say_encoding(const std::string& text);

/// An encoding that is given as its spec. Throws ConfigError for a record that is no encoding's.
BEARING_EXPORT Said say_encoding(const Record& spec);

/// The same as the first, with every kind of a model's layers, and of what is on its input, once. Of layers that differ
/// in their window alone, the ones that see furthest are named.
BEARING_EXPORT std::vector<Said> say_encodings(const std::string& text);

/// The same of a model that was read; its file's name is that of the texts.
BEARING_EXPORT std::vector<Said> say_encodings(const Model& model);

/// What figure() draws of it. Throws as as_description() does.
BEARING_EXPORT inspect::Subject subject_of(const Said& said);

/// The largest size of an example that takes its size from a model.
inline constexpr inspect::SpecimenOptions largest_example = {.heads = 1024, .dim = 4096, .length = 65536};
/// A spec keeps its own head_dim or dim, which may be larger: the input's rows are as wide as the model. More is
/// refused, as the frequencies of a head of 65,536 would take seconds.
inline constexpr Index largest_own_dim = 16384;

/// The size of an example: what is asked for, else what was said, else the default. 0 stands for nothing.
BEARING_EXPORT inspect::SpecimenOptions example_size(const Sizes& asked, const Sizes& said);

/// The size of an example that is measured: as example_size(), but a size that was said and not asked for is made
/// smaller if measuring it would take too long.
BEARING_EXPORT inspect::SpecimenOptions measured_size(const Description& description, const Sizes& asked,
                                                      const Sizes& said);

/// The name that a spec's encoding has in the catalog; null if it has none.
BEARING_EXPORT const Description* description_of(const Record& spec);

/// The value of a member that a name stands for, if the encoding's names differ in that member: `t5_causal` and `t5`
/// differ in direction, `rope` and `rope_yarn` in the type of scaling. For a member in which all names agree the result
/// is empty, whatever an example has there.
BEARING_EXPORT std::optional<Value> stands_for(const Description& name, const MemberInfo& member,
                                               const inspect::SpecimenOptions& size = {});

/// The keys by which a text gives a record: its members, and those of the records in it.
BEARING_EXPORT std::vector<std::string> keys_of(const Record& spec);

/// Sets a member of the spec, or of a record in it. False if there is no member of that name.
BEARING_EXPORT bool set_member(Record& spec, const std::string& name, const Value& value);

/// The known word that is nearest to a mistyped one; "" if none is near.
BEARING_EXPORT std::string closest(std::string_view word, const std::vector<std::string>& known);

}  // namespace bearing
