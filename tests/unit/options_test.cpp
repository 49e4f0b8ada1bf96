// Options in the texts of diagnostics, as each interface spells them.
#include "base/options.hpp"

#include <doctest/doctest.h>

#include <stdexcept>

#include "base/diagnostic.hpp"
#include "lithify/lithify.hpp"
#include "model_bytes.hpp"

namespace lithify {
namespace {

using namespace test;

constexpr Interface all[] = {Interface::Cpp, Interface::C, Interface::Python, Interface::CommandLine};

/// The text as users of C++, C, Python and the command line read it.
void reads(const std::string& text, const std::vector<std::string>& expected) {
  for (size_t i = 0; i < 4; ++i) CHECK(spelled(text, all[i]) == expected[i]);
}

/// A scripted model without a word about its input, whose parameter has this name.
std::string scripted(const std::string& parameter) {
  return zip_of({{.name = "net/version", .data = "3\n"},
                 {.name = "net/byteorder", .data = "little"},
                 {.name = "net/constants.pkl", .data = "\x80\x02)."},
                 {.name = "net/data.pkl", .data = pickle::whole(pickle::object("__torch__", "Net", pickle::dict("")))},
                 {.name = "net/code/__torch__.py",
                  .data = "class Net(Module):\n"
                          "  __parameters__ = []\n"
                          "  __buffers__ = []\n"
                          "  def forward(self: __torch__.Net,\n"
                          "    " +
                          parameter + ": Tensor) -> Tensor:\n    return torch.relu(" + parameter + ")\n"}});
}

}  // namespace

TEST_CASE("an option is named as each interface spells it") {
  reads("by " + option("also"),
        {"by ExportOptions::also", "by lithify_options_add_also", "by also of lithify.convert", "by --also"});
  reads(option("state", "io") + " or " + option("state", "frozen"),
        {"options.state = lithify::ExportOptions::State::InOut or options.state = "
         "lithify::ExportOptions::State::Frozen",
         "lithify_options_set_state(options, LITHIFY_STATE_IO) or lithify_options_set_state(options, "
         "LITHIFY_STATE_FROZEN)",
         "state=\"io\" or state=\"frozen\"", "--state io or --state frozen"});
  reads(option("opset", 14) + " or higher",
        {"options.opset = 14 or higher", "lithify_options_set_opset(options, 14) or higher",
         "opset_version=14 or higher", "--opset 14 or higher"});
  reads(option("strict"),
        {"options.strict = true", "lithify_options_set_strict(options, 1)", "strict=True", "--strict"});
  reads(option("inputs", "x:float32[2]"),
        {"options.inputs = {\"x:float32[2]\"}", "lithify_options_add_input(options, \"x:float32[2]\")",
         "inputs=[\"x:float32[2]\"] of lithify.convert", "--input 'x:float32[2]'"});
  reads(term("operators"),
        {"lithify::supported_operators()", "lithify_operators", "lithify.supported_operators()", "`lithify ops`"});
}

TEST_CASE("every option that a message may name has a spelling") {
  for (const Option& o : all_options())
    for (Interface interface : all) CHECK_NOTHROW(spelled(option(o.name), interface));
  CHECK_THROWS_AS(option("nothing"), std::logic_error);
}

TEST_CASE("a text from a file cannot name an option, and control characters in it are escaped") {
  const std::string real = option("also");
  CHECK(spelled("\x1e"
                "0123456789abcdef:also\x1f\x1e",
                Interface::Cpp) == "\\x1e0123456789abcdef:also\\x1f\\x1e");
  CHECK(spelled(real.substr(1), Interface::Cpp).find("ExportOptions") == std::string::npos);
  CHECK(spelled("a\x1f"
                "b\x1b[0m" +
                    real,
                Interface::CommandLine) == "a\\x1fb\\x1b[0m--also");
  for (size_t n = 0; n + 1 < real.size(); ++n)
    CHECK(spelled(real.substr(0, n) + "\x1e", Interface::CommandLine).find("--also") == std::string::npos);
  const std::string hostile = "x\x1f\x1e\x1b[2Jy";
  CHECK(spelled(option("inputs", hostile) + hostile, Interface::CommandLine) ==
        "--input 'x\\x1f\\x1e\\x1b[2Jy'x\\x1f\\x1e\\x1b[2Jy");
}

TEST_CASE("choices have one name in all interfaces") {
  ExportOptions options;
  set_choice(options, "state", "io");
  CHECK(options.state == ExportOptions::State::InOut);
  set_choice(options, "recover", "guess");
  CHECK(options.recover == ExportOptions::Recover::Guess);
  CHECK(choices("external_data") == std::vector<std::string>{"auto", "always", "never"});
  CHECK_THROWS_WITH_AS(set_choice(options, "state", "perhaps"), "state is 'error', 'io' or 'frozen', not 'perhaps'",
                       std::invalid_argument);
}

TEST_CASE("the hint of a failing export names the option of the interface that was called") {
  const std::string model = scripted("x");
  const char* expected[] = {"options.inputs = {\"x:float32[batch,3,224,224]\"}",
                            "lithify_options_add_input(options, \"x:float32[batch,3,224,224]\")",
                            "inputs=[\"x:float32[batch,3,224,224]\"] of lithify.convert",
                            "--input 'x:float32[batch,3,224,224]'"};
  for (size_t i = 0; i < 4; ++i) {
    ExportOptions options;
    options.interface = all[i];
    const CheckResult r = check_file(ModelSource(Bytes(model.data(), model.size())), options);
    REQUIRE(r.messages.size() == 1);
    CHECK(r.messages[0].code == "LTH022");
    CHECK(r.messages[0].hint == std::string("specify it: ") + expected[i]);
    CHECK(r.messages[0].pretty.find(expected[i]) != std::string::npos);
  }
}

}  // namespace lithify
