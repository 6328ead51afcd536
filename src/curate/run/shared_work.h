// The part of a run that several processes do together: each takes leases of inputs and leaves in
// OUTPUT/shared what the stages made of them; one of them then writes the output from that, as a run of one
// process would.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>

#include "base/file.h"
#include "curate/io/document_reader.h"
#include "curate/run/lease.h"
#include "curate/run/process.h"

namespace stoa::curate {

class SharedWork {
 public:
  // ConfigError: OUTPUT holds something else, or a run of another `subject`, with what differs.
  SharedWork(fs::path output, const nlohmann::ordered_json& subject);

  // Whether the output was written, or is complete since before.
  bool is_over() const;
  bool is_done(std::int64_t input) const { return fs::exists(piece(input)); }
  fs::path piece(std::int64_t input) const;
  // Empty: another process has it.
  std::unique_ptr<Lease> take(std::int64_t input) const;
  std::unique_ptr<Lease> take_end() const;
  // The processed blocks of all inputs from `from` on.
  void each(Place from, const std::function<void(ProcessedBlock&)>& visit) const;
  void remove() const;

 private:
  const fs::path output_, folder_;
  std::int64_t inputs_ = 0;
};

}  // namespace stoa::curate
