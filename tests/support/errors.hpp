#pragma once

#include <gtest/gtest.h>
#include <string>

namespace bearing::test {

/// body() throws exactly an Error, with this text.
template <class Error, class Body>
void expect_error(Body&& body, const std::string& text) {
  try {
    body();
    FAIL() << "nothing was thrown; wanted: " << text;
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()), text);
  } catch (const std::exception& error) {
    FAIL() << "another type was thrown: " << error.what();
  }
}

}  // namespace bearing::test
