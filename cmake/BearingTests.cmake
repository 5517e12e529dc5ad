find_package(GTest REQUIRED)
include(GoogleTest)

file(GLOB_RECURSE bearing_test_files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/*_test.cc)
set_property(GLOBAL PROPERTY bearing_tests_without_program ${bearing_test_files})

# bearing_find_tests(OUT NAME …): the files NAME_test.cc, wherever they stand in src/.
function(bearing_find_tests out)
  get_property(without GLOBAL PROPERTY bearing_tests_without_program)
  set(found "")
  foreach(name ${ARGN})
    set(files ${bearing_test_files})
    list(FILTER files INCLUDE REGEX "/${name}_test\\.cc$")
    list(LENGTH files count)
    if(NOT count EQUAL 1)
      message(FATAL_ERROR "${name}_test.cc must stand in src/ once, is there ${count} times: ${files}")
    endif()
    list(APPEND found ${files})
  endforeach()
  list(REMOVE_ITEM without ${found})
  set_property(GLOBAL PROPERTY bearing_tests_without_program ${without})
  set(${out} ${found} PARENT_SCOPE)
endfunction()

# Fails for a test file that no program has, which would be a test that nobody runs.
function(bearing_every_test_has_a_program)
  get_property(without GLOBAL PROPERTY bearing_tests_without_program)
  if(without)
    message(FATAL_ERROR "no bearing_test() names ${without}")
  endif()
endfunction()

# bearing_test(PROGRAM_test TESTS NAME … SOURCES … LIBRARIES …): one GoogleTest program of the files NAME_test.cc in src/ (by
# default PROGRAM_test.cc) or of the sources given; every TEST in it is a ctest of its own name, labelled with the program's.
# BEARING_TEST_FLAGS: what these programs, and what they share, are compiled with besides; presets set it.
# BEARING_TESTS_LEFT_OUT: the programs that a build does without, as another one has them.
function(bearing_test target)
  cmake_parse_arguments(arg "" "" "TESTS;SOURCES;LIBRARIES" ${ARGN})
  if(NOT arg_TESTS AND NOT arg_SOURCES)
    string(REGEX REPLACE "_test$" "" arg_TESTS ${target})
  endif()
  bearing_find_tests(tests ${arg_TESTS})
  if(target IN_LIST BEARING_TESTS_LEFT_OUT)
    return()
  endif()
  add_executable(${target} ${tests} ${arg_SOURCES})
  bearing_defaults(${target})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
  target_compile_definitions(${target} PRIVATE BEARING_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  target_link_libraries(${target} PRIVATE bearing::bearing bearing_test_support ${arg_LIBRARIES} GTest::gtest GTest::gtest_main)
  target_compile_options(${target} PRIVATE ${BEARING_TEST_FLAGS})
  gtest_discover_tests(${target} DISCOVERY_TIMEOUT 60 PROPERTIES LABELS ${target})
endfunction()
