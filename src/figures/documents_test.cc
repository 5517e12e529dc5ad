#include <gtest/gtest.h>
#include <bearing/figures.hpp>
#include <set>

namespace bearing::inspect {
namespace {

TEST(DocumentFigures, HaveNamesOfTheirOwnInThreeDocuments) {
  std::set<std::string> names, documents;
  for (const DocumentFigure& one : document_figures()) {
    EXPECT_TRUE(names.insert(one.document + "/" + one.name).second) << one.name;
    EXPECT_EQ(one.name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-"), std::string::npos) << one.name;
    EXPECT_FALSE(one.says.empty()) << one.name;
    documents.insert(one.document);
  }
  EXPECT_EQ(documents, (std::set<std::string>{"000", "001", "002"}));
}

TEST(DocumentFigures, AreOfKindsAndEncodingsThatExist) {
  for (const DocumentFigure& one : document_figures()) {
    EXPECT_NE(find_figure_kind(one.kind), nullptr) << one.name << ": " << one.kind;
    for (const std::string& encoding : one.encodings) {
      EXPECT_NE(find(encoding.substr(0, encoding.find(':'))), nullptr) << one.name << ": " << encoding;
    }
  }
}

}  // namespace
}  // namespace bearing::inspect
