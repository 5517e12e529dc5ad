#pragma once

#include <any>
#include <bearing/encodings/learned.hpp>
#include <bearing/export.hpp>
#include <bearing/rows.hpp>
#include <bearing/rows_by_index.hpp>
#include <bearing/term_list.hpp>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <typeindex>
#include <variant>
#include <vector>

// What every encoding says of itself, once, in its source: names, members, parameters, sites, the form of its score,
// examples. Doors (the command, JSON, Python, tests) read it here and need no line for any encoding:
//
//     const Description& t5 = *registry().find("t5");
//     Record spec = t5.encoding->specs[0]->make();              // T5{}, whatever T5 is
//     spec.set("buckets", Index{64});
//     const Made<float> bias = t5.encoding->make<float>()(spec, {}, parameters);

namespace bearing {

struct RecordType;
struct Value;
using Values = std::vector<Value>;

/// A value of a described type: a spec, or what else an encoding's constructor takes beside its parameters.
class BEARING_EXPORT Record {
 public:
  Record() = default;  ///< none
  Record(const RecordType& type, std::any value) : type_(&type), value_(std::move(value)) {}
#ifdef __cpp_rtti  // programs without types at run time have all else
  /// The record of a described type. Throws std::logic_error if nobody described it.
  template <class S>
  static Record of(S value) {
    return {type_of(typeid(S)), std::any(std::move(value))};
  }
#endif

  explicit operator bool() const { return type_ != nullptr; }
  const RecordType& type() const { return *type_; }
  /// Null if it is of another type.
  template <class S>
  const S* as() const {
    return std::any_cast<S>(&value_);
  }
  const std::any& value() const { return value_; }

  /// A member. Throws std::out_of_range if there is none of that name.
  Value get(std::string_view member) const;
  /// Throws std::out_of_range as get() does, ConfigError for a value of another kind or a word that is none of the
  /// member's.
  void set(std::string_view member, const Value& value);

  bool operator==(const Record& other) const;

 private:
  static const RecordType& type_of(std::type_index type);

  const RecordType* type_ = nullptr;
  std::any value_;
};

/// Numbers of an array, row-major: arguments and results of a description's functions.
struct Tensor {
  std::vector<Index> shape;
  std::variant<std::vector<double>, std::vector<float>, std::vector<Index>> numbers;
};

/// A value that every door can hold: nothing, a truth value, a whole number, a number, a word or text, a list, a
/// record, an array.
struct Value : std::variant<std::monostate, bool, Index, double, std::string, Values, Record, Tensor> {
  using variant::variant;
};

/// The kind of a Value.
enum class Kind { truth, whole, number, word, list, record, tensor, positions };

/// A type of values, for doors that convert to it and for signatures.
struct ValueType {
  Kind kind = Kind::number;
  bool optional = false;                      ///< may be empty
  std::vector<std::string> words = {};        ///< of a word
  std::vector<ValueType> items = {};          ///< of a list: one, the type of each
  std::vector<std::type_index> records = {};  ///< of a record: the types that will do
  int rank = 0;                               ///< of a tensor; 0: any
};

struct MemberInfo {
  std::string name, text;
  ValueType type;
  bool required = false;  ///< there is no default: a wrong guess would be silent
  std::function<Value(const std::any&)> get;
  std::function<void(std::any&, const Value&)> set;  ///< the value is of the member's type
};

struct ArgumentInfo {
  std::string name;
  ValueType type;
  std::optional<Value> otherwise;  ///< the default; empty: it must be given
  bool by_name = false;            ///< is given by name only
};

/// A function of an encoding: T5's buckets, the published slopes of ALiBi.
struct FunctionInfo {
  std::string name, text;
  std::vector<ArgumentInfo> arguments;
  ValueType result;
  std::string
      result_text;  ///< the result's type as Python writes it, where `result` does not say all: "tuple[Array, Array]"
  std::function<Value(const Values&)> call;  ///< of as many values as there are arguments
};

/// A number that a paper states.
struct ConstantInfo {
  std::string name, text;
  Value value;
};

/// A type of records, described once.
struct RecordType {
  std::string name;  ///< as in C++: "T5"
  std::string text;  ///< what it is, its formula and its source
  std::type_index type;
  std::any initial;  ///< all members at their defaults
  std::vector<MemberInfo> members;
  std::vector<FunctionInfo> methods;  ///< the first argument is a record of this type
  std::vector<FunctionInfo> makers;   ///< give a record of this type
  std::vector<ConstantInfo> constants;
  bool (*equal)(const std::any&, const std::any&) = nullptr;
  bool is_setting = false;  ///< no spec, but what a constructor takes after the parameters

