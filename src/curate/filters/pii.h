// Addresses of people and machines in texts, replaced as datatrove finds them: e-mail addresses, then IPv4
// addresses. Its replacements take turns within a worker, so its output depends on who did what; here the
// address itself chooses.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "config/schema.h"
#include "curate/stage.h"

namespace stoa::curate {

struct PiiOptions {
  bool remove_emails = true, remove_ips = true, only_remove_public_ips = true;
  std::vector<std::string> email_replacement = {"email@example.com", "firstname.lastname@example.org"};
  std::vector<std::string> ip_replacement = {"22.214.171.124", "126.96.36.199",  "188.8.131.52",
                                             "184.108.40.206", "220.127.116.11", "18.104.22.168"};
};
void declare(config::Section<PiiOptions>& s);
std::unique_ptr<Stage> make_stage(const PiiOptions& options);

}  // namespace stoa::curate
