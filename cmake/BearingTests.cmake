find_package(GTest REQUIRED)
include(GoogleTest)

# bearing_test(NAME SOURCES … LIBRARIES …): one GoogleTest program; every TEST in it is a ctest of its own name, labelled
# with the program's.
# BEARING_TEST_FLAGS: what these programs, and what they share, are compiled with besides; presets set it.
function(bearing_test target)
  cmake_parse_arguments(arg "" "" "SOURCES;LIBRARIES" ${ARGN})
  add_executable(${target} ${arg_SOURCES})
  bearing_defaults(${target})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
  target_compile_definitions(${target} PRIVATE BEARING_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  target_link_libraries(${target} PRIVATE bearing::bearing ${arg_LIBRARIES} GTest::gtest GTest::gtest_main)
  target_compile_options(${target} PRIVATE ${BEARING_TEST_FLAGS})
  gtest_discover_tests(${target} DISCOVERY_TIMEOUT 60 PROPERTIES LABELS ${target})
endfunction()
