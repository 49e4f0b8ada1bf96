#include "archive/pickle.hpp"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "base/diagnostic.hpp"

namespace lithify::archive {
namespace {

using Kind = PickleValue::Kind;
using Bytes = std::span<const std::byte>;

enum Op : uint8_t {
  MARK = '(',
  STOP = '.',
  POP = '0',
  POP_MARK = '1',
  DUP = '2',
  FLOAT = 'F',
  INT = 'I',
  BININT = 'J',
  BININT1 = 'K',
  LONG = 'L',
  BININT2 = 'M',
  NONE = 'N',
  PERSID = 'P',
  BINPERSID = 'Q',
  REDUCE = 'R',
  STRING = 'S',
  BINSTRING = 'T',
  SHORT_BINSTRING = 'U',
  UNICODE = 'V',
  BINUNICODE = 'X',
  APPEND = 'a',
  BUILD = 'b',
  GLOBAL = 'c',
  DICT = 'd',
  EMPTY_DICT = '}',
  APPENDS = 'e',
  GET = 'g',
  BINGET = 'h',
  INST = 'i',
  LONG_BINGET = 'j',
  LIST = 'l',
  EMPTY_LIST = ']',
  OBJ = 'o',
  PUT = 'p',
  BINPUT = 'q',
  LONG_BINPUT = 'r',
  SETITEM = 's',
  TUPLE = 't',
  EMPTY_TUPLE = ')',
  SETITEMS = 'u',
  BINFLOAT = 'G',
  BINBYTES = 'B',
  SHORT_BINBYTES = 'C',
  PROTO = 0x80,
  NEWOBJ = 0x81,
  EXT1 = 0x82,
  EXT2 = 0x83,
  EXT4 = 0x84,
  TUPLE1 = 0x85,
  TUPLE2 = 0x86,
  TUPLE3 = 0x87,
  NEWTRUE = 0x88,
  NEWFALSE = 0x89,
  LONG1 = 0x8a,
  LONG4 = 0x8b,
  SHORT_BINUNICODE = 0x8c,
  BINUNICODE8 = 0x8d,
  BINBYTES8 = 0x8e,
  EMPTY_SET = 0x8f,
  ADDITEMS = 0x90,
  FROZENSET = 0x91,
  NEWOBJ_EX = 0x92,
  STACK_GLOBAL = 0x93,
  MEMOIZE = 0x94,
  FRAME = 0x95,
  BYTEARRAY8 = 0x96,
  NEXT_BUFFER = 0x97,
  READONLY_BUFFER = 0x98,
};

/// What follows an opcode.
enum class Form : uint8_t { Unknown, Nothing, U1, U2, U4, U8, Text1, Text4, Text8, Line, TwoLines };

constexpr std::array<Form, 256> make_forms() {
  std::array<Form, 256> forms{};
  for (int op :
       {MARK,       STOP,        POP,       POP_MARK,     DUP,     NONE,        BINPERSID,      REDUCE,   APPEND,
        BUILD,      DICT,        APPENDS,   LIST,         OBJ,     SETITEM,     TUPLE,          SETITEMS, EMPTY_DICT,
        EMPTY_LIST, EMPTY_TUPLE, NEWOBJ,    TUPLE1,       TUPLE2,  TUPLE3,      NEWTRUE,        NEWFALSE, EMPTY_SET,
        ADDITEMS,   FROZENSET,   NEWOBJ_EX, STACK_GLOBAL, MEMOIZE, NEXT_BUFFER, READONLY_BUFFER})
    forms[static_cast<size_t>(op)] = Form::Nothing;
  for (int op : {BININT1, BINGET, BINPUT, PROTO, EXT1}) forms[static_cast<size_t>(op)] = Form::U1;
  for (int op : {BININT2, EXT2}) forms[static_cast<size_t>(op)] = Form::U2;
  for (int op : {BININT, LONG_BINGET, LONG_BINPUT, EXT4}) forms[static_cast<size_t>(op)] = Form::U4;
  for (int op : {BINFLOAT, FRAME}) forms[static_cast<size_t>(op)] = Form::U8;
  for (int op : {SHORT_BINSTRING, SHORT_BINBYTES, SHORT_BINUNICODE, LONG1})
    forms[static_cast<size_t>(op)] = Form::Text1;
  for (int op : {BINSTRING, BINUNICODE, BINBYTES, LONG4}) forms[static_cast<size_t>(op)] = Form::Text4;
  for (int op : {BINUNICODE8, BINBYTES8, BYTEARRAY8}) forms[static_cast<size_t>(op)] = Form::Text8;
  for (int op : {FLOAT, INT, LONG, PERSID, STRING, UNICODE, GET, PUT}) forms[static_cast<size_t>(op)] = Form::Line;
  for (int op : {GLOBAL, INST}) forms[static_cast<size_t>(op)] = Form::TwoLines;
  return forms;
}
constexpr std::array<Form, 256> forms = make_forms();

struct Instruction {
  size_t offset;
  uint8_t op;
  uint64_t number = 0;         ///< U1 to U8
  std::string_view text = {};  ///< Text1 to Text8, Line; for TwoLines both, with the newline between them
};

Error bad(size_t offset, std::string_view what) {
  return Error(Code::BadPickle, fmt::format("{} at byte {} of the pickle", what, offset));
}

/// Splits bytes into instructions of any protocol. Reads nothing outside the bytes.
class Instructions {
 public:
  explicit Instructions(Bytes bytes) : bytes_(bytes) {}

