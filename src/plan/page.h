// A page of the planner's answers that needs nothing outside itself: verdict, figures, tables, assumptions
// and the command that made it.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace stoa::plan {

struct Page {
  std::string title;
  std::vector<std::pair<std::string, std::string>> tiles;     // label, value
  std::vector<std::pair<std::string, std::string>> sections;  // heading, HTML (table(), bars(), charts())
  std::vector<std::string> assumptions;                       // what the figures rest on, and their risk
  std::string command;                                        // that made the page
  std::string footer;
};

// Cells of the first column are text, the others numbers.
std::string table(const std::vector<std::string>& head, const std::vector<std::vector<std::string>>& rows);
// A bar for every part above a thousandth of `whole`.
std::string bars(const std::vector<std::pair<std::string, double>>& parts, double whole, const char* unit);
// Two columns: a name and its value as text.
std::string facts(const std::vector<std::pair<std::string, std::string>>& rows);

std::string to_html(const Page& page);

}  // namespace stoa::plan
