// Paths that name a model: /v1/models/NAME, and Triton's /v2/models/NAME.
#pragma once

#include <string>

namespace stoa::serve {

struct ModelPath {
  std::string route;  // "/v2/models/{model}/generate"; a path that names no model as it is
  std::string model;
};

// Triton's paths may have a version, /v2/models/NAME/versions/1/generate: there is one.
ModelPath model_path(const std::string& path);

}  // namespace stoa::serve
