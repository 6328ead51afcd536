// What became of the documents of a run: counts per stage and rule.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

namespace stoa::curate {

struct Amount {
  std::int64_t documents = 0, bytes = 0;  // of text
  void add(std::int64_t text_bytes) {
    ++documents;
    bytes += text_bytes;
  }
  void add(const Amount& other) {
    documents += other.documents;
    bytes += other.bytes;
  }
};

struct Flow {
  Amount read, kept, quarantined;
  std::map<std::string, Amount> dropped;  // by "stage/rule"
  std::int64_t damaged_inputs = 0;        // faults of files that could not be read whole
  Amount cut;                             // documents of which parts were cut as copies, and what was cut

  void add(const Flow& other);
  Amount dropped_in_all() const;
  // By rule, those of the first stage first.
  std::vector<std::pair<std::string, Amount>> dropped_in_order(const std::vector<std::string>& stages) const;
};

nlohmann::ordered_json to_json(const Flow& flow);
Flow flow_from_json(const nlohmann::ordered_json& json);

// A table: documents and bytes that came to each stage, and what each of its rules dropped.
std::string flow_table(const Flow& flow, const std::vector<std::string>& stages);

}  // namespace stoa::curate
