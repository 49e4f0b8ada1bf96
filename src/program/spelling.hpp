// How the serialized TorchScript text spells operators: shared by the parser and the printer.
#pragma once

#include <string_view>
#include <utility>

namespace lithify::program {

/// Calls whose spelling does not follow from the operator's name: text, operator. Every other operator is written
/// torch.NAME for aten::NAME and ops.NS.NAME for NS::NAME; a known overload follows as .OVERLOAD.
inline constexpr std::pair<std::string_view, std::string_view> kSpellings[] = {
    {"int", "aten::Int"},
    {"float", "aten::Float"},
    {"bool", "aten::Bool"},
    {"str", "aten::str"},
    {"sorted", "aten::sorted"},
    {"print", "prim::Print"},
    {"fork", "prim::fork"},
    {"awaitable", "prim::awaitable"},
    {"torch.autograd.grad", "aten::grad"},
    {"torch.autograd.backward", "aten::backward"},
};

/// Written as a method of its first argument: x.tolist().
inline constexpr std::string_view kToList = "prim::tolist";

}  // namespace lithify::program
