// Texts repaired before rules judge them.
#pragma once

#include <memory>

#include "config/schema.h"
#include "curate/stage.h"
#include "curate/text/fix_text.h"

namespace stoa::curate {

std::span<const config::EnumName<UnescapeHtml>> enum_names(UnescapeHtml);
std::span<const config::EnumName<Normalization>> enum_names(Normalization);
void declare(config::Section<FixTextOptions>& s);
std::unique_ptr<Stage> make_stage(const FixTextOptions& options);

}  // namespace stoa::curate
