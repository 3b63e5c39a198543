# Language level, warnings and sanitizers of every target, and the CUDA toolkit where there is one.

option(OOMB_TESTS "build the tests" ON)
option(OOMB_WERROR "treat warnings as errors" ON)
option(OOMB_SANITIZE "AddressSanitizer and UndefinedBehaviorSanitizer" OFF)

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "build type" FORCE)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O3")   # assertions of the standard library are off, ours throw and stay on

add_library(oomb_flags INTERFACE)
target_compile_options(oomb_flags INTERFACE -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -ffp-contract=off)
if(OOMB_WERROR)
  target_compile_options(oomb_flags INTERFACE -Werror)
endif()
if(OOMB_SANITIZE)
  target_compile_options(oomb_flags INTERFACE -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(oomb_flags INTERFACE -fsanitize=address,undefined)
endif()

find_program(OOMB_CCACHE ccache)
if(OOMB_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${OOMB_CCACHE})
endif()
