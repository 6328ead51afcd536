#include <charconv>

#include "base/nearest.h"
#include "ops/cuda/cuda_machine.h"

namespace stoa::ops::cuda {

CudaOptions CudaOptions::parse(const std::string& text) {
  CudaOptions out;
  const std::vector<std::string> known{"tf32",          "tune",          "deterministic", "graphs",
                                       "own-attention", "plain-kernels", "device=N"};
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    begin = end + 1;
    if (word == "tf32") {
      out.tf32 = true;
    } else if (word == "tune") {
      out.tune = true;
    } else if (word == "deterministic") {
      out.deterministic = true;
    } else if (word == "graphs") {
      out.graphs = true;
    } else if (word == "own-attention") {
      out.own_attention = true;
    } else if (word == "plain-kernels") {
      out.plain_kernels = true;
    } else if (word.starts_with("device=")) {
      const char *first = word.data() + 7, *last = word.data() + word.size();
      const auto [stop, error] = std::from_chars(first, last, out.device.emplace());
      require<ConfigError>(error == std::errc{} && stop == last && *out.device >= 0,
                           "'{}' names no GPU: expected device=0, device=1, …", word);
    } else {
      fail<ConfigError>("unknown CUDA option '{}': expected {}{}", word, fmt::join(known, ", "),
                        did_you_mean(word, known));
    }
  }
  require<ConfigError>(
      !(out.tune && out.deterministic),
      "CUDA options tune and deterministic exclude each other: what is fastest differs from run to run");
  return out;
}

}  // namespace stoa::ops::cuda
