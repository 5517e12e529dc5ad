#include "calls.hpp"

#include <algorithm>
#include <bearing/description.hpp>
#include <string_view>

namespace bearing::python {

namespace {

/// Of an array, or of a framework's name for a type.
ArrayKind kind_of_module(nb::handle x) {
  const auto module = nb::cast<std::string>(nb::handle(x.type()).attr("__module__"));
  if (module.starts_with("torch")) return ArrayKind::torch;
  if (module.starts_with("jax")) return ArrayKind::jax;
  return ArrayKind::numpy;
}

/// The first array of parameters among the encodings, or none.
nb::object first_parameter(const char* function, nb::handle encodings) {
  for (const Encoding* one : encodings_of(function, encodings)) {
    for (std::size_t p = 0; p < one->infos().size(); ++p) {
      if (one->reads(p)) return one->parameter(p);
    }
  }
  return nb::none();
}

}  // namespace

/// 'float32' and 'torch.float32' as frameworks print it, torch.float32; and what NumPy makes one of these types of:
/// numpy.dtype('float32'), numpy.float32, jax.numpy.float32, ml_dtypes.bfloat16, 'f4', 'half', float.
std::optional<DataType> type_called(nb::handle dtype) {
  const auto of_text = [](std::string_view text) -> std::optional<DataType> {
    for (const std::string_view owner : {"torch.", "numpy.", "jax.numpy."}) {
      if (text.starts_with(owner)) text.remove_prefix(owner.size());
    }
    for (const DataType type : {DataType::f64, DataType::f32, DataType::bf16, DataType::f16}) {
      if (text == name_of(type)) return type;
    }
    return {};
  };
  if (dtype.is_none()) return {};  // which NumPy takes for float64
  if (nb::isinstance<nb::str>(dtype) || kind_of_module(dtype) == ArrayKind::torch) {
    if (const auto type = of_text(text_of(dtype))) return type;
  }
  try {
    const nb::object made = nb::module_::import_("numpy").attr("dtype")(dtype);
    if (!nb::cast<bool>(made.attr("isnative"))) return {};
    return of_text(nb::cast<std::string>(made.attr("name")));
  } catch (const nb::python_error&) {
    return {};
  }
}

DataType type_named(const Argument& argument, nb::handle dtype) {
  if (const auto type = type_called(dtype)) return *type;
  argument.fail("float64, float32, bfloat16 or float16", nb::cast<std::string>(nb::repr(dtype)));
}

std::string renamed(std::string_view from, std::string_view to, std::string text) {
  if (text.starts_with(from)) text.replace(0, from.size(), to);
  return text;
}

void check_type(const Array& array, DataType type) {
  if (array.type() != type) array.argument().fail(name_of(type), name_of(array.type()));
}

void check_same_type(const Array& array, const Array& other, const char* as) {
  if (array.type() == other.type()) return;
  array.argument().fail(std::string(name_of(other.type())) + ", as " + as + " is", name_of(array.type()));
}

/// What others give attention under that name, and an encoding here; "" if it is nothing of theirs.
std::string parameter_called(const std::string& word) {
  for (const EncodingInfo& encoding : registry().encodings()) {
    for (const ParameterInfo& one : encoding.parameters) {
      if (std::ranges::find(one.elsewhere, word) == one.elsewhere.end()) continue;
      const std::string truth = one.for_truth.empty() ? "" : "; " + one.for_truth + " takes truth values";
      return ": " + encoding.name + "(" + one.name + "=…) among the encodings takes it" + truth;
    }
  }
  return "";
}

void fail_unknown(const char* function, const std::string& word) {
  // What others call it, and what to write here; linear attention has the first ones only.
  constexpr std::size_t of_linear = 5;
  constexpr std::array<std::array<std::string_view, 2>, 18> elsewhere{{
      {"is_causal", "mask='causal' or mask='none' says it"},
      {"causal", "mask='causal' or mask='none' says it"},
      {"positions", "q_positions and k_positions have them"},
      {"q_at", "it is q_positions"},
      {"k_at", "it is k_positions"},
      {"key_padding_mask", "key_mask= has True where a key may be seen"},
      {"dropout_p", "nothing is dropped"},
      {"dropout", "nothing is dropped"},
      {"enable_gqa", "the numbers of heads say it"},
      {"softmax_scale", "it is scale"},
      {"sm_scale", "it is scale"},
      {"window_size", "it is window=(before, after)"},
      {"sliding_window", "it is window=(before, after)"},
      {"softcap", "it is soft_cap"},
      {"logits_soft_cap", "it is soft_cap"},
      {"cu_seqlens_q", "it is q_starts"},
      {"cu_seqlens_k", "it is k_starts"},
      {"return_attn_probs", "return_lse gives the logarithms of the rows' sums"},
  }};
  std::string text = std::string("[") + function + "] has no argument " + word;
  const bool linear = std::string_view(function).starts_with("linear");
  for (std::size_t i = 0; i < (linear ? of_linear : elsewhere.size()); ++i) {
    if (elsewhere[i][0] == word) text += ": " + std::string(elsewhere[i][1]);
  }
  if (!linear) text += parameter_called(word);
  throw nb::type_error(text.c_str());
}

Wish wish_of(const char* function, nb::handle dtype, nb::handle like, nb::handle encodings) {
  Wish wish{ArrayKind::numpy, DataType::f32};
  const auto as = [&](nb::handle array, const char* name) {
    if (!nb::hasattr(array, "dtype")) {
      Argument{function, name}.fail("an array", nb::cast<std::string>(nb::repr(array)));
    }
    wish.kind = kind_of_module(array);
    if (dtype.is_none()) wish.type = type_named({function, name}, nb::object(array.attr("dtype")));
  };
  if (!like.is_none()) {
    as(like, "like");
  } else if (!dtype.is_none()) {
    wish.kind = kind_of_module(dtype);
  } else if (const nb::object parameter = first_parameter(function, encodings); !parameter.is_none()) {
    as(parameter, "encodings");
  }
  if (!dtype.is_none()) wish.type = type_named({function, "dtype"}, dtype);
  return wish;
}

std::vector<Index> extents_of(nb::handle positions) {
  std::vector<Index> all;
  if (positions.is_none() || PyLong_Check(positions.ptr())) return all;
  if (!nb::hasattr(positions, "shape") && !nb::isinstance<nb::sequence>(positions)) {
    all = Memory(positions, {"positions", "positions"}, {"an array", "an array"}).shape;  // one that has DLPack alone
  } else {
    nb::object array = nb::borrow(positions);
    if (!nb::hasattr(array, "shape")) array = nb::module_::import_("numpy").attr("asarray")(array);
    for (nb::handle extent : nb::object(array.attr("shape"))) all.push_back(nb::cast<Index>(extent));
  }
  if (all.size() == 3) all.erase(all.begin());
  return all;
}

Index length_of(const char* function, const char* name, nb::handle given, nb::handle positions) {
  if (!given.is_none()) {
    const auto length = Member<Index>::from(given, {function, name});
    if (length < 0) {
      throw RangeError(std::string("[") + function + "] " + name + ": must be at least 0, got " +
                       std::to_string(length));
    }
    return length;
  }
  const std::vector<Index> extents = extents_of(positions);
  if (extents.empty()) Argument{function, name}.fail("given, unless positions are an array", "None");
  return extents.back();
}

}  // namespace bearing::python
