#include "curate/run/browse.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/escape.h"
#include "curate/run/excerpt.h"
#include "curate/run/page_style.h"
#include "curate/run/shard.h"
#include "curate/run/shard_lines.h"
#include "curate/text/character.h"

namespace stoa::curate {
namespace {

using Json = nlohmann::ordered_json;
constexpr std::size_t kMostResults = 50, kShownBytes = 600, kBeforeMatch = 200, kMostCopies = 20;

// Searches without a server-side form: the address holds what is looked for.
constexpr std::string_view kForm =
    "<form onsubmit=\"location.href='/search/'+this.folder.value+'/'+encodeURIComponent(this.words.value);"
    "return false\"><select name=\"folder\"><option>all</option><option>kept</option><option>dropped</option>"
    "<option>quarantine</option></select> <input name=\"words\" size=\"40\" placeholder=\"words, an id or a "
    "rule\"> <button>Search</button> <a href=\"/\">report</a></form>\n";

// An address part of any text.
std::string encoded(std::string_view text) {
  std::string out;
  for (const char c : text)
    if (is_ascii_alphanumeric(c))
      out += c;
    else
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  return out;
}

BrowsedPage framed(const std::string& title, const std::string& body) {
  const std::string shown = escape_html_characters(title);
  return {.body = page_head(shown) + fmt::format("{}<h1>{}</h1>\n{}</html>\n", kForm, shown, body)};
}

BrowsedPage missing(const std::string& what) {
  BrowsedPage page = framed("Not found", "<p>" + escape_html_characters(what) + "</p>\n");
  page.status = 404;
  return page;
}

// Id, folder, reason and cluster of a document.
std::string head_html(const Json& document, std::string_view folder) {
  const std::string id = document.value("id", "");
  std::string html = fmt::format("<p><a href=\"/document/{}\"><b>{}</b></a> {}", encoded(id),
                                 escape_html_characters(id), folder);
  if (const std::string reason = document.value("reason", ""); !reason.empty())
    html += ": " + escape_html_characters(reason);
  if (const auto cluster = document.find("duplicate_cluster"); cluster != document.end())
    html += fmt::format(", <a href=\"/cluster/{0}\">cluster {0}</a>", cluster->dump());
  return html + "</p>\n";
}

}  // namespace

RunBrowser::RunBrowser(fs::path output) : output_(std::move(output)) {
  require<ConfigError>(fs::exists(output_ / "manifest.json") && fs::exists(output_ / "report.html"),
                       "'{}' holds no complete output of `stoa data run`", output_.string());
}

void RunBrowser::each_line(std::string_view folder,
                           const std::function<bool(std::string_view, std::string_view)>& visit) const {
  const Json manifest = Json::parse(read_text(output_ / "manifest.json"));
  for (const std::string_view own : kFolders) {
    if (folder != "all" && folder != own) continue;
    for (const Json& file : manifest.at("files")) {
      const std::string name = file.at("name");
      if (!name.starts_with(std::string(own) + "/")) continue;
      ShardLines lines(output_ / name);
      while (!lines.at_end())
        if (!visit(own, lines.next())) return;
    }
  }
}

BrowsedPage RunBrowser::search(std::string_view folder, std::string_view words) const {
  const std::string wanted = lower_ascii(words);
  // Words of a text as they stand in JSON.
  const std::string quoted = Json(wanted).dump(), inside = quoted.substr(1, quoted.size() - 2);
  std::size_t found = 0;
  std::string html;
  each_line(folder, [&](std::string_view own, std::string_view line) {
    if (lower_ascii(line).find(inside) == std::string::npos) return true;
    const Json document = Json::parse(line, nullptr, false);
    if (!document.is_object()) return true;
    const std::string text = document.value("text", "");
    const std::size_t at = wanted.empty() ? text.npos : lower_ascii(text).find(wanted);
    const std::size_t match = at == text.npos ? 0 : at, length = at == text.npos ? 0 : wanted.size();
    const std::size_t begin = match > kBeforeMatch ? match - kBeforeMatch : 0;
    html += head_html(document, own) +
            fmt::format(
                "<pre>{}{}{}{}</pre>\n", escape_html_characters(whole_characters(text, begin, match)),
                length > 0 ? "<mark>" + escape_html_characters(text.substr(match, length)) + "</mark>" : "",
                escape_html_characters(whole_characters(text, match + length, match + length + kShownBytes)),
                match + length + kShownBytes < text.size() ? " …" : "");
    return ++found < kMostResults;
  });
  if (found == 0) html = "<p>No document.</p>\n";
  if (found == kMostResults) html += fmt::format("<p>The first {}.</p>\n", kMostResults);
  return framed(fmt::format("{} in {}", words, folder), html);
}

BrowsedPage RunBrowser::document(std::string_view id) const {
  const std::string begin = "{\"id\":" + Json(id).dump();
  BrowsedPage page = missing(fmt::format("no document '{}'", id));
  each_line("all", [&](std::string_view own, std::string_view line) {
    if (!line.starts_with(begin)) return true;
    Json document = Json::parse(line, nullptr, false);
    const std::string text = document.value("text", ""), head = head_html(document, own);
    document.erase("text");
    page = framed(std::string(id), head + "<pre>" + escape_html_characters(text) + "</pre>\n<pre>" +
                                       escape_html_characters(document.dump(1)) + "</pre>\n");
    return false;
  });
  return page;
}

BrowsedPage RunBrowser::cluster(std::string_view number) const {
  const std::string member = fmt::format("\"duplicate_cluster\":{}", number);
  std::string html;
  std::size_t found = 0;
  each_line("all", [&](std::string_view own, std::string_view line) {
    const std::size_t at = line.find(member);
    if (at == line.npos || is_ascii_digit(line[at + member.size()])) return true;
    const Json document = Json::parse(line, nullptr, false);
    if (!document.is_object() || document.value("duplicate_cluster", Json()).dump() != number) return true;
    html += "<div>" + head_html(document, own) + "<pre>" +
            escape_html_characters(document.value("text", "")) + "</pre></div>\n";
    return ++found < kMostCopies;
  });
  if (found == 0) return missing(fmt::format("no cluster {}", number));
  return framed(fmt::format("Cluster {}", number), "<div class=\"copies\">\n" + html + "</div>\n");
}

BrowsedPage RunBrowser::page(std::string_view path) const {
  const auto after = [&](std::string_view begin) {
    return path.starts_with(begin) ? path.substr(begin.size()) : std::string_view();
  };
  if (path == "/") {
    std::string report = read_text(output_ / "report.html");
    const std::size_t at = report.find("<h1>");
    report.insert(at == report.npos ? 0 : at, kForm);
    return {.body = std::move(report)};
  }
  for (const char* file : {"DATASHEET.md", "manifest.json"})
    if (path.size() > 1 && path.substr(1) == file)
      return {200, "text/plain; charset=utf-8", read_text(output_ / file)};
  if (const std::string_view rest = after("/search/"); !rest.empty()) {
    const std::size_t slash = std::min(rest.find('/'), rest.size());
    const std::string_view folder = rest.substr(0, slash);
    if (folder == "all" || std::find(kFolders.begin(), kFolders.end(), folder) != kFolders.end())
      return search(folder, rest.substr(std::min(slash + 1, rest.size())));
  }
  if (const std::string_view id = after("/document/"); !id.empty()) return document(id);
  if (const std::string_view number = after("/cluster/"); !number.empty()) return cluster(number);
  return missing(fmt::format("no page '{}'", path));
}

}  // namespace stoa::curate
