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

set(scripts "")
function(bearing_completion shell file)
  set(script ${CMAKE_CURRENT_BINARY_DIR}/completions/${file})
  get_filename_component(folder ${file} DIRECTORY)
  file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/completions/${folder})
  add_custom_command(OUTPUT ${script} COMMAND bearing_command completion ${shell} -o ${script} DEPENDS bearing_command VERBATIM)
  install(FILES ${script} DESTINATION ${SKBUILD_DATA_DIR}/share/${folder} COMPONENT python)
  set(scripts ${scripts} ${script} PARENT_SCOPE)
endfunction()
bearing_completion(bash bash-completion/completions/bearing)
bearing_completion(fish fish/vendor_completions.d/bearing.fish)
bearing_completion(zsh zsh/site-functions/_bearing)
add_custom_target(bearing_python_command DEPENDS bearing_command ${scripts})
