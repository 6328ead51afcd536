// The stack machine of pickles (Python's pickletools describes its operations), protocols 0 to 5.
#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "ckpt/torch/pickle.h"
#include "ckpt/torch/pickle_globals.h"

namespace stoa::ckpt::torch {

namespace {

// A name of a module or class that can stand in a message.
bool is_plain_name(std::string_view name) {
  return !name.empty() && name.size() <= 200 && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' ||
           c == '.' || c == '<' || c == '>';
  });
}

void append_utf8(std::string& out, std::uint32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xc0 | c >> 6);
    out += static_cast<char>(0x80 | (c & 0x3f));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xe0 | c >> 12);
    out += static_cast<char>(0x80 | (c >> 6 & 0x3f));
    out += static_cast<char>(0x80 | (c & 0x3f));
  } else {
    out += static_cast<char>(0xf0 | c >> 18);
    out += static_cast<char>(0x80 | (c >> 12 & 0x3f));
    out += static_cast<char>(0x80 | (c >> 6 & 0x3f));
    out += static_cast<char>(0x80 | (c & 0x3f));
  }
}

}  // namespace

class PickleMachine {
 public:
  PickleMachine(Pickle& out, std::span<const std::byte> bytes)
      : out_(out), text_(reinterpret_cast<const char*>(bytes.data()), bytes.size()) {}

  void run() {
    none_ = add(ValueKind::kNone);
    false_ = add_int(ValueKind::kBool, 0);
    true_ = add_int(ValueKind::kBool, 1);
    empty_tuple_ = add_list(ValueKind::kTuple, {});
    while (step()) {
    }
    check(stack_.size() == 1 && marks_.empty(), "ends with {} values on its stack", stack_.size());
    out_.root_ = stack_.back();
    out_.bytes_read_ = at_;
  }

 private:
  using Id = std::uint32_t;
  using Ids = std::vector<Id>;

  template <class... Args>
  void check(bool condition, fmt::format_string<Args...> format, Args&&... args) const {
    if (!condition) [[unlikely]]
      fail<DataError>("'{}' holds a damaged pickle: at byte {} it {}", out_.source_, at_,
                      fmt::format(format, std::forward<Args>(args)...));
  }

  // Bytes of the pickle.
  std::string_view take(std::uint64_t n) {
    check(n <= text_.size() - at_, "needs {} more bytes, and {} are left (truncated?)", n,
          text_.size() - at_);
    const auto piece = text_.substr(at_, static_cast<std::size_t>(n));
    at_ += static_cast<std::size_t>(n);
    return piece;
  }
  std::uint64_t take_number(int bytes) {
    const auto piece = take(static_cast<std::uint64_t>(bytes));
    std::uint64_t x = 0;
    for (std::size_t i = piece.size(); i-- > 0;) x = x << 8 | static_cast<unsigned char>(piece[i]);
    return x;
  }
  std::string_view take_line() {
    const auto end = text_.find('\n', at_);
    check(end != text_.npos, "has a line without an end (truncated?)");
    const auto line = text_.substr(at_, end - at_);
    at_ = end + 1;
    return line;
  }

