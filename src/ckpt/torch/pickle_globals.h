// The closed list of names that a pickle may use, and what stands for each.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace stoa::ckpt::torch {

enum class Meaning : std::uint8_t {
  kDict,            // OrderedDict(), OrderedDict(pairs)
  kDefaultDict,     // defaultdict(factory), with pairs set later
  kCounter,         // Counter(dict)
  kSet,             // set(list)
  kList,            // deque(list, length)
  kTuple,           // torch.Size(tuple)
  kBytes,           // bytearray(bytes), bytes()
  kEncode,          // _codecs.encode(text, "latin1"): bytes, as protocol 2 writes them
  kTensor,          // torch._utils._rebuild_tensor and _v2
  kTensorOfType,    // torch._utils._rebuild_tensor_v3: storage of bytes, and a dtype
  kParameter,       // torch._utils._rebuild_parameter: the tensor that it wraps
  kTensorSubclass,  // torch._tensor._rebuild_from_type_v2: of torch's own classes, by one of the above
  kName,            // a dtype, a storage class, a function as a value: not to be called
  kObject           // a class or function whose result is carried as name, arguments and state
};

// nullopt: not in the list. Names are "module.name", of Python 3 where they changed.
std::optional<Meaning> meaning_of(std::string_view global);

// Names of Python 2's modules ("__builtin__") as those of Python 3.
std::string_view module_of_python_3(std::string_view module);

}  // namespace stoa::ckpt::torch
