// The server's interface as an OpenAPI 3.1 document.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "serve/request_body.h"

namespace stoa::serve {

struct DescribedRoute {
  std::string path, method;
  bool open = false;  // needs no key
};

// `routes`: those to be described, in their order. Paths of endpoints() have the fields as their bodies.
// InternalError: a field has no schema.
Json openapi(std::string_view version, const std::vector<DescribedRoute>& routes, bool keys);

}  // namespace stoa::serve