  // Values.
  Id add(ValueKind kind, std::uint32_t index = 0) {
    check(out_.nodes_.size() < Pickle::kMaxValues, "has more than {} values", Pickle::kMaxValues);
    Pickle::Node node;
    node.kind = kind;
    node.index = index;
    out_.nodes_.push_back(node);
    return static_cast<Id>(out_.nodes_.size() - 1);
  }
  Id add_int(ValueKind kind, std::int64_t x) {
    const Id id = add(kind);
    out_.nodes_[id].integer = x;
    return id;
  }
  Id add_float(double x) {
    const Id id = add(ValueKind::kFloat);
    out_.nodes_[id].number = x;
    return id;
  }
  Id add_text(ValueKind kind, std::string_view text) {
    const Id id = add(kind, static_cast<std::uint32_t>(out_.texts_.size()));
    out_.texts_.push_back(text);
    return id;
  }
  // What is copied from value to value: a pickle that copies one long list again and again grows beyond
  // bounds.
  void spend(std::size_t items) {
    spent_ += items;
    check(spent_ <= 8 * text_.size() + 4096, "makes many copies of its values");
  }
  Id add_made_text(ValueKind kind, std::string text) {
    spend(text.size());
    out_.made_.push_back(std::move(text));
    return add_text(kind, out_.made_.back());
  }
  Id add_list(ValueKind kind, Ids items) {
    spend(items.size());
    const Id id = add(kind, static_cast<std::uint32_t>(out_.lists_.size()));
    out_.lists_.push_back(std::move(items));
    return id;
  }
  Id add_object(Id of_class, Id arguments) {
    const Id id = add(ValueKind::kObject, static_cast<std::uint32_t>(out_.objects_.size()));
    out_.objects_.push_back({of_class, arguments, std::nullopt});
    return id;
  }
  Id add_string(std::string_view text) {
    check(simdjson::validate_utf8(text.data(), text.size()), "has a string that is not UTF-8");
    return add_text(ValueKind::kString, text);
  }
  // Python 2's strings are bytes, which most of its pickles mean as text.
  Id add_old_string(std::string_view text) {
    return add_text(
        simdjson::validate_utf8(text.data(), text.size()) ? ValueKind::kString : ValueKind::kBytes, text);
  }
  Id add_long(std::string_view bytes) {
    if (bytes.size() > 8) return add_text(ValueKind::kBigInt, bytes);
    std::uint64_t x = !bytes.empty() && (bytes.back() & 0x80) ? ~std::uint64_t{0} : 0;
    for (std::size_t i = bytes.size(); i-- > 0;) x = x << 8 | static_cast<unsigned char>(bytes[i]);
    return add_int(ValueKind::kInt, static_cast<std::int64_t>(x));
  }

  // An int beyond 64 bits, of digits that were checked.
  Id add_decimal(std::string_view digits) {
    check(digits.size() <= 1000, "has an int of {} digits", digits.size());
    const bool negative = digits.starts_with('-');
    std::string bytes(1, '\0');
    for (const char digit : digits.substr(negative ? 1 : 0)) {
      unsigned carry = static_cast<unsigned>(digit - '0');
      for (char& byte : bytes) {
        carry += static_cast<unsigned char>(byte) * 10u;
        byte = static_cast<char>(carry & 0xff);
        carry >>= 8;
      }
      if (carry > 0) bytes += static_cast<char>(carry);
    }
    if (bytes.back() & 0x80) bytes += '\0';
    if (negative) {
      unsigned carry = 1;
      for (char& byte : bytes) {
        carry += static_cast<unsigned char>(~byte);
        byte = static_cast<char>(carry & 0xff);
        carry >>= 8;
      }
    }
    return add_made_text(ValueKind::kBigInt, std::move(bytes));
  }

  Value value(Id id) const { return {out_, id}; }
  ValueKind kind(Id id) const { return out_.nodes_[id].kind; }
  Ids& items(Id id) { return out_.lists_[out_.nodes_[id].index]; }

  // The stack. A mark protects what lies below it.
  void push(Id id) { stack_.push_back(id); }
  Id pop() {
    check(stack_.size() > (marks_.empty() ? 0 : marks_.back()), "takes a value from an empty stack");
    const Id id = stack_.back();
    stack_.pop_back();
    return id;
  }
  Id top() const {
    check(stack_.size() > (marks_.empty() ? 0 : marks_.back()), "needs a value on an empty stack");
    return stack_.back();
  }
  Ids pop_to_mark() {
    check(!marks_.empty(), "has no mark where one is needed");
    const auto mark = static_cast<std::ptrdiff_t>(marks_.back());
    marks_.pop_back();
    Ids out(stack_.begin() + mark, stack_.end());
    stack_.resize(static_cast<std::size_t>(mark));
    return out;
  }
  Id pop_tuple(std::size_t n) {
    Ids out(n);
    while (n-- > 0) out[n] = pop();
    return add_list(ValueKind::kTuple, std::move(out));
  }

