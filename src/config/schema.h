// Fields declared once, in the code that uses them: name, member, range, help. Parsing, overrides, printing,
// checks and the reference documentation all read this declaration; the default is the member's initializer
// in the struct.
//
//   struct OptimConfig { double lr = 6e-4; std::optional<double> min_lr; };
//   void declare(config::Section<OptimConfig>& s) {
//     s.field("lr", &OptimConfig::lr).range(0, 10).help("Peak learning rate.");
//     s.field("min_lr", &OptimConfig::min_lr).at_least(0).derived("lr / 10").help("Final learning rate.");
//     s.resolve([](OptimConfig& c) { if (!c.min_lr) c.min_lr = c.lr / 10; });
//     s.validate({"lr", "min_lr"}, [](const auto& c) { require<ConfigError>(*c.min_lr <= c.lr, "…"); });
//   }
//
// A program composes sections: `s.section("model.optim", &RunConfig::optim, optim::declare)`. There is no
// registry.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "config/node.h"
#include "config/value.h"

namespace stoa::config {

// One key of the configuration, for an object of the root type (passed as void*).
struct Field {
  std::string path;                  // "model.optim.lr"
  std::vector<std::string> aliases;  // other full paths that mean the same key
  std::string type, unit, help;
  std::string derived;  // how the value comes about where none is given; empty: the printed default
  std::vector<std::string> allowed;  // choices and ranges, as text for messages
  std::string nemo_default;  // YAML text that counts in files written for NeMo which leave the key out
  using Check =
      std::function<std::string(const void* value)>;  // what is expected, if it rejects the value; else ""
  std::vector<Check> checks;
  std::function<void(void* object, const Node&, const Field& self)> read;  // throws ValueError
  std::function<Node(const void* object)> print;
};

// A scalar or list at `path` means {key: it}: `model.tokenizer: DIR`.
struct ShortForm {
  std::string path, key;
};

// Keys of different sections that hold one value: giving one sets all, two that differ are an error.
struct SharedKeys {
  std::vector<std::string> paths;
};

// A check across fields; `paths` are the keys whose places are named in the message.
struct CrossCheck {
  std::vector<std::string> paths;
  std::function<void(const void* object)> run;
};

// The declarations of a whole tree, free of types. Section<T> fills it.
struct Schema {
  std::vector<Field> fields;
  std::vector<std::pair<std::string, std::string>> titles;  // path of a section, its one-line description
  std::vector<ShortForm> short_forms;
  std::vector<SharedKeys> shared;
  std::vector<std::function<void(void* object)>> resolves;  // in order of declaration
  std::vector<CrossCheck> checks;

  const Field* find(std::string_view path) const;  // by path or alias, or nullptr
  bool is_section(std::string_view path) const;    // some field lies below it
  std::vector<std::string> paths() const;
  // The values of `object` as a tree of all fields.
  Node print(const void* object) const;
};

// Refines the field just declared. M is the member's type.
template <class M>
class FieldBuilder {
 public:
  FieldBuilder(Schema& schema, std::string prefix)
      : schema_(schema), index_(schema.fields.size() - 1), prefix_(std::move(prefix)) {}

  FieldBuilder& help(std::string text) { return field().help = std::move(text), *this; }
  FieldBuilder& unit(std::string text) { return field().unit = std::move(text), *this; }
  FieldBuilder& derived(std::string text) { return field().derived = std::move(text), *this; }
  FieldBuilder& nemo_default(std::string yaml) { return field().nemo_default = std::move(yaml), *this; }
  // Another name in the same section.
  FieldBuilder& alias(const std::string& name) {
    field().aliases.push_back(join_path(prefix_, name));
    return *this;
  }
  // Bounds of the number (of each number of a list), both included.
  FieldBuilder& range(double low, double high) {
    constexpr double kNoLimit = 9007199254740992.0;  // 2^53: only keeps integers exact in a double
    return number_check(
        high < kNoLimit ? fmt::format("{} to {}", low, high) : fmt::format("at least {}", low),
        [=](double v) { return v >= low && v <= high; });
  }
  FieldBuilder& at_least(double low) {
    return number_check(fmt::format("at least {}", low), [=](double v) { return v >= low; });
  }
  FieldBuilder& above(double low) {
    return number_check(fmt::format("above {}", low), [=](double v) { return v > low; });
  }
  FieldBuilder& below(double high) {
    return number_check(fmt::format("below {}", high), [=](double v) { return v < high; });
  }
  // Number of values of a list (or of an optional list, where given).
  FieldBuilder& length(std::size_t count) {
    const std::string words = fmt::format("{} values", count);
    field().allowed.push_back(words);
    return check([words, count](const M& value) {
      if constexpr (requires { value.size(); }) {
        return value.size() == count ? std::string() : words;
      } else {
        return !value || value->size() == count ? std::string() : words;
      }
    });
  }
  FieldBuilder& not_empty() requires requires(M m) { m.empty(); }
  {
    return check(
        [](const M& v) { return v.empty() ? std::string("something that is not empty") : std::string(); });
  }
  // Any condition on one value: returns what is expected where it does not hold, "" where it does.
  FieldBuilder& check(std::function<std::string(const M&)> test) {
    field().checks.push_back(
        [test = std::move(test)](const void* v) { return test(*static_cast<const M*>(v)); });
    return *this;
  }

