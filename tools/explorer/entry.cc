#include <cstdlib>
#include <string>

#include "answers.hpp"

// The doors from JavaScript: a request is JSON text, and so is the answer, except for lists of numbers (page_json.hpp).

namespace bearing::explorer {
namespace {

/// Leaves the answer where the page can read it until it asks again.
PageJson& answer() {
  static PageJson* last = nullptr;
  delete last;
  last = new PageJson;
  return *last;
}

void ask(const std::string& text, PageJson& to) {
  json::Notes notes("request");
  const json::Document document(text, notes);
  const json::Object request(document.root(), "", notes);
  const std::string what = request.text("ask").value_or("");
  if (what == "catalog") return answer_catalog(to);
  if (what == "figure") return answer_figure(request, to);
  if (what == "saying") return answer_saying(request, to);
  if (what == "model") return answer_model(request, to);
  if (what == "table") return answer_table(request, to);
  request.wrong("ask", "catalog, figure, saying, model or table");
}

}  // namespace
}  // namespace bearing::explorer

extern "C" {

/// Room for a request's text.
[[clang::export_name("room")]] char* bearing_room(std::size_t bytes) { return static_cast<char*>(std::malloc(bytes)); }

/// Takes the room back; gives the answer's text, which ends with a zero.
[[clang::export_name("ask")]] const char* bearing_ask(char* request, std::size_t bytes) {
  std::string text(request, bytes);
  std::free(request);
  bearing::explorer::PageJson& answer = bearing::explorer::answer();
  bearing::explorer::ask(text, answer);
  return answer.text().c_str();
}

}  // extern "C"
