#include "eval/metrics/filters.h"

#include <fmt/ranges.h>
#include <utf8proc.h>

#include <algorithm>
#include <functional>
#include <map>

#include "base/error.h"
#include "base/nearest.h"
#include "chat/runtime.h"
#include "eval/python/regex.h"
#include "eval/python/text.h"

namespace stoa::eval {
namespace {

constexpr const char* kNumberBehindHashes = R"(#### (\-?[0-9\.\,]+))";

}  // namespace

class FilterChain::Step {
 public:
  virtual ~Step() = default;
  // A list to a list, or to its first.
  virtual Json apply(const Json& responses, const Json& document) const = 0;
};

// The kinds of steps; all but take_first map a list to a list.
struct FilterChain::Kinds {
  // One that changes every response for itself.
  class Each : public Step {
   public:
    explicit Each(std::function<Json(const Json&)> change) : change_(std::move(change)) {}
    Json apply(const Json& responses, const Json&) const override {
      Json out = Json::array();
      for (const Json& response : responses) out.push_back(change_(response));
      return out;
    }

   private:
    const std::function<Json(const Json&)> change_;
  };

  class TakeFirst : public Step {
   public:
    Json apply(const Json& responses, const Json&) const override { return responses.at(0); }
  };

  class TakeFirstK : public Step {
   public:
    explicit TakeFirstK(std::size_t k) : k_(k) {}
    Json apply(const Json& responses, const Json&) const override {
      require<DataError>(responses.size() >= k_,
                         "the filter take_first_k takes {} responses, there are {}: raise 'repeats'", k_,
                         responses.size());
      Json out = Json::array();
      for (std::size_t i = 0; i < k_; ++i) out.push_back(responses[i]);
      return out;
    }

   private:
    const std::size_t k_;
  };

  class MajorityVote : public Step {
   public:
    Json apply(const Json& responses, const Json&) const override {
      const Json* best = &responses.at(0);
      std::ptrdiff_t most = 0;
      for (const Json& response : responses) {
        const auto count = std::count(responses.begin(), responses.end(), response);
        if (count > most) most = count, best = &response;
      }
      return Json::array({*best});
    }
  };

  using Groups = std::vector<std::string>;
  // The match of this number, counted from the end if it is negative.
  static const Groups& selected(const std::vector<Groups>& all, std::int64_t number) {
    const auto n = static_cast<std::int64_t>(all.size());
    const std::int64_t at = number < 0 ? number + n : number;
    require<DataError>(at >= 0 && at < n, "the filter regex selects match {} of {}", number, n);
    return all[static_cast<std::size_t>(at)];
  }

  class Regex : public Step {
   public:
    Regex(std::string_view pattern, std::int64_t group, std::string fallback)
        : regex_(pattern), group_(group), fallback_(std::move(fallback)) {}
    Json apply(const Json& responses, const Json&) const override {
      Json out = Json::array();
      for (const Json& response : responses)
        out.push_back(found(response.is_string() ? response.get<std::string>() : std::string()));
      return out;
    }

   private:
    std::string found(const std::string& text) const {
      const auto all = regex_.find_all(text);
      if (all.empty()) return fallback_;
      const auto& groups = selected(all, group_);
      if (groups.size() == 1) return std::string(strip(groups[0]));
      const auto it =
          std::find_if(groups.begin(), groups.end(), [](const std::string& g) { return !g.empty(); });
      return std::string(strip(it == groups.end() ? fallback_ : *it));
    }

    const PythonRegex regex_;
    const std::int64_t group_;
    const std::string fallback_;
  };