  Record make() const { return {*this, initial}; }
  /// A member's default; an empty value if it is required.
  Value otherwise(const MemberInfo& member) const { return member.required ? Value{} : member.get(initial); }
  /// Null if it has none of that name.
  BEARING_EXPORT const MemberInfo* member(std::string_view called) const;
};

/// Sizes of a call or a model; 0: not known.
struct Sizes {
  Index batch = 0, heads = 0, kv_heads = 0, q_len = 0, k_len = 0, dim = 0, value_dim = 0, length = 0;
};

/// One axis of a parameter, by name: "heads", "buckets", "2 clip + 1".
struct Extent {
  static constexpr Index any = -1;

  std::string name;
  /// The size that it must have. any: the array's own size, which is the same for all extents of that name.
  std::function<Index(const Record& spec, const Sizes& sizes)> size;
  std::string member =
      {};  ///< the spec's member that it is, if it is one: a door may read the member from an array's shape
  /// Its usual size in models, if it may have any size; null: the caller must give it.
  std::function<Index(const Record& spec, const Sizes& sizes)> usual = {};
  bool or_one = false;  ///< 1 is allowed and serves all; as the first axis it may then be left out
};

/// Numbers for a parameter.
struct Filling {
  std::span<double> numbers;
  std::span<const Index> extents;
  const Record& spec;
  std::uint64_t seed;
  std::optional<double> number = {};  ///< the rule's, where somebody chose it
};
struct Rule {
  std::string text;  ///< "normal, of standard deviation 0.02"
  std::function<void(const Filling&)> fill;
  std::string number = {};  ///< what a number is called that a caller may choose: "base"; empty: there is none
  double otherwise = 0;     ///< that number where nobody chooses it
};

struct ParameterInfo {
  std::string name, text;
  std::vector<Extent> extents;
  Rule start;                ///< where training starts, as the authors have it
  Rule drawn;                ///< what a trained one may look like, for examples
  bool optional = false;     ///< may be left out
  bool indices = false;      ///< whole numbers, without a gradient
  bool learned = true;       ///< false: the model computes it for each call
  bool beside_spec = false;  ///< the spec says it already, and it may be learned all the same
  bool picked = false;       ///< [rows, heads], and a score is one of its numbers as it is, or 0
  std::function<bool(const Record& spec)> wanted = {};  ///< whether a spec has it at all; null: always
  std::string for_truth{};                  ///< what takes the truth values that somebody may give here, for the error
  std::vector<std::string> elsewhere = {};  ///< other libraries' arguments of attention that take the same

  BEARING_EXPORT std::size_t fewest() const;  ///< axes that must be given
};

/// How a score depends on where its tokens stand. Another backend needs no more to serve it than this and the
/// parameters.
enum class Form {
  none,           ///< nothing is added to scores
  distance,       ///< a function of key minus query
  grid,           ///< a table's row, picked by the offset of two places in a grid
  rows_by_index,  ///< products of queries or keys with a table's rows, picked by an index
  positions,      ///< products of vectors that belong to the two positions
  per_query,      ///< a function of the distance and of where the query stands
  running_sum,    ///< sums over the tokens between
  dense,          ///< any number for any pair
};

/// A parameter's memory in a call; null: not given. Strides count numbers.
struct ParameterMemory {
  const void* value = nullptr;
  void* grad = nullptr;  ///< row-major; null: not wanted
  std::vector<Index> shape, stride;
  Device device{};  ///< of both
};

/// An encoding made from its description. Sites that it lacks are empty.
template <class A>
struct Made {
  std::shared_ptr<const void> encoding;
  std::optional<Term<A>> term;  ///< query and key rows, scores and values
  std::optional<InputEncoding<A>> input;
  std::optional<RowEncoding<A>> rows;
  const RowsByIndexList<A>* rows_by_index = nullptr;  ///< its score as data, where its form is Form::rows_by_index
  Made (*copy)(const Made&) = nullptr;                ///< by the encoding's copy constructor
  Made (*move)(const Made&) = nullptr;                ///< by its move constructor, which leaves this one as moved from
};

/// An encoding: a class of the library.
struct EncodingInfo {
  template <class A>
  using Make = std::function<Made<A>(const Record& spec, const Record& settings, std::span<const ParameterMemory>)>;

