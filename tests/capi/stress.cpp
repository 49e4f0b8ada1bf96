// Many threads use the C ABI at once: exports from files and from memory, checks, shared options, and bad calls.
//
//   lithify_stress 8 1000 a.pt 'x:float32[B=2,4]' b.pt 'ids:int64[B=2]' 'mask:bool[B=2]'
//
// makes 1000 exports of the models, in turn, and checks that all exports of a model are the same bytes. Run it under
// AddressSanitizer and ThreadSanitizer.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <iterator>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "lithify/lithify.h"

namespace {

struct Model {
  std::string path;
  std::string contents;
  lithify_options* options = nullptr;  // all threads use the same
  std::once_flag first;
  std::string onnx;  // of the first export
};

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "lithify_stress: %s\n", what.c_str());
  std::exit(1);
}

void expect(bool good, const std::string& what) {
  if (!good) fail(what);
}

void export_once(Model& model, int turn) {
  lithify_result* result = nullptr;
  lithify_status status =
      turn % 2 ? lithify_export_file(model.path.c_str(), nullptr, model.options, &result)
               : lithify_export_bytes(model.contents.data(), model.contents.size(), nullptr, model.options, &result);
  if (status != LITHIFY_OK) fail(model.path + ": " + (result ? lithify_result_message(result, 0) : "no result"));
  size_t size = 0;
  const void* bytes = lithify_result_bytes(result, &size);
  std::string onnx(static_cast<const char*>(bytes), size);
  std::call_once(model.first, [&] { model.onnx = onnx; });
  expect(onnx == model.onnx, model.path + ": two exports differ");
  expect(lithify_result_free(result) == LITHIFY_OK, "a result could not be freed");
  expect(lithify_result_free(result) == LITHIFY_ERROR_HANDLE, "a result was freed twice");
}

void other_calls(Model& model) {
  lithify_result* result = nullptr;
  expect(lithify_check_file(model.path.c_str(), model.options, &result) == LITHIFY_OK, "check failed");
  lithify_result* wrong = nullptr;
  auto* no_options = reinterpret_cast<lithify_options*>(result);
  expect(lithify_check_file(model.path.c_str(), no_options, &wrong) == LITHIFY_ERROR_HANDLE && !wrong,
         "a result passed as options");
  expect(lithify_options_set_opset(no_options, 18) == LITHIFY_ERROR_HANDLE, "an opset was set in a result");
  lithify_result_free(result);
  std::string half = model.contents.substr(0, model.contents.size() / 2);
  expect(lithify_inspect_bytes(half.data(), half.size(), &result) == LITHIFY_ERROR_MODEL, "half a file was read");
  expect(lithify_result_message_count(result) > 0, "half a file, and no message");
  lithify_result_free(result);
  lithify_options* options = lithify_options_new();
  expect(lithify_options_set_opset(options, 1) == LITHIFY_ERROR_ARGUMENT, "opset 1 was taken");
  expect(lithify_options_add_input(options, nullptr) == LITHIFY_ERROR_ARGUMENT, "no input was taken");
  expect(lithify_options_free(options) == LITHIFY_OK, "options could not be freed");
}

}  // namespace

int main(int argc, char** argv) {
  expect(argc > 3, "usage: lithify_stress THREADS EXPORTS MODEL INPUT... [MODEL INPUT...]...");
  const int threads = std::atoi(argv[1]), exports = std::atoi(argv[2]);
  std::deque<Model> models;
  for (int i = 3; i < argc; ++i) {
    if (std::strchr(argv[i], '[')) {
      expect(!models.empty(), "the first thing is a model");
      expect(lithify_options_add_input(models.back().options, argv[i]) == LITHIFY_OK, argv[i]);
      continue;
    }
    Model& model = models.emplace_back();
    model.path = argv[i];
    std::ifstream file(model.path, std::ios::binary);
    model.contents.assign(std::istreambuf_iterator<char>(file), {});
    model.options = lithify_options_new();
  }
  std::atomic<int> next = 0;
  std::vector<std::thread> running;
  for (int t = 0; t < threads; ++t) {
    running.emplace_back([&] {
      for (int turn = next++; turn < exports; turn = next++) {
        Model& model = models[static_cast<size_t>(turn) % models.size()];
        export_once(model, turn);
        if (turn % 10 == 0) other_calls(model);
      }
    });
  }
  for (std::thread& t : running) t.join();
  for (Model& model : models) expect(lithify_options_free(model.options) == LITHIFY_OK, "shared options");
  std::printf("%d exports by %d threads\n", exports, threads);
}
