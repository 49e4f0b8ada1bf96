// C++ models, one line each, and what they are exported to: models NAME FOLDER writes FOLDER/model.onnx, and into
// FOLDER/0.pt, 1.pt, ... the inputs and outputs of the model itself at the sizes of the example and at all others.
// tests/test_libtorch.py runs the file on them.
#include <fstream>
#include <iostream>
#include <lithify/torch.hpp>

namespace {

namespace nn = torch::nn;
namespace F = torch::nn::functional;
using lithify::ModuleInputs;
using torch::Tensor;

// ---- inputs ----------------------------------------------------------------------------------------------------

/// A size: a number, or a dynamic dimension with its size in the example and three others.
struct Size {
  Size(int64_t number) : sizes(4, number) {}
  Size(std::string name, int64_t sample, int64_t a, int64_t b, int64_t c)
      : name(std::move(name)), sizes{sample, a, b, c} {}
  std::string name;
  std::vector<int64_t> sizes;
};
const size_t runs = 4;
const Size N{"batch", 2, 1, 3, 5}, L{"length", 6, 1, 4, 9}, D{"depth", 4, 1, 3, 6}, H{"height", 8, 1, 5, 12},
    W{"width", 10, 1, 7, 13};
// For layers that need some room.
const Size L8{"length", 12, 8, 11, 17}, D8{"depth", 8, 9, 10, 13}, H8{"height", 16, 8, 13, 22},
    W8{"width", 12, 9, 15, 21};
// For models that need multiples.
const Size H4{"height", 8, 4, 12, 20}, W4{"width", 8, 4, 16, 28};

struct Input {
  enum Kind { Normal, Positive, Ids, Signs } kind;
  std::vector<Size> shape;
  int64_t below = 0;  // of Ids

  Tensor draw(size_t run) const {
    std::vector<int64_t> sizes;
    for (const Size& s : shape) sizes.push_back(s.sizes[run]);
    if (kind == Ids) return torch::randint(below, sizes, at::kLong);
    if (kind == Signs) return torch::randint(2, sizes, at::kLong).to(at::kFloat) * 2 - 1;
    return kind == Positive ? torch::rand(sizes) * 0.9 + 0.05 : torch::randn(sizes);
  }
};
Input x(std::vector<Size> shape) { return {Input::Normal, std::move(shape)}; }
Input positive(std::vector<Size> shape) { return {Input::Positive, std::move(shape)}; }
Input ids(int64_t below, std::vector<Size> shape) { return {Input::Ids, std::move(shape), below}; }
Input signs(std::vector<Size> shape) { return {Input::Signs, std::move(shape)}; }

// ---- the table -------------------------------------------------------------------------------------------------

struct Model {
  std::vector<Input> inputs;
  std::function<ModuleInputs(std::vector<Tensor>)> pack;  // from the tensors to the arguments
  std::function<lithify::ExportResult(const ModuleInputs&, const std::string& out, const lithify::ExportOptions&)> to;
  std::function<lithify::capture::Leaves(const ModuleInputs&)> run;
  std::shared_ptr<nn::Module> module;
  lithify::ExportOptions options;
};

ModuleInputs one_by_one(std::vector<Tensor> tensors) { return {tensors.begin(), tensors.end()}; }

class Table {
 public:
  explicit Table(std::string wanted) : wanted_(std::move(wanted)) {}
  std::optional<Model> found;
  std::vector<std::string> names;

  /// Anything that can be exported. It is only made when it is wanted.
  template <class Make>
  Model* model(const std::string& name, Make make, std::vector<Input> inputs) {
    names.push_back(name);
    if (name != wanted_) return nullptr;
    auto net = make();
    auto to = [net](const ModuleInputs& in, const std::string& out, const lithify::ExportOptions& options) {
      return lithify::export_module(net, in, out, options);
    };
    lithify::capture::Traced eager = runs(net);
    found = Model{std::move(inputs), one_by_one, to, eager.forward, eager.module, {}};
    return &*found;
  }

 private:
  template <class Net>
  static lithify::capture::Traced runs(Net net) {
    if constexpr (std::is_same_v<Net, lithify::capture::Traced>)
      return net;
    else if constexpr (std::is_same_v<Net, torch::jit::Module>)
      return lithify::capture::of_callable([net](c10::IValue x) mutable { return net.forward({x}); });
    else if constexpr (lithify::capture::IsModule<Net>::value)
      return lithify::capture::of_module(lithify::capture::module_of(net));
    else
      return lithify::capture::of_callable(net);
  }