  std::string name;         ///< as in C++: "T5Bias"
  std::string module = {};  ///< what a class that learns its parameters is called; empty: as its spec, or as it is
  std::string text;
  std::vector<const RecordType*> specs;  ///< any of them is taken; none: it has no spec
  bool spec_optional = false;
  bool needs_one = false;  ///< parameters may be left out, but not all of them
  const RecordType* settings = nullptr;
  std::vector<ParameterInfo> parameters;
  Make<float> make_f32;
  Make<double> make_f64;

  bool inputs = false, rows = false, scores = false, values = false;  ///< its sites
  Form form = Form::none;
  bool whole_rows = false;     ///< its tiles span all keys
  bool by_index = false;       ///< counts tokens; does not look at positions
  bool grouped = false;        ///< the setting `group` says how many heads share a set of parameters
  bool by_hand = false;        ///< doors that hold tables have a separate class for it: RoPE and xPos
  bool reads_content = false;  ///< the score looks at queries or keys
  bool turns_values = false;   ///< its value site turns them, and what they add up to
  bool decays = false;         ///< in linear attention it lets the state decay, which takes a causal mask
  std::function<bool(const Record& spec)> causal = {};      ///< meant for keys up to the query; null: no
  std::function<bool(const Record& spec)> both_sides = {};  ///< meant for keys on both sides; null: it does not say
  std::function<bool(const Record& spec)> whole_positions = {};  ///< refuses other than whole positions; null: no
  std::function<double(const Record& spec, Index dim)> softmax_scale = {};  ///< null: 1/√dim
  std::function<Index(const Record& spec, Index dim)> out_dim = {};         ///< of turned rows; null: dim
  /// The grid that `length` tokens form: the spec's own, where it has one, else the largest square of whole rows; null,
  /// or a grid without columns: none.
  std::function<GridSize(const Record& spec, Index length)> grid = {};
  std::function<Index(const Record& spec)> tables = {};  ///< numbers that it holds beside its parameters; null: none

  /// Throws ShapeError for an array that is missing or too many: where numbers come from a spec or from arrays, where a
  /// spec says that there are some, and where one of several has to be there. given: which parameters a caller has.
  BEARING_EXPORT void check_given(const Record& spec, const std::vector<bool>& given) const;

  template <class A>
  const Make<A>& make() const {
    if constexpr (std::is_same_v<A, double>)
      return make_f64;
    else
      return make_f32;
  }
};

/// Distances that a call meets, key minus query, in whole positions.
struct DistanceRange {
  Index least = 0, most = 0;
};

/// A call that a parameter is computed for.
struct ComputedCall {
  Record spec;  ///< of the description
  Sizes sizes;
  DistanceRange distances;
};

/// A parameter of an encoding that is computed for each call, from others that are learned in its place: the table of
/// Swin V2 from its network, the rows of Transformer-XL from their projection.
struct ComputedInfo {
  template <class A>
  using Compute = std::function<void(const ComputedCall&, std::span<const ParameterMemory> from, A* numbers)>;
  template <class A>
  using Backward = std::function<void(const ComputedCall&, std::span<const ParameterMemory> from, const A* d_numbers)>;

