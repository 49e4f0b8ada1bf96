// A network of fully connected layers, for any number of images.
#include <iostream>
#include <lithify/torch.hpp>

#include "runs.hpp"

struct NetImpl : torch::nn::Module {
  torch::Tensor forward(torch::Tensor x) {
    x = x.view({x.size(0), -1});  // a plain number in C++, and the batch in the ONNX file
    return torch::log_softmax(second(torch::relu(first(x))), 1);
  }
  torch::nn::Linear first = register_module("first", torch::nn::Linear(3 * 8 * 8, 32));
  torch::nn::Linear second = register_module("second", torch::nn::Linear(32, 10));
};
TORCH_MODULE(Net);

int main() {
  Net net;
  lithify::ExportOptions options;
  options.opset = 18;
  options.input_names = {"x"};
  options.output_names = {"y"};
  options.dynamic_axes = {{"x", {{0, "batch"}}}};
  try {
    lithify::ExportResult r = lithify::export_module(net, {torch::randn({2, 3, 8, 8})}, "mlp.onnx", options);
    std::cout << r.outputs.at(0).str() << "\n";  // y: float32[batch, 10]
  } catch (const lithify::ExportError& e) {
    for (const lithify::Message& m : e.messages) std::cerr << m.pretty << "\n";
    return 1;
  }

  lithify::Claims claims = lithify::read_claims("mlp.onnx");
  std::optional<bool> right = claims.holds({{"batch", 3}});  // nothing where it is not known
  if (right != true) std::cout << claims.ask({{"batch", 3}}).why << "\n";

  auto run = [&](const std::vector<torch::Tensor>& x) { return std::vector<torch::Tensor>{net->forward(x[0])}; };
  save_runs("mlp", run, {{torch::randn({1, 3, 8, 8})}, {torch::randn({3, 3, 8, 8})}, {torch::randn({7, 3, 8, 8})}});
}
