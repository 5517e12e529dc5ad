#pragma once

#include <bearing/figures.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// A page in HTML that needs nothing else: no file, no address, and no script to be read.

namespace bearing::tool {

/// Pixels of a picture: where there is room, and on a telephone.
inline constexpr int wide_picture = 900, narrow_picture = 340;

/// A picture with its drawings as SVG elements, of which the page shows the one that fits.
struct PagePicture {
  inspect::Figure figure;
  std::string wide = {}, narrow = {};
};

/// A cell of a table; it is sorted by `order` where that says more than the text.
struct PageCell {
  std::string text;
  std::string order = {};
};

struct PageTable {
  std::string caption;
  std::vector<std::string> headings;
  std::vector<std::vector<PageCell>> rows;
  bool sortable = false;
};

/// Writes a page from top to bottom. All texts are plain: what HTML would take for more is escaped.
class HtmlPage {
 public:
  HtmlPage(std::string title, std::string subtitle) : title_(std::move(title)), subtitle_(std::move(subtitle)) {}

  /// A section of the page, which stands in its contents; it ends where the next one begins.
  void section(const std::string& id, std::string_view title, std::string_view role = {});
  /// A heading within a section.
  void heading(std::string_view text);
  void paragraph(std::string_view text);
  void command(std::string_view text);  ///< a line for a shell
  void list(const std::vector<std::string>& items);
  /// Labels with what they say.
  void facts(const std::vector<std::pair<std::string, std::string>>& facts);
  void table(const PageTable& table);
  /// The same behind a line that opens it.
  void hidden_table(const PageTable& table);
  void picture(const PagePicture& picture);

  /// The page so far, whole. `foot` is its last line.
  std::string text(std::string_view foot) const;

 private:
  struct Entry {
    std::string id, title;
  };
  std::string title_, subtitle_, body_;
  std::vector<Entry> contents_;
  bool sortable_ = false;
};

/// Text between tags, or in an attribute: &, <, > and quotes as entities, control characters as \xNN.
std::string html(std::string_view text);

/// The style of every page, and the script that makes tables sortable.
std::string_view page_style();
std::string_view page_script();

}  // namespace bearing::tool
