// Parts of a run's report that show what the rules measured of a sample of documents (measures.h).
#pragma once

#include <string>
#include <vector>

#include "curate/run/measures.h"

namespace stoa::curate {

// Where the documents of the sample came from, which rules fail them first, at all and alone, which rules
// fail the same ones, how long they are, and for every limit the distribution of what it judges and how many
// documents other limits would keep.
std::string measures_html(const std::vector<MeasuredDocument>& sample);

}  // namespace stoa::curate
