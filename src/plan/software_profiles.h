// What sources of measurements state about the programs, machines and models behind their rows: a committed
// table (configs/planner/software_profiles.yaml), read as data.
#pragma once

#include <string>
#include <vector>

#include "base/file.h"
#include "config/node.h"
#include "plan/workload.h"

namespace stoa::plan {

class SoftwareProfiles {
 public:
  // ConfigError where an entry has an unknown key.
  static SoftwareProfiles load(const fs::path& file);

  struct Stated {
    Software software;
    std::string cluster;      // name of a cluster file; empty: by the device alone
    std::string schedule;     // empty: 1f1b, or interleaved with several chunks
    bool known = false;       // some entry names the source
    bool independent = true;  // rows are runs of their own, not composed of a few measured pieces
  };
  // Everything that the entries which match say, later ones over earlier ones. `text`: model, precision,
  // recomputation and note of the row together.
  Stated of(const std::string& source, const std::string& text) const;
  // Facts of public model families, by what a row calls its model: key-value heads, gated, tied and kin.
  void describe(const std::string& model, const std::string& text, ModelShape& shape) const;

 private:
  struct Entry {
    std::string source, states;  // parts of the text that must occur; empty: any
    std::string cluster, schedule;
    bool independent = true;
    config::Node software = config::Node::map();
  };
  struct Family {
    std::string name, states;
    config::Node facts = config::Node::map();
  };
  std::vector<Entry> entries_;
  std::vector<Family> families_;
};

}  // namespace stoa::plan
