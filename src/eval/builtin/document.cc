#include "eval/builtin/document.h"

#include "base/error.h"

namespace stoa::eval {
namespace {

const Json& any_field(const Json& doc, const char* name) {
  const auto it = doc.find(name);
  require<DataError>(it != doc.end(), "the document has no field '{}'", name);
  return *it;
}

}  // namespace

std::string text_field(const Json& doc, const char* name) {
  const Json& value = any_field(doc, name);
  require<DataError>(value.is_string(), "the document's field '{}' is not a text", name);
  return value.get<std::string>();
}

const Json& list_field(const Json& doc, const char* name) {
  const Json& value = any_field(doc, name);
  require<DataError>(value.is_array(), "the document's field '{}' is not a list", name);
  return value;
}

}  // namespace stoa::eval
