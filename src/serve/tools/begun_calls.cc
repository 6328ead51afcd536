// Calls as their text comes, for streams: of families whose arguments are JSON.
#include "serve/tools/begun_calls.h"

#include <algorithm>

#include "serve/tools/call_texts.h"

namespace stoa::serve {
namespace {

constexpr std::size_t kNowhere = std::string_view::npos;

std::size_t behind_space(std::string_view text, std::size_t at) {
  return std::min(text.size(), text.find_first_not_of(" \t\r\n", at));
}
bool has(std::string_view text, std::size_t at, char c) { return at < text.size() && text[at] == c; }

// The call of the object at `at`, once its arguments have begun: its name, and where they begin.
std::optional<BegunCall> call_at(std::string_view text, std::size_t at, ValueEnds& ends) {
  std::optional<std::string> name;
  std::size_t arguments = kNowhere;
  at = behind_space(text, at);
  if (!has(text, at, '{')) return std::nullopt;
  for (++at;; ++at) {
    bool complete = false;
    at = behind_space(text, at);
    const std::string_view key = ends.value_at(text, at, complete);
    at = behind_space(text, at + key.size());
    if (!complete || !key.starts_with('"') || !has(text, at, ':')) break;
    const std::size_t begin = behind_space(text, at + 1);
    const std::string_view value = ends.value_at(text, begin, complete);
    at = behind_space(text, begin + value.size());
    if (key == "\"name\"" && complete && !name) {
      const Json parsed = Json::parse(value, nullptr, false);
      if (!parsed.is_string()) return std::nullopt;
      name = parsed.get<std::string>();
    }
    if ((key == "\"arguments\"" || key == "\"parameters\"") && value.starts_with('{'))
      arguments = std::min(arguments, begin);
    if (!complete || !has(text, at, ',')) break;
  }
  if (!name || arguments == kNowhere) return std::nullopt;
  return BegunCall{*name, arguments};
}

// A call whose arguments are the object at `at`.
std::optional<BegunCall> call_with(std::string_view name, std::string_view text, std::size_t at) {
  at = behind_space(text, at);
  if (!has(text, at, '{') || name.empty()) return std::nullopt;
  return BegunCall{std::string(name), at};
}

// What stands before each call; none: the family writes a list or one object.
std::string_view call_mark(ToolFamily family) {
  switch (family) {
    case ToolFamily::kHermes:
    case ToolFamily::kQwenXml:
    case ToolFamily::kGlm:
      return kHermesOpen;
    case ToolFamily::kMistralNames:
      return kMistralOpen;
    case ToolFamily::kDeepSeek:
    case ToolFamily::kDeepSeekBare:
      return kDeepSeekCall;
    case ToolFamily::kHarmony:
      return kHarmonyTool;
    default:
      return {};
  }
}

// The call that begins at `begin`, behind the mark of the family.
std::optional<BegunCall> marked_call(std::string_view text, std::size_t begin, ToolFamily family,
                                     ValueEnds& ends) {
  const auto before = [&](std::size_t end) { return trimmed(text.substr(begin, end - begin)); };
  switch (family) {
    case ToolFamily::kMistralNames: {
      const std::size_t at = text.find(kMistralArguments, begin);
      if (at == kNowhere) return std::nullopt;
      return call_with(before(at), text, at + kMistralArguments.size());
    }
    case ToolFamily::kDeepSeek:
    case ToolFamily::kDeepSeekBare: {
      const std::size_t at = text.find(kDeepSeekName, begin);
      if (at == kNowhere) return std::nullopt;
      const std::size_t rest = at + kDeepSeekName.size();
      if (has(text, behind_space(text, rest), '{')) return call_with(before(at), text, rest);
      const std::size_t fence = text.find("```json", rest);
      if (fence == kNowhere) return std::nullopt;
      return call_with(trimmed(text.substr(rest, fence - rest)), text, fence + 7);
    }
    case ToolFamily::kHarmony: {
      const std::size_t at = text.find(kHarmonyMessage, begin);
      if (at == kNowhere) return std::nullopt;
      return call_with(text.substr(begin, text.find_first_of(" <\n", begin) - begin), text,
                       at + kHarmonyMessage.size());
    }
    default:
      return call_at(text, begin, ends);
  }
}

}  // namespace

std::string_view ValueEnds::value_at(std::string_view text, std::size_t begin, bool& complete) {
  Scan& s = scans_.try_emplace(begin, Scan{.at = begin}).first->second;
  const auto end = [&](std::size_t at) {
    s.complete = true;
    s.end = at;
  };
  for (; !s.complete && s.at < text.size(); ++s.at) {
    const char c = text[s.at];
    if (s.inside) {
      s.inside = c != '"';
      if (!s.inside && s.depth == 0) end(s.at + 1);
      if (c == '\\') ++s.at;
      continue;
    }
    if (c == '"') s.inside = true;
    if (c == '{' || c == '[') ++s.depth;
    const bool closes = c == '}' || c == ']';
    if (s.depth == 0 && (closes || c == ','))
      end(s.at);
    else if (closes && --s.depth == 0)
      end(s.at + 1);
  }
  complete = s.complete;
  return text.substr(begin, (complete ? s.end : text.size()) - begin);
}

std::vector<std::string_view> json_items(std::string_view text) {
  std::vector<std::string_view> out;
  if (!text.starts_with('[')) return out;
  ValueEnds ends;
  for (std::size_t at = 1;; ++at) {
    at = behind_space(text, at);
    if (at == text.size() || text[at] == ']') return out;
    bool complete = false;
    out.push_back(ends.value_at(text, at, complete));
    at = behind_space(text, at + out.back().size());
    if (!complete || !has(text, at, ',')) return out;
  }
}

std::optional<ToolCall> begun_call(std::string_view text) {
  ValueEnds ends;
  const auto call = call_at(text, 0, ends);
  if (!call) return std::nullopt;
  bool complete = false;
  return ToolCall{call->name, std::string(ends.value_at(text, call->arguments, complete))};
}

std::vector<ToolCall> begun_calls(std::string_view answer, ToolFamily family) {
  GrowingCalls calls(family);
  calls.read(answer);
  return calls.calls();
}

void GrowingCalls::read(std::string_view answer) {
  hold(answer);
  if (const std::string_view mark = call_mark(family_); !mark.empty())
    read_marked(answer, mark);
  else if (family_ == ToolFamily::kLlama)
    read_object(answer);
  else
    read_list(answer);
  seen_ = answer.size();
}

// A mark may begin before what is new.
std::size_t GrowingCalls::search_from(std::string_view mark) const {
  return seen_ - std::min(seen_, mark.size() - 1);
}

void GrowingCalls::hold(std::string_view answer) {
  if (held_from_) {
    held_ = answer.size() - *held_from_;
    return;
  }
  const std::string_view mark = opening_mark(family_);
  // Families without a mark show by the first word whether a call may begin.
  held_ = held_for_tools(mark.empty() ? answer : answer.substr(search_from(mark)), family_);
  if (!mark.empty() && held_ >= mark.size()) held_from_ = answer.size() - held_;
}

void GrowingCalls::grow(std::string_view text, std::optional<BegunCall> call) {
  if (!begun_) {
    if (!call) return;
    begun_ = call->arguments;
    calls_.push_back({std::move(call->name), ""});
  }
  bool complete = false;
  const std::string_view now = ends_.value_at(text, *begun_, complete);
  std::string& arguments = calls_.back().arguments;
  if (now.size() < arguments.size())
    arguments.resize(now.size());
  else
    arguments += now.substr(arguments.size());
}

void GrowingCalls::open(std::size_t at) {
  part_ = at;
  begun_.reset();
  ends_ = {};
}

void GrowingCalls::read_marked(std::string_view answer, std::string_view mark) {
  for (std::size_t from = search_from(mark);; from = *part_) {
    const std::size_t next = answer.find(mark, std::max(from, part_.value_or(0)));
    const std::string_view text = answer.substr(0, next);
    if (part_) {
      if (next != kNowhere) ends_ = {};  // it may have been read as far as into the mark
      grow(text, begun_ ? std::nullopt : marked_call(text, *part_, family_, ends_));
    }
    if (next == kNowhere) return;
    open(next + mark.size());
  }
}

void GrowingCalls::read_object(std::string_view answer) {
  std::size_t at = behind_space(answer, 0);
  if (answer.substr(at).starts_with(kPythonTag)) at += kPythonTag.size();
  grow(answer, begun_ ? std::nullopt : call_at(answer, at, ends_));
}

void GrowingCalls::read_list(std::string_view answer) {
  if (!part_) {
    std::size_t at = 0;
    if (family_ == ToolFamily::kMistral) {
      if (!held_from_) return;
      at = *held_from_ + kMistralOpen.size();
    }
    at = behind_space(answer, at);
    if (!has(answer, at, '[')) return;
    open(at + 1);
  }
  for (;;) {
    const std::size_t at = behind_space(answer, *part_);
    if (at == answer.size() || answer[at] == ']') return;
    bool complete = false;
    const std::size_t end = at + ends_.value_at(answer, at, complete).size();
    const std::string_view text = answer.substr(0, end);
    grow(text, begun_ ? std::nullopt : call_at(text, at, ends_));
    const std::size_t behind = behind_space(answer, end);
    if (!complete || !has(answer, behind, ',')) return;
    open(behind + 1);
  }
}

}  // namespace stoa::serve
