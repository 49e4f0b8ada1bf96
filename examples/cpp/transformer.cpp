// An encoder-decoder, from a source to a target of other lengths, and a softmax that is not part of the module.
#include <cmath>
#include <iostream>
#include <lithify/torch.hpp>

#include "runs.hpp"

struct TranslatorImpl : torch::nn::Module {
  torch::Tensor embedded(torch::Tensor ids) {
    torch::Tensor place = torch::arange(ids.size(1)).to(torch::kFloat).unsqueeze(1) / std::sqrt(16.0);
    return (words(ids) + place.sin()).transpose(0, 1);
  }
  torch::Tensor forward(torch::Tensor source, torch::Tensor target) {
    torch::Tensor mask = torch::nn::TransformerImpl::generate_square_subsequent_mask(target.size(1));
    return head(transformer(embedded(source), embedded(target), torch::Tensor(), mask)).transpose(0, 1);
  }
  torch::nn::Embedding words = register_module("words", torch::nn::Embedding(30, 16));
  torch::nn::Transformer transformer = register_module(
      "transformer", torch::nn::Transformer(torch::nn::TransformerOptions(16, 4, 2, 2).dim_feedforward(32)));
  torch::nn::Linear head = register_module("head", torch::nn::Linear(16, 30));
};
TORCH_MODULE(Translator);

int main() {
  Translator net;
  net->eval();
  auto likely = [net](torch::Tensor source, torch::Tensor target) mutable {
    return net->forward(source, target).softmax(-1);
  };
  auto ids = [](int64_t batch, int64_t length) { return torch::randint(30, {batch, length}, torch::kLong); };

  lithify::ExportOptions options;
  options.input_names = {"source", "target"};
  options.dynamic_axes = {{"source", {{0, "batch"}, {1, "from"}}}, {"target", {{0, "batch"}, {1, "to"}}}};
  lithify::ExportResult r =
      lithify::export_module(lithify::with_weights(net, likely), {ids(2, 9), ids(2, 6)}, "transformer.onnx", options);
  for (const lithify::Message& m : r.messages)
    if (m.severity == "warning") std::cout << m.pretty << "\n";
  std::cout << r.outputs.at(0).str() << "\n";

  auto run = [&](const std::vector<torch::Tensor>& x) { return std::vector<torch::Tensor>{likely(x[0], x[1])}; };
  save_runs("transformer", run, {{ids(1, 1), ids(1, 2)}, {ids(3, 5), ids(3, 1)}, {ids(5, 12), ids(5, 14)}});
}
