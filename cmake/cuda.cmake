# The CUDA plug-in: built when nvcc is there, said so when not.  It carries its own copies of the few base files it
# calls (they hold no state), and opens cuBLASLt and cuDNN at run time.
file(GLOB PLIM_CUDA_SOURCES CONFIGURE_DEPENDS src/ops/cuda/*.cu)
set(PLIM_CUDA_BASE src/base/context.c src/base/random.c src/ops/attention_scratch.c src/ops/delta_scratch.c
    src/ops/adam_codebook.c)
if(PLIM_CUDA)
  include(CheckLanguage)
  check_language(CUDA)
endif()
if(PLIM_CUDA AND CMAKE_CUDA_COMPILER)
  set(PLIM_CUDA_ARCHITECTURES 90a-real CACHE STRING "CUDA architectures of the plug-in")
  set(CMAKE_CUDA_ARCHITECTURES ${PLIM_CUDA_ARCHITECTURES})
  enable_language(CUDA)
  add_library(plimsoll_cuda MODULE ${PLIM_CUDA_SOURCES} ${PLIM_CUDA_BASE})
  target_include_directories(plimsoll_cuda PRIVATE include src)
  find_path(PLIM_CUDNN_INCLUDE cudnn_graph.h HINTS ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES} $ENV{CUDNN_HOME}/include)
  list(JOIN PLIM_CUDA_ARCHITECTURES ", " PLIM_BUILT_FOR)
  target_compile_definitions(plimsoll_cuda PRIVATE _GNU_SOURCE)
  set_source_files_properties(src/ops/cuda/device.cu PROPERTIES COMPILE_DEFINITIONS "PLIM_BUILT_FOR=\"${PLIM_BUILT_FOR}\"")
  if(PLIM_CUDNN_INCLUDE)
    target_compile_definitions(plimsoll_cuda PRIVATE PLIM_HAVE_CUDNN)
    target_include_directories(plimsoll_cuda PRIVATE ${PLIM_CUDNN_INCLUDE})
  else()
    message(STATUS "CUDA plug-in: without cuDNN's headers; attention is plimsoll's own")
  endif()
  # No C++ runtime in the plug-in: nvcc's launch stubs hold statics that any thread may fill with the same value, and nothing
  # throws.  A package of it starts wherever the C library is new enough.
  target_compile_options(plimsoll_cuda PRIVATE
                         $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra,-fno-threadsafe-statics,-fno-exceptions>)
  if(NOT PLIM_RELOCATABLE) # source lines for profilers; a dist holds no paths
    target_compile_options(plimsoll_cuda PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-lineinfo>)
  endif()
  set_target_properties(plimsoll_cuda PROPERTIES CUDA_STANDARD 17 CUDA_VISIBILITY_PRESET hidden C_VISIBILITY_PRESET hidden
                        CUDA_RUNTIME_LIBRARY Static POSITION_INDEPENDENT_CODE ON)
  target_link_libraries(plimsoll_cuda PRIVATE ${CMAKE_DL_LIBS} pthread m)
  target_link_options(plimsoll_cuda PRIVATE -Wl,--no-undefined,--as-needed)
  install(TARGETS plimsoll_cuda LIBRARY DESTINATION lib/plimsoll)
  message(STATUS "CUDA plug-in: built with ${CMAKE_CUDA_COMPILER} (${CMAKE_CUDA_COMPILER_VERSION})")
elseif(PLIM_REQUIRE_CUDA)
  message(FATAL_ERROR "CUDA plug-in: nvcc was not found or does not work, and PLIM_REQUIRE_CUDA is ON")
else()
  message(STATUS "CUDA plug-in: not built (no nvcc); plan and --device cpu work without it")
endif()