  size_t position() const { return at_; }

  Instruction next() {
    Instruction i{at_, number<uint8_t>()};
    switch (forms[i.op]) {
      case Form::Unknown:
        throw bad(i.offset, fmt::format("unknown opcode 0x{:02x}", i.op));
      case Form::Nothing:
        break;
      case Form::U1:
        i.number = number<uint8_t>();
        break;
      case Form::U2:
        i.number = number<uint16_t>();
        break;
      case Form::U4:
        i.number = number<uint32_t>();
        break;
      case Form::U8:
        i.number = number<uint64_t>();
        break;
      case Form::Text1:
        i.text = text(number<uint8_t>());
        break;
      case Form::Text4:
        i.text = text(number<uint32_t>());
        break;
      case Form::Text8:
        i.text = text(number<uint64_t>());
        break;
      case Form::Line:
        i.text = line();
        break;
      case Form::TwoLines: {
        const std::string_view first = line();
        const std::string_view second = line();
        i.text = {first.data(), first.size() + 1 + second.size()};
      }
    }
    return i;
  }

 private:
  size_t left() const { return bytes_.size() - at_; }
  Error truncated() const { return bad(at_, "unexpected end"); }

  template <std::unsigned_integral T>
  T number() {
    if (left() < sizeof(T)) throw truncated();
    const T value = load_le<T>(bytes_, at_);
    at_ += sizeof(T);
    return value;
  }

  std::string_view text(uint64_t size) {
    if (left() < size) throw truncated();
    const std::string_view result = as_text(bytes_.subspan(at_, size));
    at_ += size;
    return result;
  }

  std::string_view line() {
    const size_t size = as_text(bytes_.subspan(at_)).find('\n');
    if (size == std::string_view::npos) throw truncated();
    const std::string_view result = text(size);
    ++at_;
    return result;
  }

  Bytes bytes_;
  size_t at_ = 0;
};

}  // namespace

std::string_view PickleValue::module() const { return text().substr(0, text().find('\n')); }
std::string_view PickleValue::name() const { return text().substr(text().find('\n') + 1); }
std::string PickleValue::qualified_name() const { return fmt::format("{}.{}", module(), name()); }
bool PickleValue::is_global(std::string_view module, std::string_view name) const {
  return is(Kind::Global) && this->module() == module && this->name() == name;
}
std::span<const PickleValue> PickleValue::items() const { return node_->items; }
const PickleValue& PickleValue::head() const { return node_->head; }
const PickleValue& PickleValue::args() const { return node_->args; }
const PickleValue& PickleValue::state() const { return node_->state; }
bool PickleValue::calls(std::string_view module, std::string_view name) const {
  return is(Kind::Reduce) && head().is_global(module, name);
}

/// The stack machine. Every instruction costs time in proportion to what it takes off the stack, so a run is linear in
/// the size of the pickle.
class Unpickler {
 public:
  Unpickler(Bytes bytes, std::deque<PickleNode>& nodes, PickleLimits limits)
      : instructions_(bytes), nodes_(nodes), limits_(limits) {}

