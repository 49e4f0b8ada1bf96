#include <doctest/doctest.h>

#include <cmath>

#include "archive/pickle.hpp"
#include "model_bytes.hpp"

using namespace lithify;
using namespace lithify::test;
using namespace std::string_literals;
using archive::Pickle;
using archive::PickleLimits;
using archive::PickleValue;
using Kind = PickleValue::Kind;

namespace {

std::optional<Code> code_of_loading(const std::string& bytes, PickleLimits limits = {}) {
  return code_of([&] { Pickle(record_of(bytes), limits); });
}

std::string message_of_loading(const std::string& bytes) {
  try {
    Pickle(record_of(bytes));
    return {};
  } catch (const Error& e) {
    return e.first().message;
  }
}

std::string repeated(std::string_view text, size_t times) {
  std::string out;
  out.reserve(text.size() * times);
  for (size_t i = 0; i < times; ++i) out += text;
  return out;
}

}  // namespace

TEST_CASE("scalars") {
  const Pickle p(
      record_of(pickle::whole(pickle::tuple("N\x88\x89K\xffM\xff\xffJ\xfe\xff\xff\xff"
                                            "\x8a\x00\x8a\x01\x80\x8a\x02\x00\x80G\xbf\xf8\x00\x00\x00\x00\x00\x00"s +
                                            pickle::integer(INT64_MIN) + pickle::text("h\xc3\xa9") +
                                            "\x8c\x01zC\x02\x00\x01"s + "\x8a\x09" + std::string(9, '\1')))));
  const auto items = p.root().items();
  REQUIRE(items.size() == 15);
  CHECK(items[0].is(Kind::None));
  CHECK(items[1].boolean());
  CHECK_FALSE(items[2].boolean());
  CHECK(items[3].integer() == 255);
  CHECK(items[4].integer() == 65535);
  CHECK(items[5].integer() == -2);
  CHECK(items[6].integer() == 0);
  CHECK(items[7].integer() == -128);
  CHECK(items[8].integer() == -32768);
  CHECK(items[9].real() == -1.5);
  CHECK(items[10].integer() == INT64_MIN);
  CHECK(items[11].text() == "h\xc3\xa9");
  CHECK(items[12].text() == "z");
  CHECK(items[13].is(Kind::Bytes));
  CHECK(items[14].is(Kind::Long));
  CHECK(items[14].text().size() == 9);
}

TEST_CASE("containers, objects, calls and persistent ids stay inert") {
  const std::string bytes = pickle::whole(
      pickle::tuple(pickle::list(pickle::integer(1)) +
                    "](K\x01l"
                    "a" +
                    pickle::dict(pickle::text("k") + pickle::integer(2)) + "}" + pickle::text("a") + "Ns" + "(" +
                    pickle::text("b") + "Nd" + pickle::object("__torch__.a", "B", pickle::dict("")) +
                    pickle::call(pickle::global("os", "system"), pickle::text("id")) + pickle::text("id") + "Q"));
  const Pickle p(record_of(bytes + "trailing"));
  CHECK(p.size() == bytes.size());
  const auto items = p.root().items();
  REQUIRE(items.size() == 8);
  CHECK(items[0].is(Kind::List));
  CHECK(items[1].items()[0].items()[0].integer() == 1);
  CHECK(items[2].items()[1].integer() == 2);
  CHECK(items[3].items().size() == 2);
  CHECK(items[4].is(Kind::Dict));
  CHECK(items[5].is(Kind::Object));
  CHECK(items[5].head().qualified_name() == "__torch__.a.B");
  CHECK(items[5].state().is(Kind::Dict));
  CHECK(items[6].calls("os", "system"));
  CHECK(items[6].args().items()[0].text() == "id");
  CHECK(items[7].is(Kind::Persistent));
}

TEST_CASE("what is fetched from the memo is the same value") {
  const Pickle p(record_of(pickle::whole("(]q\x05h\x05r\xff\xff\xff\xffj\xff\xff\xff\xfft"s)));
  const auto items = p.root().items();
  REQUIRE(items.size() == 3);
  CHECK(items[0].node() == items[1].node());
  CHECK(items[0].node() == items[2].node());
  CHECK(code_of_loading(pickle::whole("(h\x05t")) == Code::BadPickle);
  CHECK(code_of_loading(pickle::whole("(j\xff\xff\xff\xfft")) == Code::BadPickle);
}

TEST_CASE("opcodes that could run something are refused by their offset") {
  for (const std::string& op : {"(ios\nsystem\n"s, "(o"s, "\x93"s, "\x82\x01"s, "\x83\x01\x01"s,
                                "\x84\x01\x01\x01\x01"s, "\x92"s, "2"s, "Pid\n"s, "\x97"s, "\xff"s})
    CHECK(code_of_loading(pickle::whole("N" + op)) == Code::BadPickle);
  CHECK(message_of_loading(pickle::whole("N\x93")).find("byte 3 ") != std::string::npos);
}

