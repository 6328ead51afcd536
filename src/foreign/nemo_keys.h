// Keys of NeMo's and its launcher's training files that Stoa does not use, each with its reason.
#pragma once

#include <span>

#include "config/reader.h"

namespace stoa::foreign {

std::span<const config::ForeignKey> nemo_keys();

}  // namespace stoa::foreign
