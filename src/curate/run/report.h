// What people read about a run: report.html (what became of documents, and samples of what every rule
// removed) and DATASHEET.md. Made from the output alone: the same bytes for any number of workers.
#pragma once

#include "base/file.h"
#include "curate/run/journal.h"
#include "curate/run/pipeline.h"

namespace stoa::curate {

void write_report(const fs::path& output, const Pipeline& pipeline, const nlohmann::ordered_json& subject,
                  const Journal& journal, const Flow& flow);

}  // namespace stoa::curate