  // The memo. Pickles number what they remember from 0 or 1 on.
  void remember(std::uint64_t number) {
    check(number <= remembered_ + 1 && number < Pickle::kMaxValues, "remembers value {} after {} others",
          number, remembered_);
    if (number >= memo_.size()) memo_.resize(static_cast<std::size_t>(number) + 1, kNobody);
    memo_[static_cast<std::size_t>(number)] = top();
    ++remembered_;
  }
  Id recall(std::uint64_t number) const {
    check(number < memo_.size() && memo_[static_cast<std::size_t>(number)] != kNobody,
          "recalls value {}, which it never remembered", number);
    return memo_[static_cast<std::size_t>(number)];
  }
  std::uint64_t line_number() {
    const auto line = take_line();
    std::uint64_t x = 0;
    const auto result = std::from_chars(line.data(), line.data() + line.size(), x);
    check(result.ec == std::errc() && result.ptr == line.data() + line.size(),
          "has a line that is not a number");
    return x;
  }

  void append(Id list, const Ids& added) {
    check(kind(list) == ValueKind::kList, "appends to {}", value(list));
    spend(added.size());
    items(list).insert(items(list).end(), added.begin(), added.end());
  }
  void set_items(Id dict, const Ids& added) {
    check(kind(dict) == ValueKind::kDict, "sets items of {}", value(dict));
    check(added.size() % 2 == 0, "sets a key without a value");
    spend(added.size());
    items(dict).insert(items(dict).end(), added.begin(), added.end());
  }

  void global(std::string_view module, std::string_view name) {
    check(is_plain_name(module) && is_plain_name(name), "names something that is no name");
    const std::string full = fmt::format("{}.{}", module_of_python_3(module), name);
    require<DataError>(meaning_of(full).has_value(),
                       "'{}' calls for '{}', which is not among the constructors that checkpoints are made "
                       "of; nothing was executed. A file that holds a state_dict alone (torch.save of "
                       "tensors, numbers, texts, lists and dicts) is read",
                       out_.source_, full);
    push(add_made_text(ValueKind::kGlobal, full));
  }

  // What a constructor of the closed list makes of its arguments.
  Id construct(Id function, Id arguments) {
    check(kind(function) == ValueKind::kGlobal, "calls {}", value(function));
    check(kind(arguments) == ValueKind::kTuple, "calls {} with {}", value(function).text(), value(arguments));
    return construct_as(*meaning_of(value(function).text()), function, items(arguments), arguments);
  }
  Id construct_as(Meaning meaning, Id function, const Ids args, Id arguments) {
    const auto wrong = [&](bool right) {
      check(right, "calls {} with {}", value(function).text(), value(arguments));
    };
    switch (meaning) {
      case Meaning::kDict:
        wrong(args.size() <= 1);
        return add_list(ValueKind::kDict, args.empty() ? Ids{} : pairs(args[0]));
      case Meaning::kDefaultDict:
        wrong(args.size() <= 1);
        return add_list(ValueKind::kDict, {});
      case Meaning::kCounter:
        wrong(args.empty() || (args.size() == 1 && kind(args[0]) == ValueKind::kDict));
        return add_list(ValueKind::kDict, args.empty() ? Ids{} : Ids(items(args[0])));
      case Meaning::kSet:
        wrong(args.empty() || (args.size() == 1 && kind(args[0]) == ValueKind::kList));
        return add_list(ValueKind::kSet, args.empty() ? Ids{} : Ids(items(args[0])));
      case Meaning::kList:
        wrong(args.empty() || (args.size() <= 2 &&
                               (kind(args[0]) == ValueKind::kList || kind(args[0]) == ValueKind::kTuple)));
        return add_list(ValueKind::kList, args.empty() ? Ids{} : Ids(items(args[0])));
      case Meaning::kTuple:
        wrong(args.size() == 1 && (kind(args[0]) == ValueKind::kList || kind(args[0]) == ValueKind::kTuple));
        return add_list(ValueKind::kTuple, Ids(items(args[0])));
      case Meaning::kBytes:
        if (args.empty()) return add_text(ValueKind::kBytes, {});
        wrong(args.size() == 1 && kind(args[0]) == ValueKind::kBytes);
        return args[0];
      case Meaning::kEncode:
        wrong(args.size() == 2 && kind(args[0]) == ValueKind::kString &&
              kind(args[1]) == ValueKind::kString &&
              (value(args[1]).text() == "latin1" || value(args[1]).text() == "latin-1"));
        return add_made_text(ValueKind::kBytes, latin1(value(args[0]).text()));
      case Meaning::kTensor:
        wrong(args.size() >= 4 && args.size() <= 7);
        return tensor(args, nullptr);
      case Meaning::kTensorOfType: {
        wrong(args.size() >= 7 && args.size() <= 8 && kind(args[6]) == ValueKind::kGlobal);
        std::string_view name = value(args[6]).text();
        name.remove_prefix(std::min(name.size(), std::string_view("torch.").size()));
        const ElementType* type = element_type(name);
        wrong(type != nullptr);
        return tensor(args, type);
      }
      case Meaning::kParameter:
        wrong(args.size() >= 2 && args.size() <= 4 && kind(args[0]) == ValueKind::kTensor);
        return args[0];
      case Meaning::kTensorSubclass: {
        wrong(args.size() == 4 && kind(args[0]) == ValueKind::kGlobal &&
              kind(args[1]) == ValueKind::kGlobal && kind(args[2]) == ValueKind::kTuple);
        const Meaning inner = *meaning_of(value(args[0]).text());
        wrong(inner == Meaning::kTensor || inner == Meaning::kTensorOfType || inner == Meaning::kParameter);
        return construct_as(inner, args[0], items(args[2]), args[2]);
      }
      case Meaning::kName:
        wrong(false);
        [[fallthrough]];
      case Meaning::kObject:
        return add_object(function, arguments);
    }
    fail<InternalError>("a constructor of pickles without a meaning");
  }

