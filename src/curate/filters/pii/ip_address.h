// IP addresses as patterns of published tools see them, and as Python's ipaddress judges them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace stoa::curate {

// 0 to 255 in one to three digits.
bool is_octet(std::string_view digits);
// Digits at the beginning that make an octet, as the alternatives 25[0-5], 2[0-4][0-9], [01]?[0-9][0-9]? take
// them; 0: none.
std::size_t octet_at(std::string_view text);
// Three octets, each with a dot after it; bytes, or 0.
std::size_t three_octets_at(std::string_view text);

struct ByteRange {
  std::size_t begin = 0, end = 0;
};
// The first four octets with dots between them that begin at `from` or after it, whatever is around them.
std::optional<ByteRange> find_ipv4(std::string_view text, std::size_t from);

// Empty where ipaddress.IPv4Address refuses it: octets above 255 or with leading zeros.
std::optional<std::uint32_t> parse_ipv4(std::string_view text);
bool is_private_ipv4(std::uint32_t address);  // IPv4Address.is_private (Python 3.11)
bool is_global_ipv4(std::uint32_t address);   // is_global

using Ipv6 = std::array<std::uint16_t, 8>;
// Empty where ipaddress.IPv6Address refuses it. A zone ("%eth0") is allowed, and ignored.
std::optional<Ipv6> parse_ipv6(std::string_view text);
bool is_private_ipv6(const Ipv6& address);  // IPv6Address.is_private (Python 3.11)

}  // namespace stoa::curate
