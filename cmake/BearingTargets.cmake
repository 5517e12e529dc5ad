# BEARING_PLAIN_FLAGS: what sources without kernels are compiled with besides; presets set it.
# BEARING_ROTATION_FLAGS: what rotations and their frequencies of 150 bits are compiled with besides. Where nothing is optimised,
# tests spend most of their time in them.
# BEARING_CHECKED_FLAGS: what every target is compiled with besides, but those in BEARING_AS_IN_DEV, which a compiler cache
# knows from the preset dev.

# What every target of this project shares: C++20 without extensions, warnings, no contraction of products and sums.

function(bearing_defaults target)
  target_compile_features(${target} PUBLIC cxx_std_20)
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF CXX_VISIBILITY_PRESET hidden
                                             VISIBILITY_INLINES_HIDDEN ON POSITION_INDEPENDENT_CODE ON
                                             UNITY_BUILD OFF)  # kernels are compiled once per instruction set
  # Numbers are exact whatever the flags of the project around this one.
  target_compile_options(${target} PRIVATE -fno-fast-math)
  # The same bits on every instruction set: a·b + c is two roundings unless the source says fma.
  target_compile_options(${target} PRIVATE -ffp-contract=off)
  # GNU's unique symbols would keep a shared library from being unloaded.
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fno-gnu-unique>)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wconversion -Wshadow -Wpedantic)
  if(BEARING_WARNINGS_AS_ERRORS)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  if(target IN_LIST BEARING_AS_IN_DEV)
    set_target_properties(${target} PROPERTIES CXX_COMPILER_LAUNCHER ccache DISABLE_PRECOMPILE_HEADERS ON)
  else()
    target_compile_options(${target} PRIVATE ${BEARING_CHECKED_FLAGS})
  endif()
endfunction()

# bearing_simd_targets(TARGET): the instruction sets that its kernels are compiled for. Where Highway is newer than 1.0.3 they are
# the same: its targets above AVX3_DL would double the kernels' code, and with SSE2 disabled the scalar target stays the baseline
# of x86-64. On arm64 one NEON is enough, that without AES, which no kernel needs. Vectors are kept in arrays and structs, which
# C++ allows where their length is known: not SVE's, not RISC-V's.
function(bearing_simd_targets target)
  if(NOT hwy_VERSION AND hwy_SOURCE_DIR)  # sources, which the project around this one has fetched
    set(lines "")
    foreach(header highway base)
      if(EXISTS ${hwy_SOURCE_DIR}/hwy/${header}.h)
        file(STRINGS ${hwy_SOURCE_DIR}/hwy/${header}.h found REGEX "^#define HWY_(MAJOR|MINOR|PATCH) [0-9]")
        list(APPEND lines ${found})
      endif()
    endforeach()
    if(lines MATCHES "MAJOR ([0-9]+).*MINOR ([0-9]+).*PATCH ([0-9]+)")
      set(hwy_VERSION ${CMAKE_MATCH_1}.${CMAKE_MATCH_2}.${CMAKE_MATCH_3})
    endif()
  endif()
  set(newer OFF)  # of unknown version, too
  if(NOT hwy_VERSION OR hwy_VERSION VERSION_GREATER 1.0.3)
    set(newer ON)
  endif()
  set(disabled "")
  if(BEARING_SCALAR_ONLY)
    target_compile_definitions(${target} PRIVATE HWY_COMPILE_ONLY_SCALAR)
  elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
    set(disabled HWY_SVE HWY_SVE2 HWY_SVE_256 HWY_SVE2_128)
    if(newer)
      list(APPEND disabled HWY_NEON "(1LL<<26)")  # NEON_BF16, which not all of them name
    endif()
  elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "riscv")
    set(disabled HWY_RVV)
  else()
    if(BEARING_WITHOUT_AVX3)
      set(disabled HWY_SSSE3 HWY_SSE4 HWY_AVX3 HWY_AVX3_DL)
    elseif(NOT BEARING_ALL_TARGETS)
      set(disabled HWY_SSSE3 HWY_SSE4 HWY_AVX3_DL)
    elseif(BEARING_WITHOUT_SSSE3)
      set(disabled HWY_SSSE3)
    endif()
    if(newer)
      list(APPEND disabled "(HWY_AVX3_DL-1)" "(1LL<<14)")  # all above AVX3_DL, and SSE2; not all of them name these
    endif()
  endif()
  if(disabled)
    list(JOIN disabled "|" disabled)
    target_compile_definitions(${target} PRIVATE "HWY_DISABLED_TARGETS=(${disabled})")
  endif()
endfunction()

# bearing_precompile(TARGET HEADER …): parses these headers, and the standard ones that most sources include, once. Not under
# a compiler cache, which keeps each result instead, and whose builds see that every source includes what it needs.
set(precompile ${PROJECT_IS_TOP_LEVEL})
if(CMAKE_CXX_COMPILER_LAUNCHER)
  set(precompile OFF)
endif()
option(BEARING_PRECOMPILED_HEADERS "Precompile headers; by default where no compiler launcher is set" ${precompile})
function(bearing_precompile target)
  if(BEARING_PRECOMPILED_HEADERS)
    target_precompile_headers(${target} PRIVATE <algorithm> <array> <cmath> <cstdint> <cstring> <functional> <limits> <map>
      <memory> <numeric> <optional> <string> <string_view> <utility> <variant> <vector> ${ARGN})
  endif()
endfunction()

