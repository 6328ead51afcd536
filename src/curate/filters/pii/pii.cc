#include "curate/filters/pii/pii.h"

#include <xxhash.h>

#include <algorithm>
#include <string_view>

#include "curate/filters/pii/finders.h"

namespace stoa::curate {
namespace {

using Replacements = std::vector<std::string>;

// Servers that everybody may ask for names, which StarCoder leaves.
constexpr std::string_view kPublicNameServers[] = {
    "8.8.8.8",        "8.8.4.4",     "1.1.1.1",         "1.0.0.1",        "76.76.19.19",
    "76.223.122.150", "9.9.9.9",     "149.112.112.112", "208.67.222.222", "208.67.220.220",
    "8.26.56.26",     "8.20.247.20", "94.140.14.14",    "94.140.15.15"};

struct RuleReplacements {
  Replacements email, ip, ipv6, phone;
};
RuleReplacements replacements_of(PiiRule rule) {
  switch (rule) {
    case PiiRule::kDatatrove:
      return {{"email@example.com", "firstname.lastname@example.org"},
              {"22.214.171.124", "126.96.36.199", "188.8.131.52", "184.108.40.206", "220.127.116.11",
               "18.104.22.168"},
              {},
              {}};
    case PiiRule::kDolma:
      return {{" |||EMAIL_ADDRESS||| "}, {" |||IP_ADDRESS||| "}, {}, {" |||PHONE_NUMBER||| "}};
    case PiiRule::kStarCoder:
      return {{"ychag@example.com", "nnheo@example.com", "envkt@example.com", "upchh@example.com",
               "anpch@example.com", "lyhxr@example.com", "efpyi@example.com", "hzdkv@example.com",
               "dycjh@example.com", "kenaa@example.com"},
              {"172.16.31.10", "172.16.58.3", "172.16.17.32", "192.168.127.12", "192.168.3.11"},
              {"fd00:c2b6:b24b:be67:2827:688d:e6a1:6a3b", "fd00:a516:7c1b:17cd:6d81:2137:bd2a:2c5b",
               "fc00:e968:6179::de52:7100", "fc00:db20:35b:7399::5", "fdf8:f53e:61e4::18"},
              {}};
  }
  return {};
}

const std::string& choose(const Replacements& replacements, std::string_view found) {
  return replacements[XXH3_64bits(found.data(), found.size()) % replacements.size()];
}

class PiiStage final : public Stage {
 public:
  explicit PiiStage(const PiiOptions& options) : options_(options), with_(replacements_of(options.rule)) {
    const auto take = [](const Replacements& given, Replacements& own) {
      if (!given.empty()) own = given;
    };
    take(options.email_replacement, with_.email);
    take(options.ip_replacement, with_.ip);
    take(options.ipv6_replacement, with_.ipv6);
    take(options.phone_replacement, with_.phone);
  }

  void apply(Document& document, Features& features, Verdict& verdict) const override {
    std::string changed;
    bool any = false;
    if (options_.rule == PiiRule::kDatatrove) {
      any = replace_emails(document.text, changed);
      if (any) document.text.swap(changed);
      if (replace_addresses(document.text, changed)) {
        document.text.swap(changed);
        any = true;
      }
    } else {
      std::vector<PiiMatch> matches = options_.rule == PiiRule::kDolma ? find_dolma_pii(document.text)
                                                                       : find_starcoder_pii(document.text);
      if (options_.rule == PiiRule::kDolma && verdict.above("doc_count", static_cast<double>(matches.size()),
                                                            static_cast<double>(options_.max_matches)))
        return;
      std::erase_if(matches, [&](const PiiMatch& match) { return stays(document.text, match); });
      any = !matches.empty();
      if (any) document.text = replaced(document.text, matches);
    }
    if (any) features.reset(document.text);
  }

 private:
  bool replace_emails(std::string_view text, std::string& out) const {
    return options_.remove_emails &&
           replace_all(text, out, find_datatrove_email,
                       [&](std::string_view found) { return &choose(with_.email, found); });
  }
  bool replace_addresses(std::string_view text, std::string& out) const {
    return options_.remove_ips && replace_all(text, out, find_ipv4, [&](std::string_view found) {
             const auto address = parse_ipv4(found);
             return address && (!options_.only_remove_public_ips || is_global_ipv4(*address))
                        ? &choose(with_.ip, found)
                        : nullptr;
           });
  }
  template <class Find, class Replace>
  static bool replace_all(std::string_view text, std::string& out, Find&& find, Replace&& replace) {
    out.clear();
    std::size_t from = 0;
    bool changed = false;
    for (auto match = find(text, 0); match; match = find(text, match->end)) {
      const std::string* with = replace(text.substr(match->begin, match->end - match->begin));
      if (with == nullptr) continue;
      out += text.substr(from, match->begin - from);
      out += *with;
      from = match->end;
      changed = true;
    }
    if (changed) out += text.substr(from);
    return changed;
  }

