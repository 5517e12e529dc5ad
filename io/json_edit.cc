#include "json_edit.hpp"

#include <algorithm>

namespace bearing::json {
namespace {

constexpr std::string_view blanks = " \t\r\n";

/// Walks over a text that is known to be JSON.
class Walker {
 public:
  Walker(std::string_view text, std::size_t at) : text_(text), at_(at) {}

  std::size_t at() const { return at_; }
  char next() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void step() { ++at_; }

  std::string space() {
    const std::size_t begin = at_;
    at_ = std::min(text_.find_first_not_of(blanks, at_), text_.size());
    return std::string(text_.substr(begin, at_ - begin));
  }

  /// A string, with its quotes.
  std::string_view string() {
    const std::size_t begin = at_++;
    while (at_ < text_.size() && text_[at_] != '"') at_ += text_[at_] == '\\' ? 2 : 1;
    at_ = std::min(at_ + 1, text_.size());
    return text_.substr(begin, at_ - begin);
  }

  std::string_view value() {
    const std::size_t begin = at_;
    if (next() == '"') return string();
    std::size_t open = 0;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '"') {
        string();
        continue;
      }
      if (open == 0 && (c == ',' || c == '}' || c == ']' || blanks.find(c) != blanks.npos)) break;
      ++at_;
      if (c == '{' || c == '[') ++open;
      if ((c == '}' || c == ']') && --open == 0) break;
    }
    return text_.substr(begin, at_ - begin);
  }

 private:
  std::string_view text_;
  std::size_t at_;
};

ObjectText read_object(std::string_view text, std::size_t begin) {
  ObjectText object;
  object.begin = begin;
  Walker walker(text, begin + 1);
  for (std::string lead = walker.space(); walker.next() == '"'; lead = walker.space()) {
    MemberText member{.lead = lead, .key = {}, .value = {}};
    const std::string_view quoted = walker.string();
    member.key = quoted.substr(1, quoted.size() - 2);
    const std::size_t colon = walker.at();
    walker.space(), walker.step(), walker.space();
    member.between = text.substr(colon, walker.at() - colon);
    member.value = walker.value();
    member.after = walker.space();
    object.members.push_back(std::move(member));
    if (walker.next() != ',') break;
    walker.step();
  }
  if (object.members.empty()) object.empty = std::string(text.substr(begin + 1, walker.at() - begin - 1));
  object.end = walker.at() + 1;
  return object;
}

/// "~1" and "~0" of a JSON pointer's part as they were.
std::string unescaped(std::string_view part) {
  std::string out;
  for (std::size_t i = 0; i < part.size(); ++i) {
    const bool escape = part[i] == '~' && i + 1 < part.size();
    out += escape ? (part[++i] == '1' ? '/' : '~') : part[i];
  }
  return out;
}

std::string line_of(const std::string& lead) {
  const std::size_t line = lead.rfind('\n');
  return line == lead.npos ? "" : lead.substr(line + 1);
}

}  // namespace

const MemberText* ObjectText::find(std::string_view key) const {
  const auto at =
      std::find_if(members.rbegin(), members.rend(), [&](const MemberText& member) { return member.key == key; });
  return at == members.rend() ? nullptr : &*at;
}

void ObjectText::remove(std::string_view key) {
  if (find(key) == nullptr) return;
  const std::string last = members.back().after, first = members.front().lead;
  std::erase_if(members, [&](const MemberText& member) { return member.key == key; });
  if (members.empty()) {
    empty = last;
    return;
  }
  members.front().lead = first;
  members.back().after = last;
}

void ObjectText::insert(std::size_t index, std::string_view key, std::string value) {
  MemberText member{.lead = {}, .key = std::string(key), .value = std::move(value)};
  if (members.empty()) {
    member.after = empty;
  } else {
    // The second member's space stands between two; the first one's follows the brace.
    const std::string first = members.front().lead;
    const std::string usual = members.size() > 1 ? members[1].lead : first.empty() ? " " : first;
    member.lead = index == 0 ? first : usual;
    member.between = members.front().between;
    if (index == 0) members.front().lead = usual;
    if (index == members.size()) {
      member.after = members.back().after;
      members.back().after.clear();
    }
  }
  members.insert(members.begin() + static_cast<std::ptrdiff_t>(index), std::move(member));
}

std::string ObjectText::indentation() const { return members.empty() ? "" : line_of(members.front().lead); }

std::string ObjectText::text() const {
  std::string out = "{" + (members.empty() ? empty : "");
  for (const MemberText& member : members) {
    if (&member != &members.front()) out += ',';
    out += member.lead + '"' + member.key + '"' + member.between + member.value + member.after;
  }
  return out + '}';
}

ObjectText parse_object_text(std::string_view object) { return read_object(object, object.find('{')); }

ObjectText object_text(std::string_view text, std::string_view pointer) {
  ObjectText object = read_object(text, text.find('{'));
  while (!pointer.empty()) {
    pointer.remove_prefix(1);  // "/"
    const std::string key = unescaped(pointer.substr(0, pointer.find('/')));
    pointer.remove_prefix(std::min(pointer.size(), pointer.find('/')));
    std::size_t at = object.begin + 1;
    std::size_t found = text.npos;
    for (const MemberText& member : object.members) {
      at += member.lead.size() + member.key.size() + 2 + member.between.size();
      if (member.key == key) found = at;
      at += member.value.size() + member.after.size() + 1;
    }
    if (found == text.npos) return {};
    object = read_object(text, found);
  }
  return object;
}

std::string text_with(std::string_view text, const ObjectText& object) {
  return std::string(text.substr(0, object.begin)) + object.text() + std::string(text.substr(object.end));
}

std::string object_of(const std::vector<Pair>& members, const std::string& indentation, const std::string& step) {
  const std::string line = indentation.empty() ? "" : "\n" + indentation + step;
  std::string out = "{";
  for (const Pair& member : members) {
    if (out.size() > 1) out += line.empty() ? ", " : ",";
    out += line + '"' + member.key + "\": " + member.value;
  }
  return out + (indentation.empty() || members.empty() ? "" : "\n" + indentation) + '}';
}

}  // namespace bearing::json