# bearing_in_bunches(TARGET SOURCE …): its sources are compiled twelve at a time, so that headers are read once for them and what
# these define is compiled once: a third of the time. Not those that are compiled for each instruction set, and not the sources
# that are named, most of which keep to themselves what others call the same. BEARING_IN_BUNCHES is the folder in which the bunches
# are written; a compiler cache knows them again in every build that names the same one.
set(BEARING_IN_BUNCHES "" CACHE PATH "Where to write sources that are several in one, which are compiled instead; empty: each alone")
function(bearing_in_bunches target)
  if(NOT BEARING_IN_BUNCHES)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  set(bunches "")
  set(bunch "")
  set(count 0)
  set(left ${sources})
  foreach(source ${sources})
    if(source MATCHES "\\.cc$" AND NOT source MATCHES "(_kernels?|_avx512)\\.cc$|/amx/" AND NOT source IN_LIST ARGN)
      list(REMOVE_ITEM left ${source})
      cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
      string(APPEND bunch "#include \"${source}\"\n")
      math(EXPR count "${count} + 1")
    endif()
    if(count EQUAL 12)
      list(APPEND bunches "${bunch}")
      set(bunch "")
      set(count 0)
    endif()
  endforeach()
  foreach(bunch ${bunches} "${bunch}")
    string(MD5 name "${bunch}")
    if(NOT EXISTS ${BEARING_IN_BUNCHES}/${target}_${name}.cc)  # another build may be reading it
      file(WRITE ${BEARING_IN_BUNCHES}/${target}_${name}.cc "${bunch}")
    endif()
    list(APPEND left ${BEARING_IN_BUNCHES}/${target}_${name}.cc)
  endforeach()
  set_target_properties(${target} PROPERTIES SOURCES "${left}")
  # A warning of what another source keeps to itself, or keeps in what is then included, would be none of this source.
  target_compile_options(${target} PRIVATE -Wno-shadow $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
endfunction()

# bearing_rapidjson(TARGET): its sources include RapidJSON. Packages of 1.1.0 say where that is in one variable, newer ones in
# another one, and have a target.
function(bearing_rapidjson target)
  find_package(RapidJSON REQUIRED)
  set(folders ${RapidJSON_INCLUDE_DIRS} ${RAPIDJSON_INCLUDE_DIRS})
  foreach(one RapidJSON rapidjson)
    if(TARGET ${one})
      set(folders $<TARGET_PROPERTY:${one},INTERFACE_INCLUDE_DIRECTORIES>)
      break()
    endif()
  endforeach()
  if(NOT folders)
    message(FATAL_ERROR "RapidJSON's package must have a target RapidJSON, or its folder in RapidJSON_INCLUDE_DIRS, got neither "
                        "from ${RapidJSON_CONFIG}")
  endif()
  target_include_directories(${target} SYSTEM PRIVATE ${folders})
endfunction()

# bearing_rpath(TARGET FOLDER): once installed, the target finds our shared libraries from its own place, which is FOLDER, so that
# the tree can be moved. CMAKE_INSTALL_RPATH says another place, CMAKE_SKIP_INSTALL_RPATH none.
function(bearing_rpath target folder)
  if(BUILD_SHARED_LIBS AND NOT DEFINED CMAKE_INSTALL_RPATH)
    set(here "$ORIGIN")
    if(APPLE)
      set(here "@loader_path")
    endif()
    file(RELATIVE_PATH libraries ${folder} ${CMAKE_INSTALL_FULL_LIBDIR})
    cmake_path(APPEND here ${libraries})
    set_target_properties(${target} PROPERTIES INSTALL_RPATH ${here})
  endif()
endfunction()

# bearing_fuzzed(TARGET): its sources read what strangers wrote, so fuzzers see which way they take. Not so arithmetic, whose
# comparisons would be most of what a fuzzer does.
function(bearing_fuzzed target)
  if(BEARING_BUILD_FUZZERS)
    target_compile_options(${target} PRIVATE -fsanitize=fuzzer-no-link)
  endif()
endfunction()

# bearing_objects(NAME SOURCES … PRIVATE …): a part of the library, compiled once for all that link it.
function(bearing_objects target)
  cmake_parse_arguments(arg "" "" "SOURCES;PRIVATE" ${ARGN})
  add_library(${target} OBJECT ${arg_SOURCES})
  bearing_defaults(${target})
  target_include_directories(${target} PUBLIC ${PROJECT_SOURCE_DIR}/include PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${target} PRIVATE ${arg_PRIVATE})
endfunction()

# bearing_library(NAME SOURCES … PUBLIC … PRIVATE …): the library target `NAME` with the alias and export name
# bearing::EXPORT.
function(bearing_library target)
  cmake_parse_arguments(arg "" "EXPORT" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  add_library(${target} ${arg_SOURCES})
  add_library(bearing::${arg_EXPORT} ALIAS ${target})
  bearing_defaults(${target})
  target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                              $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
                                       PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${target} PUBLIC ${arg_PUBLIC} PRIVATE ${arg_PRIVATE})
  bearing_rpath(${target} ${CMAKE_INSTALL_FULL_LIBDIR})
  if(BUILD_SHARED_LIBS AND CMAKE_SYSTEM_NAME STREQUAL "Linux")
    target_link_options(${target} PRIVATE LINKER:--version-script=${PROJECT_SOURCE_DIR}/cmake/bearing.map)
  endif()
  set_target_properties(${target} PROPERTIES DEFINE_SYMBOL "" EXPORT_NAME ${arg_EXPORT} VERSION ${PROJECT_VERSION}
                                             SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
endfunction()
