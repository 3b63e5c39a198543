# One target per room. Includes are written from the root of the tree: #include "runtime/core/units.hpp".

# oomb_room(<name> SOURCES <files> DEPENDS <rooms and libraries>)
function(oomb_room name)
  cmake_parse_arguments(ROOM "" "" "SOURCES;DEPENDS" ${ARGN})
  add_library(${name} STATIC ${ROOM_SOURCES})
  target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PUBLIC ${ROOM_DEPENDS} PRIVATE oomb_flags)
endfunction()

# oomb_program(<name> SOURCES <files> DEPENDS <rooms>): ends up in build/bin whatever the preset.
function(oomb_program name)
  cmake_parse_arguments(PROGRAM "" "" "SOURCES;DEPENDS" ${ARGN})
  add_executable(${name} ${PROGRAM_SOURCES})
  target_link_libraries(${name} PRIVATE ${PROGRAM_DEPENDS} oomb_flags)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${OOMB_PROGRAM_DIR})
endfunction()
set(OOMB_PROGRAM_DIR ${CMAKE_SOURCE_DIR}/build/bin CACHE PATH "where the three programs go")

# oomb_test(<name> SOURCES <files> DEPENDS <rooms> [LABELS <labels>])
# One executable for a room's tests, one CTest entry per source file.
function(oomb_test name)
  cmake_parse_arguments(TEST "" "" "SOURCES;DEPENDS;LABELS" ${ARGN})
  add_executable(${name} ${TEST_SOURCES} ${CMAKE_SOURCE_DIR}/tests/support/main.cpp)
  target_link_libraries(${name} PRIVATE ${TEST_DEPENDS} doctest::doctest oomb_flags)
  foreach(source ${TEST_SOURCES})
    if(source MATCHES "_test\\.cpp$")
      get_filename_component(stem ${source} NAME_WE)
      add_test(NAME ${name}/${stem} COMMAND ${name} --source-file=*${stem}.cpp)
      set_tests_properties(${name}/${stem} PROPERTIES LABELS "cpu;${TEST_LABELS}" TIMEOUT 900)
    endif()
  endforeach()
endfunction()
