#include "constraint/schema/schema_grammar.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "constraint/schema/shapes_of.h"

namespace stoa::constraint {
namespace {

using Type = Shape::Type;

// Items of a list that are counted one by one.
constexpr std::int64_t kMostCounted = 1000;

class SchemaGrammar {
 public:
  SchemaGrammar(nlohmann::ordered_json schema, const SchemaOptions& options, Grammar& grammar,
                JsonRules& json, Budget& budget)
      : document_(std::move(schema)),
        shapes_(document_, options, budget),
        grammar_(grammar),
        json_(json),
        budget_(budget) {}

  Node values() {
    Node out = values_of(SchemaShapes::goal_of(document_.root()));
    // Rules ask for more rules.
    while (!waiting_.empty()) {
      const auto [goal, number] = std::move(waiting_.back());
      waiting_.pop_back();
      std::vector<Node> parts;
      for (const Shape& shape : shapes_.of(goal)) parts.push_back(value_of(shape));
      grammar_.rules[static_cast<std::size_t>(number)].body = choice(std::move(parts));
    }
    return out;
  }

 private:
  Node values_of(const Goal& goal) {
    if (goal.empty()) return json_.value();
    const auto [it, fresh] = rules_.emplace(goal, 0);
    if (fresh) {
      budget_.spend(1);
      it->second = grammar_.add("schema");
      waiting_.emplace_back(goal, it->second);
    }
    return rule(it->second);
  }

  Node value_of(const Shape& shape) {
    switch (shape.type) {
      case Type::kNull:
        return text("null");
      case Type::kTrue:
        return text("true");
      case Type::kFalse:
        return text("false");
      case Type::kNumber:
        return number_of(shape.number);
      case Type::kString:
        return string_of(shape);
      case Type::kArray:
        return array_of(shape);
      case Type::kObject:
        return object_of(shape);
    }
    return never();
  }

  Node number_of(const NumberBounds& bounds) {
    if (bounds.free()) return bounds.whole ? json_.integer() : json_.number();
    const CharAutomaton texts = texts_of(bounds, budget_);
    if (texts.empty()) return never();
    // One number is written in one way.
    if (bounds.low && bounds.high && compare(*bounds.low, *bounds.high) == 0)
      return texts.matches(bounds.low->text()) ? text(bounds.low->text()) : never();
    return expression_of(texts, characters);
  }

  Node string_of(const Shape& shape) {
    if (shape.texts.empty()) return json_.string(shape.least, shape.most);
    CharAutomaton texts = *shape.texts[0];
    for (std::size_t i = 1; i < shape.texts.size(); ++i)
      texts = intersection(texts, *shape.texts[i], budget_);
    if (texts.empty()) return never();
    const auto longest = longest_text(texts);
    const bool fits = shortest_text(texts) >= shape.least &&
                      (shape.most == kUnbounded || (longest && *longest <= shape.most));
    if (!fits) texts = intersection(texts, of_length(shape.least, shape.most, budget_), budget_);
    return texts.empty() ? never() : json_string(texts);
  }

  // A list as a graph: nodes count the items, and know which of the items that it has to contain came.
  Node array_of(const Shape& shape) {
    Graph items;
    const auto first = static_cast<std::int64_t>(shape.first_items.size());
    const std::int64_t least = shape.least, most = shape.most;
    const std::uint32_t all = (1U << shape.contains.size()) - 1;
    require<ConstraintError>(shape.contains.size() <= 4,
                             "the schema: 'contains' more than 4 times is not supported");
    // Beyond these, items are alike. With something to contain, each is counted.
    std::int64_t counted = std::max<std::int64_t>(first, 1);
    if (all != 0) counted = std::max({counted, least, most == kUnbounded ? 0 : most});
    if (most != kUnbounded) counted = std::min(counted, most);
    require<ConstraintError>(
        counted <= kMostCounted,
        "the schema: lists of more than {} items with 'contains' or 'prefixItems' are not supported",
        kMostCounted);
    const Node comma = sequence({text(","), json_.space()});
    std::map<std::pair<std::int64_t, std::uint32_t>, std::int32_t> nodes;
    const auto node = [&](std::int64_t count, std::uint32_t came) {
      const auto [it, fresh] = nodes.emplace(std::pair{count, came}, 0);
      if (fresh) {
        budget_.spend(1);
        it->second = items.add_node(came == all && count >= least && count < counted);
      }
      return it->second;
    };
    node(0, 0);
    const auto add_item = [&](std::int64_t count, std::uint32_t came, std::int64_t next) {
      const Goal& own =
          count < first ? shape.first_items[static_cast<std::size_t>(count)] : shape.other_items;
      for (std::uint32_t with = 0; with <= all; ++with) {
        if ((with & came) != 0) continue;
        Goal goal = own;
        for (std::size_t i = 0; i < shape.contains.size(); ++i)
          if ((with >> i & 1) != 0) goal = both(goal, shape.contains[i]);
        Node item = values_of(goal);
        if (count > 0) item = sequence({comma, std::move(item)});
        const std::int32_t from = node(count, came), to = node(next, came | with);
        items.edges.push_back({from, to, std::move(item)});
      }
    };
    for (std::int64_t count = 0; count < counted; ++count)
      for (std::uint32_t came = 0; came <= all; ++came)
        if (nodes.contains({count, came})) add_item(count, came, count + 1);
    const std::int32_t end = items.add_node(true);
    for (std::uint32_t came = 0; came <= all; ++came) {
      if (!nodes.contains({counted, came})) continue;
      const std::int32_t last = node(counted, came);
      if (most == kUnbounded && all != 0) add_item(counted, came, counted);
      if (came != all) continue;
      const std::int64_t more = most == kUnbounded ? kUnbounded : most - counted;
      if (counted == 0 || all != 0)
        items.edges.push_back({last, end, empty_text()});
      else
        items.edges.push_back({last, end,
                               repeat(sequence({comma, values_of(shape.other_items)}),
                                      std::max<std::int64_t>(0, least - counted), more)});
    }
    const Node open = sequence({text("["), json_.space()});
    if (most == 0) return sequence({open, text("]")});
    return sequence({open, way_through(std::move(items)), json_.space(), text("]")});
  }

