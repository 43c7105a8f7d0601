# What `cmake --install` brings where, except for the preload libraries (preload/CMakeLists.txt).
include(CMakePackageConfigHelpers)

install(TARGETS leat leat-relayd RUNTIME)

# libleat: the library, its archive, and how compilers find them.
install(TARGETS leat-tracer leat-tracer-static EXPORT leat LIBRARY ARCHIVE INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY include/leat DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

set(package_directory ${CMAKE_INSTALL_LIBDIR}/cmake/leat)
install(EXPORT leat FILE leatTargets.cmake NAMESPACE leat:: DESTINATION ${package_directory})
configure_package_config_file(cmake/leatConfig.cmake.in ${CMAKE_BINARY_DIR}/leatConfig.cmake
  INSTALL_DESTINATION ${package_directory} NO_SET_AND_CHECK_MACRO)
# Before 1.0 the second number is that of the ABI.
write_basic_package_version_file(${CMAKE_BINARY_DIR}/leatConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/leatConfig.cmake ${CMAKE_BINARY_DIR}/leatConfigVersion.cmake
  DESTINATION ${package_directory})

# Relative, so that the installed tree may be moved; the system's own does not move.
set(pkgconfig_prefix ${CMAKE_INSTALL_PREFIX})
if(NOT pkgconfig_prefix STREQUAL "/usr")
  file(RELATIVE_PATH pkgconfig_prefix ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
  string(REGEX REPLACE "/$" "" pkgconfig_prefix "\${pcfiledir}/${pkgconfig_prefix}")
endif()
configure_file(cmake/leat.pc.in ${CMAKE_BINARY_DIR}/leat.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/leat.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

install(DIRECTORY docs/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(DIRECTORY packaging/completion/ DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)

# The relay as a service, with a user of its own.
configure_file(packaging/leat-relayd.service.in ${CMAKE_BINARY_DIR}/leat-relayd.service @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/leat-relayd.service DESTINATION lib/systemd/system)
install(FILES packaging/leat-relayd.sysusers DESTINATION lib/sysusers.d RENAME leat-relayd.conf)
