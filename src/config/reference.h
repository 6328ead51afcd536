// The reference of all keys, as Markdown, generated from their declarations.
#pragma once

#include <span>
#include <string>

#include "config/reader.h"
#include "config/schema.h"

namespace stoa::config {

// `defaults`: the tree that Schema::print gives for a default-constructed object. One table per section, in
// order of declaration, then the table of foreign keys.
std::string reference_markdown(const Schema& schema, const Node& defaults,
                               std::span<const ForeignKey> foreign);
// The tables alone.
std::string reference_tables(const Schema& schema, const Node& defaults);

}  // namespace stoa::config
