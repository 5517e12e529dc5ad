#pragma once

#include <functional>
#include <string>
#include <variant>
#include <vector>

// A command as data: the parser, the help, the completion scripts, `bearing help --json` and the tests all read it.

namespace bearing::tool {

/// What an option's value is. It decides how the value is checked and what completes it.
enum class Takes {
  nothing,   ///< a flag
  text,      ///< anything: a number, JSON
  word,      ///< one of the option's words
  words,     ///< some of them, with commas between
  encoding,  ///< a name of the catalog
  spec,      ///< a name with its numbers, NAME:KEY=VALUE,…
  input,     ///< a file that is read
  output,    ///< a file that is written: no two may be one
};

struct Option {
  std::string names;  ///< "--q", "-o,--out"; without dashes it is positional
  std::string type;   ///< what the help calls the value
  std::string help;
  Takes takes = Takes::text;
  std::variant<bool*, std::string*, std::vector<std::string>*> value = {};
  std::vector<std::string> words = {};
  bool required = false;
  std::string listed = {};  ///< the words as an error lists them, if not one after the other

  /// "--out" of "-o,--out"; "FILE" of "FILE".
  std::string name() const { return names.substr(names.find(',') + 1); }  // npos + 1 is 0
  bool positional() const { return names[0] != '-'; }
};

struct Command {
  std::string name, summary;
  std::string footer = {};  ///< of the help: remarks and examples
  std::vector<Option> options = {};
  std::function<void()> run = {};

  Option& flag(const char* names, bool& value, const char* help) {
    return options.emplace_back(Option{names, "", help, Takes::nothing, &value});
  }
  Option& text(const char* names, std::string& value, const char* type, const char* help) {
    return options.emplace_back(Option{names, type, help, Takes::text, &value});
  }
  Option& word(const char* names, std::string& value, const char* type, std::vector<std::string> words,
               const char* help) {
    return options.emplace_back(Option{names, type, help, Takes::word, &value, std::move(words)});
  }
  Option& input(const char* names, std::string& value, const char* type, const char* help) {
    return options.emplace_back(Option{names, type, help, Takes::input, &value});
  }
  Option& output(const char* names, std::string& value, const char* help) {
    return options.emplace_back(Option{names, "FILE", help, Takes::output, &value});
  }
};

}  // namespace bearing::tool
