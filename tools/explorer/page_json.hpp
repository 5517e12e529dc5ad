#pragma once

#include <bearing/view.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace bearing::explorer {

/// Writes JSON for the page. Lists and matrices of numbers are not text: {"at": byte, "count": n} says where the
/// doubles lie, and they must stay there until the page has read them. Members as JsonWriter's.
class PageJson {
 public:
  void begin_object() { open('{'); }
  void end_object() { close('}'); }
  void begin_array() { open('['); }
  void end_array() { close(']'); }
  void key(std::string_view name);

  void value(double number);  ///< null where it is no number, or infinite
  void value(Index number);
  void value(bool truth) { raw(truth ? "true" : "false"); }
  void value(std::string_view text);
  void value(const std::string& text) { value(std::string_view(text)); }
  void value(const char* text) { value(std::string_view(text)); }
  void null() { raw("null"); }

  template <class T>
  void member(std::string_view name, const T& content) {
    key(name);
    value(content);
  }
  template <class T>
  void list(std::string_view name, const std::vector<T>& all) {
    key(name);
    begin_array();
    for (const T& one : all) value(one);
    end_array();
  }
  void list(std::string_view name, const std::vector<double>& numbers);
  void matrix(std::string_view name, const std::vector<double>& numbers, Index cols);

  const std::string& text() const { return out_; }

 private:
  void open(char bracket);
  void close(char bracket);
  void separate();
  void raw(std::string_view text);

  std::string out_;
  bool first_ = true;  // nothing stands in the innermost bracket yet
};

}  // namespace bearing::explorer
