#include "run/teacher_layout.h"

namespace stoa::run {

Layout layout_of_teacher(Layout layout, std::int64_t layers, std::int64_t chunks) {
  layout.layers.clear();
  for (std::int64_t c = 0; c < chunks; ++c)
    layout.layers.push_back(layers / chunks + (c < layers % chunks ? 1 : 0));
  return layout;
}

}  // namespace stoa::run
