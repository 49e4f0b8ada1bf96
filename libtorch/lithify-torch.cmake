# The library lithify::torch. It is compiled in the project that uses it, against the LibTorch of that project, so that
# one installation serves them all.
if(NOT TARGET lithify::torch)
  add_library(lithify_torch STATIC EXCLUDE_FROM_ALL ${CMAKE_CURRENT_LIST_DIR}/capture.cpp)
  target_link_libraries(lithify_torch PUBLIC lithify::lithify ${TORCH_LIBRARIES})
  target_compile_definitions(lithify_torch PRIVATE NDEBUG) # as LibTorch itself: some of its types have other members without
  target_compile_features(lithify_torch PUBLIC cxx_std_17)
  add_library(lithify::torch ALIAS lithify_torch)
endif()
