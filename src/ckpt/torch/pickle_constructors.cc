// What pickles make of their constructors: those of a closed list, which execute nothing.
#include <algorithm>

#include "ckpt/torch/pickle_machine.h"

namespace stoa::ckpt::torch {
namespace {

// A name of a module or class that a message may quote.
bool is_plain_name(std::string_view name) {
  return !name.empty() && name.size() <= 200 && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' ||
           c == '.' || c == '<' || c == '>';
  });
}

}  // namespace

void PickleMachine::global(std::string_view module, std::string_view name) {
  check(is_plain_name(module) && is_plain_name(name), "names something that is no name");
  const std::string full = fmt::format("{}.{}", module_of_python_3(module), name);
  require<DataError>(meaning_of(full).has_value(),
                     "'{}' calls for '{}', which is not among the constructors that checkpoints are made "
                     "of; nothing was executed. A file that holds a state_dict alone (torch.save of "
                     "tensors, numbers, texts, lists and dicts) is read",
                     out_.source_, full);
  push(add_made_text(ValueKind::kGlobal, full));
}

PickleMachine::Id PickleMachine::construct(Id function, Id arguments) {
  check(kind(function) == ValueKind::kGlobal, "calls {}", value(function));
  check(kind(arguments) == ValueKind::kTuple, "calls {} with {}", value(function).text(), value(arguments));
  return construct_as(*meaning_of(value(function).text()), function, items(arguments), arguments);
}

PickleMachine::Id PickleMachine::construct_as(Meaning meaning, Id function, const Ids args, Id arguments) {
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
      wrong(args.empty() ||
            (args.size() <= 2 && (kind(args[0]) == ValueKind::kList || kind(args[0]) == ValueKind::kTuple)));
      return add_list(ValueKind::kList, args.empty() ? Ids{} : Ids(items(args[0])));
    case Meaning::kTuple:
      wrong(args.size() == 1 && (kind(args[0]) == ValueKind::kList || kind(args[0]) == ValueKind::kTuple));
      return add_list(ValueKind::kTuple, Ids(items(args[0])));
    case Meaning::kBytes:
      if (args.empty()) return add_text(ValueKind::kBytes, {});
      wrong(args.size() == 1 && kind(args[0]) == ValueKind::kBytes);
      return args[0];
    case Meaning::kEncode:
      wrong(args.size() == 2 && kind(args[0]) == ValueKind::kString && kind(args[1]) == ValueKind::kString &&
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
      wrong(args.size() == 4 && kind(args[0]) == ValueKind::kGlobal && kind(args[1]) == ValueKind::kGlobal &&
            kind(args[2]) == ValueKind::kTuple);
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

PickleMachine::Ids PickleMachine::pairs(Id list) {
  if (kind(list) == ValueKind::kDict) return items(list);
  check(kind(list) == ValueKind::kList || kind(list) == ValueKind::kTuple, "makes a dict of {}", value(list));
  Ids out;
  for (const Id pair : items(list)) {
    check((kind(pair) == ValueKind::kList || kind(pair) == ValueKind::kTuple) && items(pair).size() == 2,
          "makes an item of a dict of {}", value(pair));
    out.insert(out.end(), items(pair).begin(), items(pair).end());
  }
  return out;
}

std::string PickleMachine::latin1(std::string_view text) {
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

std::vector<std::int64_t> PickleMachine::sizes(Id id, std::string_view what) {
  check(kind(id) == ValueKind::kTuple || kind(id) == ValueKind::kList, "has a tensor whose {} is {}", what,
        value(id));
  std::vector<std::int64_t> out;
  for (const Id item : items(id)) {
    check(kind(item) == ValueKind::kInt && value(item).integer() >= 0, "has a tensor whose {} holds {}", what,
          value(item));
    out.push_back(value(item).integer());
  }
  check(out.size() <= 64, "has a tensor of {} dimensions", out.size());
  spend(out.size());
  return out;
}

PickleMachine::Id PickleMachine::tensor(const Ids& args, const ElementType* type) {
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

void PickleMachine::check_inside(const TensorValue& tensor) const {
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

void PickleMachine::persistent(Id id) {
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

}  // namespace stoa::ckpt::torch
