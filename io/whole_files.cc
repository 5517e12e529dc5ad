#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bearing/whole_files.hpp>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "posix.hpp"

namespace bearing {
namespace {

using posix::fail;
using posix::fail_errno;
using posix::KeepErrno;

constexpr const char* cannot = "cannot be written";

/// The path with its last name's links followed: renaming onto a link would replace the link.
std::string followed(const std::string& path) {
  posix::check_path(path);
  constexpr int most_links = 40;  // Linux' own limit
  std::filesystem::path target(path);
  std::error_code ignored;
  for (int links = 0; std::filesystem::is_symlink(target, ignored); ++links) {
    if (links == most_links) fail_errno(path, cannot, ELOOP);
    target = target.parent_path() / std::filesystem::read_symlink(target, ignored);
  }
  return target.string();
}

std::string folder_of(const std::string& target) {
  const std::size_t slash = target.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : target.substr(0, slash);
}

/// The file itself, or of one that is not there its folder and name.
struct Identity {
  dev_t device = 0;
  ino_t inode = 0;
  std::string name;
  bool operator==(const Identity&) const = default;
};

Identity identity_of(const std::string& path) {
  const std::string target = followed(path);
  struct stat status {};
  if (::stat(target.c_str(), &status) == 0) return {status.st_dev, status.st_ino, ""};
  std::string name = target.substr(target.rfind('/') + 1);  // npos + 1 is 0
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  if (::stat(folder_of(target).c_str(), &status) == 0) return {status.st_dev, status.st_ino, name};
  return {0, 0, target};
}

std::string temporary_name(const std::string& folder) {
  static std::atomic<unsigned> counter{0};
  return folder + "/.bearing-" + std::to_string(::getpid()) + "-" + std::to_string(counter++);
}

/// Calls attempt(name) with new names until it does not find one taken. False with errno if it fails otherwise.
template <class Attempt>
bool with_new_name(const std::string& folder, std::string& name, const Attempt& attempt) {
  for (int i = 0; i < 100; ++i) {
    std::string candidate = temporary_name(folder);
    if (attempt(candidate)) {
      name = std::move(candidate);
      return true;
    }
    if (errno != EEXIST) return false;
  }
  return false;
}

}  // namespace

bool same_file(const std::string& a, const std::string& b) {
  const KeepErrno keep;
  return identity_of(a) == identity_of(b);
}

/// One file on its way to its place.
class WholeFiles::Pending {
 public:
  explicit Pending(const std::string& path) : path_(path), target_(followed(path)), folder_(folder_of(target_)) {
    replaces_ = ::stat(target_.c_str(), &old_) == 0;
    if (replaces_ && !S_ISREG(old_.st_mode)) fail(path_, "cannot be written: it exists and is not a regular file");
    if (replaces_ && ::faccessat(AT_FDCWD, target_.c_str(), W_OK, AT_EACCESS) != 0) fail_errno(path_, cannot);
    if (target_.empty() || target_.ends_with('/')) fail_errno(path_, cannot, ENOENT);  // no name to give it
    if (!open_unnamed() && !open_named()) fail_errno(path_, cannot);
    try {
      if (replaces_) take_mode();
    } catch (...) {
      discard();
      throw;
    }
  }
  Pending(const Pending&) = delete;
  Pending& operator=(const Pending&) = delete;
  ~Pending() { discard(); }

  const std::string& path() const { return path_; }

  void write(std::string_view data, const std::function<void()>& between) {
    constexpr std::size_t piece = std::size_t{1} << 20;
    while (!data.empty()) {
      if (between) between();
      const ssize_t n = ::write(fd_, data.data(), std::min(data.size(), piece));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) fail_errno(path_, cannot);
      data.remove_prefix(static_cast<std::size_t>(n));
    }
  }

  /// Gives the file a name, and closes it where it had one: some file systems report a full disk only then.
  void finish() {
    if (name_.empty()) {
      const std::string open_file = "/proc/self/fd/" + std::to_string(fd_);
      const auto link = [&](const std::string& name) {
        return ::linkat(AT_FDCWD, open_file.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0;
      };
      if (!with_new_name(folder_, name_, link)) fail_errno(path_, cannot);
    }
    if (::close(std::exchange(fd_, -1)) != 0) fail_errno(path_, cannot);
  }

  /// Takes the place. With `keep_old`, put_back() can undo it until release().
  void take_place(bool keep_old) {
    // Where there are no hard links (FAT), or not of this file, it cannot be undone.
    if (keep_old && replaces_) {
      with_new_name(folder_, old_name_,
                    [&](const std::string& name) { return ::link(target_.c_str(), name.c_str()) == 0; });
    }
    if (std::rename(name_.c_str(), target_.c_str()) != 0) fail_errno(path_, cannot);
    name_.clear();
    placed_ = true;
  }

  void put_back() {
    if (!placed_) return;
    if (!old_name_.empty() && std::rename(old_name_.c_str(), target_.c_str()) == 0) old_name_.clear();
    if (!replaces_) ::unlink(target_.c_str());
  }

  /// Removes what has no place.
  void discard() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
    for (std::string* name : {&name_, &old_name_}) {
      if (!name->empty()) ::unlink(std::exchange(*name, {}).c_str());
    }
  }

 private:
  mode_t first_mode() const { return replaces_ ? 0600 : 0666; }

  bool open_unnamed() {
#ifdef O_TMPFILE
    fd_ = ::open(folder_.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, first_mode());
    // Without /proc it could not be given a name later.
    if (fd_ >= 0 && ::access(("/proc/self/fd/" + std::to_string(fd_)).c_str(), F_OK) == 0) return true;
    discard();
#endif
    return false;
  }

  bool open_named() {
    return with_new_name(folder_, name_, [&](const std::string& name) {
      fd_ = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, first_mode());
      return fd_ >= 0;
    });
  }

  void take_mode() {
    mode_t mode = old_.st_mode & 07777;
    // Only the file's owner may run as the owner: without the owner, no set-user-ID.
    if (::fchown(fd_, old_.st_uid, old_.st_gid) != 0) mode &= 0777;
    struct stat now {};
    if (::fchmod(fd_, mode) != 0 && (::fstat(fd_, &now) != 0 || (now.st_mode & 07777) != mode)) {
      fail_errno(path_, "cannot be given the mode of the file that it replaces");
    }
  }

  std::string path_, target_, folder_;
  std::string name_;      // while it has one beside its place
  std::string old_name_;  // of the file that it replaced, until that is no longer needed
  struct stat old_ {};
  bool replaces_ = false, placed_ = false;
  int fd_ = -1;
};

WholeFiles::WholeFiles(std::function<void()> between) : between_(std::move(between)) {}

WholeFiles::~WholeFiles() {
  const KeepErrno keep;
  files_.clear();
}

void WholeFiles::add(const std::string& path, const std::vector<std::string_view>& parts) {
  const KeepErrno keep;
  for (const auto& other : files_) {
    if (same_file(path, other->path())) fail(path, "is the same file as " + other->path());
  }
  auto file = std::make_unique<Pending>(path);
  for (const std::string_view part : parts) file->write(part, between_);
  files_.push_back(std::move(file));
}

void WholeFiles::commit() {
  const KeepErrno keep;
  for (const auto& file : files_) file->finish();
  try {
    for (const auto& file : files_) file->take_place(file != files_.back());
  } catch (...) {
    for (const auto& file : files_) file->put_back();
    throw;
  }
  files_.clear();  // with the names of the old ones
}

}  // namespace bearing
