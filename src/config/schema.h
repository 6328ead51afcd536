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

#include <bit>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/node.h"
#include "config/value.h"

namespace stoa::config {

struct Field;

// What a schema asks of the type of a member. One object per type: a key costs no code of its own.
struct MemberType {
  std::string (*name)();
  std::vector<std::string> (*choices)();
  void (*read)(void* member, const Node& node, const Field& field);  // throws ValueError
  Node (*print)(const void* member);
  void (*numbers)(const void* member, const std::function<void(double)>& visit);  // what ranges look at
};

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
  const MemberType* member = nullptr;
  std::ptrdiff_t offset = 0;  // of the member in the object, in bytes

  void check(const void* value) const;              // throws ValueError
  void read(void* object, const Node& node) const;  // throws ValueError
  Node print(const void* object) const;
};

namespace detail {

template <class M>
void read_member(void* member, const Node& node, const Field& field) {
  M value = Codec<M>::parse(node);
  field.check(&value);
  *static_cast<M*>(member) = std::move(value);
}
template <class M>
Node print_member(const void* member) {
  return Codec<M>::print(*static_cast<const M*>(member));
}
template <class M>
void numbers_of_member(const void* member, const std::function<void(double)>& visit) {
  for_each_number(*static_cast<const M*>(member), visit);
}

template <class M>
inline constexpr MemberType kMemberType{Codec<M>::type, choices_of<M>, read_member<M>, print_member<M>,
                                        numbers_of_member<M>};

// A pointer to a member is its distance from the beginning of the object.
template <class T, class M>
std::ptrdiff_t offset_of(M T::*member) {
  static_assert(sizeof(member) == sizeof(std::ptrdiff_t));
  return std::bit_cast<std::ptrdiff_t>(member);
}

}  // namespace detail

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

  // For Section: a new field; the declarations of a member that is a struct, below `path`.
  void add(std::string_view name, const MemberType& member, std::ptrdiff_t offset);
  void add_all(Schema&& inner, std::string_view path, std::ptrdiff_t offset, std::string_view title);
};

// Refines the field just declared, whatever its type.
class FieldRefinement {
 public:
  explicit FieldRefinement(Schema& schema) : schema_(schema), index_(schema.fields.size() - 1) {}

 protected:
  Field& field() { return schema_.fields[index_]; }
  void add_alias(std::string_view name);
  void add_range(double low, double high);
  void add_lowest(double low);
  void add_above(double low);
  void add_below(double high);

 private:
  void add_number_check(std::string words, std::function<bool(double)> inside);

  Schema& schema_;
  const std::size_t index_;
};

// M is the member's type.
template <class M>
class FieldBuilder : public FieldRefinement {
 public:
  using FieldRefinement::FieldRefinement;

  FieldBuilder& help(std::string_view text) { return field().help = text, *this; }
  FieldBuilder& unit(std::string_view text) { return field().unit = text, *this; }
  FieldBuilder& derived(std::string_view text) { return field().derived = text, *this; }
  FieldBuilder& nemo_default(std::string_view yaml) { return field().nemo_default = yaml, *this; }
  // Another name in the same section.
  FieldBuilder& alias(std::string_view name) { return add_alias(name), *this; }
  // Bounds of the number (of each number of a list), both included.
  FieldBuilder& range(double low, double high) { return add_range(low, high), *this; }
  FieldBuilder& at_least(double low) { return add_lowest(low), *this; }
  FieldBuilder& above(double low) { return add_above(low), *this; }
  FieldBuilder& below(double high) { return add_below(high), *this; }
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
  template <class Test>
  FieldBuilder& check(Test test) {
    field().checks.push_back(
        [test = std::move(test)](const void* v) { return test(*static_cast<const M*>(v)); });
    return *this;
  }
};

template <class T>
class Section {
 public:
  Section() = default;

  template <class M>
  FieldBuilder<M> field(std::string_view name, M T::*member) {
    schema_.add(name, detail::kMemberType<M>, detail::offset_of(member));
    return FieldBuilder<M>(schema_);
  }

  // Adds the fields that another struct declares, below a path ("sched", "model.optim"), or, where it is "",
  // to this section directly.
  template <class M, class Declare>
  void section(std::string_view path, M T::*member, Declare&& declare_member, std::string_view title = "") {
    Section<M> inner;
    declare_member(inner);
    schema_.add_all(std::move(inner.schema_), path, detail::offset_of(member), title);
  }

  // A scalar or list written where the section at `path` ("" is this one) belongs stands for {key: value}.
  void short_form(const std::string& path, const std::string& key) {
    schema_.short_forms.push_back({path, key});
  }
  // Keys that hold one value. Their fields must have the same type.
  void share(std::vector<std::string> paths) { schema_.shared.push_back({std::move(paths)}); }
  // Fills values that follow from others; runs after reading, before the checks.
  template <class Fill>
  void resolve(Fill fill) {
    schema_.resolves.push_back([fill = std::move(fill)](void* object) { fill(*static_cast<T*>(object)); });
  }
  // A check across fields: throws ConfigError (base/error.h). The places of `paths` are added to its message.
  template <class Check>
  void validate(std::vector<std::string> paths, Check check) {
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
