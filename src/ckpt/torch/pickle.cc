#include "ckpt/torch/pickle.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.h"

namespace stoa::ckpt::torch {
namespace {

constexpr std::array<std::string_view, 15> kKindNames{
    "None",    "a bool", "an int", "a large int", "a float",   "a string",  "bytes",   "a list",
    "a tuple", "a set",  "a dict", "the name",    "an object", "a storage", "a tensor"};

}  // namespace

std::int64_t TensorValue::elements() const {
  // An empty dimension wins over others whose product would not fit.
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  std::int64_t n = 1;
  for (const auto d : shape) n *= d;
  return n;
}

ValueKind Value::kind() const { return pickle_->nodes_[id_].kind; }

void Value::expect(bool condition, std::string_view wanted) const {
  require<DataError>(condition, "'{}' holds {} where {} is expected", pickle_->source_, *this, wanted);
}

bool Value::boolean() const {
  expect(is(ValueKind::kBool), "a bool");
  return pickle_->nodes_[id_].integer != 0;
}

std::int64_t Value::integer() const {
  expect(is(ValueKind::kInt), "an int");
  return pickle_->nodes_[id_].integer;
}

double Value::number() const {
  expect(is(ValueKind::kFloat) || is(ValueKind::kInt), "a number");
  const auto& node = pickle_->nodes_[id_];
  return is(ValueKind::kFloat) ? node.number : static_cast<double>(node.integer);
}

std::string_view Value::text() const {
  expect(is(ValueKind::kString) || is(ValueKind::kBytes) || is(ValueKind::kBigInt) || is(ValueKind::kGlobal),
         "a string");
  return pickle_->texts_[pickle_->nodes_[id_].index];
}

std::size_t Value::size() const {
  if (is(ValueKind::kDict)) return pickle_->lists_[pickle_->nodes_[id_].index].size() / 2;
  expect(is(ValueKind::kList) || is(ValueKind::kTuple) || is(ValueKind::kSet), "a list");
  return pickle_->lists_[pickle_->nodes_[id_].index].size();
}

Value Value::operator[](std::size_t i) const {
  expect(is(ValueKind::kList) || is(ValueKind::kTuple) || is(ValueKind::kSet), "a list");
  const auto& items = pickle_->lists_[pickle_->nodes_[id_].index];
  require<DataError>(i < items.size(), "'{}' holds {} where {} or more items are expected", pickle_->source_,
                     *this, i + 1);
  return {*pickle_, items[i]};
}

Value Value::key(std::size_t i) const {
  expect(is(ValueKind::kDict), "a dict");
  return {*pickle_, pickle_->lists_[pickle_->nodes_[id_].index].at(2 * i)};
}

Value Value::value(std::size_t i) const {
  expect(is(ValueKind::kDict), "a dict");
  return {*pickle_, pickle_->lists_[pickle_->nodes_[id_].index].at(2 * i + 1)};
}

std::optional<Value> Value::find(std::string_view name) const {
  for (std::size_t i = size(); i-- > 0;)
    if (const Value k = key(i); k.is(ValueKind::kString) && k.text() == name) return value(i);
  return std::nullopt;
}

std::string_view Value::class_name() const {
  expect(is(ValueKind::kObject), "an object");
  return Value(*pickle_, pickle_->objects_[pickle_->nodes_[id_].index].of_class).text();
}

Value Value::arguments() const {
  expect(is(ValueKind::kObject), "an object");
  return {*pickle_, pickle_->objects_[pickle_->nodes_[id_].index].arguments};
}

std::optional<Value> Value::state() const {
  expect(is(ValueKind::kObject), "an object");
  const auto& state = pickle_->objects_[pickle_->nodes_[id_].index].state;
  return state ? std::optional(Value(*pickle_, *state)) : std::nullopt;
}

std::optional<Value> Value::attribute(std::string_view name) const {
  const auto all = state();
  if (!all || !all->is(ValueKind::kDict)) return std::nullopt;
  return all->find(name);
}

const StorageValue& Value::storage() const {
  expect(is(ValueKind::kStorage), "a storage");
  return pickle_->storages_[pickle_->nodes_[id_].index];
}

const TensorValue& Value::tensor() const {
  expect(is(ValueKind::kTensor), "a tensor");
  return pickle_->tensors_[pickle_->nodes_[id_].index];
}

std::string Value::described() const {
  const std::string_view name = kKindNames[static_cast<std::size_t>(kind())];
  switch (kind()) {
    case ValueKind::kInt:
      return fmt::format("the int {}", integer());
    case ValueKind::kString:
      return fmt::format("the string '{}'", text().substr(0, 100));
    case ValueKind::kGlobal:
      return fmt::format("the name {}", text());
    case ValueKind::kObject:
      return fmt::format("an object of {}", class_name());
    case ValueKind::kList:
    case ValueKind::kTuple:
    case ValueKind::kSet:
    case ValueKind::kDict:
      return fmt::format("{} of {}", name, size());
    default:
      return std::string(name);
  }
}

}  // namespace stoa::ckpt::torch
