// Style and script of report.html. Nothing in them refers to anything outside the page.
#pragma once

#include <string_view>

namespace stoa::watch {

extern const std::string_view kReportStyle;   // CSS
extern const std::string_view kReportScript;  // JavaScript: values under the pointer

}  // namespace stoa::watch
