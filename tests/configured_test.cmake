# cmake -DSOURCE= -DWORK= -DCXX= -P configured_test.cmake
#
# Configures the project as packagers do, and looks at what it would build and install. Nothing is compiled.
cmake_minimum_required(VERSION 3.25)

file(REMOVE_RECURSE ${WORK})
function(configure name)
  execute_process(COMMAND ${CMAKE_COMMAND} -S ${SOURCE} -B ${WORK}/${name} -G Ninja -DCMAKE_CXX_COMPILER=${CXX}
                          -DBEARING_BUILD_TESTS=OFF -DBEARING_BUILD_EXAMPLES=OFF ${ARGN}
                  RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${name}: ${output}")
  endif()
endfunction()

# must_have(FILE REGEX): some line of the file is that.
function(must_have file regex)
  file(STRINGS ${file} found REGEX "${regex}")
  if(NOT found)
    file(READ ${file} text)
    message(FATAL_ERROR "${file}: must have a line like ${regex}, got\n${text}")
  endif()
endfunction()

# RapidJSON's folder, as its package of 1.1.0 says it, and as newer ones do.
foreach(kind "set(RAPIDJSON_INCLUDE_DIRS FOLDER)" "set(RapidJSON_INCLUDE_DIRS FOLDER)"
        "add_library(RapidJSON INTERFACE IMPORTED)\nset_property(TARGET RapidJSON PROPERTY INTERFACE_INCLUDE_DIRECTORIES FOLDER)")
  set(folder ${WORK}/rapidjson/include)
  file(MAKE_DIRECTORY ${folder})
  string(REPLACE FOLDER ${folder} config "${kind}")
  file(WRITE ${WORK}/rapidjson/RapidJSONConfig.cmake "${config}\n")
  file(REMOVE_RECURSE ${WORK}/json)
  configure(json -DRapidJSON_DIR=${WORK}/rapidjson)
  foreach(source io/json_file tools/bearing/config_json)
    must_have(${WORK}/json/compile_commands.json "command.*-isystem ${folder} .*${source}.cc")
  endforeach()
endforeach()

# pkg-config's files with folders below the prefix, which may then be moved, and with absolute ones.
configure(below -DCMAKE_INSTALL_PREFIX=/opt/b -DCMAKE_INSTALL_LIBDIR=lib/arch -DBUILD_SHARED_LIBS=ON)
must_have(${WORK}/below/bearing.pc "^prefix=\\\${pcfiledir}/\\.\\./\\.\\./\\.\\.\$")
must_have(${WORK}/below/bearing.pc "^includedir=\\\${prefix}/include\$")
must_have(${WORK}/below/bearing.pc "^libdir=\\\${prefix}/lib/arch\$")
must_have(${WORK}/below/tools/bearing/cmake_install.cmake " RPATH \"..ORIGIN/\\.\\./lib/arch\"")
must_have(${WORK}/below/cmake_install.cmake " RPATH \"..ORIGIN\"")
configure(absolute -DCMAKE_INSTALL_PREFIX=/opt/b -DCMAKE_INSTALL_LIBDIR=/opt/b-lib/lib -DCMAKE_INSTALL_INCLUDEDIR=/opt/b-dev/include)
must_have(${WORK}/absolute/bearing.pc "^prefix=/opt/b\$")
must_have(${WORK}/absolute/bearing.pc "^includedir=/opt/b-dev/include\$")
must_have(${WORK}/absolute/bearing.pc "^libdir=/opt/b-lib/lib\$")

# Who links the static library of threads needs what opens libraries, which older systems have in a library of its own.
must_have(${WORK}/absolute/bearing-threads.pc "^Libs: .* -lbearing_threads -ldl\$")
must_have(${WORK}/below/bearing-threads.pc "^Libs: .* -lbearing_threads\$")

# Stubs are written where a packager collects files, and not where the module cannot run. Another nanobind, of one function, stands
# in for the package, which is not everywhere. The module alone asks for no library of the command.
file(WRITE ${WORK}/nanobind/nanobindConfig.cmake "function(nanobind_add_module name)
  list(FILTER ARGN INCLUDE REGEX cc$)
  add_library(\${name} MODULE \${ARGN})
endfunction()\n")
foreach(runs ON OFF)
  file(REMOVE_RECURSE ${WORK}/module)
  set(cross "")
  if(NOT runs)
    set(cross -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=x86_64)
  endif()
  configure(module -DBEARING_BUILD_PYTHON=ON -DBEARING_BUILD_TOOL=OFF -Dnanobind_DIR=${WORK}/nanobind -DBEARING_JAX_INCLUDE=none
            -DCMAKE_DISABLE_FIND_PACKAGE_CLI11=ON -DCMAKE_DISABLE_FIND_PACKAGE_fmt=ON ${cross})
  file(STRINGS ${WORK}/module/python/cmake_install.cmake stubs REGEX "_stub.py")
  file(STRINGS ${WORK}/module/python/cmake_install.cmake staged REGEX "_stub.py.*ENV{DESTDIR}.{CMAKE_INSTALL_PREFIX}")
  list(LENGTH stubs count)
  if(NOT stubs STREQUAL staged OR (runs AND NOT count EQUAL 3) OR (NOT runs AND count))
    message(FATAL_ERROR "the module runs: ${runs}; must write its stubs below DESTDIR where it does, got ${stubs}")
  endif()
endforeach()
