// Parts of a page that are known by what their elements are called.
#pragma once

#include <string>
#include <string_view>

#include "curate/html/tree.h"

namespace stoa::curate {

// What the words of class and id say an element is.
enum class NamedPart : std::uint8_t { kNone, kContent, kBoilerplate };
NamedPart part_by_name(std::string_view class_and_id);

// Whether the element is not shown, or its role is none of the text: navigation, banner, search …
bool is_hidden_element(const HtmlTree& tree, NodeId id);

}  // namespace stoa::curate
