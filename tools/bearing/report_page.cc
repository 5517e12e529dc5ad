#include "report_page.hpp"

#include <fmt/format.h>

#include <utility>

#include "terminal.hpp"

namespace bearing::tool {

std::string html(std::string_view text) {
  std::string out;
  for (char c : printable(text)) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

void HtmlPage::section(const std::string& id, std::string_view title, std::string_view role) {
  if (!contents_.empty()) body_ += "</section>\n";
  contents_.push_back({id, std::string(title)});
  body_ += fmt::format("<section id=\"{0}\" aria-labelledby=\"{0}-title\"{1}>\n<h2 id=\"{0}-title\">{2}</h2>\n", id,
                       role.empty() ? "" : fmt::format(" class=\"{}\"", role), html(title));
}

void HtmlPage::heading(std::string_view text) { body_ += fmt::format("<h3>{}</h3>\n", html(text)); }

void HtmlPage::paragraph(std::string_view text) { body_ += fmt::format("<p>{}</p>\n", html(text)); }

void HtmlPage::command(std::string_view text) { body_ += fmt::format("<p><code>{}</code></p>\n", html(text)); }

void HtmlPage::list(const std::vector<std::string>& items) {
  body_ += "<ul>\n";
  for (const std::string& item : items) body_ += fmt::format("<li>{}</li>\n", html(item));
  body_ += "</ul>\n";
}

void HtmlPage::facts(const std::vector<std::pair<std::string, std::string>>& facts) {
  if (facts.empty()) return;
  body_ += "<dl>\n";
  for (const auto& [label, text] : facts) {
    body_ += fmt::format("<div><dt>{}</dt><dd>{}</dd></div>\n", html(label), html(text));
  }
  body_ += "</dl>\n";
}

void HtmlPage::table(const PageTable& table) {
  sortable_ = sortable_ || table.sortable;
  // The roles stay where a narrow page makes blocks of rows.
  body_ += fmt::format("<table role=\"table\"{}>\n<caption>{}</caption>\n<thead role=\"rowgroup\"><tr role=\"row\">",
                       table.sortable ? " class=\"sortable\"" : "", html(table.caption));
  for (const std::string& heading : table.headings) {
    body_ += fmt::format("<th scope=\"col\" role=\"columnheader\">{}</th>", html(heading));
  }
  body_ += "</tr></thead>\n<tbody role=\"rowgroup\">\n";
  for (const std::vector<PageCell>& row : table.rows) {
    body_ += "<tr role=\"row\">";
    for (std::size_t i = 0; i < row.size(); ++i) {
      const char* tag = i == 0 ? "th" : "td";
      body_ += fmt::format("<{} {} data-label=\"{}\"{}>{}</{}>", tag,
                           i == 0 ? "scope=\"row\" role=\"rowheader\"" : "role=\"cell\"", html(table.headings[i]),
                           row[i].order.empty() ? "" : fmt::format(" data-order=\"{}\"", html(row[i].order)),
                           html(row[i].text), tag);
    }
    body_ += "</tr>\n";
  }
  body_ += "</tbody>\n</table>\n";
}

void HtmlPage::hidden_table(const PageTable& shown) {
  body_ += fmt::format("<details><summary>{}</summary>\n", html(shown.caption));
  table(shown);
  body_ += "</details>\n";
}

void HtmlPage::picture(const PagePicture& picture) {
  body_ += fmt::format(
      "<figure>\n<div class=\"wide\">{}</div>\n<div "
      "class=\"narrow\">{}</div>\n<figcaption>{}</figcaption>\n</figure>\n",
      picture.wide, picture.narrow, html(picture.figure.text));
}

std::string HtmlPage::text(std::string_view foot) const {
  std::string out =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n"
      // Whatever a file's texts hold, the page asks nobody for anything.
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
      "script-src 'unsafe-inline'; img-src data:\">\n<link rel=\"icon\" href=\"data:,\">\n";
  out += fmt::format("<title>{}</title>\n<style>\n{}</style>\n</head>\n<body>\n", html(title_), page_style());
  out += fmt::format(
      "<a class=\"skip\" href=\"#main\">Skip to the content</a>\n<header>\n<h1>{}</h1>\n<p>{}</p>\n</header>\n",
      html(title_), html(subtitle_));
  out += "<nav aria-label=\"Contents\">\n<ul>\n";
  for (const Entry& entry : contents_) {
    out += fmt::format("<li><a href=\"#{}\">{}</a></li>\n", entry.id, html(entry.title));
  }
  out += "</ul>\n</nav>\n<main id=\"main\" tabindex=\"-1\">\n" + body_ + (contents_.empty() ? "" : "</section>\n");
  out += fmt::format("</main>\n<footer>\n<p>{}</p>\n</footer>\n", html(foot));
  if (sortable_) out += fmt::format("<script>\n{}</script>\n", page_script());
  return out + "</body>\n</html>\n";
}

}  // namespace bearing::tool
