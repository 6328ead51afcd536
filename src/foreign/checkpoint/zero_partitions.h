// The partitions of DeepSpeed's ZeRO, stages 1 to 3: every rank's share of fp32 weights and of Adam's
// moments, joined as they are in memory-mapped files.
#pragma once

#include "foreign/checkpoint/foreign_checkpoint.h"

namespace stoa::foreign {

// `directory`: with …zero_pp_rank_0_mp_rank_00_optim_states.pt, `given` or below it. DataError: ranks are
// missing, several tensor ranks, parameters that are not trained; and as open_foreign.
ForeignCheckpoint open_zero_partitions(const fs::path& given, const fs::path& directory,
                                       const ForeignOptions& options);

}  // namespace stoa::foreign
