#include "data/utf8_scan.h"

namespace stoa::data {
namespace {

struct Lead {
  int more = -1;                          // bytes that follow; -1: no lead byte
  unsigned char low = 0x80, high = 0xbf;  // bounds of the first of them
};

Lead lead_of(unsigned char byte) {
  if (byte < 0x80) return {0};
  if (byte < 0xc2) return {};
  if (byte < 0xe0) return {1};
  if (byte == 0xe0) return {2, 0xa0, 0xbf};
  if (byte == 0xed) return {2, 0x80, 0x9f};
  if (byte < 0xf0) return {2};
  if (byte == 0xf0) return {3, 0x90, 0xbf};
  if (byte < 0xf4) return {3};
  if (byte == 0xf4) return {3, 0x80, 0x8f};
  return {};
}

}  // namespace

Utf8Scan scan_utf8(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const Lead lead = lead_of(static_cast<unsigned char>(text[at]));
    if (lead.more < 0) return {at, false};
    for (int i = 1; i <= lead.more; ++i) {
      if (at + static_cast<std::size_t>(i) == text.size()) return {at, true};
      const auto next = static_cast<unsigned char>(text[at + static_cast<std::size_t>(i)]);
      if (next < (i == 1 ? lead.low : 0x80) || next > (i == 1 ? lead.high : 0xbf)) return {at, false};
    }
    at += static_cast<std::size_t>(lead.more) + 1;
  }
  return {at, false};
}

}  // namespace stoa::data
