// Parts of a page that are known by what their elements are called.
#pragma once

#include <string>
#include <string_view>

#include "curate/html/tree.h"

namespace stoa::curate {

// Whether a word of the class and id is one for what is not the main text.
bool is_named_as_boilerplate(std::string_view class_and_id);

// Whether the element is not shown, or its role is none of the text: navigation, banner, search …
bool is_hidden_element(const HtmlTree& tree, NodeId id);

}  // namespace stoa::curate
