# Language level, warnings and sanitizers of every target, and the CUDA toolkit where there is one.

option(OOMB_TESTS "build the tests" ON)
option(OOMB_BENCH "build the benchmarks with everything else, not only on demand" OFF)
option(OOMB_WERROR "treat warnings as errors" ON)
option(OOMB_SANITIZE "AddressSanitizer and UndefinedBehaviorSanitizer" OFF)
option(OOMB_CUDA "use the CUDA toolkit where it is found" OFF)

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "build type" FORCE)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O3")   # assertions of the standard library are off, ours throw and stay on

find_program(OOMB_CCACHE ccache)
if(OOMB_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${OOMB_CCACHE})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${OOMB_CCACHE})
endif()

# OOMB_HAVE_CUDA tells the rooms whether to build their CUDA sources; a machine without the toolkit builds all the rest.
set(OOMB_HAVE_CUDA OFF)
if(OOMB_CUDA)
  find_program(OOMB_NVCC nvcc HINTS $ENV{CUDA_HOME}/bin $ENV{CUDA_PATH}/bin /usr/local/cuda/bin)
  if(OOMB_NVCC)
    set(CMAKE_CUDA_COMPILER ${OOMB_NVCC} CACHE FILEPATH "the CUDA compiler")
    set(CMAKE_CUDA_ARCHITECTURES 90a CACHE STRING "GPU architectures; 90a is Hopper")
    enable_language(CUDA)
    find_package(CUDAToolkit REQUIRED)
    set(CMAKE_CUDA_STANDARD 20)
    set(CMAKE_CUDA_STANDARD_REQUIRED ON)
    set(OOMB_HAVE_CUDA ON)
    message(STATUS "CUDA ${CUDAToolkit_VERSION}, architectures ${CMAKE_CUDA_ARCHITECTURES}")
  else()
    message(STATUS "no CUDA toolkit (nvcc) found: building without CUDA")
  endif()
endif()

# C++ only: nvcc takes its host compiler's flags in another form.
add_library(oomb_flags INTERFACE)
set(OOMB_CXX_FLAGS -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -ffp-contract=off)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  list(APPEND OOMB_CXX_FLAGS -Wno-stringop-overflow)   # a false alarm inside fmt::join at -O3
endif()
if(OOMB_WERROR)
  list(APPEND OOMB_CXX_FLAGS -Werror)
endif()
if(OOMB_SANITIZE)
  list(APPEND OOMB_CXX_FLAGS -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
       -D_GLIBCXX_ASSERTIONS)
  target_link_options(oomb_flags INTERFACE -fsanitize=address,undefined)
endif()
target_compile_options(oomb_flags INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${OOMB_CXX_FLAGS}>")