  // The letter of the choice that a response names: by the pattern, else by the text of a choice, else by a
  // letter behind a colon.
  class MultiChoiceRegex : public Step {
   public:
    MultiChoiceRegex(const Json& arguments)
        : regex_(arguments.value("regex_pattern", std::string(kNumberBehindHashes))),
          group_(arguments.value("group_select", std::int64_t{0})),
          fallback_(arguments.value("fallback", std::string("[invalid]"))),
          ignore_case_(arguments.value("ignore_case", false)),
          ignore_punctuation_(arguments.value("ignore_punctuation", false)) {
      const auto ignored = arguments.find("regexes_to_ignore");
      if (ignored == arguments.end() || ignored->is_null()) return;
      for (const Json& pattern : *ignored) ignored_.emplace_back(pattern.get_ref<const std::string&>());
    }
    Json apply(const Json& responses, const Json& document) const override {
      const auto choices = document.find("choices");
      require<DataError>(
          choices != document.end() && choices->is_array() && !choices->empty() && choices->size() <= 26,
          "the filter multi_choice_regex needs 1 to 26 'choices' in the document");
      std::map<std::string, std::string> of_text, of_letter;
      Groups texts, letters;
      for (const Json& choice : *choices) {
        require<DataError>(choice.is_string(), "'choices': {} is not a text", dumped(choice));
        const std::string letter(1, static_cast<char>('A' + texts.size()));
        std::string text = without_ignored(std::string(strip(choice.get_ref<const std::string&>())));
        of_text[text] = of_letter[letter] = "(" + letter + ")";
        texts.push_back(escaped(text));
        letters.push_back(letter);
      }
      // The longest first: a choice that another begins with must not hide it.
      std::stable_sort(texts.begin(), texts.end(), [](const std::string& a, const std::string& b) {
        return code_points(a) > code_points(b);
      });
      const PythonRegex any_text(fmt::format("{}", fmt::join(texts, "|"))),
          any_letter(fmt::format(":[\\s]*({})", fmt::join(letters, "|")));
      Json out = Json::array();
      for (const Json& response : responses) {
        const std::string text = response.is_string() ? response.get<std::string>() : std::string();
        std::string found = match(regex_, text, {});
        if (found.empty()) found = match(any_text, without_ignored(text), of_text);
        if (found.empty()) found = match(any_letter, text, of_letter);
        out.push_back(found.empty() ? fallback_ : found);
      }
      return out;
    }

   private:
    std::string match(const PythonRegex& regex, const std::string& text,
                      const std::map<std::string, std::string>& letters) const {
      const auto all = regex.find_all(text);
      if (all.empty()) return "";
      const Groups& groups = selected(all, group_);
      const auto it = std::find_if(groups.begin(), groups.end(), [](const auto& g) { return !g.empty(); });
      if (it == groups.end()) return "";
      const std::string found(strip(*it));
      const auto letter = letters.find(found);
      return letter == letters.end() ? found : letter->second;
    }

    std::string without_ignored(std::string text) const {
      for (const PythonRegex& pattern : ignored_) text = pattern.substitute(text, "");
      if (ignore_case_) text = lowered(text);
      return ignore_punctuation_ ? without_punctuation(text) : text;
    }

    static std::string without_punctuation(const std::string& text) {
      std::string out;
      const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
      for (std::ptrdiff_t at = 0; at < std::ssize(text);) {
        utf8proc_int32_t code = -1;
        const auto read = utf8proc_iterate(bytes + at, std::ssize(text) - at, &code);
        const auto length = std::max<std::ptrdiff_t>(1, read);
        const auto category = read > 0 ? utf8proc_category(code) : UTF8PROC_CATEGORY_CN;
        if (category < UTF8PROC_CATEGORY_PC || category > UTF8PROC_CATEGORY_PO)
          out.append(text, static_cast<std::size_t>(at), static_cast<std::size_t>(length));
        at += length;
      }
      return out;
    }

    // re.escape
    static std::string escaped(const std::string& text) {
      std::string out;
      for (const char c : text) {
        if (std::string_view("()[]{}?*+-|^$\\.&~# \t\n\r\v\f").find(c) != std::string_view::npos) out += '\\';
        out += c;
      }
      return out;
    }

    const PythonRegex regex_;
    const std::int64_t group_;
    const std::string fallback_;
    const bool ignore_case_, ignore_punctuation_;
    std::vector<PythonRegex> ignored_;
  };

