// The standard library's templates that all code uses, optimised. Tests are not (cmake/StoaCompiler.cmake),
// and of equal functions the linker keeps the first for everyone: without this object, which is the first of
// every test program, the program's code would call the tests' own copies there, and takes up to twice the
// time.
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/philox.h"

template class std::basic_string<char>;
template class std::basic_string_view<char>;
template class std::vector<std::string>;
template class std::vector<char>;
template class std::vector<std::byte>;
template class std::vector<std::uint8_t>;
template class std::vector<std::int32_t>;
template class std::vector<std::int64_t>;
template class std::vector<std::size_t>;
template class std::vector<float>;
template class std::vector<double>;
template class std::map<std::string, std::string>;

// Random numbers too: tests fill models with them.
namespace stoa {
[[gnu::used]] constexpr auto* kBlock = &philox4x32;
[[gnu::used]] constexpr auto* kWord = &philox_word;
}  // namespace stoa