  // Of OrderedDict([[key, value], (key, value)]).
  Ids pairs(Id list) {
    if (kind(list) == ValueKind::kDict) return items(list);
    check(kind(list) == ValueKind::kList || kind(list) == ValueKind::kTuple, "makes a dict of {}",
          value(list));
    Ids out;
    for (const Id pair : items(list)) {
      check((kind(pair) == ValueKind::kList || kind(pair) == ValueKind::kTuple) && items(pair).size() == 2,
            "makes an item of a dict of {}", value(pair));
      out.insert(out.end(), items(pair).begin(), items(pair).end());
    }
    return out;
  }

  // UTF-8 of characters up to 255 into bytes.
  std::string latin1(std::string_view text) {
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
      const auto c = static_cast<unsigned char>(text[i]);
      if (c < 0x80) {
        out += text[i];
        continue;
      }
      check((c == 0xc2 || c == 0xc3) && i + 1 < text.size(), "encodes a character beyond Latin-1");
      out += static_cast<char>((c & 3) << 6 | (static_cast<unsigned char>(text[++i]) & 0x3f));
    }
    return out;
  }

  std::vector<std::int64_t> sizes(Id id, std::string_view what) {
    check(kind(id) == ValueKind::kTuple || kind(id) == ValueKind::kList, "has a tensor whose {} is {}", what,
          value(id));
    std::vector<std::int64_t> out;
    for (const Id item : items(id)) {
      check(kind(item) == ValueKind::kInt && value(item).integer() >= 0, "has a tensor whose {} holds {}",
            what, value(item));
      out.push_back(value(item).integer());
    }
    check(out.size() <= 64, "has a tensor of {} dimensions", out.size());
    spend(out.size());
    return out;
  }

  // (storage, offset, size, stride, …)
  Id tensor(const Ids& args, const ElementType* type) {
    check(kind(args[0]) == ValueKind::kStorage, "makes a tensor of {}", value(args[0]));
    check(kind(args[1]) == ValueKind::kInt && value(args[1]).integer() >= 0, "has a tensor at {}",
          value(args[1]));
    TensorValue tensor;
    tensor.storage = value(args[0]).storage();
    tensor.type = type ? type : tensor.storage.type;
    tensor.offset = value(args[1]).integer();
    tensor.shape = sizes(args[2], "size");
    tensor.stride = sizes(args[3], "stride");
    check(tensor.shape.size() == tensor.stride.size(), "has a tensor of {} sizes and {} strides",
          tensor.shape.size(), tensor.stride.size());
    check_inside(tensor);
    const Id id = add(ValueKind::kTensor, static_cast<std::uint32_t>(out_.tensors_.size()));
    out_.tensors_.push_back(std::move(tensor));
    return id;
  }
  // Inside the bytes that the storage declares; TorchFile compares those with what the file holds.
  void check_inside(const TensorValue& tensor) const {
    bool overflow = false;
    const auto multiply = [&](std::int64_t a, std::int64_t b) {
      std::int64_t out = 0;
      overflow = __builtin_mul_overflow(a, b, &out) || overflow;
      return out;
    };
    const std::int64_t held = multiply(tensor.storage.elements, tensor.storage.type->bytes);
    std::int64_t elements = 1, last = tensor.offset;
    for (std::size_t d = 0; d < tensor.shape.size(); ++d)
      if (tensor.shape[d] == 0) return;  // reads nothing
    for (std::size_t d = 0; d < tensor.shape.size(); ++d) {
      elements = multiply(elements, tensor.shape[d]);
      overflow =
          __builtin_add_overflow(last, multiply(tensor.shape[d] - 1, tensor.stride[d]), &last) || overflow;
    }
    multiply(elements, tensor.type->bytes);
    overflow = __builtin_add_overflow(last, std::int64_t{1}, &last) || overflow;
    const std::int64_t needed = multiply(last, tensor.type->bytes);
    check(!overflow && needed <= held, "has a tensor beyond its storage '{}' of {} bytes",
          tensor.storage.key.substr(0, 100), held);
  }

  // ('storage', class, key, device, elements[, None])
  void persistent(Id id) {
    check(kind(id) == ValueKind::kTuple, "refers to {}", value(id));
    const Ids& args = items(id);
    check(!args.empty() && kind(args[0]) == ValueKind::kString, "refers to something without a kind");
    const auto what = value(args[0]).text();
    require<DataError>(what != "module",
                       "'{}' holds a whole pickled module with its source code, which is not read: save its "
                       "state_dict() instead",
                       out_.source_);
    check(what == "storage" && args.size() >= 5 && args.size() <= 6 && kind(args[1]) == ValueKind::kGlobal &&
              kind(args[2]) == ValueKind::kString && kind(args[4]) == ValueKind::kInt,
          "refers to something that is no storage");
    check(args.size() == 5 || kind(args[5]) == ValueKind::kNone,
          "refers to a view of a storage, as PyTorch before 0.4 wrote them; they are not read");
    StorageValue storage;
    storage.key = value(args[2]).text();
    std::string_view name = value(args[1]).text();
    name.remove_prefix(name.rfind('.') + 1);
    storage.type = type_of_storage(name);
    storage.elements = value(args[4]).integer();
    check(storage.type && storage.elements >= 0 &&
              storage.elements <= std::numeric_limits<std::int64_t>::max() / storage.type->bytes,
          "refers to a storage of {} elements of {}", storage.elements, name);
    const Id node = add(ValueKind::kStorage, static_cast<std::uint32_t>(out_.storages_.size()));
    out_.storages_.push_back(storage);
    push(node);
  }

  void build(Id state) {
    const Id target = top();
    switch (kind(target)) {
      case ValueKind::kObject:
        out_.objects_[out_.nodes_[target].index].state = state;
        return;
      case ValueKind::kDict:    // attributes in addition to the items: a state_dict's _metadata
      case ValueKind::kTensor:  // attributes of a parameter
      case ValueKind::kSet:
        return;
      default:
        check(false, "gives a state to {}", value(target));
    }
  }

  // Protocol 0 writes text: 'it\'s', "…", with escapes.
  Id quoted_line() {
    auto line = take_line();
    check(line.size() >= 2 && line.front() == line.back() && (line.front() == '\'' || line.front() == '"'),
          "has a string without quotes");
    line = line.substr(1, line.size() - 2);
    std::string out;
    for (std::size_t i = 0; i < line.size(); ++i) {
      if (line[i] != '\\') {
        out += line[i];
        continue;
      }
      check(++i < line.size(), "has a string that ends in a backslash");
      switch (line[i]) {
        case 'n':
          out += '\n';
          break;
        case 't':
          out += '\t';
          break;
        case 'r':
          out += '\r';
          break;
        case '\\':
        case '\'':
        case '"':
          out += line[i];
          break;
        case 'x':
          out += static_cast<char>(hexadecimal(line, i + 1, 2));
          i += 2;
          break;
        default:
          check(false, "has an unknown escape in a string");
      }
    }
    out_.made_.push_back(std::move(out));
    return add_old_string(out_.made_.back());
  }
  std::uint32_t hexadecimal(std::string_view text, std::size_t begin, std::size_t digits) const {
    std::uint32_t x = 0;
    check(begin + digits <= text.size(), "has a short escape in a string");
    const char* end = text.data() + begin + digits;
    const auto result = std::from_chars(text.data() + begin, end, x, 16);
    check(result.ec == std::errc() && result.ptr == end, "has an escape that is not a number");
    return x;
  }
  // Latin-1 with \uXXXX and \UXXXXXXXX.
  Id escaped_line() {
    const auto line = take_line();
    std::string out;
    for (std::size_t i = 0; i < line.size(); ++i) {
      const bool escape =
          line[i] == '\\' && i + 1 < line.size() && (line[i + 1] == 'u' || line[i + 1] == 'U');
      if (!escape) {
        append_utf8(out, static_cast<unsigned char>(line[i]));
        continue;
      }
      const std::size_t digits = line[i + 1] == 'u' ? 4 : 8;
      const auto c = hexadecimal(line, i + 2, digits);
      check(c < 0x110000 && (c < 0xd800 || c > 0xdfff), "has a character that is none");
      append_utf8(out, c);
      i += 1 + digits;
    }
    return add_made_text(ValueKind::kString, std::move(out));
  }
  Id int_line() {
    auto line = take_line();
    if (line == "00") return false_;
    if (line == "01") return true_;
    if (line.ends_with('L')) line.remove_suffix(1);
    std::int64_t x = 0;
    const auto result = std::from_chars(line.data(), line.data() + line.size(), x);
    check(result.ptr == line.data() + line.size() && !line.empty(), "has a line that is not an int");
    return result.ec == std::errc() ? add_int(ValueKind::kInt, x) : add_decimal(line);
  }
  Id float_line() {
    const auto line = take_line();
    double x = 0;
    const auto result = std::from_chars(line.data(), line.data() + line.size(), x);
    check(result.ec == std::errc() && result.ptr == line.data() + line.size(), "has a line that is no float");
    return add_float(x);
  }

  bool step();

  static constexpr Id kNobody = std::numeric_limits<Id>::max();

  Pickle& out_;
  const std::string_view text_;
  std::size_t at_ = 0;
  Ids stack_, memo_;
  std::size_t remembered_ = 0, spent_ = 0;
  std::vector<std::size_t> marks_;
  Id none_ = 0, false_ = 0, true_ = 0, empty_tuple_ = 0;
};

