# oomb_known_hardware(<variable> <root of the tree>): writes known_hardware.cpp, with hardware/*.json in it, to the current
# binary folder; the variable becomes its path.
function(oomb_known_hardware variable root)
  file(GLOB profiles CONFIGURE_DEPENDS ${root}/hardware/*.json)
  set(OOMB_PROFILES "")
  foreach(file ${profiles})
    get_filename_component(name ${file} NAME_WE)
    file(READ ${file} text)
    string(APPEND OOMB_PROFILES
      "        {\"${name}\", parse_hardware_profile(R\"profile(${text})profile\", \"hardware/${name}.json\")},\n")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  endforeach()
  configure_file(${root}/runtime/core/known_hardware.cpp.in ${CMAKE_CURRENT_BINARY_DIR}/known_hardware.cpp @ONLY)
  set(${variable} ${CMAKE_CURRENT_BINARY_DIR}/known_hardware.cpp PARENT_SCOPE)
endfunction()
