// Where the sentences of a text end.
#pragma once

#include <string_view>
#include <vector>

namespace stoa::data {

// The sentences of a text in order, without the white space around them; none of an empty text. A sentence
// ends after . ! ? … or their full-width forms, with the quotes and brackets that follow, where white space
// comes next (full-width forms need none) and then no small letter; after a line that stands apart (a blank
// line); and at the end. A single capital letter or a common abbreviation before a full stop does not end
// one.
std::vector<std::string_view> split_sentences(std::string_view text);

}  // namespace stoa::data
