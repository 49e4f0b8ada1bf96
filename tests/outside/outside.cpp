// Exports a file that is not there, and then one that is.
#include <cstdio>
#include <lithify/lithify.hpp>

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  try {
    lithify::export_file("not there", argv[2]);
    return 3;
  } catch (const lithify::ExportError& e) {
    std::printf("%s\n", e.messages.at(0).code.c_str());
  }
  lithify::ExportOptions options;
  options.inputs = {argv[3]};
  lithify::ExportResult result = lithify::export_file(argv[1], argv[2], options);
  std::printf("%s\n", result.outputs.at(0).str().c_str());
}