  static std::unique_ptr<const Step> make(const FilterStep& step, const std::string& where) {
    const Json& a = step.arguments;
    const auto allow = [&](std::vector<std::string> known) {
      for (const auto& [key, value] : a.items())
        require<ConfigError>(std::find(known.begin(), known.end(), key) != known.end(),
                             "{}: '{}' takes no '{}'{}", where, step.function, key, did_you_mean(key, known));
    };
    const auto upper = [](const Json& text) {
      chat::Budget budget(std::int64_t{1} << 40);
      return Json(chat::change_case(text.get<std::string>(), chat::Case::kUpper, budget));
    };
    if (step.function == "regex") {
      allow({"regex_pattern", "group_select", "fallback"});
      return std::make_unique<Regex>(a.value("regex_pattern", std::string(kNumberBehindHashes)),
                                     a.value("group_select", std::int64_t{0}),
                                     a.value("fallback", std::string("[invalid]")));
    }
    if (step.function == "multi_choice_regex") {
      allow({"regex_pattern", "group_select", "fallback", "ignore_case", "ignore_punctuation",
             "regexes_to_ignore"});
      return std::make_unique<MultiChoiceRegex>(a);
    }
    if (step.function == "map") {
      allow({"mapping_dict", "default_value"});
      const Json mapping = a.value("mapping_dict", Json::object()),
                 otherwise = a.value("default_value", Json());
      require<ConfigError>(mapping.is_object(), "{}: 'mapping_dict' is no mapping", where);
      return std::make_unique<Each>([mapping, otherwise](const Json& text) {
        const auto it = text.is_string() ? mapping.find(text.get<std::string>()) : mapping.end();
        return it == mapping.end() ? otherwise : *it;
      });
    }
    if (step.function == "take_first_k") {
      allow({"k"});
      require<ConfigError>(a.contains("k") && a["k"].is_number_integer() && a["k"].get<std::int64_t>() >= 1,
                           "{}: take_first_k needs 'k' of at least 1", where);
      return std::make_unique<TakeFirstK>(a["k"].get<std::size_t>());
    }
    allow({});
    if (step.function == "take_first") return std::make_unique<TakeFirst>();
    if (step.function == "majority_vote") return std::make_unique<MajorityVote>();
    if (step.function == "lowercase")
      return std::make_unique<Each>([](const Json& text) { return Json(lowered(text.get<std::string>())); });
    if (step.function == "uppercase") return std::make_unique<Each>(upper);
    if (step.function == "remove_whitespace")
      return std::make_unique<Each>(
          [](const Json& text) { return Json(std::string(strip(text.get_ref<const std::string&>()))); });
    const std::vector<std::string> known{
        "regex",     "map",       "take_first",        "take_first_k",      "majority_vote",
        "lowercase", "uppercase", "remove_whitespace", "multi_choice_regex"};
    fail<ConfigError>("{}: the filter '{}' is not known here{}", where, step.function,
                      did_you_mean(step.function, known));
  }
};

FilterChain::FilterChain(const FilterSpec& spec, const std::string& source) : name_(spec.name) {
  const std::string where = source + ": filter_list: " + spec.name;
  for (const FilterStep& step : spec.steps) {
    try {
      steps_.push_back(Kinds::make(step, where));
    } catch (const DataError& error) {
      fail<ConfigError>("{}: {}", where, error.what());
    } catch (const Json::exception& error) {
      fail<ConfigError>("{}: {}: {}", where, step.function, error.what());
    }
    only_first_ = only_first_ && step.function == "take_first";
  }
}

FilterChain::~FilterChain() = default;
FilterChain::FilterChain(FilterChain&&) noexcept = default;

Json FilterChain::apply(const std::vector<std::string>& responses, const Json& document) const {
  Json out = responses;
  for (const auto& step : steps_) {
    // Behind take_first there is one text, which a further step reads as a list of its characters in the
    // harness.
    require<ConfigError>(out.is_array(), "the filter '{}' has a step behind take_first", name_);
    out = step->apply(out, document);
  }
  return out;
}

}  // namespace stoa::eval