  bool stays(std::string_view text, const PiiMatch& match) const {
    if (match.kind == PiiKind::kEmail) return !options_.remove_emails;
    if (match.kind == PiiKind::kPhone) return !options_.remove_phones;
    if (!options_.remove_ips) return true;
    if (options_.rule == PiiRule::kDolma || !options_.only_remove_public_ips) return false;
    const std::string_view found = text.substr(match.begin, match.end - match.begin);
    if (std::find(std::begin(kPublicNameServers), std::end(kPublicNameServers), found) !=
        std::end(kPublicNameServers))
      return true;
    if (match.kind == PiiKind::kIpv4) return is_private_ipv4(parse_ipv4(found).value());
    return is_private_ipv6(parse_ipv6(found).value());
  }

  // The first one counts of matches that overlap.
  std::string replaced(std::string_view text, std::vector<PiiMatch>& matches) const {
    std::stable_sort(matches.begin(), matches.end(),
                     [](const PiiMatch& a, const PiiMatch& b) { return a.begin < b.begin; });
    std::string out;
    std::size_t from = 0;
    for (const PiiMatch& match : matches) {
      if (match.begin < from) continue;
      // StarCoder's redaction puts a blank where nothing stands before an address.
      if (options_.rule == PiiRule::kStarCoder && match.begin == from) out += ' ';
      out += text.substr(from, match.begin - from);
      const std::string_view found = text.substr(match.begin, match.end - match.begin);
      out += choose(match.kind == PiiKind::kEmail   ? with_.email
                    : match.kind == PiiKind::kPhone ? with_.phone
                    : match.kind == PiiKind::kIpv4  ? with_.ip
                                                    : with_.ipv6,
                    found);
      from = match.end;
    }
    return out += text.substr(from);
  }

  const PiiOptions options_;
  RuleReplacements with_;
};

}  // namespace

std::span<const config::EnumName<PiiRule>> enum_names(PiiRule) {
  static constexpr config::EnumName<PiiRule> kNames[] = {
      {"datatrove", PiiRule::kDatatrove}, {"dolma", PiiRule::kDolma}, {"starcoder", PiiRule::kStarCoder}};
  return kNames;
}

void declare(config::Section<PiiOptions>& s) {
  s.field("rule", &PiiOptions::rule)
      .help(
          "Whose patterns: datatrove (e-mail, IPv4), dolma (telephone numbers, too), starcoder (e-mail, "
          "IPv4, IPv6; no dates, no versions).");
  s.field("remove_emails", &PiiOptions::remove_emails).help("Replace e-mail addresses.");
  s.field("remove_ips", &PiiOptions::remove_ips).help("Replace IP addresses.");
  s.field("remove_phones", &PiiOptions::remove_phones).help("dolma: replace telephone numbers.");
  s.field("only_remove_public_ips", &PiiOptions::only_remove_public_ips)
      .help(
          "datatrove, starcoder: leave addresses of private and reserved networks, and starcoder well-known "
          "name servers.");
  s.field("email_replacement", &PiiOptions::email_replacement)
      .help(
          "What e-mail addresses become, the same address always the same; empty: what the rule's tool puts "
          "there.");
  s.field("ip_replacement", &PiiOptions::ip_replacement).help("What IPv4 addresses become; empty: as above.");
  s.field("ipv6_replacement", &PiiOptions::ipv6_replacement)
      .help("starcoder: what IPv6 addresses become; empty: as above.");
  s.field("phone_replacement", &PiiOptions::phone_replacement)
      .help("dolma: what telephone numbers become; empty: as above.");
  s.field("max_matches", &PiiOptions::max_matches)
      .range(0, 1e9)
      .help("dolma: more of them drop the document; 0: any number.");
}

std::unique_ptr<Stage> make_stage(const PiiOptions& options) { return std::make_unique<PiiStage>(options); }

}  // namespace stoa::curate
