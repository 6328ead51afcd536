// What a search found, for people and for programs.
#pragma once

#include <string>
#include <vector>

#include "plan/search.h"

namespace stoa::plan {

// A search on one number of devices.
struct SearchRun {
  std::int64_t devices = 0;
  SearchResult result;
  std::vector<Neighbour> neighbours;  // of the best
  double seconds = 0;                 // that the search took
};

struct SearchReport {
  std::string model_name;
  double parameters = 0;
  Cluster cluster;
  SearchTarget bytes = SearchTarget::kStoa;  // whose they are
  double memory = 0;                         // bytes of a device that plans may fill
  std::int64_t steps = 0;                    // of the training; 0: not known
  std::string target;                        // the program that will train
  double low = 1, high = 1;                  // measured over predicted, 8 of 10 times
  std::string band;                          // why that is so wide; empty: runs of this kind were measured
  std::string command;                       // that asked for the search
  std::string calibration;                   // which constants
  std::vector<SearchRun> runs;               // by number of devices
  std::vector<std::string> notes;

  // The run whose best serves the objective: least time per step, least cost or least energy per token.
  enum class Objective { kTime, kCost, kEnergy };
  const SearchRun* chosen(Objective objective) const;  // none where nothing fits
};

std::span<const config::EnumName<SearchReport::Objective>> enum_names(SearchReport::Objective);

// "TP8 PP16 VPP6 DP8 …, interleaved, 3 layers of each chunk again".
std::string describe(const Found& found);
// "block 2", "full", "selective", "none".
std::string recompute_text(const model::RecomputeConfig& recompute);

std::string to_text(const SearchReport& report, const SearchRun& chosen);
std::string to_json(const SearchReport& report, const SearchRun& chosen);
// With the columns of NVIDIA's auto-configurator (final_summary_*.csv), spelled right, and further ones after
// them.
std::string to_csv(const SearchReport& report);
// One page: best layouts, front, where the time goes, why each neighbour is worse.
std::string to_html(const SearchReport& report, const SearchRun& chosen);

}  // namespace stoa::plan
