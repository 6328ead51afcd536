#include "curate/filters/pii/ip_address.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <vector>

#include "curate/text/character.h"

namespace stoa::curate {

bool is_octet(std::string_view digits) {
  if (digits.empty() || digits.size() > 3 || !std::all_of(digits.begin(), digits.end(), is_ascii_digit))
    return false;
  return digits.size() < 3 || digits <= "255";
}

std::size_t octet_at(std::string_view text) {
  std::size_t digits = 0;
  while (digits < 3 && digits < text.size() && is_ascii_digit(text[digits])) ++digits;
  while (digits > 0 && !is_octet(text.substr(0, digits))) --digits;
  return digits;
}

std::size_t three_octets_at(std::string_view text) {
  std::size_t at = 0;
  for (int i = 0; i < 3; ++i) {
    const std::size_t dot = text.substr(at, 4).find('.');
    if (dot == text.npos || !is_octet(text.substr(at, dot))) return 0;
    at += dot + 1;
  }
  return at;
}

std::optional<ByteRange> find_ipv4(std::string_view text, std::size_t from) {
  for (std::size_t dot = text.find('.', from); dot != text.npos; dot = text.find('.', dot + 1)) {
    for (std::size_t length = std::min<std::size_t>(3, dot - from); length > 0;
         --length) {  // the leftmost beginning first
      const std::size_t begin = dot - length;
      if (!is_octet(text.substr(begin, length))) continue;
      const std::size_t octets = three_octets_at(text.substr(begin));
      if (octets == 0) break;
      const std::size_t last = octet_at(text.substr(begin + octets));
      if (last > 0) return ByteRange{begin, begin + octets + last};
      break;
    }
  }
  return std::nullopt;
}

std::optional<std::uint32_t> parse_ipv4(std::string_view text) {
  std::uint32_t value = 0;
  for (int i = 0; i < 4; ++i) {
    const std::size_t end = std::min(text.find('.'), text.size());
    const std::string_view octet = text.substr(0, end);
    if (!is_octet(octet) || (end > 1 && text[0] == '0') || (i < 3) != (end < text.size()))
      return std::nullopt;
    unsigned number = 0;
    std::from_chars(octet.data(), octet.data() + octet.size(), number);
    value = value << 8 | number;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return value;
}

bool is_private_ipv4(std::uint32_t address) {
  struct Network {
    std::uint32_t address;
    int bits;
  };
  static constexpr Network kPrivate[] = {
      {0x00000000, 8},  {0x0a000000, 8},  {0x7f000000, 8},  {0xa9fe0000, 16}, {0xac100000, 12},
      {0xc0000000, 29}, {0xc00000aa, 31}, {0xc0000200, 24}, {0xc0a80000, 16}, {0xc6120000, 15},
      {0xc6336400, 24}, {0xcb007100, 24}, {0xf0000000, 4}};
  return std::any_of(std::begin(kPrivate), std::end(kPrivate),
                     [&](const Network& n) { return (address ^ n.address) >> (32 - n.bits) == 0; });
}

bool is_global_ipv4(std::uint32_t address) {
  constexpr std::uint32_t kShared = 0x64400000;  // 100.64.0.0/10 is neither
  return !is_private_ipv4(address) && (address ^ kShared) >> 22 != 0;
}

std::optional<Ipv6> parse_ipv6(std::string_view text) {
  if (const std::size_t zone = text.find('%'); zone != text.npos) {
    if (zone + 1 == text.size()) return std::nullopt;
    text = text.substr(0, zone);
  }
  std::vector<std::uint16_t> parts;
  std::optional<std::size_t> gap;  // number of the part before which zeros are left out
  for (std::size_t at = 0;;) {
    if (text.substr(at).starts_with("::")) {
      if (gap) return std::nullopt;
      gap = parts.size();
      at += 2;
      if (at == text.size()) break;
    } else if (at > 0) {
      if (at >= text.size() || text[at] != ':') return std::nullopt;
      ++at;
    }
    const std::size_t end = std::min(text.find(':', at), text.size());
    const std::string_view part = text.substr(at, end - at);
    if (end == text.size() && part.find('.') != part.npos) {
      const auto last = parse_ipv4(part);
      if (!last) return std::nullopt;
      parts.push_back(static_cast<std::uint16_t>(*last >> 16));
      parts.push_back(static_cast<std::uint16_t>(*last & 0xffff));
      break;
    }
    std::uint16_t value = 0;
    const auto [stop, error] = std::from_chars(part.data(), part.data() + part.size(), value, 16);
    if (part.empty() || part.size() > 4 || error != std::errc() || stop != part.data() + part.size())
      return std::nullopt;
    parts.push_back(value);
    at = end;
    if (at == text.size()) break;
  }
  Ipv6 address{};
  if (gap ? parts.size() > 7 : parts.size() != 8) return std::nullopt;
  const std::size_t before = gap.value_or(8);
  std::copy_n(parts.begin(), before, address.begin());
  std::copy(parts.begin() + static_cast<std::ptrdiff_t>(before), parts.end(),
            address.end() - static_cast<std::ptrdiff_t>(parts.size() - before));
  return address;
}

bool is_private_ipv6(const Ipv6& a) {
  const auto zeros = [&](std::size_t n) {
    return std::all_of(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(n),
                       [](auto part) { return part == 0; });
  };
  if (zeros(5) && a[5] == 0xffff) return is_private_ipv4(static_cast<std::uint32_t>(a[6]) << 16 | a[7]);
  return (zeros(7) && a[7] <= 1) ||                                  // :: and ::1
         (a[0] == 0x0100 && a[1] == 0 && a[2] == 0 && a[3] == 0) ||  // 100::/64
         (a[0] == 0x2001 && (a[1] < 0x0200 || a[1] == 0x0db8)) ||    // 2001::/23, 2001:db8::/32
         (a[0] & 0xfe00) == 0xfc00 || (a[0] & 0xffc0) == 0xfe80;     // fc00::/7, fe80::/10
}

}  // namespace stoa::curate