  /// Runs to STOP; returns the number of bytes read.
  size_t run(PickleValue& root) {
    Instruction i = instructions_.next();
    if (i.op != PROTO || i.number < 2 || i.number > 5) throw bad(i.offset, "no pickle of protocol 2 or later");
    for (;;) {
      i = instructions_.next();
      offset_ = i.offset;
      if (i.op == STOP) break;
      step(i);
    }
    if (stack_.size() != 1 || !marks_.empty()) throw fail("the stack does not hold one value");
    root = stack_.back();
    check_nesting(root);
    return instructions_.position();
  }

 private:
  Error fail(std::string_view what) const { return bad(offset_, what); }

  void step(const Instruction& i) {
    switch (i.op) {
      case MARK:
        if (marks_.size() == limits_.depth) throw too_deep();
        marks_.push_back(stack_.size());
        break;
      case NONE:
        stack_.emplace_back();
        break;
      case NEWTRUE:
        push_integer(Kind::Bool, 1);
        break;
      case NEWFALSE:
        push_integer(Kind::Bool, 0);
        break;
      case BININT1:
      case BININT2:
        push_integer(Kind::Int, static_cast<int64_t>(i.number));
        break;
      case BININT:
        push_integer(Kind::Int, static_cast<int32_t>(static_cast<uint32_t>(i.number)));
        break;
      case LONG1:
        push_long(i.text);
        break;
      case BINFLOAT:
        push_float(i.number);
        break;
      case BINUNICODE:
      case BINUNICODE8:
      case SHORT_BINUNICODE:
        push_text(Kind::String, i.text);
        break;
      case BINBYTES:
      case SHORT_BINBYTES:
        push_text(Kind::Bytes, i.text);
        break;
      case GLOBAL:
        push_text(Kind::Global, i.text);
        break;
      case EMPTY_TUPLE:
        push_node(Kind::Tuple);
        break;
      case EMPTY_LIST:
        push_node(Kind::List);
        break;
      case EMPTY_DICT:
        push_node(Kind::Dict);
        break;
      case TUPLE1:
      case TUPLE2:
      case TUPLE3:
        collect(Kind::Tuple, checked_begin(i.op - TUPLE1 + 1u));
        break;
      case TUPLE:
        collect(Kind::Tuple, take_mark());
        break;
      case LIST:
        collect(Kind::List, take_mark());
        break;
      case DICT:
        collect(Kind::Dict, take_mark());
        break;
      case APPEND:
        extend(Kind::List, checked_begin(1));
        break;
      case APPENDS:
        extend(Kind::List, take_mark());
        break;
      case SETITEM:
        extend(Kind::Dict, checked_begin(2));
        break;
      case SETITEMS:
        extend(Kind::Dict, take_mark());
        break;
      case BINPUT:
      case LONG_BINPUT:
        memo_[static_cast<uint32_t>(i.number)] = top();
        break;
      case BINGET:
      case LONG_BINGET:
        recall(static_cast<uint32_t>(i.number));
        break;
      case NEWOBJ:
        make_call(Kind::Object);
        break;
      case REDUCE:
        make_call(Kind::Reduce);
        break;
      case BUILD:
        build();
        break;
      case BINPERSID:
        make_persistent();
        break;
      default:
        throw fail(fmt::format("opcode 0x{:02x}, which no model file has,", i.op));
    }
  }

  // ---- the stack; nothing reaches below the innermost mark ----

  size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }

  /// Where the last `count` values begin.
  size_t checked_begin(size_t count) const {
    if (stack_.size() - floor() < count) throw fail("a value is missing");
    return stack_.size() - count;
  }

  PickleValue& top() { return stack_[checked_begin(1)]; }

  PickleValue pop() {
    const PickleValue value = top();
    stack_.pop_back();
    return value;
  }

  size_t take_mark() {
    if (marks_.empty()) throw fail("a mark is missing");
    const size_t begin = marks_.back();
    marks_.pop_back();
    return begin;
  }

