#pragma once

#include <bearing/view.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace bearing::tool {

/// Writes indented JSON, members in the order of the calls. Numbers take the shortest form that reads back, whatever
/// the locale; an infinity or a NaN, which JSON does not have, becomes null.
class JsonWriter {
 public:
  void begin_object() { open('{'); }
  void end_object() { close('}'); }
  void begin_array() { open('['); }
  void end_array() { close(']'); }
  void key(std::string_view name);

  void value(double number);
  void value(Index number);
  void value(bool truth) { raw(truth ? "true" : "false"); }
  void value(std::string_view text);
  void value(const char* text) { value(std::string_view(text)); }
  void null() { raw("null"); }

  template <class T>
  void member(std::string_view name, const T& content) {
    key(name);
    value(content);
  }
  /// Lists stand on one line.
  template <class T>
  void list(std::string_view name, const std::vector<T>& numbers) {
    key(name);
    list(numbers);
  }
  template <class T>
  void list(const std::vector<T>& numbers) {
    begin_array();
    ++inline_;
    for (const T& number : numbers) value(number);
    end_array();
    --inline_;
  }

  /// Rows of `cols` numbers, each a list.
  void matrix(std::string_view name, const std::vector<double>& numbers, Index cols) {
    key(name);
    begin_array();
    for (auto row = numbers.begin(); cols > 0 && row != numbers.end(); row += cols) {
      list(std::vector<double>(row, row + cols));
    }
    end_array();
  }

  /// The document so far, with a newline.
  std::string text() const { return out_ + '\n'; }

 private:
  void open(char bracket);
  void close(char bracket);
  void separate();
  void raw(std::string_view text);

  std::string out_;
  std::size_t depth_ = 0;
  int inline_ = 0;
  bool first_ = true;  // nothing stands in the innermost bracket yet
  bool after_key_ = false;
};

}  // namespace bearing::tool
