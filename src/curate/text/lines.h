// Lines as Python's str.splitlines() cuts them.
#pragma once

#include <string_view>

namespace stoa::curate {

namespace lines_detail {
// Bytes of the line end at `p` < `end`; 0: none.
inline std::size_t line_end_at(const char* p, const char* end) {
  const auto c = static_cast<unsigned char>(*p);
  if (c > 0x1e && c < 0xc2) return 0;
  if (c == '\r') return p + 1 < end && p[1] == '\n' ? 2 : 1;
  if ((c >= 0x0a && c <= 0x0c) || (c >= 0x1c && c <= 0x1e)) return 1;
  const std::string_view rest(p, static_cast<std::size_t>(end - p));
  if (c == 0xc2) return rest.starts_with("\xc2\x85") ? 2 : 0;
  if (c == 0xe2) return rest.starts_with("\xe2\x80\xa8") || rest.starts_with("\xe2\x80\xa9") ? 3 : 0;
  return 0;
}
}  // namespace lines_detail

// Calls visit(std::string_view) with every line, without its end; nothing follows a line end at the end of
// the text.
template <class F>
void each_line(std::string_view text, F&& visit) {
  const char *const end = text.data() + text.size(), *begin = text.data();
  for (const char* p = begin; p < end;) {
    const std::size_t n = lines_detail::line_end_at(p, end);
    if (n == 0) {
      ++p;
      continue;
    }
    visit(std::string_view(begin, static_cast<std::size_t>(p - begin)));
    begin = p += n;
  }
  if (begin < end) visit(std::string_view(begin, static_cast<std::size_t>(end - begin)));
}

}  // namespace stoa::curate
