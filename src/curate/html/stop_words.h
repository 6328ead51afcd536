// Data (stop_words.cc): the English stop words of jusText 3.0.2, one a line.
#pragma once

#include <string_view>

namespace stoa::curate {

std::string_view english_stop_words();

}  // namespace stoa::curate
