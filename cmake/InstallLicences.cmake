# Runs at installation: for each library that was installed, the copyright file of the Debian package that brought it. `architecture`: the
# folder's name, as in /usr/lib/x86_64-linux-gnu.
file(GLOB libraries "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/lib*/*.so*" "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/lib/*/*.so*")
# Asked about all of them at once: each question reads the files of all packages.
set(paths)
foreach(library ${libraries})
  get_filename_component(name ${library} NAME)
  list(APPEND paths "*/${architecture}/${name}")
endforeach()
set(owners)
if(paths)
  execute_process(COMMAND dpkg-query --search ${paths} OUTPUT_VARIABLE owners ERROR_QUIET)
endif()
foreach(library ${libraries})
  get_filename_component(name ${library} NAME)
  string(REGEX REPLACE "([+.])" "\\\\\\1" pattern ${name})
  if(NOT "\n${owners}" MATCHES "\n([^:,\n]+)[^\n]*: [^\n]*/${architecture}/${pattern}\n")
    message(WARNING "${name}: no package owns it; its licence is to be added by hand")
    continue()
  endif()
  set(package ${CMAKE_MATCH_1})
  file(INSTALL /usr/share/doc/${package}/copyright DESTINATION ${CMAKE_INSTALL_PREFIX}/share/stoa/licences
       RENAME ${package}.txt)
endforeach()
