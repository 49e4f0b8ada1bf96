// A convolutional network that is in training, for images of any size. The export leaves it in training.
#include <iostream>
#include <lithify/torch.hpp>

#include "runs.hpp"

struct NetImpl : torch::nn::Module {
  torch::Tensor forward(torch::Tensor x) {
    x = torch::max_pool2d(torch::relu(norm(first(x))), 2);
    x = torch::relu(second(x));
    const int64_t batch = x.size(0), channels = x.size(1), pixels = x.size(2) * x.size(3);
    return head(x.view({batch, channels, pixels}).sum(2) / pixels);
  }
  torch::nn::Conv2d first = register_module("first", torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 8, 3).padding(1)));
  torch::nn::BatchNorm2d norm = register_module("norm", torch::nn::BatchNorm2d(8));
  torch::nn::Conv2d second = register_module("second", torch::nn::Conv2d(torch::nn::Conv2dOptions(8, 8, 3)));
  torch::nn::Linear head = register_module("head", torch::nn::Linear(8, 4));
};
TORCH_MODULE(Net);

int main() {
  Net net;
  for (int step = 0; step < 3; ++step) net->forward(torch::randn({4, 3, 16, 12}));

  lithify::ExportOptions options;
  options.input_names = {"x"};
  options.output_names = {"y"};
  options.dynamic_axes = {{"x", {{0, "batch"}, {2, "height"}, {3, "width"}}}};
  lithify::ExportResult r = lithify::export_module(net, {torch::randn({2, 3, 16, 12})}, "cnn.onnx", options);
  for (const lithify::DimensionClaim& d : r.dimensions) std::cout << d.name << ": " << d.str() << "\n";
  if (!net->is_training()) return 1;

  net->eval();
  auto run = [&](const std::vector<torch::Tensor>& x) { return std::vector<torch::Tensor>{net->forward(x[0])}; };
  save_runs("cnn", run, {{torch::randn({1, 3, 8, 9})}, {torch::randn({3, 3, 17, 30})}, {torch::randn({5, 3, 40, 21})}});
}
