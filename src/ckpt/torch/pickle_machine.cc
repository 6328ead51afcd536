#include "ckpt/torch/pickle_machine.h"

#include <bit>

namespace stoa::ckpt::torch {

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