TEST_CASE("the stack cannot be taken below its floor or mark") {
  for (const std::string& body :
       {""s,    "("s,   "NN"s, "t"s,   "e"s,      "\x85"s, "(\x85"s, "R"s,     "NR"s,      "b"s,
        "Nb"s,  "Q"s,   "a"s,  "Na"s,  "(e"s,     "(Ne"s,  "](N(e"s, "q\x01"s, "(q\x01t"s, "}(Nu"s,
        "(Nd"s, "}Ns"s, ")R"s, "NNR"s, "N)\x81"s, "NNb"s,  "](ub"s,  "]Nb"s})
    CHECK(code_of_loading(pickle::whole(body)) == Code::BadPickle);
  CHECK(code_of_loading("") == Code::BadPickle);
  CHECK(code_of_loading("N.") == Code::BadPickle);
  CHECK(code_of_loading("\x80\x01N.") == Code::BadPickle);
}

TEST_CASE("lengths that lie are refused") {
  CHECK(code_of_loading("\x80\x02X\xff\xff\xff\xff"
                        "abc.") == Code::BadPickle);
  CHECK(code_of_loading("\x80\x02\x8d\xff\xff\xff\xff\xff\xff\xff\xff"
                        "abc.") == Code::BadPickle);
  CHECK(code_of_loading("\x80\x02\x8a\xff"
                        "abc.") == Code::BadPickle);
}

TEST_CASE("every prefix is refused") {
  const std::string bytes = pickle::whole(pickle::object(
      "__torch__", "M",
      pickle::dict(pickle::text("w") + pickle::tensor(pickle::storage("FloatStorage", "0", 4), 0, {2, 2}, {2, 1}))));
  REQUIRE(code_of_loading(bytes) == std::nullopt);
  for (size_t n = 0; n < bytes.size(); ++n) CHECK(code_of_loading(bytes.substr(0, n)) == Code::BadPickle);
}

TEST_CASE("nesting is limited, however it is made") {
  constexpr size_t many = 1000000;
  CHECK(code_of_loading(pickle::whole(")" + repeated("\x85", many))) == Code::LimitExceeded);
  CHECK(code_of_loading(pickle::whole(repeated("](", many) + repeated("e", many))) == Code::LimitExceeded);
  CHECK(code_of_loading(pickle::whole(repeated("]", many) + repeated("a", many - 1))) == Code::LimitExceeded);
  // Lists that are put into each other only after they were put into the outer one.
  std::string late = "(";
  for (uint32_t i = 0; i < 5000; ++i) late += "]r" + le(i, 4);
  late += "t(";
  for (uint32_t i = 0; i + 1 < 5000; ++i) late += "j" + le(i, 4) + "j" + le(i + 1, 4) + "a";
  CHECK(code_of_loading(pickle::whole(late + "t\x86")) == Code::LimitExceeded);
  CHECK(code_of_loading(pickle::whole(")" + repeated("\x85", 900))) == std::nullopt);
}

TEST_CASE("a value that contains itself is refused") {
  CHECK(code_of_loading(pickle::whole("]q\x01h\x01"
                                      "a")) == Code::BadPickle);
  CHECK(code_of_loading(pickle::whole(pickle::global("a", "b") + ")\x81q\x01h\x01"
                                                                 "b")) == Code::BadPickle);
}

TEST_CASE("a tree that doubles at every level costs what its bytes cost") {
  std::string bytes = ")";
  for (int i = 0; i < 900; ++i) bytes += "q\x01h\x01\x86";
  CHECK(code_of_loading(pickle::whole(bytes)) == std::nullopt);
}

TEST_CASE("the number of containers is limited") {
  CHECK(code_of_loading(pickle::whole("(" + repeated(")", 100) + "t"), {.depth = 10, .containers = 100}) ==
        Code::LimitExceeded);
}

TEST_CASE("damaged pickles end in a diagnostic") {
  const std::string bytes = pickle::whole(pickle::object(
      "__torch__", "M",
      pickle::dict(pickle::text("w") + pickle::tensor(pickle::storage("FloatStorage", "0", 4), 0, {2, 2}, {2, 1}))));
  for (size_t i = 0; i < bytes.size(); ++i)
    for (int value = 0; value < 256; ++value) {
      std::string damaged = bytes;
      damaged[i] = static_cast<char>(value);
      const auto code = code_of_loading(damaged);
      CHECK((!code || code == Code::BadPickle || code == Code::LimitExceeded));
      archive::pickled_globals(record_of(damaged).bytes);
    }
}

TEST_CASE("globals are listed for any protocol, and nothing is built") {
  const auto globals = [](const std::string& bytes) { return archive::pickled_globals(record_of(bytes).bytes); };
  using Names = std::vector<std::string>;
  CHECK(globals("(i__main__\nNet\np0\n(dp1\nb.") == Names{"__main__.Net"});
  CHECK(globals(pickle::whole(pickle::global("os", "system") + pickle::global("os", "system"))) == Names{"os.system"});
  CHECK(globals(
            "\x80\x04\x95\x20\0\0\0\0\0\0\0\x8c\x02os\x94\x8c\x06system\x94\x93\x94\x8c\x02id\x94h\0h\x01\x93\x94."s) ==
        Names{"os.system"});
  CHECK(globals("\x80\x02"
                "cos\nsystem\n\xff") == Names{"os.system"});
  CHECK(globals("") == Names{});
}
