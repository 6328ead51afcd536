#include "curate/filters/url_filter.h"

#include <algorithm>
#include <sstream>
#include <unordered_set>

#include "base/error.h"
#include "curate/filters/word_list.h"
#include "curate/text/character.h"

namespace stoa::curate {
namespace {

using Entries = std::unordered_set<std::string>;

std::string lower_alphanumeric(std::string_view text) {
  std::string out;
  for (const char c : text)
    if (is_ascii_alphanumeric(c)) out += lower_ascii(c);
  return out;
}

Entries read_entries(const std::string& file, bool normalize) {
  Entries entries;
  if (file.empty()) return entries;
  std::istringstream lines(list_text(file));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('#')) continue;
    std::string entry = normalize ? lower_alphanumeric(line) : std::string(strip(line));
    if (!entry.empty()) entries.insert(std::move(entry));
  }
  require<ConfigError>(!entries.empty(), "the list '{}' has no entry", file);
  return entries;
}

// Hosts are compared in lower case, and those below a domain are always meant: `*.example.org`,
// `.Example.org`.
Entries read_domains(const std::string& file) {
  Entries domains;
  for (const std::string& entry : read_entries(file, false)) {
    std::string_view domain = entry;
    if (domain.starts_with("*.")) domain.remove_prefix(2);
    if (domain.starts_with('.')) domain.remove_prefix(1);
    domains.insert(lower_ascii(domain));
  }
  return domains;
}

// "example.org" of "https://user@Example.org:80/a".
std::string host_of(std::string_view url) {
  if (const std::size_t scheme = url.find("://"); scheme != url.npos) url.remove_prefix(scheme + 3);
  url = url.substr(0, url.find_first_of("/?#"));
  if (const std::size_t user = url.rfind('@'); user != url.npos) url.remove_prefix(user + 1);
  url = url.substr(0, url.find(':'));
  return lower_ascii(url);
}

class UrlFilterStage final : public Stage {
 public:
  explicit UrlFilterStage(const UrlFilter& options)
      : domains_(read_domains(options.domains)),
        urls_(read_entries(options.urls, false)),
        words_(read_entries(options.banned_words, true)),
        soft_words_(read_entries(options.soft_banned_words, true)),
        subwords_(read_entries(options.banned_subwords, true)),
        soft_word_threshold_(options.soft_word_threshold) {
    require<ConfigError>(
        !domains_.empty() || !urls_.empty() || !words_.empty() || !soft_words_.empty() || !subwords_.empty(),
        "url_filter has no list; give domains, urls, banned_words, soft_banned_words or banned_subwords");
  }

  void apply(Document& document, Features&, Verdict& verdict) const override {
    const std::string& url = document.url;
    if (verdict.fails("no_url", url.empty()) || url.empty()) return;
    const std::string host = host_of(url);
    if (verdict.fails("subdomain", domains_.contains(host))) return;
    bool in_domain = false;
    for (std::size_t dot = host.find('.'); dot != host.npos && !in_domain; dot = host.find('.', dot + 1))
      in_domain = domains_.contains(host.substr(dot + 1));
    if (verdict.fails("domain", in_domain) || verdict.fails("url", urls_.contains(url))) return;
    const Entries words = pieces(url);
    const auto is_in = [&](const Entries& list) {
      return std::count_if(words.begin(), words.end(),
                           [&](const std::string& word) { return list.contains(word); });
    };
    if (verdict.fails("hard_blacklisted", is_in(words_) > 0)) return;
    if (!soft_words_.empty() && verdict.fails("soft_blacklisted", is_in(soft_words_) >= soft_word_threshold_))
      return;
    const std::string all = lower_alphanumeric(url);
    verdict.fails("blacklisted_subword",
                  std::any_of(subwords_.begin(), subwords_.end(),
                              [&](const std::string& word) { return all.find(word) != all.npos; }));
  }

 private:
  // Alphanumeric pieces, as they are written: the lists are in lower case, so that capitals escape them, as
  // in datatrove.
  static Entries pieces(std::string_view url) {
    Entries found;
    for (std::size_t at = 0; at < url.size();) {
      std::size_t end = at;
      while (end < url.size() && is_ascii_alphanumeric(url[end])) ++end;
      if (end > at) found.emplace(url.substr(at, end - at));
      at = end + 1;
    }
    return found;
  }

  const Entries domains_, urls_, words_, soft_words_, subwords_;
  const std::int64_t soft_word_threshold_;
};

}  // namespace

void declare(config::Section<UrlFilter>& s) {
  s.field("domains", &UrlFilter::domains)
      .help("File of domains: their hosts and those below them are dropped.");
  s.field("urls", &UrlFilter::urls).help("File of whole addresses.");
  s.field("banned_words", &UrlFilter::banned_words)
      .help("File of words, of which an address may have none between its other characters.");
  s.field("soft_banned_words", &UrlFilter::soft_banned_words)
      .help("File of words, of which an address may have fewer than soft_word_threshold.");
  s.field("soft_word_threshold", &UrlFilter::soft_word_threshold)
      .at_least(1)
      .help("From how many words of soft_banned_words on an address is dropped.");
  s.field("banned_subwords", &UrlFilter::banned_subwords)
      .help("File of words that may not occur anywhere in an address, other characters left out.");
}

std::unique_ptr<Stage> make_stage(const UrlFilter& options) {
  return std::make_unique<UrlFilterStage>(options);
}

}  // namespace stoa::curate
