// Configuration of tuning data: keys of `model.data` in addition to those of prepared text (data/config.h).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/schema.h"

namespace stoa::tune {

// `train_ds`, `validation_ds`, as NeMo groups them.
struct FileNames {
  std::vector<std::string> file_names;
};

struct ChatDataConfig {
  bool chat = false;
  std::optional<std::string> chat_template;
  bool packed_sequence = true;
  bool skip_bad_records = false;
  FileNames train_ds, validation_ds;
};

void declare(config::Section<ChatDataConfig>& s);

}  // namespace stoa::tune
