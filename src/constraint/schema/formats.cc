#include "constraint/schema/formats.h"

#include <algorithm>
#include <array>
#include <string>

#include "base/nearest.h"
#include "constraint/regex.h"

namespace stoa::constraint {
namespace {

// RFC 3339, with the days of each month; February 29 in leap years.
#define STOA_DATE                                                                           \
  "([0-9]{4}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|" \
  "02-(0[1-9]|1[0-9]|2[0-8]))|"                                                             \
  "([0-9]{2}(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)-02-29)"
#define STOA_TIME \
  "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
// At most 61 characters each, so that four of them are within 253.
#define STOA_LABEL "[A-Za-z0-9](-?[A-Za-z0-9]){0,30}"
#define STOA_HOST STOA_LABEL "(\\." STOA_LABEL "){0,3}"
#define STOA_BYTE "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
#define STOA_IPV4 "(" STOA_BYTE "\\.){3}" STOA_BYTE
#define STOA_HEX "[0-9A-Fa-f]{1,4}"
#define STOA_LOW32 "(" STOA_HEX ":" STOA_HEX "|" STOA_IPV4 ")"
#define STOA_PCHAR "([A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})"
#define STOA_QUERY "([A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})*"
#define STOA_AUTHORITY \
  "([A-Za-z0-9._~!$&'()*+,;=:-]|%[0-9A-Fa-f]{2})*@)?([A-Za-z0-9._~-]|%[0-9A-Fa-f]{2})+(:[0-9]{1,5})?"
#define STOA_URI_END "(\\?" STOA_QUERY ")?(#" STOA_QUERY ")?"
#define STOA_ATOM "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"

struct Format {
  std::string_view name, pattern;  // pattern "": no text
};

constexpr std::array kFormats{
    Format{"date-time", STOA_DATE "T" STOA_TIME},
    Format{"date", STOA_DATE},
    Format{"time", STOA_TIME},
    Format{"duration",
           "P([0-9]{1,9}W|"
           "([0-9]{1,9}Y([0-9]{1,9}M([0-9]{1,9}D)?)?|[0-9]{1,9}M([0-9]{1,9}D)?|[0-9]{1,9}D)"
           "(T([0-9]{1,9}H([0-9]{1,9}M([0-9]{1,9}S)?)?|[0-9]{1,9}M([0-9]{1,9}S)?|[0-9]{1,9}S))?|"
           "T([0-9]{1,9}H([0-9]{1,9}M([0-9]{1,9}S)?)?|[0-9]{1,9}M([0-9]{1,9}S)?|[0-9]{1,9}S))"},
    Format{"email", STOA_ATOM "(\\." STOA_ATOM ")*@" STOA_HOST},
    Format{"hostname", STOA_HOST},
    Format{"ipv4", STOA_IPV4},
    Format{"ipv6", "((" STOA_HEX ":){6}" STOA_LOW32 "|::(" STOA_HEX ":){5}" STOA_LOW32 "|(" STOA_HEX
                   ")?::(" STOA_HEX ":){4}" STOA_LOW32 "|((" STOA_HEX ":){0,1}" STOA_HEX ")?::(" STOA_HEX
                   ":){3}" STOA_LOW32 "|((" STOA_HEX ":){0,2}" STOA_HEX ")?::(" STOA_HEX ":){2}" STOA_LOW32
                   "|((" STOA_HEX ":){0,3}" STOA_HEX ")?::" STOA_HEX ":" STOA_LOW32 "|((" STOA_HEX
                   ":){0,4}" STOA_HEX ")?::" STOA_LOW32 "|((" STOA_HEX ":){0,5}" STOA_HEX ")?::" STOA_HEX
                   "|((" STOA_HEX ":){0,6}" STOA_HEX ")?::)"},
    Format{"uuid", "[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"},
    Format{"uri", "[A-Za-z][A-Za-z0-9+.-]*:(//(" STOA_AUTHORITY "(/" STOA_PCHAR "*)*|/?(" STOA_PCHAR
                  "+(/" STOA_PCHAR "*)*)?)" STOA_URI_END},
    Format{"json-pointer", "(/([^/~]|~[01])*)*"},
    Format{"byte", "([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?"},
    Format{"int32", ""},
    Format{"int64", ""},
    Format{"float", ""},
    Format{"double", ""},
    Format{"password", ""}};

}  // namespace

std::vector<std::string_view> known_formats() {
  std::vector<std::string_view> out;
  for (const Format& format : kFormats) out.push_back(format.name);
  return out;
}

std::shared_ptr<const CharAutomaton> texts_of_format(std::string_view name, Budget& budget) {
  const auto found =
      std::find_if(kFormats.begin(), kFormats.end(), [&](const Format& f) { return f.name == name; });
  if (found == kFormats.end()) {
    std::vector<std::string> names;
    for (const Format& format : kFormats) names.emplace_back(format.name);
    fail<ConstraintError>("'format': '{}' is not supported{}", name.substr(0, 60),
                          did_you_mean(std::string(name.substr(0, 60)), names));
  }
  if (found->pattern.empty()) return nullptr;
  return std::make_shared<const CharAutomaton>(parse_regex(found->pattern, RegexMatch::kWhole, budget));
}

}  // namespace stoa::constraint
