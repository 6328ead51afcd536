// What a grammar accepts, by its definition: a table of where each rule may end, filled until nothing
// changes. For tests: slow, and without anything that the automata have.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "constraint/expression.h"

namespace stoa::constraint {

class ReferenceMatcher {
 public:
  ReferenceMatcher(const Grammar& grammar, std::string_view text)
      : grammar_(grammar),
        text_(text),
        ends_(grammar.rules.size(), std::vector<Found>(text.size() + 1)),
        fruitful_(grammar.rules.size()) {
    for (bool more = true; more;) {
      more = false;
      for (std::size_t r = 0; r < grammar.rules.size(); ++r)
        if (!fruitful_[r] && fruitful(*grammar.rules[r].body)) fruitful_[r] = more = true;
    }
    for (bool more = true; more;) {
      more = false;
      for (std::size_t r = 0; r < grammar.rules.size(); ++r)
        for (std::size_t at = 0; at <= text.size(); ++at) {
          Found found = match(*grammar.rules[r].body, at);
          if (found.ends.size() != ends_[r][at].ends.size() || found.open != ends_[r][at].open)
            ends_[r][at] = std::move(found), more = true;
        }
    }
  }

  bool accepts() const { return root().ends.contains(text_.size()); }
  // Whether the text is the beginning of an accepted one, or one itself.
  bool may_go_on() const { return accepts() || root().open; }

 private:
  struct Found {
    std::set<std::size_t> ends;
    bool open = false;  // the text ends while more could follow
  };

  const Found& root() const { return ends_[static_cast<std::size_t>(grammar_.root)][0]; }

  bool fruitful(const Expression& e) const {
    switch (e.kind) {
      case Expression::Kind::kNever:
        return false;
      case Expression::Kind::kRule:
        return fruitful_[static_cast<std::size_t>(e.number)];
      case Expression::Kind::kSequence:
        return std::all_of(e.parts.begin(), e.parts.end(), [&](const Node& p) { return fruitful(*p); });
      case Expression::Kind::kChoice:
        return std::any_of(e.parts.begin(), e.parts.end(), [&](const Node& p) { return fruitful(*p); });
      case Expression::Kind::kRepeat:
        return e.least == 0 || fruitful(*e.parts[0]);
      default:
        return true;
    }
  }

  Found match(const Expression& e, std::size_t at) const {
    Found out;
    switch (e.kind) {
      case Expression::Kind::kCharacters:  // ASCII alone
        if (at == text_.size())
          out.open = true;
        else if (e.characters.contains(static_cast<unsigned char>(text_[at])))
          out.ends.insert(at + 1);
        break;
      case Expression::Kind::kBytes:
        if (text_.substr(at, e.bytes.size()) == e.bytes)
          out.ends.insert(at + e.bytes.size());
        else
          out.open = e.bytes.starts_with(text_.substr(at));
        break;
      case Expression::Kind::kRule:
        return ends_[static_cast<std::size_t>(e.number)][at];
      case Expression::Kind::kSequence:
        return sequence_from(e.parts, 0, at);
      case Expression::Kind::kChoice:
        for (const Node& part : e.parts) {
          const Found found = match(*part, at);
          out.ends.insert(found.ends.begin(), found.ends.end());
          out.open |= found.open;
        }
        break;
      case Expression::Kind::kRepeat: {
        std::set<std::size_t> from{at};
        if (e.least == 0) out.ends.insert(at);
        for (std::int64_t i = 1; i <= (e.most == kUnbounded ? 20 : e.most); ++i) {
          std::set<std::size_t> to;
          for (const std::size_t place : from) {
            const Found found = match(*e.parts[0], place);
            to.insert(found.ends.begin(), found.ends.end());
            out.open |= found.open;
          }
          if (i >= e.least) out.ends.insert(to.begin(), to.end());
          from = std::move(to);
        }
        break;
      }
      default:
        break;
    }
    return out;
  }

  Found sequence_from(const std::vector<Node>& parts, std::size_t i, std::size_t at) const {
    if (i == parts.size()) return {{at}, false};
    Found out;
    const Found first = match(*parts[i], at);
    for (std::size_t k = i + 1; k <= parts.size(); ++k)
      if (k < parts.size() && !fruitful(*parts[k])) return out;  // never comes to its end
    out.open = first.open;
    for (const std::size_t end : first.ends) {
      const Found rest = sequence_from(parts, i + 1, end);
      out.ends.insert(rest.ends.begin(), rest.ends.end());
      out.open |= rest.open;
    }
    return out;
  }

  const Grammar& grammar_;
  const std::string_view text_;
  std::vector<std::vector<Found>> ends_;
  std::vector<bool> fruitful_;
};

}  // namespace stoa::constraint
