# Install paths, in five components: runtime, cli, dev, cuda (if its backend is built) and server (if Go is
# installed). One build has three layouts: that of an archive or of `cmake --install`, with the plain component names,
# and those of Debian and RPM, whose component names have the prefix `deb_` or `rpm_`. Every path is relative to the
# prefix, so that an unpacked archive works in any folder.
include(CMakePackageConfigHelpers)

set(QUIRE_COMPONENTS runtime dev)
if(TARGET quire_cli)
  list(APPEND QUIRE_COMPONENTS cli)
endif()
if(TARGET quire_cuda)
  list(APPEND QUIRE_COMPONENTS cuda)
endif()
if(TARGET quire_server)
  list(APPEND QUIRE_COMPONENTS server)
endif()

set(QUIRE_DEB_PACKAGE_runtime "libquire${QUIRE_SOVERSION}")
set(QUIRE_DEB_PACKAGE_cli quire)
set(QUIRE_DEB_PACKAGE_dev libquire-dev)
set(QUIRE_DEB_PACKAGE_cuda "libquire${QUIRE_SOVERSION}-cuda")
set(QUIRE_DEB_PACKAGE_server quire-server)
set(QUIRE_RPM_PACKAGE_runtime quire-libs)
set(QUIRE_RPM_PACKAGE_cli quire)
set(QUIRE_RPM_PACKAGE_dev quire-devel)
set(QUIRE_RPM_PACKAGE_cuda quire-cuda)
set(QUIRE_RPM_PACKAGE_server quire-server)

# Installs the files of find_package and pkg-config, which find the prefix relative to their own folders.
function(quire_install_dev component libdir extra)
  set(config_dir "${libdir}/cmake/quire")
  set(written "${CMAKE_CURRENT_BINARY_DIR}/${component}")
  install(EXPORT quireTargets_${component} FILE quireTargets.cmake NAMESPACE quire:: DESTINATION "${config_dir}"
    COMPONENT ${component} ${extra})
  configure_package_config_file(cmake/quireConfig.cmake.in "${written}/quireConfig.cmake"
    INSTALL_DESTINATION "${config_dir}")
  write_basic_package_version_file("${written}/quireConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
  install(FILES "${written}/quireConfig.cmake" "${written}/quireConfigVersion.cmake"
    DESTINATION "${config_dir}" COMPONENT ${component} ${extra})

  set(QUIRE_PC_LIBDIR "${libdir}")
  file(RELATIVE_PATH QUIRE_PC_PREFIX "/${libdir}/pkgconfig" "/")
  string(REGEX REPLACE "/$" "" QUIRE_PC_PREFIX "${QUIRE_PC_PREFIX}")
  configure_file(quire.pc.in "${written}/quire.pc" @ONLY)
  install(FILES "${written}/quire.pc" DESTINATION "${libdir}/pkgconfig" COMPONENT ${component} ${extra})

  install(DIRECTORY "${QUIRE_FUNCTIONS_DIR}/man3" DESTINATION "${CMAKE_INSTALL_MANDIR}" COMPONENT ${component} ${extra})
  set(headers "${PROJECT_SOURCE_DIR}/capi/include")
  install(FILES "${headers}/quire_dynamic.h" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT ${component} ${extra})
  install(DIRECTORY "${headers}/quire" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT ${component} ${extra}
    FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
endfunction()

# Installs the command and the embedded model, which the command runs if no model is given. Debian has another folder
# for zsh completions.
function(quire_install_cli prefix extra)
  set(component ${prefix}cli)
  set(zsh_dir zsh/site-functions)
  if(prefix STREQUAL "deb_")
    set(zsh_dir zsh/vendor-completions)
  endif()
  install(FILES "${QUIRE_REFERENCE_DIR}/quire.1" DESTINATION "${CMAKE_INSTALL_MANDIR}/man1"
    COMPONENT ${component} ${extra})
  install(FILES "${QUIRE_REFERENCE_DIR}/quire.bash" RENAME quire
    DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions" COMPONENT ${component} ${extra})
  install(FILES "${QUIRE_REFERENCE_DIR}/_quire" DESTINATION "${CMAKE_INSTALL_DATADIR}/${zsh_dir}"
    COMPONENT ${component} ${extra})
  install(FILES "${QUIRE_REFERENCE_DIR}/quire.fish" DESTINATION "${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d"
    COMPONENT ${component} ${extra})
  install(TARGETS quire_cli RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT ${component} ${extra})
  set(model model/story-15m-exl2-4.0bpw)
  install(FILES
      ${model}/chat_template.jinja ${model}/config.json ${model}/generation_config.json ${model}/output.safetensors
      ${model}/tokenizer.json ${model}/tokenizer_config.json
    DESTINATION "${CMAKE_INSTALL_DATADIR}/quire/models/story-15m-exl2-4.0bpw" COMPONENT ${component} ${extra})
endfunction()

function(quire_install_server component extra)
  install(PROGRAMS "${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/quire-server" DESTINATION "${CMAKE_INSTALL_BINDIR}"
    COMPONENT ${component} ${extra})
  install(FILES server/quire-server.service DESTINATION lib/systemd/system COMPONENT ${component} ${extra})
  install(FILES server/server.json server/kubernetes/worker.yaml server/kubernetes/inference-pool.yaml
    server/docker/Dockerfile server/docker/compose.yaml server/prometheus/prometheus.yaml server/prometheus/alerts.yaml
    server/grafana/quire.json server/grafana/provisioning.yaml
    DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/quire-server/examples" COMPONENT ${component} ${extra})
  install(FILES server/quire-server.1 DESTINATION "${CMAKE_INSTALL_MANDIR}/man1" COMPONENT ${component} ${extra})
endfunction()

# quire_install(PREFIX LIBDIR NAMES): installs one layout. Only cpack installs the layouts of Debian and RPM.
function(quire_install prefix libdir names)
  set(extra "")
  if(prefix)
    set(extra EXCLUDE_FROM_ALL)
  endif()
  install(TARGETS quire EXPORT quireTargets_${prefix}dev
    LIBRARY DESTINATION "${libdir}" COMPONENT ${prefix}runtime NAMELINK_COMPONENT ${prefix}dev ${extra})
  if(TARGET quire_cli)
    quire_install_cli("${prefix}" "${extra}")
  endif()
  quire_install_dev(${prefix}dev "${libdir}" "${extra}")
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/docs/examples/c" "${PROJECT_SOURCE_DIR}/docs/examples/cpp"
    DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/${${names}_dev}/examples" COMPONENT ${prefix}dev ${extra})
  if(TARGET quire_cuda)
    # Install it next to the library, which opens it at run time if there is a driver.
    install(TARGETS quire_cuda LIBRARY DESTINATION "${libdir}" COMPONENT ${prefix}cuda ${extra})
  endif()
  if(TARGET quire_server)
    quire_install_server(${prefix}server "${extra}")
  endif()
  foreach(component IN LISTS QUIRE_COMPONENTS)
    set(folder "${CMAKE_INSTALL_DATADIR}/doc/${${names}_${component}}")
    set(written "${CMAKE_CURRENT_BINARY_DIR}/notices/${component}")
    if(prefix STREQUAL "deb_")
      install(FILES "${written}/copyright" DESTINATION "${folder}" COMPONENT ${prefix}${component} ${extra})
    else()
      install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" "${written}/NOTICES" DESTINATION "${folder}"
        COMPONENT ${prefix}${component} ${extra})
    endif()
  endforeach()
endfunction()