  // ---- values ----

  void push_integer(Kind kind, int64_t value) {
    PickleValue v(kind);
    v.integer_ = value;
    stack_.push_back(v);
  }

  void push_long(std::string_view bytes) {
    if (bytes.size() > 8) return push_text(Kind::Long, bytes);
    const bool negative = !bytes.empty() && (static_cast<unsigned char>(bytes.back()) & 0x80);
    uint64_t value = negative ? ~uint64_t{0} : 0;
    for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
    push_integer(Kind::Int, static_cast<int64_t>(value));
  }

  /// BINFLOAT is the one big-endian number.
  void push_float(uint64_t little_endian) {
    uint64_t bits = 0;
    for (int i = 0; i < 8; ++i) bits = bits << 8 | (little_endian >> (8 * i) & 0xff);
    PickleValue v(Kind::Float);
    v.real_ = std::bit_cast<double>(bits);
    stack_.push_back(v);
  }

  void push_text(Kind kind, std::string_view text) {
    if (text.size() > std::numeric_limits<uint32_t>::max())
      throw Error(Code::LimitExceeded, fmt::format("the pickle has a string of {} bytes", text.size()));
    PickleValue v(kind);
    v.chars_ = text.data();
    v.length_ = static_cast<uint32_t>(text.size());
    stack_.push_back(v);
  }

  PickleNode& push_node(Kind kind) {
    if (nodes_.size() == limits_.containers)
      throw Error(Code::LimitExceeded, fmt::format("the pickle has more than {} containers", limits_.containers));
    PickleValue v(kind);
    v.node_ = &nodes_.emplace_back();
    stack_.push_back(v);
    return *v.node_;
  }

  /// Replaces the values from `begin` on by one container of them.
  void collect(Kind kind, size_t begin) {
    if (kind == Kind::Dict && (stack_.size() - begin) % 2 != 0) throw fail("a key without a value");
    std::vector<PickleValue> items(stack_.begin() + static_cast<ptrdiff_t>(begin), stack_.end());
    stack_.resize(begin);
    push_node(kind).items = std::move(items);
  }

  /// Moves the values from `begin` on into the container below them. Python fills what a call returned, too.
  void extend(Kind kind, size_t begin) {
    if (kind == Kind::Dict && (stack_.size() - begin) % 2 != 0) throw fail("a key without a value");
    if (begin <= floor()) throw fail("a container is missing");
    const PickleValue target = stack_[begin - 1];
    if (!target.is(kind) && !target.is(Kind::Reduce) && !target.is(Kind::Object))
      throw fail("items for a value that is not a container");
    std::vector<PickleValue>& items = target.node_->items;
    items.insert(items.end(), stack_.begin() + static_cast<ptrdiff_t>(begin), stack_.end());
    stack_.resize(begin);
  }

  void recall(uint32_t key) {
    const auto found = memo_.find(key);
    if (found == memo_.end()) throw fail(fmt::format("memo {} is read before it is written", key));
    stack_.push_back(found->second);
  }

  void make_call(Kind kind) {
    const PickleValue args = pop();
    const PickleValue head = pop();
    if (!head.is(Kind::Global)) throw fail("a call of something that is not a name");
    if (kind == Kind::Object && !args.is(Kind::Tuple)) throw fail("arguments that are not a tuple");
    PickleNode& node = push_node(kind);
    node.head = head;
    node.args = args;
  }

  void build() {
    const PickleValue state = pop();
    const PickleValue target = top();
    if (!target.is(Kind::Object) && !target.is(Kind::Reduce)) throw fail("state for a value that is not an object");
    if (!target.state().is(Kind::None)) throw fail("an object is built twice");
    target.node_->state = state;
  }

  void make_persistent() {
    const PickleValue id = pop();
    push_node(Kind::Persistent).args = id;
  }

  // ---- nesting ----

  Error too_deep() const {
    return Error(Code::LimitExceeded, fmt::format("the pickle nests values more than {} deep", limits_.depth));
  }

