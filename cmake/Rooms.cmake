# One target per room. Includes are written from the root of the tree: #include "runtime/core/units.hpp".

# oomb_room(<name> SOURCES <files> DEPENDS <rooms and libraries>)
function(oomb_room name)
  cmake_parse_arguments(ROOM "" "" "SOURCES;DEPENDS" ${ARGN})
  add_library(${name} STATIC ${ROOM_SOURCES})
  target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PUBLIC ${ROOM_DEPENDS} PRIVATE oomb_flags)
endfunction()

# oomb_program(<name> SOURCES <files> DEPENDS <rooms>)
# Ends up in build/bin whatever the preset; sanitized programs stay in their own tree.
function(oomb_program name)
  cmake_parse_arguments(PROGRAM "" "" "SOURCES;DEPENDS" ${ARGN})
  add_executable(${name} ${PROGRAM_SOURCES})
  target_link_libraries(${name} PRIVATE ${PROGRAM_DEPENDS} oomb_flags)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${OOMB_PROGRAM_DIR})
endfunction()
if(OOMB_SANITIZE)
  set(OOMB_PROGRAM_DIR ${CMAKE_BINARY_DIR}/bin)
else()
  set(OOMB_PROGRAM_DIR ${CMAKE_SOURCE_DIR}/build/bin CACHE PATH "where the three programs go")
endif()

# Properties of a CTest entry. A test says how many threads it computes with; CTest then runs as many tests side by side
# as there are cores, and no two of them fight for one.
function(oomb_test_properties name labels threads)
  set_tests_properties(${name} PROPERTIES
    LABELS "${labels}" TIMEOUT 900 PROCESSORS ${threads}
    ENVIRONMENT "OMP_NUM_THREADS=${threads};OOMB_BIN=${OOMB_PROGRAM_DIR};PYTHONDONTWRITEBYTECODE=1")
endfunction()

# oomb_test(<name> SOURCES <files> DEPENDS <rooms> [LABELS <labels>] [THREADS <n>])
# One executable for a room's tests, one CTest entry per source file. Labels: `gpu` needs a GPU; left out under the
# sanitizers are `slow`, and `cli`, which call whole programs: that is half of what there is to compile, and the fuzz
# targets read their inputs under sanitizers. THREADS is OMP_NUM_THREADS, 1 if not given. `sanitized_tests` builds the rest.
# In a release they are compiled with -O1, which takes little more than half the time of -O3 to compile.
add_custom_target(sanitized_tests)
function(oomb_test name)
  cmake_parse_arguments(TEST "" "THREADS" "SOURCES;DEPENDS;LABELS" ${ARGN})
  if(NOT TEST_THREADS)
    set(TEST_THREADS 1)
  endif()
  add_executable(${name} ${TEST_SOURCES} ${CMAKE_SOURCE_DIR}/tests/support/main.cpp)
  target_link_libraries(${name} PRIVATE ${TEST_DEPENDS} doctest::doctest oomb_flags)
  target_compile_options(${name} PRIVATE "$<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:-O1>")
  if(NOT TEST_LABELS MATCHES "gpu|slow|cli")
    add_dependencies(sanitized_tests ${name})
  endif()
  foreach(source ${TEST_SOURCES})
    if(source MATCHES "_test\\.cpp$")
      get_filename_component(stem ${source} NAME_WE)
      add_test(NAME ${name}/${stem} COMMAND ${name} --source-file=*${stem}.cpp)
      oomb_test_properties(${name}/${stem} "${TEST_LABELS}" ${TEST_THREADS})
    endif()
  endforeach()
endfunction()

# oomb_python_test(<name> SOURCES <files> [LABELS <labels>] [THREADS <n>])
# One CTest entry per file, run by pytest in the pinned environment. OOMB_BIN is the folder of the programs.
function(oomb_python_test name)
  cmake_parse_arguments(TEST "" "THREADS" "SOURCES;LABELS" ${ARGN})
  if(NOT TEST_THREADS)
    set(TEST_THREADS 1)
  endif()
  foreach(source ${TEST_SOURCES})
    get_filename_component(stem ${source} NAME_WE)
    add_test(NAME ${name}/${stem}
      COMMAND ${OOMB_ENV}/bin/python -m pytest -q -p no:cacheprovider ${CMAKE_CURRENT_SOURCE_DIR}/${source}
      WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
    oomb_test_properties(${name}/${stem} "python;${TEST_LABELS}" ${TEST_THREADS})
  endforeach()
endfunction()

# oomb_bench(<name> SOURCES <files> DEPENDS <rooms>)
# A Google Benchmark executable. `bench` builds and runs them one after another; results land in build/bench/<name>.json.
add_custom_target(bench)
set(OOMB_BENCH_DIR ${CMAKE_SOURCE_DIR}/build/bench)
function(oomb_bench name)
  if(NOT TARGET benchmark::benchmark)
    return()
  endif()
  cmake_parse_arguments(BENCH "" "" "SOURCES;DEPENDS" ${ARGN})
  add_executable(${name} ${BENCH_SOURCES})
  target_link_libraries(${name} PRIVATE ${BENCH_DEPENDS} benchmark::benchmark benchmark::benchmark_main oomb_flags)
  set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL $<NOT:$<BOOL:${OOMB_BENCH}>>)
  add_custom_target(run_${name}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${OOMB_BENCH_DIR}
    COMMAND ${name} --benchmark_out=${OOMB_BENCH_DIR}/${name}.json --benchmark_out_format=json
    USES_TERMINAL VERBATIM)
  add_dependencies(bench run_${name})
endfunction()