  const EncodingInfo* encoding = nullptr;  ///< whose parameter it is
  std::string gives;                       ///< the parameter's name
  std::vector<ParameterInfo> from;         ///< what it is computed from; no extent of theirs is a member of the spec
  bool by_distance = false;                ///< it depends on the distances of the call
  std::function<Record(const ComputedCall&)> encoding_spec = {};  ///< null: the description's
  std::function<Index(const ComputedCall&)> any_extent = {};      ///< what an extent is that may be any
  Compute<float> compute_f32 = {};                                ///< writes the parameter's numbers, row-major
  Compute<double> compute_f64 = {};
  Backward<float> backward_f32 = {};  ///< adds to the gradients of `from`, from that of the parameter
  Backward<double> backward_f64 = {};

  BEARING_EXPORT const ParameterInfo& parameter() const;
  /// The spec of the encoding.
  BEARING_EXPORT Record spec_of(const ComputedCall& call) const;
  /// Of the parameter. An extent is less than 1 where the spec does not tell it.
  BEARING_EXPORT std::vector<Index> shape(const ComputedCall& call) const;

  template <class A>
  const Compute<A>& compute() const {
    if constexpr (std::is_same_v<A, double>)
      return compute_f64;
    else
      return compute_f32;
  }
  template <class A>
  const Backward<A>& backward() const {
    if constexpr (std::is_same_v<A, double>)
      return backward_f64;
    else
      return backward_f32;
  }
};

/// Who published an encoding.
struct Paper {
  std::string authors;
  int year = 0;
  std::string source;  ///< "arXiv 1910.10683", or where it was published
};

namespace inspect {
struct Specimen;
struct SpecimenOptions;
}  // namespace inspect

/// What Python calls a type: "int", "Sequence[float]", "Literal['half', 'interleaved']".
BEARING_EXPORT std::string python_type(const ValueType& type);

/// A name of an encoding, and the values of its spec's members that the name stands for.
struct Description {
  std::string name;                  ///< "t5_causal"
  std::vector<std::string> aliases;  ///< other spellings
  std::string title, does;           ///< "T5 buckets, causal"; what it does, in a few words
  Paper paper;
  std::string home;                        ///< its header and source: "t5"
  const EncodingInfo* encoding = nullptr;  ///< null: none
  /// The spec of a model of that size, with what the name stands for.
  std::function<Record(const inspect::SpecimenOptions&)> spec = {};
  /// An example; `spec` may be empty, for the one above. Throws what the encoding's constructors throw.
  std::function<inspect::Specimen(const inspect::SpecimenOptions&, const Record& spec)> specimen = {};
  std::string page = {};                         ///< docs/encodings/PAGE.md: "t5"
  const ComputedInfo* computed = nullptr;        ///< null: nothing is computed
  std::vector<const EncodingInfo*> beside = {};  ///< other terms of the same model, where their parameters are given

  /// All that a model of that name may hold: what the encoding has, what is learned in place of what is computed, and
  /// what the terms beside it have.
  BEARING_EXPORT std::vector<const ParameterInfo*> parameters() const;
  /// By name or alias, in any case, with - and spaces as _.
  BEARING_EXPORT bool is(std::string_view name) const;
};

/// All that is described.
class BEARING_EXPORT Registry {
 public:
  /// In the order of the sites: input, query/key, score, none.
  const std::vector<Description>& descriptions() const { return descriptions_; }
  const std::deque<RecordType>& records() const { return records_; }
  const std::deque<EncodingInfo>& encodings() const { return encodings_; }
  const std::deque<ComputedInfo>& computed() const { return computed_; }
  /// Functions that belong to no record alone.
  const std::deque<FunctionInfo>& functions() const { return functions_; }

  /// Null if there is none.
  const RecordType* record(std::string_view name) const;
  const RecordType* record(std::type_index type) const;
  const EncodingInfo* encoding(std::string_view name) const;
  /// By name or alias, as Description::is().
  const Description* find(std::string_view name) const;

 private:
  friend class Describer;

  std::vector<Description> descriptions_;
  std::deque<RecordType> records_;
  std::deque<EncodingInfo> encodings_;
  std::deque<ComputedInfo> computed_;
  std::deque<FunctionInfo> functions_;
};

BEARING_EXPORT const Registry& registry();

}  // namespace bearing
