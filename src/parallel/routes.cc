#include "parallel/routes.h"

#include <algorithm>

namespace stoa::parallel {

ContextRing context_ring(const ContextPlace& place) {
  const int own = place.exchanging(), member = place.rank % own;
  const ContextPlace outer = place.outer();
  return {outer.size, (outer.rank + 1) % outer.size * own + member,
          (outer.rank + outer.size - 1) % outer.size * own + member};
}

std::vector<comm::Route> routes_of(const grid::RankGrid& grid, Group group, const ContextPlace& context) {
  std::vector<comm::Route> routes;
  if (group == Group::kPipeline) {
    const int stages = grid.degree(Axis::kPipeline);
    for (int stage = 0; stage < stages && stages > 1; ++stage) {
      const int next = (stage + 1) % stages;
      routes.push_back({stage, next});
      routes.push_back({next, stage});
    }
  }
  const bool rings = context.kind == ContextKind::kRing || context.kind == ContextKind::kHierarchical;
  if (group == Group::kContext && rings) {
    ContextPlace place = context;
    for (place.rank = 0; place.rank < place.size; ++place.rank)
      if (const ContextRing ring = context_ring(place); ring.size > 1)
        routes.push_back({place.rank, ring.next});
  }
  std::sort(routes.begin(), routes.end());
  routes.erase(std::unique(routes.begin(), routes.end()), routes.end());
  return routes;
}

}  // namespace stoa::parallel
