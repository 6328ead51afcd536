# Runs at installation: for each library that was installed, the copyright file of the Debian package that brought it. `architecture`: the
# folder's name, as in /usr/lib/x86_64-linux-gnu.
file(GLOB libraries "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/lib*/*.so*" "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/lib/*/*.so*")
foreach(library ${libraries})
  get_filename_component(name ${library} NAME)
  execute_process(COMMAND dpkg-query --search "*/${architecture}/${name}" OUTPUT_VARIABLE owner ERROR_QUIET RESULT_VARIABLE failed)
  if(failed OR NOT owner MATCHES "^([^:,]+)")
    message(WARNING "${name}: no package owns it; its licence is to be added by hand")
    continue()
  endif()
  set(package ${CMAKE_MATCH_1})
  file(INSTALL /usr/share/doc/${package}/copyright DESTINATION ${CMAKE_INSTALL_PREFIX}/share/stoa/licences
       RENAME ${package}.txt)
endforeach()