  std::string wanted_;
};

#define LAYER(name, make, ...) t.model(name, [] { return make; }, {__VA_ARGS__})
#define REFUSED LAYER

// ---- every layer of torch::nn ----------------------------------------------------------------------------------

void layers_of_conv(Table& t) {
  LAYER("conv1d", nn::Conv1d(nn::Conv1dOptions(3, 4, 3).padding(1)), x({N, 3, L}));
  LAYER("conv1d_same", nn::Conv1d(nn::Conv1dOptions(3, 4, 4).padding(torch::kSame)), x({N, 3, L}));
  LAYER("conv1d_circular", nn::Conv1d(nn::Conv1dOptions(3, 4, 3).padding(1).padding_mode(torch::kCircular)),
        x({N, 3, L}));
  LAYER("conv2d", nn::Conv2d(nn::Conv2dOptions(3, 4, 3).padding(1)), x({N, 3, H, W}));
  LAYER("conv2d_strided", nn::Conv2d(nn::Conv2dOptions(4, 4, {3, 5}).stride(2).groups(2).dilation({2, 1}).bias(false)),
        x({N, 4, H8, W8}));
  LAYER("conv2d_reflect", nn::Conv2d(nn::Conv2dOptions(3, 4, 3).padding(1).padding_mode(torch::kReflect)),
        x({N, 3, H8, W8}));
  LAYER("conv3d", nn::Conv3d(nn::Conv3dOptions(2, 3, 3).padding(1)), x({N, 2, D, H, W}));
  LAYER("conv_transpose1d", nn::ConvTranspose1d(nn::ConvTranspose1dOptions(3, 4, 3).stride(2).padding(1)),
        x({N, 3, L}));
  LAYER("conv_transpose2d",
        nn::ConvTranspose2d(nn::ConvTranspose2dOptions(4, 4, 3).stride(2).output_padding(1).groups(2)),
        x({N, 4, H, W}));
  LAYER("conv_transpose3d", nn::ConvTranspose3d(nn::ConvTranspose3dOptions(2, 3, 2).stride(2)), x({N, 2, D, H, W}));
  LAYER("fold_unfold",
        nn::Sequential(nn::Unfold(nn::UnfoldOptions({2, 2}).stride(2)),
                       nn::Fold(nn::FoldOptions({8, 6}, {2, 2}).stride(2))),
        x({N, 3, 8, 6}));
  LAYER("unfold", nn::Unfold(nn::UnfoldOptions({3, 2}).padding(1)), x({N, 3, H, W}));
  LAYER("pixel_shuffle", nn::PixelShuffle(2), x({N, 8, H, W}));
  LAYER("pixel_unshuffle", nn::PixelUnshuffle(2), x({N, 3, H4, W4}));
  LAYER("upsample_nearest", nn::Upsample(nn::UpsampleOptions().scale_factor(std::vector<double>{2.0, 3.0})),
        x({N, 3, H, W}));
  LAYER("upsample_bilinear",
        nn::Upsample(
            nn::UpsampleOptions().scale_factor(std::vector<double>{2, 2}).mode(torch::kBilinear).align_corners(true)),
        x({N, 3, H, W}));
  LAYER("upsample_linear",
        nn::Upsample(
            nn::UpsampleOptions().scale_factor(std::vector<double>{2}).mode(torch::kLinear).align_corners(false)),
        x({N, 3, L}));
  LAYER("upsample_to_size",
        nn::Upsample(nn::UpsampleOptions().size(std::vector<int64_t>{9, 7}).mode(torch::kBicubic).align_corners(false)),
        x({N, 3, H8, W8}));
}

void layers_of_norm(Table& t) {
  LAYER("batch_norm1d", nn::BatchNorm1d(5), x({N, 5, L}));
  LAYER("batch_norm2d", nn::BatchNorm2d(nn::BatchNorm2dOptions(4).affine(false)), x({N, 4, H, W}));
  LAYER("batch_norm3d", nn::BatchNorm3d(2), x({N, 2, D, H, W}));
  LAYER("instance_norm1d", nn::InstanceNorm1d(nn::InstanceNorm1dOptions(4).affine(true)), x({N, 4, L8}));
  LAYER("instance_norm2d", nn::InstanceNorm2d(4), x({N, 4, H8, W8}));
  LAYER("instance_norm3d", nn::InstanceNorm3d(nn::InstanceNorm3dOptions(2).track_running_stats(true)),
        x({N, 2, D8, H8, W8}));
  LAYER("layer_norm", nn::LayerNorm(nn::LayerNormOptions({6})), x({N, L, 6}));
  LAYER("group_norm", nn::GroupNorm(nn::GroupNormOptions(2, 6)), x({N, 6, H8, W8}));
  LAYER("local_response_norm", nn::LocalResponseNorm(3), x({N, 6, H, W}));
}

void layers_of_pool(Table& t) {
  LAYER("max_pool1d", nn::MaxPool1d(nn::MaxPool1dOptions(3).stride(2).padding(1)), x({N, 3, L}));
  LAYER("max_pool2d", nn::MaxPool2d(nn::MaxPool2dOptions(3).stride(2)), x({N, 3, H8, W8}));
  LAYER("max_pool3d", nn::MaxPool3d(nn::MaxPool3dOptions(2).ceil_mode(true)), x({N, 3, D, H, W}));
  LAYER("avg_pool1d", nn::AvgPool1d(nn::AvgPool1dOptions(3).padding(1)), x({N, 3, L}));
  LAYER("avg_pool2d", nn::AvgPool2d(nn::AvgPool2dOptions(3).stride(2).padding(1).count_include_pad(false)),
        x({N, 3, H, W}));
  LAYER("avg_pool3d", nn::AvgPool3d(2), x({N, 3, D8, H8, W8}));
  LAYER("adaptive_max_pool1d", nn::AdaptiveMaxPool1d(1), x({N, 3, L}));
  LAYER("adaptive_max_pool2d", nn::AdaptiveMaxPool2d(nn::AdaptiveMaxPool2dOptions({1, 1})), x({N, 3, H, W}));
  LAYER("adaptive_max_pool3d", nn::AdaptiveMaxPool3d(nn::AdaptiveMaxPool3dOptions({2, 3, 1})), x({N, 3, 4, 6, 5}));
  LAYER("adaptive_avg_pool1d", nn::AdaptiveAvgPool1d(1), x({N, 3, L}));
  LAYER("adaptive_avg_pool2d", nn::AdaptiveAvgPool2d(nn::AdaptiveAvgPool2dOptions({3, 5})), x({N, 3, H, W}));
  LAYER("adaptive_avg_pool3d", nn::AdaptiveAvgPool3d(nn::AdaptiveAvgPool3dOptions({1, 1, 1})), x({N, 3, D, H, W}));
  LAYER("lp_pool1d", nn::LPPool1d(nn::LPPool1dOptions(2, 3).stride(2)), positive({N, 3, L8}));
  LAYER("lp_pool2d", nn::LPPool2d(nn::LPPool2dOptions(2, {2, 3})), positive({N, 3, H8, W8}));
}

void layers_of_rnn(Table& t) {
  LAYER("rnn", nn::RNN(nn::RNNOptions(4, 5).nonlinearity(torch::kReLU)), x({L, N, 4}));
  LAYER("rnn_from_state", nn::RNN(nn::RNNOptions(4, 5).batch_first(true)), x({N, L, 4}), x({1, N, 5}));
  LAYER("lstm", nn::LSTM(nn::LSTMOptions(4, 5).num_layers(2).bidirectional(true).batch_first(true)), x({N, L, 4}));
  LAYER("gru", nn::GRU(nn::GRUOptions(4, 5).num_layers(2).batch_first(true).dropout(0.3)), x({N, L, 4}));
  LAYER("rnn_cell", nn::RNNCell(4, 5), x({N, 4}), x({N, 5}));
  LAYER("gru_cell", nn::GRUCell(4, 5), x({N, 4}));
  if (Model* m = LAYER("lstm_cell", nn::LSTMCell(4, 5), x({N, 4}), x({N, 5}), x({N, 5})))
    m->pack = [](std::vector<Tensor> in) { return ModuleInputs{in[0], std::make_tuple(in[1], in[2])}; };
  if (Model* m = LAYER("lstm_from_state", nn::LSTM(nn::LSTMOptions(4, 5)), x({L, N, 4}), x({1, N, 5}), x({1, N, 5})))
    m->pack = [](std::vector<Tensor> in) { return ModuleInputs{in[0], std::make_tuple(in[1], in[2])}; };
}

void layers_of_attention(Table& t) {
  LAYER("multihead_attention", nn::MultiheadAttention(8, 2), x({L, N, 8}), x({L, N, 8}), x({L, N, 8}));
  LAYER("multihead_attention_of_other", nn::MultiheadAttention(nn::MultiheadAttentionOptions(8, 2).kdim(6).vdim(6)),
        x({L, N, 8}), x({{"keys", 7, 1, 3, 10}, N, 6}), x({{"keys", 7, 1, 3, 10}, N, 6}));
  LAYER("transformer_encoder_layer", nn::TransformerEncoderLayer(8, 2), x({L, N, 8}));
  LAYER("transformer_encoder",
        nn::TransformerEncoder(nn::TransformerEncoderOptions(
            nn::TransformerEncoderLayerOptions(8, 2).dim_feedforward(16).activation(torch::kGELU), 2)),
        x({L, N, 8}));
  LAYER("transformer_decoder",
        nn::TransformerDecoder(
            nn::TransformerDecoderOptions(nn::TransformerDecoderLayerOptions(8, 2).dim_feedforward(16), 2)),
        x({L, N, 8}), x({{"memory", 7, 1, 3, 10}, N, 8}));
  LAYER("transformer", nn::Transformer(nn::TransformerOptions(8, 2, 1, 1).dim_feedforward(16)),
        x({{"source", 7, 1, 3, 10}, N, 8}), x({L, N, 8}));
}

void layers_of_rest(Table& t) {
  LAYER("linear", nn::Linear(4, 3), x({N, L, 4}));
  LAYER("bilinear", nn::Bilinear(4, 3, 5), x({N, L, 4}), x({N, L, 3}));
  LAYER("flatten", nn::Flatten(nn::FlattenOptions().start_dim(0).end_dim(1)), x({N, L, 4}));
  LAYER("unflatten", nn::Unflatten(nn::UnflattenOptions(2, {2, 3})), x({N, L, 6}));
  LAYER("identity", nn::Identity(), x({N, L}));
  LAYER("embedding", nn::Embedding(nn::EmbeddingOptions(11, 4).padding_idx(0)), ids(11, {N, L}));
  LAYER("embedding_bag", nn::EmbeddingBag(nn::EmbeddingBagOptions(11, 4).mode(torch::kMean)), ids(11, {N, L}));
  LAYER("cosine_similarity", nn::CosineSimilarity(nn::CosineSimilarityOptions().dim(1)), x({N, 4, L}), x({N, 4, L}));
  LAYER("pairwise_distance", nn::PairwiseDistance(), x({N, 4}), x({N, 4}));
  LAYER("activations",
        nn::Sequential(nn::ELU(), nn::SELU(), nn::LeakyReLU(), nn::CELU(), nn::GELU(), nn::SiLU(), nn::Mish(),
                       nn::PReLU(), nn::ReLU6(), nn::RReLU(), nn::Softplus(), nn::Softsign(), nn::Tanhshrink(),
                       nn::Softshrink(0.1), nn::Hardshrink(0.01), nn::Hardtanh(), nn::LogSigmoid(), nn::Sigmoid(),
                       nn::Tanh(), nn::ReLU(), nn::Threshold(0.2, 0.1), nn::GLU(nn::GLUOptions(1))),
        x({N, 6, L}));
  LAYER("softmaxes", nn::Sequential(nn::Softmax(1), nn::Softmin(2), nn::LogSoftmax(1), nn::Softmax2d()),
        x({N, 4, H, W}));
  LAYER("paddings",
        nn::Sequential(nn::ReflectionPad2d(2), nn::ReplicationPad2d(1), nn::ZeroPad2d(1),
                       nn::ConstantPad2d(nn::ConstantPad2dOptions({1, 0, 2, -1}, 0.5))),
        x({N, 3, H8, W8}));
  LAYER("paddings1d", nn::Sequential(nn::ReflectionPad1d(2), nn::ReplicationPad1d(1), nn::ConstantPad1d(1, 3.5)),
        x({N, 3, L8}));
  LAYER("paddings3d", nn::Sequential(nn::ReflectionPad3d(1), nn::ReplicationPad3d(1), nn::ConstantPad3d(1, 3.5)),
        x({N, 3, D8, H8, W8}));
  LAYER("dropouts", nn::Sequential(nn::Dropout(0.4), nn::Dropout2d(0.4), nn::AlphaDropout(), nn::FeatureAlphaDropout()),
        x({N, 3, H, W}));
}

void losses(Table& t) {
  LAYER("l1_loss", nn::L1Loss(), x({N, L}), x({N, L}));
  LAYER("mse_loss", nn::MSELoss(nn::MSELossOptions(torch::kSum)), x({N, L}), x({N, L}));
  LAYER("smooth_l1_loss", nn::SmoothL1Loss(), x({N, L}), x({N, L}));
  LAYER("huber_loss", nn::HuberLoss(nn::HuberLossOptions().delta(0.5)), x({N, L}), x({N, L}));
  LAYER("bce_loss", nn::BCELoss(), positive({N, L}), positive({N, L}));
  LAYER("bce_with_logits_loss", nn::BCEWithLogitsLoss(), x({N, L}), positive({N, L}));
  LAYER("nll_loss", nn::NLLLoss(), x({N, 5, L}), ids(5, {N, L}));
  LAYER("cross_entropy_loss", nn::CrossEntropyLoss(nn::CrossEntropyLossOptions().label_smoothing(0.1)), x({N, 5, L}),
        ids(5, {N, L}));
  LAYER("kl_div_loss", nn::KLDivLoss(nn::KLDivLossOptions().reduction(torch::kBatchMean)), x({N, L}), positive({N, L}));
  LAYER("poisson_nll_loss", nn::PoissonNLLLoss(), x({N, L}), positive({N, L}));
  LAYER("soft_margin_loss", nn::SoftMarginLoss(), x({N, L}), signs({N, L}));
  LAYER("hinge_embedding_loss", nn::HingeEmbeddingLoss(), x({N, L}), signs({N, L}));
  LAYER("cosine_embedding_loss", nn::CosineEmbeddingLoss(), x({N, 4}), x({N, 4}), signs({N}));
  LAYER("margin_ranking_loss", nn::MarginRankingLoss(), x({N, L}), x({N, L}), signs({N, L}));
  LAYER("triplet_margin_loss", nn::TripletMarginLoss(), x({N, 4}), x({N, 4}), x({N, 4}));
  LAYER("multi_margin_loss", nn::MultiMarginLoss(), x({N, 5}), ids(5, {N}));
  LAYER("multi_label_soft_margin_loss", nn::MultiLabelSoftMarginLoss(), x({N, 5}), positive({N, 5}));
}

// ---- models with sizes in their code ---------------------------------------------------------------------------

/// A network of fully connected layers on images of any batch.
struct MlpImpl : nn::Module {
  Tensor forward(Tensor x) {
    x = x.view({x.size(0), -1});
    return torch::log_softmax(second(torch::relu(first(x))), 1);
  }
  nn::Linear first = register_module("first", nn::Linear(3 * 4 * 5, 8)),
             second = register_module("second", nn::Linear(8, 3));
};
TORCH_MODULE(Mlp);

/// Everything between two convolutions goes through sizes.
struct CnnImpl : nn::Module {
  Tensor forward(Tensor x) {
    x = F::max_pool2d(torch::relu(norm(first(x))), F::MaxPool2dFuncOptions(2));
    const int64_t b = x.size(0), c = x.size(1), h = x.size(2), w = x.size(3);
    x = x.reshape({b, c, h * w}).transpose(1, 2).reshape({b, h, w, c}).permute({0, 3, 1, 2});
    x = torch::relu(second(x));
    return head(x.view({x.size(0), x.size(1), -1}).mean(2)) + 1.0 / static_cast<double>(c);
  }
  nn::Conv2d first = register_module("first", nn::Conv2d(nn::Conv2dOptions(3, 4, 3).padding(1)));
  nn::BatchNorm2d norm = register_module("norm", nn::BatchNorm2d(4));
  nn::Conv2d second = register_module("second", nn::Conv2d(nn::Conv2dOptions(4, 6, 3).padding(1)));
  nn::Linear head = register_module("head", nn::Linear(6, 3));
};
TORCH_MODULE(Cnn);

/// Down and up again, to the sizes of the way down.
struct UnetImpl : nn::Module {
  Tensor forward(Tensor x) {
    Tensor a = torch::relu(down(x));
    Tensor b = torch::relu(below(F::avg_pool2d(a, F::AvgPool2dFuncOptions(2).ceil_mode(true))));
    auto to = F::InterpolateFuncOptions().size(std::vector<int64_t>{a.size(2), a.size(3)}).mode(torch::kNearest);
    return up(torch::cat({a, F::interpolate(b, to)}, 1));
  }
  nn::Conv2d down = register_module("down", nn::Conv2d(nn::Conv2dOptions(3, 4, 3).padding(1)));
  nn::Conv2d below = register_module("below", nn::Conv2d(nn::Conv2dOptions(4, 4, 3).padding(1)));
  nn::Conv2d up = register_module("up", nn::Conv2d(nn::Conv2dOptions(8, 2, 1)));
};
TORCH_MODULE(Unet);

/// Residual blocks in a ModuleList, and a strided shortcut.
struct ResidualImpl : nn::Module {
  ResidualImpl() {
    for (int i = 0; i < 2; ++i)
      blocks->push_back(nn::Sequential(nn::Conv2d(nn::Conv2dOptions(4, 4, 3).padding(1).bias(false)),
                                       nn::BatchNorm2d(4), nn::ReLU()));
  }
  Tensor forward(Tensor x) {
    x = stem(x);
    for (const auto& block : *blocks) x = x + block->as<nn::Sequential>()->forward(x);
    return F::adaptive_avg_pool2d(x, F::AdaptiveAvgPool2dFuncOptions(1)).flatten(1);
  }
  nn::Conv2d stem = register_module("stem", nn::Conv2d(nn::Conv2dOptions(3, 4, 3).stride(2)));
  nn::ModuleList blocks = register_module("blocks", nn::ModuleList());
};
TORCH_MODULE(Residual);

/// Words to tags, with an initial state made in the code.
struct TaggerImpl : nn::Module {
  Tensor forward(Tensor ids) {
    Tensor words = embed(ids);
    Tensor state = torch::zeros({2, ids.size(0), 5}, words.options());
    Tensor out = std::get<0>(lstm(words, std::make_tuple(state, state)));
    return tags(out.reshape({-1, 10})).view({ids.size(0), ids.size(1), 3});
  }
  nn::Embedding embed = register_module("embed", nn::Embedding(11, 4));
  nn::LSTM lstm = register_module("lstm", nn::LSTM(nn::LSTMOptions(4, 5).bidirectional(true).batch_first(true)));
  nn::Linear tags = register_module("tags", nn::Linear(10, 3));
};
TORCH_MODULE(Tagger);

/// A decoder as people write it: positions, a causal mask, heads by view, and the last step.
struct GptImpl : nn::Module {
  Tensor forward(Tensor ids) {
    const int64_t b = ids.size(0), t = ids.size(1), heads = 2, d = 8;
    Tensor x = words(ids) + places(torch::arange(t));
    Tensor mask = torch::ones({t, t}).tril().view({1, 1, t, t});
    std::vector<Tensor> parts = qkv(norm(x)).chunk(3, -1);
    for (Tensor& p : parts) p = p.view({b, t, heads, d / heads}).transpose(1, 2);
    Tensor scores = parts[0].matmul(parts[1].transpose(-2, -1)) / std::sqrt(static_cast<double>(d / heads));
    scores = scores.masked_fill(mask == 0, -1e9).softmax(-1);
    x = x + out(scores.matmul(parts[2]).transpose(1, 2).contiguous().view({b, t, d}));
    return torch::cat({x.select(1, t - 1), x.mean(1), x.sum(1) / t}, 1);
  }
  nn::Embedding words = register_module("words", nn::Embedding(11, 8)),
                places = register_module("places", nn::Embedding(16, 8));
  nn::LayerNorm norm = register_module("norm", nn::LayerNorm(nn::LayerNormOptions({8})));
  nn::Linear qkv = register_module("qkv", nn::Linear(8, 24)), out = register_module("out", nn::Linear(8, 8));
};
TORCH_MODULE(Gpt);

/// Source and target, with the mask that torch makes.
struct TranslatorImpl : nn::Module {
  Tensor forward(Tensor source, Tensor target) {
    Tensor mask = nn::TransformerImpl::generate_square_subsequent_mask(target.size(1));
    auto turned = [](Tensor x) { return x.transpose(0, 1); };
    return turned(head(transformer(turned(embed(source)), turned(embed(target)), Tensor(), mask)));
  }
  nn::Embedding embed = register_module("embed", nn::Embedding(11, 8));
  nn::Transformer transformer =
      register_module("transformer", nn::Transformer(nn::TransformerOptions(8, 2, 1, 1).dim_feedforward(16)));
  nn::Linear head = register_module("head", nn::Linear(8, 11));
};
TORCH_MODULE(Translator);

/// Patches of an image, a class token for each, positions.
struct VitImpl : nn::Module {
  Tensor forward(Tensor x) {
    x = patches(x).flatten(2).transpose(1, 2);
    x = torch::cat({token.expand({x.size(0), -1, -1}), x}, 1);
    return encoder(x.transpose(0, 1)).select(0, 0);
  }
  nn::Conv2d patches = register_module("patches", nn::Conv2d(nn::Conv2dOptions(3, 8, 4).stride(4)));
  Tensor token = register_parameter("token", torch::randn({1, 1, 8}));
  nn::TransformerEncoderLayer encoder = register_module(
      "encoder", nn::TransformerEncoderLayer(nn::TransformerEncoderLayerOptions(8, 2).dim_feedforward(16)));
};
TORCH_MODULE(Vit);

/// An autoencoder: noise of the sample's size is part of training only.
struct VaeImpl : nn::Module {
  std::tuple<Tensor, Tensor, Tensor> forward(Tensor x) {
    Tensor hidden = torch::relu(encode(x.view({-1, 12})));
    Tensor mean = to_mean(hidden), deviation = to_deviation(hidden);
    Tensor z = is_training() ? mean + deviation.exp() * torch::randn_like(deviation) : mean;
    return {torch::sigmoid(decode(z)).view({x.size(0), x.size(1), 12}), mean, deviation};
  }
  nn::Linear encode = register_module("encode", nn::Linear(12, 6)),
             to_mean = register_module("to_mean", nn::Linear(6, 2)),
             to_deviation = register_module("to_deviation", nn::Linear(6, 2)),
             decode = register_module("decode", nn::Linear(2, 12));
};
TORCH_MODULE(Vae);

/// Sizes in values: what no shape shows.
struct SizesInValuesImpl : nn::Module {
  Tensor forward(Tensor x) {
    const int64_t b = x.size(0), t = x.size(1);
    Tensor place = torch::arange(t).to(torch::kFloat) * (t - 1);
    return x * b + place.unsqueeze(-1) - x.sum(1, true) / (b * t) + x.numel();
  }
};
TORCH_MODULE(SizesInValues);

/// Windows of 4 by 4.
struct WindowsImpl : nn::Module {
  Tensor forward(Tensor x) {
    const int64_t b = x.size(0), c = x.size(1), h = x.size(2), w = x.size(3);
    Tensor windows = x.view({b, c, h / 4, 4, w / 4, 4}).permute({0, 2, 4, 3, 5, 1}).reshape({-1, 16, c});
    windows = windows + mix(windows.mean(1, true));
    return windows.view({b, h / 4, w / 4, 4, 4, c}).permute({0, 5, 1, 3, 2, 4}).reshape({b, c, h, w});
  }
  nn::Linear mix = register_module("mix", nn::Linear(3, 3));
};
TORCH_MODULE(Windows);

/// Parameters of its own, one of them used twice and one tied.
struct TiedImpl : nn::Module {
  TiedImpl() { head->weight = embed->weight; }
  Tensor forward(Tensor ids) { return head(embed(ids) * scale) + embed(ids).sum(-1, true); }
  nn::Embedding embed = register_module("embed", nn::Embedding(11, 4));
  nn::Linear head = register_module("head", nn::Linear(nn::LinearOptions(4, 11).bias(false)));
  Tensor scale = register_parameter("scale", torch::randn({4})), unused = register_buffer("unused", torch::ones({3}));
};
TORCH_MODULE(Tied);

/// A generator of images from noise.
struct GeneratorImpl : nn::Module {
  Tensor forward(Tensor noise) { return up->forward(start(noise).view({noise.size(0), 4, 3, 3})); }
  nn::Linear start = register_module("start", nn::Linear(5, 36));
  nn::Sequential up = register_module(
      "up", nn::Sequential(nn::ConvTranspose2d(nn::ConvTranspose2dOptions(4, 4, 4).stride(2).padding(1)),
                           nn::BatchNorm2d(4), nn::ReLU(),
                           nn::ConvTranspose2d(nn::ConvTranspose2dOptions(4, 3, 4).stride(2).padding(1)), nn::Tanh()));
};
TORCH_MODULE(Generator);

/// Fewer pixels to more.
struct SuperResolutionImpl : nn::Module {
  Tensor forward(Tensor x) {
    Tensor up = shuffle(second(torch::relu(first(x))));
    return up + F::interpolate(x, F::InterpolateFuncOptions()
                                      .size(std::vector<int64_t>{x.size(2) * 2, x.size(3) * 2})
                                      .mode(torch::kBilinear)
                                      .align_corners(false));
  }
  nn::Conv2d first = register_module("first", nn::Conv2d(nn::Conv2dOptions(1, 4, 5).padding(2)));
  nn::Conv2d second = register_module("second", nn::Conv2d(nn::Conv2dOptions(4, 4, 3).padding(1)));
  nn::PixelShuffle shuffle = register_module("shuffle", nn::PixelShuffle(2));
};
TORCH_MODULE(SuperResolution);

/// Attention over the steps of a recurrent network, and loops over layers.
struct PoolerImpl : nn::Module {
  Tensor forward(Tensor x) {
    Tensor steps = std::get<0>(gru(x));
    Tensor weights = torch::softmax(score(steps).squeeze(-1), 1);
    Tensor pooled = torch::bmm(weights.view({x.size(0), 1, x.size(1)}), steps).squeeze(1);
    return torch::cat({pooled, std::get<0>(steps.max(1)), steps.flip({1}).select(1, 0)}, -1);
  }
  nn::GRU gru = register_module("gru", nn::GRU(nn::GRUOptions(4, 5).batch_first(true)));
  nn::Linear score = register_module("score", nn::Linear(5, 1));
};
TORCH_MODULE(Pooler);

/// Cells that a loop in C++ runs over the steps.
struct LoopedImpl : nn::Module {
  Tensor forward(Tensor x) {
    Tensor h = torch::zeros({x.size(0), 5}), c = torch::zeros({x.size(0), 5});
    std::vector<Tensor> outputs;
    for (int64_t t = 0; t < x.size(1); ++t) {
      std::tie(h, c) = cell(x.select(1, t), std::make_tuple(h, c));
      outputs.push_back(h);
    }
    return torch::stack(outputs, 1);
  }
  nn::LSTMCell cell = register_module("cell", nn::LSTMCell(4, 5));
};
TORCH_MODULE(Looped);

Tensor tanh_cell(Tensor x, Tensor weight) {
  Tensor h = torch::zeros({x.size(0), 3});
  for (const Tensor& step : x.unbind(1)) h = torch::tanh(torch::cat({step, h}, 1).matmul(weight));
  return h;
}

Tensor moving_average(Tensor x) {
  std::vector<Tensor> outputs = {x.select(1, 0)};
  for (int64_t t = 1; t < x.size(1); ++t) outputs.push_back(outputs.back() * 0.9 + x.select(1, t) * 0.1);
  return torch::stack(outputs, 1);
}

/// Nested arguments and results.
struct NestedImpl : nn::Module {
  std::tuple<Tensor, std::map<std::string, Tensor>, std::vector<Tensor>, std::optional<Tensor>> forward(
      std::pair<Tensor, Tensor> pair, std::vector<Tensor> list, std::map<std::string, Tensor> table,
      std::optional<Tensor> maybe = {}, int64_t turns = 1) {
    Tensor sum = pair.first + pair.second;
    for (int64_t i = 0; i < turns; ++i) sum = sum + list.at(0) * table.at("scale");
    return {sum, {{"mean", sum.mean(1)}, {"scaled", layer(sum)}}, {list[0] + 1, list[1].view({-1})}, maybe};
  }
  nn::Linear layer = register_module("layer", nn::Linear(4, 4));
};
TORCH_MODULE(Nested);

Tensor twice(const Tensor& x) { return x + x; }

TORCH_LIBRARY(lithify_test, m) { m.def("twice(Tensor x) -> Tensor", twice); }

struct CustomImpl : nn::Module {
  Tensor forward(Tensor x) {
    static auto op =
        c10::Dispatcher::singleton().findSchemaOrThrow("lithify_test::twice", "").typed<Tensor(const Tensor&)>();
    return op.call(layer(x)).relu();
  }
  nn::Linear layer = register_module("layer", nn::Linear(4, 4));
};
TORCH_MODULE(Custom);

lithify::capture::Traced with_softmax(Mlp net) {
  return lithify::with_weights(net, [net](Tensor x) mutable { return net->forward(x).softmax(-1); });
}

torch::jit::Module script() {
  torch::jit::Module module("m");
  module.register_parameter("weight", torch::randn({4, 3}), false);
  module.define(R"(
    def forward(self, x):
        y = x.view(x.size(0) * x.size(1), -1).matmul(self.weight)
        return {"y": y.view(x.size(0), x.size(1), -1), "z": x - 1}
  )");
  return module;
}

torch::jit::Module loaded(const torch::jit::Module& module) {
  std::stringstream file;
  module.save(file);
  return torch::jit::load(file);
}

Tensor branch_on_size(Tensor x) { return x.size(0) > 4 ? x : x + 1; }

/// How many elements are added is a number that no formula explains.
Tensor padded_to_four(Tensor x) {
  const int64_t rest = x.size(1) % 4;
  if (rest != 0) x = F::pad(x, F::PadFuncOptions({0, 0, 0, 4 - rest}));
  return x.view({x.size(0), -1, 4, 2}).sum(2);
}

/// What its memory holds is not in a trace.
Tensor hidden_number(Tensor x) { return x * x.data_ptr<float>()[0]; }
Tensor hidden_tensor(Tensor x) { return x + x.tensor_data().sum(0); }
Tensor branch_on_contents(Tensor x) { return x.sum().item<float>() > 0 ? x : -x; }
Tensor comparison(Tensor x) { return torch::equal(x, x.clone()) ? x : x + 1; }
Tensor one_size(Tensor x) { return x.view({2, 6}); }
Tensor no_result(Tensor) { return Tensor(); }

/// No simple condition on the size decides how it goes on.
Tensor branches_everywhere(Tensor x) {
  for (int64_t n = x.size(0); n > 1; n = n % 2 ? 3 * n + 1 : n / 2) x = n % 2 ? x.sin() : x.cos();
  return x;
}

/// What cannot be exported.
void refused(Table& t) {
  REFUSED("hidden_number", &hidden_number, x({3, 4}));
  REFUSED("hidden_tensor", &hidden_tensor, x({3, 4}));
  REFUSED("branches_everywhere", &branches_everywhere, x({N, 4}));
  REFUSED("padded_to_four", &padded_to_four, x({N, L, 2}));
  REFUSED("branch_on_contents", &branch_on_contents, x({N, 4}));
  REFUSED("comparison", &comparison, x({N, 4}));
  REFUSED("resize", nn::CrossMapLRN2d(3), x({2, 6, 4, 4}));
  REFUSED("one_size", &one_size, x({N, 6}));
  REFUSED("no_result", &no_result, x({N, 6}));
  REFUSED("too_many_inputs", Mlp(), x({N, 60}), x({N, 3}));
}

void models(Table& t) {
  LAYER("mlp", Mlp(), x({N, 3, 4, 5}));
  LAYER("mlp_by_shared_pointer", std::make_shared<MlpImpl>(), x({N, 3, 4, 5}));
  LAYER("cnn", Cnn(), x({N, 3, H8, W8}));
  LAYER("unet", Unet(), x({N, 3, H, W}));
  LAYER("residual", Residual(), x({N, 3, H8, W8}));
  LAYER("tagger", Tagger(), ids(11, {N, L}));
  LAYER("gpt", Gpt(), ids(11, {N, {"length", 6, 1, 4, 16}}));
  LAYER("translator", Translator(), ids(11, {N, {"source", 7, 1, 3, 10}}), ids(11, {N, L}));
  LAYER("vit", Vit(), x({N, 3, {"height", 8, 4, 12, 15}, {"width", 12, 4, 9, 20}}));
  LAYER("vae", Vae(), x({N, L, 12}));
  LAYER("sizes_in_values", SizesInValues(), x({N, L, 3}));
  LAYER("windows", Windows(), x({N, 3, H4, W4}));
  LAYER("tied", Tied(), ids(11, {N, L}));
  LAYER("generator", Generator(), x({N, 5}));
  LAYER("super_resolution", SuperResolution(), x({N, 1, H, W}));
  LAYER("pooler", Pooler(), x({N, L, 4}));
  LAYER("from_one", Cnn(), x({{"batch", 1, 2, 3, 5}, 3, H8, W8}));
  LAYER("sequential",
        nn::Sequential(nn::Linear(4, 5), nn::Functional(torch::relu), nn::LayerNorm(nn::LayerNormOptions({5}))),
        x({N, L, 4}));
  if (Model* m = LAYER("nested", Nested(), x({N, 4}), x({N, 4}), x({N, 4}), x({L, 2}), x({4}))) {
    m->pack = [](std::vector<Tensor> in) {
      c10::Dict<std::string, Tensor> table;
      table.insert("scale", in[4]);
      return ModuleInputs{std::make_tuple(in[0], in[1]), std::vector<Tensor>{in[2], in[3]}, table, c10::IValue(),
                          int64_t{2}};
    };
    m->options.input_names = {"a", "b", "c", "d", "scale"};
  }
  if (Model* m = LAYER("custom_operator", Custom(), x({N, L, 4}))) {
    auto run = [](lithify::CustomCall& c) { return c.node("Add", {c.tensor("x"), c.tensor("x")}); };
    m->options.plugins = {{"lithify_test::twice(Tensor x) -> Tensor", run}};
  }
  if (Model* m = LAYER("opset_11", Gpt(), ids(11, {N, {"length", 6, 1, 4, 16}}))) m->options.opset = 11;

  LAYER(
      "lambda",
      [](Tensor a, const Tensor& b) {
        return a.view({a.size(0) * a.size(1), -1}).matmul(b);
      },
      x({N, L, 4}), x({4, 3}));
  LAYER("pointer_to_function", &twice, x({N, L}));
  LAYER("loop_of_lstm_cells", Looped(), x({N, L, 4}));
  LAYER("loop_over_pieces", &tanh_cell, x({N, L, 4}), x({7, 3}));
  LAYER("loop_that_appends", &moving_average, x({N, L, 4}));
  LAYER("branch_on_size", &branch_on_size, x({N, 4}));
  if (Model* m = LAYER("with_weights", with_softmax(Mlp()), x({N, 3, 4, 5}))) m->options.output_names = {"likely"};
  LAYER("script", script(), x({N, L, 4}));
  LAYER("script_loaded", loaded(script()), x({N, L, 4}));
  if (Model* m = LAYER("function", &twice, x({N, L})))
    m->to = [](const ModuleInputs& in, const std::string& out, const lithify::ExportOptions& options) {
      auto unit = torch::jit::compile("def inner(x):\n  return x * 2\ndef twice(x):\n  return inner(x)\n");
      return lithify::export_module(unit->get_function("twice"), in, out, options);
    };
}

// ---- the program -----------------------------------------------------------------------------------------------

lithify::ExportOptions options_of(const Model& model) {
  lithify::ExportOptions options = model.options;
  for (size_t i = options.input_names.size(); i < model.inputs.size(); ++i)
    options.input_names.push_back("x" + std::to_string(i));
  for (size_t i = 0; i < model.inputs.size(); ++i)
    for (size_t axis = 0; axis < model.inputs[i].shape.size(); ++axis)
      if (const Size& size = model.inputs[i].shape[axis]; !size.name.empty())
        options.dynamic_axes[options.input_names[i]][static_cast<int64_t>(axis)] = size.name;
  return options;
}

void save(const std::vector<Tensor>& inputs, const lithify::capture::Leaves& outputs, const std::string& path) {
  std::vector<Tensor> results;
  for (const auto& leaf : outputs) results.push_back(leaf.second);
  const std::vector<char> bytes = torch::pickle_save(std::make_tuple(inputs, results));
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

/// What an export must leave as it is.
std::vector<Tensor> state_of(const Model& model) {
  std::vector<Tensor> out = {at::globalContext().defaultGenerator(at::kCPU).get_state(),
                             torch::tensor(at::GradMode::is_enabled())};
  if (!model.module) return out;
  for (const auto& m : model.module->modules()) out.push_back(torch::tensor(m->is_training()));
  for (const Tensor& t : model.module->parameters()) out.push_back(t.detach().clone());
  for (const Tensor& t : model.module->buffers()) out.push_back(t.clone());
  return out;
}

int run(Model& model, const std::string& folder) {
  std::vector<std::vector<Tensor>> drawn(runs);
  for (size_t r = 0; r < runs; ++r)
    for (const Input& input : model.inputs) drawn[r].push_back(input.draw(r));
  if (model.module) {
    torch::NoGradGuard no_grad;
    for (Tensor& p : model.module->parameters()) p.copy_(torch::randn_like(p) * 0.3);
    for (Tensor& b : model.module->buffers())
      if (b.is_floating_point()) b.copy_(torch::rand_like(b) + 0.5);
  }

  const std::vector<Tensor> before = state_of(model);
  const lithify::ExportResult result = model.to(model.pack(drawn[0]), folder + "/model.onnx", options_of(model));
  const std::vector<Tensor> after = state_of(model);
  for (size_t i = 0; i < before.size(); ++i)
    if (!torch::equal(before[i], after[i])) throw std::runtime_error("the export has changed the model");

  for (const auto& d : result.dimensions) std::cout << d.name << ": " << d.str() << "\n";
  torch::NoGradGuard no_grad;
  if (model.module) model.module->eval();
  for (size_t r = 0; r < runs; ++r)
    save(drawn[r], model.run(model.pack(drawn[r])), folder + "/" + std::to_string(r) + ".pt");
  return 0;
}

}  // namespace

int main(int argc, char** argv) try {
  torch::manual_seed(7);
  Table table(argc > 1 ? argv[1] : "");
  layers_of_conv(table);
  layers_of_norm(table);
  layers_of_pool(table);
  layers_of_rnn(table);
  layers_of_attention(table);
  layers_of_rest(table);
  losses(table);
  models(table);
  refused(table);
  if (argc == 3 && table.found) return run(*table.found, argv[2]);
  for (const std::string& name : table.names) std::cout << name << "\n";
  return argc == 1 ? 0 : 2;
} catch (const lithify::ExportError& e) {
  for (const lithify::Message& m : e.messages) std::cerr << m.pretty << "\n";
  return 1;
}