  static size_t children_of(const PickleNode& node) { return node.items.size() + 3; }
  static const PickleValue& child(const PickleNode& node, size_t i) {
    const size_t n = node.items.size();
    if (i < n) return node.items[i];
    return i == n ? node.head : i == n + 1 ? node.args : node.state;
  }

  /// Depth first without recursion: each node is entered once, and its height is known when it is left.
  void check_nesting(const PickleValue& root) const {
    struct Frame {
      const PickleNode* node;
      size_t next = 0;
      size_t height = 1;
    };
    if (!root.is_container()) return;
    constexpr size_t open = 0;
    std::unordered_map<const PickleNode*, size_t> heights{{root.node(), open}};
    std::vector<Frame> path{{root.node()}};
    while (!path.empty()) {
      Frame& frame = path.back();
      size_t below = 0;
      if (frame.next == children_of(*frame.node)) {
        below = heights[frame.node] = frame.height;
        path.pop_back();
        if (path.empty()) break;
      } else {
        const PickleValue& v = child(*frame.node, frame.next++);
        if (!v.is_container()) continue;
        const auto [seen, fresh] = heights.try_emplace(v.node(), open);
        if (fresh) {
          path.push_back({v.node()});
          if (path.size() > limits_.depth) throw too_deep();
          continue;
        }
        if (seen->second == open) throw Error(Code::BadPickle, "the pickle has a value that contains itself");
        below = seen->second;
      }
      Frame& parent = path.back();
      parent.height = std::max(parent.height, below + 1);
      if (parent.height > limits_.depth) throw too_deep();
    }
  }

  Instructions instructions_;
  std::deque<PickleNode>& nodes_;
  PickleLimits limits_;
  size_t offset_ = 0;
  std::vector<PickleValue> stack_;
  std::vector<size_t> marks_;
  std::unordered_map<uint32_t, PickleValue> memo_;
};

Pickle::Pickle(Record source, PickleLimits limits) : source_(std::move(source)) {
  size_ = Unpickler(source_.bytes, nodes_, limits).run(root_);
}

namespace {

bool is_string(uint8_t op) {
  switch (op) {
    case STRING:
    case BINSTRING:
    case SHORT_BINSTRING:
    case UNICODE:
    case BINUNICODE:
    case BINUNICODE8:
    case SHORT_BINUNICODE:
      return true;
    default:
      return false;
  }
}

/// Follows strings only: enough to know the two that a STACK_GLOBAL takes.
class GlobalScan {
 public:
  std::vector<std::string> found;

  void step(const Instruction& i) {
    if (is_string(i.op)) {
      push(i.text);
    } else if (i.op == GLOBAL || i.op == INST) {
      const size_t newline = i.text.find('\n');
      add(i.text.substr(0, newline), i.text.substr(newline + 1));
      last_ = {};
    } else if (i.op == STACK_GLOBAL) {
      add(before_, last_);
      last_ = {};
    } else if (i.op == MEMOIZE) {
      memo_[memo_.size()] = last_;
    } else if (i.op == BINPUT || i.op == LONG_BINPUT) {
      memo_[i.number] = last_;
    } else if (i.op == BINGET || i.op == LONG_BINGET) {
      const auto at = memo_.find(i.number);
      push(at == memo_.end() ? std::string_view() : at->second);
    } else if (i.op != FRAME && i.op != PROTO) {
      last_ = {};
    }
  }

 private:
  void push(std::string_view text) {
    before_ = last_;
    last_ = text;
  }

  void add(std::string_view module, std::string_view name) {
    std::string joined = fmt::format("{}.{}", module, name);
    if (seen_.insert(joined).second) found.push_back(std::move(joined));
  }

  std::string_view before_, last_;
  std::unordered_map<uint64_t, std::string_view> memo_;
  std::unordered_set<std::string> seen_;
};

}  // namespace

std::vector<std::string> pickled_globals(Bytes bytes, size_t at_most) {
  GlobalScan scan;
  try {
    Instructions instructions(bytes);
    while (scan.found.size() < at_most) {
      const Instruction i = instructions.next();
      if (i.op == STOP) break;
      scan.step(i);
    }
  } catch (const Error&) {
    // What was found before the damage still names the file.
  }
  return std::move(scan.found);
}

}  // namespace lithify::archive
