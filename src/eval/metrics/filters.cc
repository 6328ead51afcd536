#include "eval/metrics/filters.h"

#include <algorithm>
#include <functional>

#include "base/error.h"
#include "base/nearest.h"
#include "chat/runtime.h"
#include "eval/metrics/regex_filters.h"
#include "eval/python/text.h"

namespace stoa::eval {

// The kinds of steps; all but take_first map a list to a list.
struct FilterChain::Kinds {
  // One that changes every response for itself.
  class Each : public FilterAction {
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

  class Custom : public FilterAction {
   public:
    explicit Custom(FilterFunction function) : function_(function) {}
    Json apply(const Json& responses, const Json& document) const override {
      return function_(responses, document);
    }

   private:
    const FilterFunction function_;
  };

  class TakeFirst : public FilterAction {
   public:
    Json apply(const Json& responses, const Json&) const override { return responses.at(0); }
  };

  class TakeFirstK : public FilterAction {
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

  class MajorityVote : public FilterAction {
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

  static std::unique_ptr<const FilterAction> make(const FilterStep& step, const std::string& where) {
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
    static const std::vector<std::string> kOfRegexes{"regex_pattern",      "group_select",
                                                     "fallback",           "ignore_case",
                                                     "ignore_punctuation", "regexes_to_ignore"};
    if (step.function == "regex") {
      allow({"regex_pattern", "group_select", "fallback"});
      return regex_filter(a);
    }
    if (step.function == "multi_choice_regex" || step.function == "multi_choice_regex_of_input") {
      allow(kOfRegexes);
      return multi_choice_filter(a, step.function != "multi_choice_regex");
    }
    if (step.function == "number_regex") {
      allow(kOfRegexes);
      return number_filter(a);
    }
    if (step.function == "map_regex") {
      allow({"regex_pattern_to_value", "group_select", "fallback", "ignore_case", "ignore_punctuation",
             "regexes_to_ignore"});
      return map_regex_filter(a);
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
    if (step.custom) return std::make_unique<Custom>(step.custom);
    if (step.function == "word_sort") return word_sort_filter();
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
