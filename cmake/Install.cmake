# What `cmake --install` brings where, except for the preload libraries (preload/CMakeLists.txt).
include(CMakePackageConfigHelpers)

install(TARGETS leat leat-relayd leat-sessiond RUNTIME)

# libleat and its archive, libleat-capture, libleat-ctf, and how compilers find them.
install(TARGETS leat-tracer leat-tracer-static leat-capture leat-ctf-shared
  EXPORT leat LIBRARY ARCHIVE INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY include/leat DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
# Debian keeps libraries of other widths in such a directory.
if(LEAT_32BIT)
  install(TARGETS leat-tracer-32bit leat-tracer-static-32bit
    LIBRARY DESTINATION lib32 COMPONENT 32bit NAMELINK_COMPONENT 32bit EXCLUDE_FROM_ALL
    ARCHIVE DESTINATION lib32 COMPONENT 32bit EXCLUDE_FROM_ALL)
endif()

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
foreach(library leat leat-capture leat-ctf)
  configure_file(cmake/${library}.pc.in ${CMAKE_BINARY_DIR}/${library}.pc @ONLY)
  install(FILES ${CMAKE_BINARY_DIR}/${library}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()

# Where Debian's Python looks, below /usr. Elsewhere, PYTHONPATH has to say so.
if(LEAT_PYTHON)
  set(python_directory lib/python3/dist-packages/leat)
  install(TARGETS leat-python LIBRARY DESTINATION ${python_directory})
  install(FILES src/library/python/leat/__init__.py DESTINATION ${python_directory})
  if(NOT CMAKE_INSTALL_PREFIX STREQUAL "/usr")
    set_target_properties(leat-python PROPERTIES INSTALL_RPATH "$ORIGIN/../../../../${CMAKE_INSTALL_LIBDIR}")
  endif()
endif()

foreach(section 1 8)
  install(DIRECTORY docs/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section} FILES_MATCHING PATTERN "*.${section}")
endforeach()
install(DIRECTORY packaging/completion/ DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)

# The relay as a service, with a user of its own.
configure_file(packaging/leat-relayd.service.in ${CMAKE_BINARY_DIR}/leat-relayd.service @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/leat-relayd.service DESTINATION lib/systemd/system)
install(FILES packaging/leat-relayd.sysusers DESTINATION lib/sysusers.d RENAME leat-relayd.conf)

# The session daemon as a service: of the system, with a group of those who may steer it, or of a user.
configure_file(packaging/leat-sessiond.service.in ${CMAKE_BINARY_DIR}/system/leat-sessiond.service @ONLY)
configure_file(packaging/leat-sessiond.user.service.in ${CMAKE_BINARY_DIR}/user/leat-sessiond.service @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/system/leat-sessiond.service DESTINATION lib/systemd/system)
install(FILES ${CMAKE_BINARY_DIR}/user/leat-sessiond.service DESTINATION lib/systemd/user)
install(FILES packaging/leat-sessiond.sysusers DESTINATION lib/sysusers.d RENAME leat-sessiond.conf)
