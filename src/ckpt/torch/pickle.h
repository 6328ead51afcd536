// Python's pickles, read as data. A pickle is a program for a stack machine that may call any function of any
// module; here it may call a closed list of constructors (pickle_globals.h), which build values of the kinds
// below, and any other name is an error that says it. Nothing is imported or executed.
//
// Memory is in proportion to the pickle and capped (kMaxValues); the machine does not recurse. Values may be
// shared and lists may hold themselves, as in Python: whoever walks a tree bounds the walk.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ckpt/torch/torch_types.h"

namespace stoa::ckpt::torch {

enum class ValueKind : std::uint8_t {
  kNone,
  kBool,
  kInt,
  kBigInt,  // beyond 64 bits: text() are its bytes, little-endian two's complement
  kFloat,
  kString,
  kBytes,
  kList,
  kTuple,
  kSet,
  kDict,    // OrderedDict, defaultdict and Counter too
  kGlobal,  // a name of the closed list: text() is "torch.float32"
  kObject,  // of a class that holds data alone
  kStorage,
  kTensor
};

// A piece of memory of its own in the file, named by a key.
struct StorageValue {
  std::string_view key;
  const ElementType* type = nullptr;
  std::int64_t elements = 0;
};
// What torch._utils._rebuild_tensor was given, checked: no negative number, sizes and strides of one length,
// no element beyond the storage.
struct TensorValue {
  StorageValue storage;
  const ElementType* type = nullptr;
  std::int64_t offset = 0;  // in elements of `type`
  std::vector<std::int64_t> shape, stride;

  std::int64_t elements() const;
};

class Pickle;

// One value of a pickle, which must outlive it. Whoever asks a value of another kind gets a DataError that
// names the file.
class Value {
 public:
  ValueKind kind() const;
  bool is(ValueKind kind) const { return this->kind() == kind; }
  bool boolean() const;
  std::int64_t integer() const;
  double number() const;          // of an int, too
  std::string_view text() const;  // of strings, bytes, big integers and globals
  // Lists, tuples, sets; of a dict the number of pairs.
  std::size_t size() const;
  Value operator[](std::size_t i) const;                  // of lists, tuples and sets
  Value key(std::size_t i) const;                         // of dicts
  Value value(std::size_t i) const;                       // of dicts
  std::optional<Value> find(std::string_view key) const;  // of dicts: the last one under this name
  // For objects.
  std::string_view class_name() const;  // "argparse.Namespace"
  Value arguments() const;              // of its constructor: a tuple
  std::optional<Value> state() const;
  std::optional<Value> attribute(std::string_view name) const;  // of its state, where that is a dict
  const StorageValue& storage() const;
  const TensorValue& tensor() const;

  std::string described() const;  // "a list of 3", for messages
  // Tells values apart: equal where they are one object in Python.
  std::uint32_t id() const { return id_; }

 private:
  friend class Pickle;
  friend class PickleMachine;
  Value(const Pickle& pickle, std::uint32_t id) : pickle_(&pickle), id_(id) {}
  void expect(bool condition, std::string_view wanted) const;

  const Pickle* pickle_;
  std::uint32_t id_;
};

// The values of one pickle. Strings are views of the bytes that it was read from, which must outlive it.
class Pickle {
 public:
  static constexpr std::size_t kMaxValues = 64'000'000;
  static constexpr std::size_t kMaxMarks = 10'000;  // open lists and tuples

  // Reads one pickle at the start of `bytes`. DataError, which names `source`: damaged, truncated, a
  // constructor that is not in the closed list, or beyond the limits.
  Pickle(std::span<const std::byte> bytes, std::string source);

  Value root() const { return Value(*this, root_); }
  const std::string& source() const { return source_; }
  std::size_t bytes_read() const { return bytes_read_; }
  // All that it refers to, as often as it does.
  const std::vector<StorageValue>& storages() const { return storages_; }

 private:
  friend class Value;
  friend class PickleMachine;

  struct Node {
    ValueKind kind = ValueKind::kNone;
    std::uint32_t index = 0;  // of texts_, lists_, objects_, storages_ or tensors_
    union {
      std::int64_t integer = 0;
      double number;
    };
  };
  struct Object {
    std::uint32_t of_class, arguments;
    std::optional<std::uint32_t> state;
  };

  std::string source_;
  std::vector<Node> nodes_;
  std::vector<std::string_view> texts_;
  std::deque<std::string> made_;                   // texts that do not stand in the bytes as they are
  std::vector<std::vector<std::uint32_t>> lists_;  // of dicts: key, value, key, value…
  std::vector<Object> objects_;
  std::vector<StorageValue> storages_;
  std::vector<TensorValue> tensors_;
  std::uint32_t root_ = 0;
  std::size_t bytes_read_ = 0;
};

}  // namespace stoa::ckpt::torch

// In messages; a description is made when there is one.
template <>
struct fmt::formatter<stoa::ckpt::torch::Value> : fmt::formatter<std::string_view> {
  auto format(const stoa::ckpt::torch::Value& value, fmt::format_context& context) const {
    return fmt::formatter<std::string_view>::format(value.described(), context);
  }
};
