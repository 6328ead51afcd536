#include "curate/text/ccnet_form.h"

#include "curate/text/character.h"

namespace stoa::curate {
namespace {

constexpr std::u32string_view kCcnetMarks = U"，。、„”“«»１」「《》´∶：？！（）；–—．～’…━〈〉【】％►";

}  // namespace

std::string_view CcnetForm::operator()(std::string_view text) {
  lower_.clear();
  out_.clear();
  append_lower(strip(text), lower_);
  for (const char *p = lower_.data(), *end = p + lower_.size(); p < end;) {
    const Character c = read_character(p);
    if (characters().has(c.value, kDigit))
      out_ += '0';
    else if (c.value >= 32 && (c.value < 127 || c.value >= 160) &&
             kCcnetMarks.find(c.value) == kCcnetMarks.npos)
      out_.append(p, c.length);
    p += c.length;
  }
  return out_;
}

}  // namespace stoa::curate
