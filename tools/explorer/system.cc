#include <sys/stat.h>

#include <hwy/targets.h>
#include <bearing/error.hpp>
#include <bearing/gguf.hpp>
#include <bearing/npy.hpp>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>
#include <typeinfo>

#include "text.hpp"

// What a page has in place of an operating system: no files, and exceptions that end the call. The page reads the text
// and goes on with a fresh instance.

extern "C" {

const char* bearing_error_text = nullptr;

/// Why the last call ended; null: it did not say.
[[clang::export_name("error")]] const char* bearing_error() { return bearing_error_text; }

void* __cxa_allocate_exception(std::size_t bytes) { return std::malloc(bytes); }
void __cxa_free_exception(void* memory) { std::free(memory); }

/// All that is thrown here is a std::exception, which stands first in it.
[[noreturn]] void __cxa_throw(void* thrown, std::type_info*, void (*)(void*)) {
  std::string what = static_cast<std::exception*>(thrown)->what();
  for (const auto* naming = bearing::text::namings; naming != nullptr; naming = naming->outer) {
    what = bearing::text::renamed(naming->function, what);
  }
  bearing_error_text = (new std::string(what))->c_str();  // the instance ends with it
  __builtin_trap();
}

std::uintptr_t __stack_chk_guard = 0x5bd1e995;
[[noreturn]] void __stack_chk_fail() { __builtin_trap(); }

/// In place of libc++abi's, which prints.
[[noreturn]] void abort_message(const char* format, ...) {
  bearing_error_text = format;
  __builtin_trap();
}

// Tables of types' own functions, which only casts between types call: of libc++abi's, the page needs the addresses
// alone.
const void* _ZTVN10__cxxabiv117__class_type_infoE[3];
const void* _ZTVN10__cxxabiv120__si_class_type_infoE[3];
const void* _ZTVN10__cxxabiv121__vmi_class_type_infoE[3];

// No file can be opened.
std::FILE* fopen(const char*, const char*) { return errno = ENOENT, nullptr; }
int fclose(std::FILE*) { return 0; }
std::size_t fread(void*, std::size_t, std::size_t, std::FILE*) { return 0; }
int ferror(std::FILE*) { return 1; }
// Nothing is printed: libc++ would say why it ends.
int fprintf(std::FILE*, const char* format, ...) {
  bearing_error_text = format;
  __builtin_trap();
}
/// Of errors without a name alone.
int snprintf(char* to, std::size_t size, const char* format, ...) {
  if (size > 0) *to = 0;
  return static_cast<int>(std::strlen(format));
}
_Noreturn void abort() { __builtin_trap(); }
char* getenv(const char*) { return nullptr; }
int stat(const char*, struct stat*) { return errno = ENOENT, -1; }

}  // extern "C"

namespace hwy {
int64_t SupportedTargets() { return HWY_TARGETS; }
}  // namespace hwy

namespace bearing {
NpyArray read_npy(const std::string& path) { throw ConfigError(path + ": cannot be read: a page has no files"); }
Model read_model_file(const std::string& path) { throw ConfigError(path + ": cannot be read: a page has no files"); }
}  // namespace bearing
