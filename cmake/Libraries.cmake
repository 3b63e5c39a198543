# Libraries from the distribution (headers, static) and from the pinned Python environment (LibTorch).

find_package(nlohmann_json 3.10 REQUIRED)
find_package(fmt 8 REQUIRED)
find_package(CLI11 2.1 REQUIRED)
find_package(SQLite3 3.31 REQUIRED)
find_package(Threads REQUIRED)
find_path(OOMB_XXHASH xxhash.h REQUIRED)   # a header: checksums of checkpoints
if(OOMB_TESTS)
  find_package(doctest 2.4 REQUIRED)
endif()
find_package(benchmark 1.6 QUIET)   # without it the target `bench` is empty

# build/env is the link that setup/setup.sh makes to the environment outside the clone.
set(OOMB_ENV "${CMAKE_SOURCE_DIR}/build/env" CACHE PATH "Python environment with torch, made by setup/setup.sh")
file(GLOB OOMB_TORCH_DIR "${OOMB_ENV}/lib/python3*/site-packages/torch")
if(NOT EXISTS "${OOMB_TORCH_DIR}/lib/libtorch_cpu.so")
  message(FATAL_ERROR "LibTorch not found under ${OOMB_ENV}: run setup/setup.sh, or pass -DOOMB_ENV=<environment with torch>")
endif()

# LibTorch is the one library outside the system's folders and its path is given below. CMake's own search paths would
# be the same, with a warning that LibTorch brings a libgomp too (which is wanted: there must be one in a process).
set(CMAKE_SKIP_BUILD_RPATH ON)

# find_package(Torch) would want the CUDA toolkit; the CPU libraries alone are imported instead.
foreach(name c10 torch_cpu)
  add_library(oomb_${name} SHARED IMPORTED)
  set_target_properties(oomb_${name} PROPERTIES IMPORTED_LOCATION "${OOMB_TORCH_DIR}/lib/lib${name}.so")
endforeach()
add_library(oomb_libtorch INTERFACE)
target_include_directories(oomb_libtorch SYSTEM INTERFACE
  "${OOMB_TORCH_DIR}/include" "${OOMB_TORCH_DIR}/include/torch/csrc/api/include")
target_link_libraries(oomb_libtorch INTERFACE oomb_torch_cpu oomb_c10)
# Torch ships fmt headers of its own version, and they are found first: header-only, they need no library of theirs.
target_compile_definitions(oomb_libtorch INTERFACE FMT_HEADER_ONLY)
target_link_options(oomb_libtorch INTERFACE -Wl,--allow-shlib-undefined "-Wl,-rpath,${OOMB_TORCH_DIR}/lib")
file(READ "${OOMB_TORCH_DIR}/version.py" OOMB_TORCH_VERSION_FILE)
string(REGEX MATCH "__version__ = '([^']+)'" _ "${OOMB_TORCH_VERSION_FILE}")
set(OOMB_TORCH_VERSION "${CMAKE_MATCH_1}")

# cuBLASLt, cuDNN and CUPTI come with LibTorch, of the versions it was built for: a program needs a driver and the environment,
# no toolkit. cuDNN's frontend is headers.
if(OOMB_HAVE_CUDA)
  get_filename_component(OOMB_NVIDIA_DIR "${OOMB_TORCH_DIR}/../nvidia" ABSOLUTE)
  # oomb_nvidia_library(<target> <folder below nvidia/> <file>)
  function(oomb_nvidia_library name folder file)
    if(NOT EXISTS "${OOMB_NVIDIA_DIR}/${folder}/lib/${file}")
      message(FATAL_ERROR "${OOMB_NVIDIA_DIR}/${folder}/lib/${file} not found: run setup/setup.sh")
    endif()
    add_library(${name} INTERFACE)
    target_include_directories(${name} SYSTEM INTERFACE "${OOMB_NVIDIA_DIR}/${folder}/include")
    target_link_libraries(${name} INTERFACE "${OOMB_NVIDIA_DIR}/${folder}/lib/${file}" CUDA::cudart_static)
    target_link_options(${name} INTERFACE -Wl,--allow-shlib-undefined "-Wl,-rpath,${OOMB_NVIDIA_DIR}/${folder}/lib")
  endfunction()
  oomb_nvidia_library(oomb_cublaslt cu13 libcublasLt.so.13)
  oomb_nvidia_library(oomb_nvrtc cu13 libnvrtc.so.13)
  oomb_nvidia_library(oomb_cudnn cudnn libcudnn.so.9)
  oomb_nvidia_library(oomb_cupti cu13 libcupti.so.13)
  target_include_directories(oomb_cudnn SYSTEM INTERFACE "${OOMB_ENV}/headers/include")
  target_link_libraries(oomb_cudnn INTERFACE oomb_nvrtc ${CMAKE_DL_LIBS})
endif()
