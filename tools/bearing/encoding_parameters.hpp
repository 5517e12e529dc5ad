#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "encoding_spec.hpp"

// Parameters of an encoding from .npy files, whose shapes have to be what the spec, the call and each other ask for.

namespace bearing::tool {

/// Of numbers that lie row by row.
std::vector<Index> row_major_strides(const std::vector<Index>& shape);

template <class A>
class ParameterReader {
 public:
  ParameterReader(Said& said, const CallShape& call, CallEncodings<A>& into);

  /// Takes the parameters' keys from the text: KEY=FILE and d_KEY=FILE.
  void ask_for(std::span<const ParameterInfo> parameters);
  /// Whether the text names a file for a parameter that was asked for.
  bool has_file(const ParameterInfo& parameter) const;
  /// What extents may depend on.
  const Sizes& sizes() const { return sizes_; }

  /// A parameter that was asked for. A member of the spec that an extent is, and that the text does not give, is read
  /// from the file's shape. Throws ShapeError where there has to be a file, naming its shape, ConfigError for a file of
  /// another one.
  ParameterMemory memory(const ParameterInfo& parameter, Record& spec, bool optional = false);
  /// Throws where the spec does not tell the extents of a parameter that no file holds.
  void check_extents(const ParameterInfo& parameter, const Record& spec) const;
  /// The size of an extent in the files; 0 if none has it.
  Index met(const std::string& extent) const;

 private:
  struct Files {
    std::optional<std::string> value, gradient;
  };

  bool readable(const Extent& extent, const Record& spec) const;
  void ask_for_members(const Extent& extent, const Record& spec) const;
  Index size(const Extent& extent, const Record& spec) const;
  std::string extents_text(const ParameterInfo& parameter, const Record& spec) const;
  std::vector<Index> fitted_shape(const ParameterInfo& parameter, const std::string& file, std::vector<Index> shape,
                                  Record& spec);

  Said& said_;
  const CallShape& call_;
  CallEncodings<A>& into_;
  Sizes sizes_;
  std::map<std::string, Files> files_;
  std::map<std::string, Index> met_;
  std::vector<std::string> read_ = {"heads", "dim",
                                    "head_dim"};  // members that no file says: the call's, and those read
};

}  // namespace bearing::tool
