# What `cmake --install` puts into a prefix, and the packages that CPack makes of it.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/lithify)
set(TORCH_SOURCE_DIR ${CMAKE_INSTALL_DATADIR}/lithify/libtorch)

install(TARGETS lithify)
install(TARGETS lithify_static lithify_shared EXPORT lithify)
install(DIRECTORY include/lithify DESTINATION include)
install(DIRECTORY libtorch/ DESTINATION ${TORCH_SOURCE_DIR})
install(EXPORT lithify NAMESPACE lithify:: FILE lithify-targets.cmake DESTINATION ${PACKAGE_DIR})

configure_package_config_file(cmake/lithify-config.cmake.in lithify-config.cmake
  INSTALL_DESTINATION ${PACKAGE_DIR} PATH_VARS TORCH_SOURCE_DIR)
write_basic_package_version_file(lithify-config-version.cmake COMPATIBILITY SameMinorVersion)
if(NOT LITHIFY_DEPENDENCIES)
  set(PC_LIBRARIES " -ldeflate -lsimdjson")
endif()
configure_file(cmake/lithify.pc.in lithify.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/lithify-config.cmake ${CMAKE_CURRENT_BINARY_DIR}/lithify-config-version.cmake
        DESTINATION ${PACKAGE_DIR})
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/lithify.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

# The manual page and the completion scripts, which the program writes itself.
set(PAGES lithify.1 lithify.bash _lithify lithify.fish)
add_custom_command(OUTPUT ${PAGES} DEPENDS lithify VERBATIM
  COMMAND lithify man > lithify.1
  COMMAND lithify completion bash > lithify.bash
  COMMAND lithify completion zsh > _lithify
  COMMAND lithify completion fish > lithify.fish)
add_custom_target(lithify_pages ALL DEPENDS ${PAGES})
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/lithify.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/lithify.bash RENAME lithify
        DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/_lithify DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/lithify.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)

set(CPACK_GENERATOR TGZ DEB)
set(CPACK_PACKAGE_CONTACT "Lithify")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "From PyTorch models to ONNX: program, library, headers")
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION devel)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
include(CPack)
