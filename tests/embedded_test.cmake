# cmake -DSOURCE= -DWORK= -DCXX= -P embedded_test.cmake
#
# Configures the project in tests/embedded, and looks at how our sources would be compiled there.
cmake_minimum_required(VERSION 3.25)

file(REMOVE_RECURSE ${WORK})
execute_process(COMMAND ${CMAKE_COMMAND} -S ${SOURCE}/tests/embedded -B ${WORK} -G Ninja -DCMAKE_CXX_COMPILER=${CXX}
                        -DCMAKE_EXPORT_COMPILE_COMMANDS=ON
                RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "${output}")
endif()
file(STRINGS ${WORK}/compile_commands.json commands REGEX " -o bearing/(src|io)/")
list(LENGTH commands count)
if(count LESS 50)
  message(FATAL_ERROR "${WORK}/compile_commands.json: must have a command for each of our sources, has ${count}")
endif()
foreach(command IN LISTS commands)
  # What comes last counts.
  if(NOT command MATCHES "-ffast-math.* -fno-fast-math.* -ffp-contract=off" OR command MATCHES "-fno-fast-math.* -ffast-math|unity_")
    message(FATAL_ERROR "${command}\nmust be of one source, without -ffast-math")
  endif()
endforeach()
message(STATUS "${count} sources")
file(STRINGS ${WORK}/cmake_install.cmake installed REGEX "bearing/cmake_install.cmake")
if(NOT installed)
  message(FATAL_ERROR "${WORK}/cmake_install.cmake: must install what the folder bearing has")
endif()

# What only computes needs neither RapidJSON nor oneTBB, and with a Highway of unknown version x86-64 keeps its targets.
file(REMOVE_RECURSE ${WORK})
execute_process(COMMAND ${CMAKE_COMMAND} -S ${SOURCE}/tests/embedded -B ${WORK} -G Ninja -DCMAKE_CXX_COMPILER=${CXX} -DALONE=ON
                        -DCMAKE_EXPORT_COMPILE_COMMANDS=ON -DCMAKE_DISABLE_FIND_PACKAGE_RapidJSON=ON
                        -DCMAKE_DISABLE_FIND_PACKAGE_TBB=ON
                RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "${output}")
endif()
file(READ ${WORK}/compile_commands.json commands)
if(commands MATCHES "/io/npy.cc" OR NOT commands MATCHES "/src/simd/target.cc")
  message(FATAL_ERROR "${WORK}/compile_commands.json: must have the sources of bearing::bearing alone")
endif()
cmake_host_system_information(RESULT processor QUERY OS_PLATFORM)
if(processor STREQUAL "x86_64" AND NOT commands MATCHES "HWY_DISABLED_TARGETS=[^ ]*HWY_AVX3_DL-1[^ ]*1LL<<14")
  message(FATAL_ERROR "${WORK}/compile_commands.json: must disable SSE2 and what is above AVX3_DL")
endif()

# Sources say their version in a header, which is another one in newer ones.
file(COPY ${SOURCE}/tests/embedded/highway DESTINATION ${WORK})
foreach(header highway base)
  file(REMOVE_RECURSE ${WORK}/highway/hwy)
  file(WRITE ${WORK}/highway/hwy/${header}.h "#define HWY_MAJOR 1\n#define HWY_MINOR 0\n#define HWY_PATCH 3\n")
  execute_process(COMMAND ${CMAKE_COMMAND} -DFETCHCONTENT_SOURCE_DIR_HWY=${WORK}/highway ${WORK}
                  RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  file(READ ${WORK}/compile_commands.json commands)
  if(NOT result EQUAL 0 OR commands MATCHES "HWY_AVX3_DL-1|1LL<<26")
    message(FATAL_ERROR "${WORK}/compile_commands.json: must disable no target that Highway 1.0.3 lacks\n${output}")
  endif()
endforeach()
