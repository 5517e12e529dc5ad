# cmake -DSOURCE= -DBUILD= -DWORK= -DCXX= -DSHARED= [-DOPTIONS=] -P install_test.cmake
#
# Installs the library, moves the tree to another place, and uses it from there as a stranger would: through
# find_package and through pkg-config. Checks what was installed on the way.
cmake_minimum_required(VERSION 3.25)

function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  set(output "${output}" PARENT_SCOPE)
  if(NOT result EQUAL 0)
    string(JOIN " " line ${ARGN})
    message(FATAL_ERROR "${line}\n${output}")
  endif()
endfunction()

set(built ${BUILD})
file(REMOVE_RECURSE ${WORK}/stage ${WORK}/moved ${WORK}/consumer)
if(SHARED)
  set(built ${WORK}/build)
  run(${CMAKE_COMMAND} -S ${SOURCE} -B ${built} -G Ninja -DCMAKE_CXX_COMPILER=${CXX} ${OPTIONS} -DBUILD_SHARED_LIBS=ON
      -DBEARING_BUILD_TESTS=OFF -DBEARING_BUILD_TOOL=OFF -DBEARING_BUILD_EXAMPLES=OFF)
  run(${CMAKE_COMMAND} --build ${built})
endif()
run(${CMAKE_COMMAND} --install ${built} --prefix ${WORK}/stage)
file(RENAME ${WORK}/stage ${WORK}/moved)
set(prefix ${WORK}/moved)

# No header of another library is needed, and every header of ours can be included first.
file(GLOB_RECURSE headers RELATIVE ${prefix}/include ${prefix}/include/*.hpp)
file(GLOB_RECURSE wanted RELATIVE ${SOURCE}/include ${SOURCE}/include/*.hpp)
if(NOT "${headers}" STREQUAL "${wanted}")
  message(FATAL_ERROR "installed: ${headers}\nwanted: ${wanted}")
endif()
# A source that includes a header before any other shows that it can be.
file(GLOB_RECURSE sources ${SOURCE}/src/*.cc ${SOURCE}/io/*.cc)
set(shown "")
list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
foreach(source ${sources})
  file(STRINGS ${source} first LIMIT_COUNT 1 REGEX "^#include")
  if(first MATCHES "^#include <(bearing/[^>]+)>")
    list(APPEND shown ${CMAKE_MATCH_1})
  endif()
endforeach()
foreach(header ${headers})
  file(STRINGS ${prefix}/include/${header} foreign REGEX "#include.*(hwy|rapidjson|boost|tbb|fmt|CLI|gtest)/")
  if(foreign)
    message(FATAL_ERROR "${header}: ${foreign}")
  endif()
  if(SHARED OR header IN_LIST shown)
    continue()  # the shared library's headers are the same: once is enough for what follows
  endif()
  file(WRITE ${WORK}/first.cc "#include <${header}>\n#include <${header}>\n")
  run(${CXX} -std=c++20 -fsyntax-only -Wall -Wextra -Wpedantic -Werror -I${prefix}/include ${WORK}/first.cc)
endforeach()

# A shared library shows its public functions alone.
file(GLOB_RECURSE libraries ${prefix}/*.so)
if(SHARED)
  if(NOT libraries)
    message(FATAL_ERROR "no shared library was installed in ${prefix}")
  endif()
  foreach(library ${libraries})
    run(nm --dynamic --defined-only ${library})
    string(REGEX MATCHALL " [A-Za-z] [^\n]*" symbols "${output}")
    list(FILTER symbols EXCLUDE REGEX "^ [TVW] _ZT?[ISV]?NK?7bearing")
    if(symbols OR output MATCHES "_ZNK?7bearing(6detail|4simd|[0-9]+N_)[^\n]*" OR NOT output MATCHES "_ZN7bearing")
      message(FATAL_ERROR "${library} shows ${symbols} ${CMAKE_MATCH_0}")
    endif()
  endforeach()
endif()

run(${CMAKE_COMMAND} -S ${SOURCE}/tests/consumer -B ${WORK}/consumer -G Ninja -DCMAKE_CXX_COMPILER=${CXX}
    -DCMAKE_PREFIX_PATH=${prefix} -DCMAKE_BUILD_TYPE=Release)
run(${CMAKE_COMMAND} --build ${WORK}/consumer)
run(${WORK}/consumer/consumer)
message(STATUS "find_package: ${output}")

file(GLOB_RECURSE pc ${prefix}/bearing.pc)
cmake_path(GET pc PARENT_PATH pc_dir)
set(ENV{PKG_CONFIG_PATH} ${pc_dir})
run(pkg-config --cflags --libs bearing bearing-io bearing-threads)
separate_arguments(flags UNIX_COMMAND "${output}")
file(GLOB_RECURSE archives ${prefix}/libbearing.*)
list(GET archives 0 library)
cmake_path(GET library PARENT_PATH library_dir)
# By the compiler that built the library, and by another one.
find_program(other NAMES clang++-14 clang++ REQUIRED)
foreach(compiler ${CXX} ${other})
  run(${compiler} -std=c++20 ${SOURCE}/tests/consumer/main.cc ${SOURCE}/tests/consumer/every_type.cc
      -o ${WORK}/by-pkg-config ${flags})
  run(${CMAKE_COMMAND} -E env LD_LIBRARY_PATH=${library_dir} ${WORK}/by-pkg-config)
  message(STATUS "pkg-config, ${compiler}: ${output}")
endforeach()
# An older C++ is told apart at once.
execute_process(COMMAND ${CXX} -std=c++17 -fsyntax-only ${SOURCE}/tests/consumer/main.cc ${flags}
                RESULT_VARIABLE result ERROR_VARIABLE output)
if(result EQUAL 0 OR NOT output MATCHES "^[^:]*: *[^e]*.*error: #error \"bearing needs C..20")
  message(FATAL_ERROR "-std=c++17: must say that bearing needs C++20, got\n${output}")
endif()
