# The command in the wheel: the program inside the package, what pip puts on the PATH, and completions where shells look.
# Only a wheel has folders for these: scikit-build-core says where they are.
if(NOT BEARING_BUILD_TOOL OR NOT SKBUILD)
  message(STATUS "The command: left out of the package, which needs BEARING_BUILD_TOOL and a build by pip")
  add_custom_target(bearing_python_command)
  return()
endif()
install(TARGETS bearing_command RUNTIME DESTINATION bearing/bin COMPONENT python)

# "python3.11", or "python3.13t" where threads are free.
execute_process(COMMAND ${Python_EXECUTABLE} -c
                        "import os, sysconfig; print(os.path.basename(os.path.dirname(sysconfig.get_path('platlib', 'posix_prefix'))))"
                OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY OUTPUT_VARIABLE python)
configure_file(command.in command/bearing @ONLY)
install(PROGRAMS ${CMAKE_CURRENT_BINARY_DIR}/command/bearing DESTINATION ${SKBUILD_SCRIPTS_DIR} COMPONENT python)

bearing_completions(bearing_python_completions ${SKBUILD_DATA_DIR}/share COMPONENT python)
add_custom_target(bearing_python_command DEPENDS bearing_command)
add_dependencies(bearing_python_command bearing_python_completions)