// One operation; false at the end.
bool PickleMachine::step() {
  const auto operation = static_cast<unsigned char>(take(1)[0]);
  switch (operation) {
    case 0x80: {  // PROTO
      const auto protocol = take_number(1);
      check(protocol <= 5, "is of protocol {}; 0 to 5 are read", protocol);
      break;
    }
    case 0x95:  // FRAME: how many bytes come in one piece
      take(8);
      break;
    case '.':
      return false;

    case 'N':
      push(none_);
      break;
    case 0x88:
      push(true_);
      break;
    case 0x89:
      push(false_);
      break;
    case 'K':
      push(add_int(ValueKind::kInt, static_cast<std::int64_t>(take_number(1))));
      break;
    case 'M':
      push(add_int(ValueKind::kInt, static_cast<std::int64_t>(take_number(2))));
      break;
    case 'J':
      push(add_int(ValueKind::kInt, static_cast<std::int32_t>(static_cast<std::uint32_t>(take_number(4)))));
      break;
    case 'I':
    case 'L':
      push(int_line());
      break;
    case 0x8a:
      push(add_long(take(take_number(1))));
      break;
    case 0x8b:
      push(add_long(take(take_number(4))));
      break;
    case 'G': {
      std::uint64_t bits = 0;
      for (const char c : take(8)) bits = bits << 8 | static_cast<unsigned char>(c);
      push(add_float(std::bit_cast<double>(bits)));
      break;
    }
    case 'F':
      push(float_line());
      break;

    case 'X':
      push(add_string(take(take_number(4))));
      break;
    case 0x8c:
      push(add_string(take(take_number(1))));
      break;
    case 0x8d:
      push(add_string(take(take_number(8))));
      break;
    case 'V':
      push(escaped_line());
      break;
    case 'S':
      push(quoted_line());
      break;
    case 'T':
      push(add_old_string(take(take_number(4))));
      break;
    case 'U':
      push(add_old_string(take(take_number(1))));
      break;
    case 'B':
      push(add_text(ValueKind::kBytes, take(take_number(4))));
      break;
    case 'C':
      push(add_text(ValueKind::kBytes, take(take_number(1))));
      break;
    case 0x8e:
    case 0x96:  // bytes, bytearray
      push(add_text(ValueKind::kBytes, take(take_number(8))));
      break;

    case '(':
      check(marks_.size() < Pickle::kMaxMarks, "is nested more than {} deep", Pickle::kMaxMarks);
      marks_.push_back(stack_.size());
      break;
    case ')':
      push(empty_tuple_);
      break;
    case 't':
      push(add_list(ValueKind::kTuple, pop_to_mark()));
      break;
    case 0x85:
    case 0x86:
    case 0x87:
      push(pop_tuple(operation - 0x84u));
      break;
    case ']':
      push(add_list(ValueKind::kList, {}));
      break;
    case 'l':
      push(add_list(ValueKind::kList, pop_to_mark()));
      break;
    case 'a': {
      const Id item = pop();
      append(top(), {item});
      break;
    }
    case 'e': {
      const Ids added = pop_to_mark();
      append(top(), added);
      break;
    }
    case '}':
      push(add_list(ValueKind::kDict, {}));
      break;
    case 'd': {
      const Id dict = add_list(ValueKind::kDict, {});
      set_items(dict, pop_to_mark());
      push(dict);
      break;
    }
    case 's': {
      const Id item = pop(), key = pop();
      set_items(top(), {key, item});
      break;
    }
    case 'u': {
      const Ids added = pop_to_mark();
      set_items(top(), added);
      break;
    }
    case 0x8f:
      push(add_list(ValueKind::kSet, {}));
      break;
    case 0x90: {
      const Ids added = pop_to_mark();
      check(kind(top()) == ValueKind::kSet, "adds items to {}", value(top()));
      spend(added.size());
      items(top()).insert(items(top()).end(), added.begin(), added.end());
      break;
    }
    case 0x91:
      push(add_list(ValueKind::kSet, pop_to_mark()));
      break;

    case '0':
      if (!marks_.empty() && marks_.back() == stack_.size())
        marks_.pop_back();
      else
        pop();
      break;
    case '1':
      pop_to_mark();
      break;
    case '2':
      push(top());
      break;
    case 'q':
      remember(take_number(1));
      break;
    case 'r':
      remember(take_number(4));
      break;
    case 'p':
      remember(line_number());
      break;
    case 0x94:
      remember(remembered_);
      break;
    case 'h':
      push(recall(take_number(1)));
      break;
    case 'j':
      push(recall(take_number(4)));
      break;
    case 'g':
      push(recall(line_number()));
      break;

    case 'c': {
      const auto module = take_line();
      global(module, take_line());
      break;
    }
    case 0x93: {
      const Id name = pop(), module = pop();
      check(kind(name) == ValueKind::kString && kind(module) == ValueKind::kString, "names {}", value(name));
      global(value(module).text(), value(name).text());
      break;
    }
    case 'R':
    case 0x81: {  // REDUCE, NEWOBJ: function or class, and a tuple
      const Id arguments = pop(), function = pop();
      push(construct(function, arguments));
      break;
    }
    case 0x92: {  // NEWOBJ_EX
      const Id named = pop(), arguments = pop(), of_class = pop();
      check(kind(named) == ValueKind::kDict && items(named).empty(), "makes an object by named arguments");
      push(construct(of_class, arguments));
      break;
    }
    case 'b':
      build(pop());
      break;
    case 'Q':
      persistent(pop());
      break;
    default:
      check(false, "has the operation 0x{:02x}, which checkpoints do not need", operation);
  }
  return true;
}

Pickle::Pickle(std::span<const std::byte> bytes, std::string source) : source_(std::move(source)) {
  PickleMachine(*this, bytes).run();
}

}  // namespace stoa::ckpt::torch
