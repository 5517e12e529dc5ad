#pragma once

#include <bearing/export.hpp>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace bearing {

/// Whether two paths name one file: the same spelling, another one (./x), or a link of either kind. Of files that are
/// not there yet, names in one folder that differ only in the case of ASCII letters count as one: some file systems do
/// not tell them apart. Throws ConfigError for a loop of links.
BEARING_EXPORT bool same_file(const std::string& a, const std::string& b);

/// Files that are written together. add() writes a file where it has no name yet, commit() puts all of them in their
/// places. Until then the old files stay as they are. Where the system can (Linux' O_TMPFILE) nothing is left behind,
/// however the process ends; elsewhere a file .bearing-* in the folder is removed with this object.
///
/// A new file gets the mode of the file that it replaces, and its owner where that is allowed. Symbolic links are
/// followed; of a file with several hard links this name gets the new contents, the others keep the old.
class BEARING_EXPORT WholeFiles {
 public:
  /// `between` is called before each piece of at most 1 MiB is written; what it throws ends the writing.
  explicit WholeFiles(std::function<void()> between = {});
  ~WholeFiles();
  WholeFiles(const WholeFiles&) = delete;
  WholeFiles& operator=(const WholeFiles&) = delete;

  /// One more file: the parts, one after the other. Throws ConfigError if it cannot be written, is not a regular file,
  /// or is a file that was added before.
  void add(const std::string& path, const std::vector<std::string_view>& parts);

  /// All files take their places; nothing is left to commit. Throws ConfigError if one of them cannot, and puts those
  /// before it back.
  void commit();

 private:
  class Pending;
  std::function<void()> between_;
  std::vector<std::unique_ptr<Pending>> files_;
};

}  // namespace bearing
