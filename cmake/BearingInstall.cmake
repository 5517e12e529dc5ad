# What `cmake --install` puts in place: headers, libraries, the command, and two ways to find them: find_package(bearing)
# with the components io and threads, and pkg-config's bearing, bearing-io and bearing-threads.
# `--component bearing_runtime` is what programs need where they run, bearing_development the rest.
include(CMakePackageConfigHelpers)
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME bearing_development)

set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/bearing)
set(pkgconfig_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
get_target_property(library_type bearing TYPE)
set(BEARING_STATIC OFF)
if(library_type STREQUAL "STATIC_LIBRARY")
  set(BEARING_STATIC ON)
endif()
# pkg-config from an installed tree that was moved as a whole: the prefix is found from the .pc file's own place. Folders that
# are given as absolute ones stay where they are.
set(BEARING_PC_PREFIX ${CMAKE_INSTALL_PREFIX})
if(NOT IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
  file(RELATIVE_PATH BEARING_PC_PREFIX /${pkgconfig_dir} /)
  string(REGEX REPLACE "/$" "" BEARING_PC_PREFIX "\${pcfiledir}/${BEARING_PC_PREFIX}")
endif()
foreach(folder INCLUDEDIR LIBDIR)
  set(BEARING_PC_${folder} "\${prefix}")
  cmake_path(APPEND BEARING_PC_${folder} ${CMAKE_INSTALL_${folder}})
endforeach()

install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/bearing DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING
        PATTERN "*.hpp"
        PATTERN "figure_file.hpp" EXCLUDE
        PATTERN "gguf.hpp" EXCLUDE
        PATTERN "hf_spelling.hpp" EXCLUDE
        PATTERN "io.hpp" EXCLUDE
        PATTERN "load.hpp" EXCLUDE
        PATTERN "npy.hpp" EXCLUDE
        PATTERN "picture_positions.hpp" EXCLUDE
        PATTERN "safetensors.hpp" EXCLUDE
        PATTERN "threads.hpp" EXCLUDE
        PATTERN "whole_files.hpp" EXCLUDE)

# A static library's own needs, packages (private) and libraries without one (ARGN), are its user's needs at link time; a shared
# one keeps them to itself.
function(install_pkgconfig name description library requires private)
  set(BEARING_PC_NAME ${name})
  set(BEARING_PC_DESCRIPTION "${description}")
  set(BEARING_PC_LIBRARY ${library})
  set(BEARING_PC_REQUIRES "${requires}")
  set(BEARING_PC_PRIVATE "${private}")
  set(BEARING_PC_LIBS "")
  if(BEARING_STATIC)
    string(APPEND BEARING_PC_REQUIRES " ${private}")
    set(BEARING_PC_PRIVATE "")
    foreach(one ${ARGN})
      string(APPEND BEARING_PC_LIBS " -l${one}")
    endforeach()
  endif()
  configure_file(${PROJECT_SOURCE_DIR}/cmake/bearing.pc.in ${name}.pc @ONLY)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/${name}.pc DESTINATION ${pkgconfig_dir})
endfunction()

# install_component(TARGET SUFFIX HEADERS …): one export set per component, so that each can be left out.
function(install_component target suffix)
  install(TARGETS ${target} EXPORT bearing${suffix}-targets
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT bearing_runtime NAMELINK_COMPONENT bearing_development
          ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(EXPORT bearing${suffix}-targets NAMESPACE bearing:: DESTINATION ${config_dir})
  if(ARGN)
    list(TRANSFORM ARGN PREPEND ${PROJECT_SOURCE_DIR}/include/bearing/)
    install(FILES ${ARGN} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/bearing)
  endif()
endfunction()

install_component(bearing "")
install_pkgconfig(bearing "${PROJECT_DESCRIPTION}" bearing "" "libhwy")
if(BEARING_BUILD_IO)
  install_component(bearing_io -io figure_file.hpp gguf.hpp hf_spelling.hpp io.hpp load.hpp npy.hpp picture_positions.hpp
    safetensors.hpp whole_files.hpp)
  install_pkgconfig(bearing-io "bearing: model files in, encodings out" bearing_io "bearing = ${PROJECT_VERSION}" "")
endif()
if(BEARING_BUILD_THREADS)
  install_component(bearing_threads -threads threads.hpp)
  install_pkgconfig(bearing-threads "bearing: an executor on oneTBB" bearing_threads "bearing = ${PROJECT_VERSION}" "tbb"
                    ${CMAKE_DL_LIBS})
endif()

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/bearing-config.cmake.in bearing-config.cmake
                              INSTALL_DESTINATION ${config_dir} NO_SET_AND_CHECK_MACRO)
# While the version is 0.x, a minor version may change the interface.
write_basic_package_version_file(bearing-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/bearing-config.cmake ${CMAKE_CURRENT_BINARY_DIR}/bearing-config-version.cmake
        DESTINATION ${config_dir})
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/THIRD-PARTY.md DESTINATION ${CMAKE_INSTALL_DOCDIR}
        COMPONENT bearing_runtime)
