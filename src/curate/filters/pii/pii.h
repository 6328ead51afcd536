// Addresses of people and machines in texts, found as one of the published tools finds them and replaced.
// Those tools replace in turn or by chance, so that their output depends on who did what; here the address
// itself chooses among the replacements.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "config/schema.h"
#include "curate/stage.h"

namespace stoa::curate {

enum class PiiRule { kDatatrove, kDolma, kStarCoder };
std::span<const config::EnumName<PiiRule>> enum_names(PiiRule);

struct PiiOptions {
  PiiRule rule = PiiRule::kDatatrove;
  bool remove_emails = true, remove_ips = true, remove_phones = true, only_remove_public_ips = true;
  // Empty: those of the rule's tool.
  std::vector<std::string> email_replacement, ip_replacement, ipv6_replacement, phone_replacement;
  std::int64_t max_matches = 5;  // dolma; 0: any number
};
void declare(config::Section<PiiOptions>& s);
std::unique_ptr<Stage> make_stage(const PiiOptions& options);

}  // namespace stoa::curate
