// The stack machine of pickles (Python's pickletools describes its operations), protocols 0 to 5.
#pragma once

#include <fmt/format.h>
#include <simdjson.h>

#include <charconv>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "ckpt/torch/pickle.h"
#include "ckpt/torch/pickle_globals.h"

namespace stoa::ckpt::torch {

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

  // Defined in pickle_constructors.cc. A name of the closed list; DataError: another.
  void global(std::string_view module, std::string_view name);
  // What a constructor of the closed list makes of its arguments.
  Id construct(Id function, Id arguments);
  Id construct_as(Meaning meaning, Id function, const Ids args, Id arguments);
  // Of OrderedDict([[key, value], (key, value)]).
  Ids pairs(Id list);
  // UTF-8 of characters up to 255 into bytes.
  std::string latin1(std::string_view text);
  std::vector<std::int64_t> sizes(Id id, std::string_view what);
  // (storage, offset, size, stride, …)
  Id tensor(const Ids& args, const ElementType* type);
  // Inside the bytes that the storage declares; TorchFile compares those with what the file holds.
  void check_inside(const TensorValue& tensor) const;
  // ('storage', class, key, device, elements[, None])
  void persistent(Id id);

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

  // Defined in pickle_lines.cc: what protocol 0 writes as lines of text.
  // 'it\'s', "…", with escapes.
  Id quoted_line();
  std::uint32_t hexadecimal(std::string_view text, std::size_t begin, std::size_t digits) const;
  // Latin-1 with \uXXXX and \UXXXXXXXX.
  Id escaped_line();
  Id int_line();
  Id float_line();

  bool step();  // one operation; false at the end

  static constexpr Id kNobody = std::numeric_limits<Id>::max();

  Pickle& out_;
  const std::string_view text_;
  std::size_t at_ = 0;
  Ids stack_, memo_;
  std::size_t remembered_ = 0, spent_ = 0;
  std::vector<std::size_t> marks_;
  Id none_ = 0, false_ = 0, true_ = 0, empty_tuple_ = 0;
};

}  // namespace stoa::ckpt::torch