 private:
  Field& field() { return schema_.fields[index_]; }
  FieldBuilder& number_check(std::string words, std::function<bool(double)> inside) {
    field().allowed.push_back(words);
    return check([words, inside = std::move(inside)](const M& value) {
      bool good = true;
      for_each_number(value, [&](double v) { good = good && inside(v); });
      return good ? std::string() : words;
    });
  }

  Schema& schema_;
  const std::size_t index_;
  const std::string prefix_;
};

template <class T>
class Section {
 public:
  Section() = default;

  template <class M>
  FieldBuilder<M> field(const std::string& name, M T::*member) {
    Field field;
    field.path = name;
    field.type = Codec<M>::type();
    field.allowed = choices_of<M>();
    field.read = [member](void* object, const Node& node, const Field& self) {
      M value = Codec<M>::parse(node);
      for (const auto& check : self.checks) {
        if (std::string expected = check(&value); !expected.empty())
          throw ValueError{std::move(expected), ""};
      }
      static_cast<T*>(object)->*member = std::move(value);
    };
    field.print = [member](const void* object) {
      return Codec<M>::print(static_cast<const T*>(object)->*member);
    };
    schema_.fields.push_back(std::move(field));
    const auto dot = name.rfind('.');
    return FieldBuilder<M>(schema_, dot == std::string::npos ? std::string() : name.substr(0, dot));
  }

  // Adds the fields that another struct declares, below a path ("sched", "model.optim"), or, where it is "",
  // to this section directly.
  template <class M, class Declare>
  void section(const std::string& path, M T::*member, Declare&& declare_member,
               const std::string& title = "") {
    Section<M> inner;
    declare_member(inner);
    Schema& from = inner.schema_;
    const auto at = [path](const std::string& p) { return join_path(path, p); };
    const auto all = [&](std::vector<std::string> paths) {
      for (auto& p : paths) p = at(p);
      return paths;
    };
    if (!title.empty()) schema_.titles.emplace_back(path, title);
    for (auto& [p, t] : from.titles) schema_.titles.emplace_back(at(p), std::move(t));
    for (auto& f : from.fields) {
      f.path = at(f.path);
      f.aliases = all(std::move(f.aliases));
      f.read = [member, read = std::move(f.read)](void* object, const Node& node, const Field& self) {
        read(&(static_cast<T*>(object)->*member), node, self);
      };
      f.print = [member, print = std::move(f.print)](const void* object) {
        return print(&(static_cast<const T*>(object)->*member));
      };
      schema_.fields.push_back(std::move(f));
    }
    for (auto& s : from.short_forms) schema_.short_forms.push_back({at(s.path), s.key});
    for (auto& s : from.shared) schema_.shared.push_back({all(std::move(s.paths))});
    for (auto& r : from.resolves) {
      schema_.resolves.push_back(
          [member, r = std::move(r)](void* object) { r(&(static_cast<T*>(object)->*member)); });
    }
    for (auto& c : from.checks) {
      schema_.checks.push_back(
          {all(std::move(c.paths)), [member, run = std::move(c.run)](const void* object) {
             run(&(static_cast<const T*>(object)->*member));
           }});
    }
  }

  // A scalar or list written where the section at `path` ("" is this one) belongs stands for {key: value}.
  void short_form(const std::string& path, const std::string& key) {
    schema_.short_forms.push_back({path, key});
  }
  // Keys that hold one value. Their fields must have the same type.
  void share(std::vector<std::string> paths) { schema_.shared.push_back({std::move(paths)}); }
  // Fills values that follow from others; runs after reading, before the checks.
  void resolve(std::function<void(T&)> fill) {
    schema_.resolves.push_back([fill = std::move(fill)](void* object) { fill(*static_cast<T*>(object)); });
  }
  // A check across fields: throws ConfigError (base/error.h). The places of `paths` are added to its message.
  void validate(std::vector<std::string> paths, std::function<void(const T&)> check) {
    schema_.checks.push_back({std::move(paths), [check = std::move(check)](const void* object) {
                                check(*static_cast<const T*>(object));
                              }});
  }

  const Schema& schema() const { return schema_; }

 private:
  template <class>
  friend class Section;
  Schema schema_;
};

}  // namespace stoa::config
