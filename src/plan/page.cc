#include "plan/page.h"

#include <fmt/format.h>

#include "watch/html_text.h"
#include "watch/report_assets.h"

namespace stoa::plan {

using watch::escape_html;

std::string table(const std::vector<std::string>& head, const std::vector<std::vector<std::string>>& rows) {
  const auto cells = [](const std::vector<std::string>& row, const char* tag) {
    std::string out = "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i)
      out += fmt::format("<{0}{1}>{2}</{0}>", tag, i > 0 ? " class=\"n\"" : "", escape_html(row[i]));
    return out + "</tr>";
  };
  std::string out = "<table>" + cells(head, "th");
  for (const auto& row : rows) out += cells(row, "td");
  return out + "</table>";
}

std::string bars(const std::vector<std::pair<std::string, double>>& parts, double whole, const char* unit) {
  std::string out = "<table>";
  for (const auto& [name, value] : parts)
    if (value > 0.001 * whole)
      out += fmt::format(
          "<tr><td class=\"label\">{}</td><td class=\"n\">{:.3g} {}</td><td class=\"bar c1\"><i "
          "style=\"width:{:.1f}%\"></i></td></tr>",
          escape_html(name), value, unit, 100 * value / whole);
  return out + "</table>";
}

std::string facts(const std::vector<std::pair<std::string, std::string>>& rows) {
  std::string out = "<table>";
  for (const auto& [name, words] : rows)
    out +=
        fmt::format("<tr><td class=\"label\">{}</td><td>{}</td></tr>", escape_html(name), escape_html(words));
  return out + "</table>";
}

std::string to_html(const Page& page) {
  std::string out = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">"
      "<title>{0}</title><style>{1}</style></head><body><main>\n<header><h1>{0}</h1></header>"
      "<div class=\"tiles\">",
      escape_html(page.title), watch::kReportStyle);
  for (const auto& [label, value] : page.tiles)
    out += fmt::format("<div class=\"tile\"><span>{}</span><b>{}</b></div>", escape_html(label),
                       escape_html(value));
  out += "</div>\n";
  for (const auto& [heading, html] : page.sections) {
    const bool charts = html.starts_with("<figure>");
    out += fmt::format("<section><h2>{}</h2><div class=\"{}\">{}</div></section>\n", escape_html(heading),
                       charts ? "charts" : "card", html);
  }
  if (!page.assumptions.empty()) {
    out += "<section><h2>Assumptions and risk</h2><div class=\"card\"><ul>";
    for (const std::string& words : page.assumptions) out += fmt::format("<li>{}</li>", escape_html(words));
    out += "</ul></div></section>\n";
  }
  if (!page.command.empty())
    out += fmt::format("<section><h2>Command</h2><div class=\"card\"><pre>{}</pre></div></section>\n",
                       escape_html(page.command));
  return out + fmt::format("<footer>{}</footer></main><script>{}</script></body></html>\n",
                           escape_html(page.footer), watch::kReportScript);
}

}  // namespace stoa::plan
