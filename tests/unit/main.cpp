#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdlib>

int main(int argc, char** argv) {
  ::setenv("LITHIFY_VERIFY", "1", 1);  // every graph of the tests is verified
  return doctest::Context(argc, argv).run();
}
