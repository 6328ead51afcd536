// Training files of NeMo 1.x and of its launcher, as they are: composed (hydra.h), their references expanded,
// and what NeMo says in other keys than Stoa said in Stoa's. Keys of NeMo that remain are in
// foreign/nemo_keys.h.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "config/node.h"
#include "config/schema.h"
#include "foreign/purpose.h"

namespace stoa::foreign {

// A file that Hydra composes, or one with keys that only NeMo's files have.
bool is_nemo(const config::Node& root);

struct NemoFile {
  config::Node root;  // overrides merged
  std::vector<std::string> notes;
};

// `overrides`: as on Stoa's command line; also options of groups (training=gpt3/5b), keys of the launcher
// (data_dir=DIR) and its prefix (training.model.micro_batch_size=2). ConfigError lists what cannot be
// honoured; for a run also what Stoa trains differently, paths that the file leaves open (`${data_dir}/…`)
// and tokenizers that are not on this machine, which otherwise are left out and reported.
NemoFile read_nemo(const fs::path& file, std::span<const std::string> overrides, const config::Schema& schema,
                   Purpose purpose);
// The same of a file that is at hand; what its `defaults` name is left out.
NemoFile read_nemo(config::Node root, std::span<const std::string> overrides, const config::Schema& schema,
                   Purpose purpose);

}  // namespace stoa::foreign
