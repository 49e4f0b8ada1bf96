// The C ABI by random sequences of calls, on handles that may be freed, null or of the other kind.
#include "fuzz/fuzz.hpp"
#include "lithify/lithify.h"

namespace {

using lithify::fuzz::Choices;

class Caller {
 public:
  explicit Caller(Choices& choices) : choices_(choices) {}
  ~Caller() {
    for (lithify_options* o : options_) lithify_options_free(o);
    for (lithify_result* r : results_) lithify_result_free(r);
  }

  void call() {
    lithify_options* options = pick(options_, results_);
    lithify_result *result = pick(results_, options_), *made = nullptr;
    const std::string text = this->text();
    switch (choices_.below(16)) {
      case 0:
        options_.push_back(lithify_options_new());
        break;
      case 1:
        check(lithify_options_free(options));
        break;
      case 2:
        check(lithify_options_set_opset(options, static_cast<int>(choices_.below(40)) - 4));
        break;
      case 3:
        check(lithify_options_add_input(options, text.c_str()));
        break;
      case 4:
        check(lithify_options_add_dynamic_axis(options, "x", static_cast<int64_t>(choices_.byte()) - 9, text.c_str()));
        break;
      case 5:
        check(lithify_options_set_target(options, text.c_str()));
        break;
      case 6:
        check(lithify_options_set_custom_operators(options, text.c_str()));
        break;
      case 7:
        check(lithify_options_set_state(options, static_cast<int>(choices_.byte()) - 3));
        break;
      case 8:
        check(lithify_check_bytes(text.data(), text.size(), options, &made));
        break;
      case 9:
        check(lithify_inspect_bytes(text.data(), text.size(), &made));
        break;
      case 10:
        check(lithify_claims_bytes(text.data(), text.size(), &made));
        break;
      case 11:
        check(lithify_result_free(result));
        break;
      case 12:
        lithify_result_message(result, choices_.byte());
        break;
      case 13:
        lithify_result_json(result);
        break;
      case 14:
        lithify_result_input(result, choices_.byte());
        break;
      default: {
        size_t size = 0;
        lithify_result_bytes(result, choices_.one_in(4) ? nullptr : &size);
      }
    }
    if (made) results_.push_back(made);
  }

 private:
  static void check(lithify_status status) {
    if (status == LITHIFY_ERROR_INTERNAL) std::abort();
  }
  template <class Own, class Other>
  Own* pick(const std::vector<Own*>& own, const std::vector<Other*>& others) {
    if (choices_.one_in(8)) return nullptr;
    if (!others.empty() && choices_.one_in(8)) return reinterpret_cast<Own*>(choices_.of(others));
    return own.empty() ? nullptr : choices_.of(own);
  }
  std::string text() {
    std::string out(choices_.below(24), '\0');
    for (char& ch : out) ch = static_cast<char>(choices_.byte());
    return out;
  }

  Choices& choices_;
  std::vector<lithify_options*> options_;
  std::vector<lithify_result*> results_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Choices choices(data, size);
  Caller caller(choices);
  while (!choices.empty()) caller.call();
  return 0;
}
