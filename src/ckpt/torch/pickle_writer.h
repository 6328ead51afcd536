// Writes pickles of protocol 2, as far as checkpoints of PyTorch need them.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace stoa::ckpt::torch {

class PickleWriter {
 public:
  PickleWriter() : text_("\x80\x02") {}

  PickleWriter& none() { return put('N'); }
  PickleWriter& boolean(bool value) { return put(value ? '\x88' : '\x89'); }
  PickleWriter& integer(std::int64_t value);
  PickleWriter& real(double value);
  PickleWriter& text(std::string_view utf8);
  // What is written between these two is their content: of a dict key, value, key, value …
  PickleWriter& begin_dict() { return put('}').put('('); }
  PickleWriter& end_dict() { return put('u'); }
  PickleWriter& begin_list() { return put(']').put('('); }
  PickleWriter& end_list() { return put('e'); }
  PickleWriter& begin_tuple() { return put('('); }
  PickleWriter& end_tuple() { return put('t'); }
  PickleWriter& integers(const std::vector<std::int64_t>& values);  // as a tuple
  // A class or function: "torch.Size".
  PickleWriter& global(std::string_view module, std::string_view name);
  // After a callable and the tuple of its arguments: calls it.
  PickleWriter& call() { return put('R'); }
  // After a class and a tuple: an object; after an object and a dict or tuple: that is its state.
  PickleWriter& object() { return put('\x81'); }
  PickleWriter& state() { return put('b'); }
  // After a tuple: what it names (a storage).
  PickleWriter& persistent() { return put('Q'); }

  std::string finish() { return put('.').text_; }

 private:
  PickleWriter& put(char c) {
    text_ += c;
    return *this;
  }
  template <class T>
  void little_endian(T value);

  std::string text_;
};

}  // namespace stoa::ckpt::torch