  // An object as a graph: named members in their order, then others; nodes count what has to be counted.
  struct Place {
    std::size_t next = 0;      // of the named members
    bool started = false;      // a member was written, so that a comma is next
    std::int64_t members = 0;  // as far as `most` asks
    std::int64_t sure = 0;     // of different names, as far as `least` asks
    bool other = false;        // a member that is not named is among them
    friend auto operator<=>(const Place&, const Place&) = default;
  };

  Node object_of(const Shape& shape) {
    const std::vector<std::string> names = shape.named_members();
    std::vector<Node> members, others;
    for (const std::string& name : names) members.push_back(member_of(json_string(name), shape.member(name)));
    for (const auto& [texts, goal] : shapes_.other_members(shape))
      others.push_back(member_of(texts.accepts_all() ? json_.string() : json_string(texts), goal));
    const auto is_required = [&](const std::string& name) {
      return std::find(shape.required.begin(), shape.required.end(), name) != shape.required.end();
    };
    const std::int64_t most = shape.most;
    const std::int64_t least = shape.least > std::ssize(shape.required) ? shape.least : 0;
    require<ConstraintError>(
        least <= std::ssize(names) + (others.empty() ? 0 : 1),
        "the schema: 'minProperties' {} is not supported for objects with {} named members: "
        "names of others could repeat",
        least, names.size());
    Graph graph;
    std::map<Place, std::int32_t> nodes;
    std::vector<Place> places;
    const auto node = [&](const Place& place) {
      const auto [it, fresh] = nodes.emplace(place, 0);
      if (fresh) {
        budget_.spend(1);
        it->second = graph.add_node(place.next == names.size() && place.sure >= least);
        places.push_back(place);
      }
      return it->second;
    };
    const Node comma = sequence({text(","), json_.space()});
    const auto add = [&](const Place& from, Place to, Node member, bool other) {
      if (most != kUnbounded && ++to.members > most) return;
      if (!(other && to.other)) to.sure = std::min(to.sure + 1, least);
      if (other && least > 0) to.other = true;
      if (from.started) member = sequence({comma, std::move(member)});
      to.started = true;
      const std::int32_t begin = node(from), end = node(to);
      graph.edges.push_back({begin, end, std::move(member)});
    };
    node({});
    for (std::size_t i = 0; i < places.size(); ++i) {
      const Place place = places[i];
      if (place.next < names.size()) {
        const std::string& name = names[place.next];
        Place after = place;
        ++after.next;
        add(place, after, members[place.next], false);
        if (!is_required(name)) {
          const std::int32_t begin = node(place), end = node(after);
          graph.edges.push_back({begin, end, empty_text()});
        }
        continue;
      }
      for (const Node& member : others) add(place, place, member, true);
    }
    if (names.empty() && others.empty()) {
      if (least > 0) return never();
      return sequence({text("{"), json_.space(), text("}")});
    }
    return sequence({text("{"), json_.space(), way_through(std::move(graph)), json_.space(), text("}")});
  }

  // A member as a rule: it is called from every place where it may be the next.
  Node member_of(Node key, const Goal& goal) {
    return rule(grammar_.add("member", json_.member(std::move(key), values_of(goal))));
  }

  SchemaDocument document_;
  SchemaShapes shapes_;
  Grammar& grammar_;
  JsonRules& json_;
  Budget& budget_;
  std::map<Goal, std::int32_t> rules_;
  std::vector<std::pair<Goal, std::int32_t>> waiting_;
};

}  // namespace

Node values_of_schema(nlohmann::ordered_json schema, const SchemaOptions& options, Grammar& grammar,
                      JsonRules& json, Budget& budget) {
  return SchemaGrammar(std::move(schema), options, grammar, json, budget).values();
}

}  // namespace stoa::constraint
