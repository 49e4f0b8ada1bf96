// What a model gives at other sizes, for a comparison with what the exported one gives.
#pragma once

#include <fstream>
#include <lithify/torch.hpp>
#include <string>
#include <vector>

/// Writes NAME.0.pt, NAME.1.pt, ...: the inputs and outputs of each run, as torch.load reads them.
template <class Model>
void save_runs(const std::string& name, Model model, const std::vector<std::vector<torch::Tensor>>& runs) {
  torch::NoGradGuard no_grad;
  for (size_t i = 0; i < runs.size(); ++i) {
    const std::vector<torch::Tensor> outputs = model(runs[i]);
    const std::vector<char> bytes = torch::pickle_save(std::make_tuple(runs[i], outputs));
    std::ofstream file(name + "." + std::to_string(i) + ".pt", std::ios::binary);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
}
