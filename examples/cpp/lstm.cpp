// A recurrent network that creates its initial state, for any batch and any length; two outputs.
#include <iostream>
#include <lithify/torch.hpp>

#include "runs.hpp"

struct TaggerImpl : torch::nn::Module {
  std::tuple<torch::Tensor, torch::Tensor> forward(torch::Tensor ids) {
    torch::Tensor words = embed(ids);
    torch::Tensor state = torch::zeros({2, ids.size(0), 12}, words.options());
    torch::Tensor steps = std::get<0>(lstm(words, std::make_tuple(state, state)));
    torch::Tensor tags = head(steps.reshape({-1, 24})).view({ids.size(0), ids.size(1), 5});
    return {tags, steps.select(1, ids.size(1) - 1)};
  }
  torch::nn::Embedding embed = register_module("embed", torch::nn::Embedding(50, 8));
  torch::nn::LSTM lstm =
      register_module("lstm", torch::nn::LSTM(torch::nn::LSTMOptions(8, 12).bidirectional(true).batch_first(true)));
  torch::nn::Linear head = register_module("head", torch::nn::Linear(24, 5));
};
TORCH_MODULE(Tagger);

int main() {
  Tagger net;
  lithify::ExportOptions options;
  options.input_names = {"ids"};
  options.output_names = {"tags", "last"};
  options.dynamic_axes = {{"ids", {{0, "batch"}, {1, "length"}}}};
  auto ids = [](int64_t batch, int64_t length) { return torch::randint(50, {batch, length}, torch::kLong); };
  lithify::ExportResult r = lithify::export_module(net, {ids(2, 7)}, "lstm.onnx", options);
  for (const lithify::ValueInfo& output : r.outputs) std::cout << output.str() << "\n";

  auto run = [&](const std::vector<torch::Tensor>& x) {
    auto [tags, last] = net->forward(x[0]);
    return std::vector<torch::Tensor>{tags, last};
  };
  save_runs("lstm", run, {{ids(1, 1)}, {ids(3, 4)}, {ids(5, 19)}});
}
