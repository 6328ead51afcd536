// What the patterns of published tools find: addresses and telephone numbers in texts. Each in a file of its
// own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "curate/filters/pii/ip_address.h"

namespace stoa::curate {

enum class PiiKind : std::uint8_t { kEmail, kPhone, kIpv4, kIpv6 };
struct PiiMatch {
  PiiKind kind = PiiKind::kEmail;
  std::size_t begin = 0, end = 0;
};

// datatrove 0.10 (PIIFormatter): the first e-mail address that begins at `from` or after it. Its IPv4
// addresses are those of find_ipv4().
std::optional<ByteRange> find_datatrove_email(std::string_view text, std::size_t from);

// dolma 1.2 (pii_regex_with_counts_fast_v2): paragraph after paragraph, of each first e-mail addresses, then
// telephone numbers, then IPv4 addresses. Matches hold the white space and marks around them that the
// patterns take, and may overlap.
std::vector<PiiMatch> find_dolma_pii(std::string_view text);

// StarCoder (bigcode-dataset, emails_ip_addresses_detection): e-mail addresses, then IP addresses that are no
// dates or versions.
std::vector<PiiMatch> find_starcoder_pii(std::string_view text);

}  // namespace stoa::curate
