// load MODEL.pt: exports a file of TorchScript that the program has loaded, and changed.
#include <iostream>
#include <lithify/torch.hpp>

#include "runs.hpp"

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  torch::jit::Module module = torch::jit::load(argv[1]);
  {
    torch::NoGradGuard no_grad;
    for (torch::Tensor parameter : module.parameters()) parameter.mul_(0.5);
  }

  lithify::ExportOptions options;
  options.output_names = {"y"};
  options.dynamic_axes = {{"input", {{0, "batch"}}}};
  lithify::ExportResult r = lithify::export_module(module, {torch::randn({2, 4})}, "load.onnx", options);
  std::cout << r.inputs.at(0).str() << " -> " << r.outputs.at(0).str() << "\n";

  auto run = [&](const std::vector<torch::Tensor>& x) {
    return std::vector<torch::Tensor>{module.forward({x[0]}).toTensor()};
  };
  save_runs("load", run, {{torch::randn({1, 4})}, {torch::randn({3, 4})}, {torch::randn({7, 4})}});
}
