// Sorted runs of records, read as one: the last step of external sorts.
#pragma once

#include <cstddef>
#include <memory>
#include <queue>
#include <vector>

namespace stoa::curate {

// Calls `visit` with the records of all runs in their order. `before(a, b)`: whether a comes before b;
// Run::next(record) reads a record of a run, false at its end.
template <class Record, class Run, class Before, class Visit>
void merge_sorted(const std::vector<std::unique_ptr<Run>>& runs, const Before& before, const Visit& visit) {
  struct Head {
    Record record;
    std::size_t run;
  };
  const auto later = [&](const Head& a, const Head& b) { return before(b.record, a.record); };
  std::priority_queue<Head, std::vector<Head>, decltype(later)> heads(later);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    Record first;
    if (runs[i]->next(first)) heads.push({first, i});
  }
  while (!heads.empty()) {
    Head head = heads.top();
    heads.pop();
    visit(head.record);
    if (runs[head.run]->next(head.record)) heads.push(head);
  }
}

}  // namespace stoa::curate
