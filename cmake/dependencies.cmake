# The C++ libraries: fmt::fmt, simdjson::simdjson and CLI11::CLI11, with the headers of protozero and libdeflate.
# DEPENDENCY_OBJECTS are the parts that become part of our library, DEPENDENCY_LIBRARIES what it links with.
set(LITHIFY_DEPENDENCIES "" CACHE PATH
  "Folder of the sources that scripts/dependencies.py fetches, to build with instead of the libraries of the system")

if(NOT LITHIFY_DEPENDENCIES)
  find_package(fmt QUIET)
  find_package(simdjson QUIET)
  find_package(CLI11 QUIET)
  find_library(DEFLATE_LIBRARY NAMES libdeflate.a deflate)
  find_path(PROTOZERO_INCLUDE protozero/pbf_reader.hpp)
  if(NOT (fmt_FOUND AND simdjson_FOUND AND CLI11_FOUND AND DEFLATE_LIBRARY AND PROTOZERO_INCLUDE))
    message(FATAL_ERROR "C++ libraries are missing; on Debian: apt-get install libfmt-dev libdeflate-dev "
                        "libprotozero-dev libsimdjson-dev libcli11-dev. On other systems: "
                        "python scripts/dependencies.py build-dependencies, "
                        "and configure with -DLITHIFY_DEPENDENCIES=build-dependencies")
  endif()
  set(DEPENDENCY_LIBRARIES $<BUILD_INTERFACE:${DEFLATE_LIBRARY}> $<INSTALL_INTERFACE:deflate> simdjson)
  # Only GCC can make copies of fmt's functions inside of ours (src/base/fmt.cpp).
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    list(APPEND DEPENDENCY_LIBRARIES $<BUILD_INTERFACE:fmt::fmt>)
  endif()
  return()
endif()

enable_language(C) # libdeflate
get_filename_component(FETCHED ${LITHIFY_DEPENDENCIES} ABSOLUTE BASE_DIR ${CMAKE_SOURCE_DIR})
file(GLOB DEFLATE_SOURCES ${FETCHED}/libdeflate/lib/*.c ${FETCHED}/libdeflate/lib/*/cpu_features.c)
add_library(lithify_dependencies OBJECT cmake/fmt.cpp ${FETCHED}/simdjson/simdjson.cpp ${DEFLATE_SOURCES})
target_compile_options(lithify_dependencies PRIVATE -w -O2)
set(DEPENDENCY_OBJECTS $<TARGET_OBJECTS:lithify_dependencies>)

file(WRITE ${CMAKE_BINARY_DIR}/dependencies/CLI/CLI.hpp "#include <CLI11.hpp>\n")
add_library(lithify_dependency_headers INTERFACE)
target_include_directories(lithify_dependency_headers SYSTEM INTERFACE ${FETCHED}/fmt/include ${FETCHED}/simdjson
  ${FETCHED}/libdeflate ${FETCHED}/protozero/include ${FETCHED}/CLI11 ${CMAKE_BINARY_DIR}/dependencies)
# The pinned fmt uses malloc without including its header.
target_compile_options(lithify_dependency_headers INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:SHELL:-include cstdlib>")
target_link_libraries(lithify_dependencies PRIVATE lithify_dependency_headers)
foreach(name fmt::fmt simdjson::simdjson CLI11::CLI11)
  add_library(${name} ALIAS lithify_dependency_headers)
endforeach()
