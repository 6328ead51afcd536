#include "curate/run/flow.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/console.h"

namespace stoa::curate {
namespace {

using Json = nlohmann::ordered_json;

Json amount_to_json(const Amount& amount) {
  return {{"documents", amount.documents}, {"bytes", amount.bytes}};
}
Amount amount_from_json(const Json& json) {
  return {json.at("documents").get<std::int64_t>(), json.at("bytes").get<std::int64_t>()};
}

std::string row(std::string_view name, const Amount& amount, const Amount& all) {
  const double share =
      all.documents > 0 ? 100.0 * static_cast<double>(amount.documents) / static_cast<double>(all.documents)
                        : 0;
  return fmt::format("{:<48} {:>12} {:>10} {:>8.2f} %\n", name, amount.documents,
                     format_bytes(static_cast<double>(amount.bytes)), share);
}

}  // namespace

void Flow::add(const Flow& other) {
  read.add(other.read);
  kept.add(other.kept);
  quarantined.add(other.quarantined);
  cut.add(other.cut);
  damaged_inputs += other.damaged_inputs;
  for (const auto& [rule, amount] : other.dropped) dropped[rule].add(amount);
}

Amount Flow::dropped_in_all() const {
  Amount all;
  for (const auto& [rule, amount] : dropped) all.add(amount);
  return all;
}

std::vector<std::pair<std::string, Amount>> Flow::dropped_in_order(
    const std::vector<std::string>& stages) const {
  std::vector<std::pair<std::string, Amount>> order;
  for (const std::string& stage : stages)
    for (const auto& own : dropped)
      if (own.first.starts_with(stage + "/")) order.push_back(own);
  return order;
}

Json to_json(const Flow& flow) {
  Json dropped = Json::object();
  for (const auto& [rule, amount] : flow.dropped) dropped[rule] = amount_to_json(amount);
  Json json{{"read", amount_to_json(flow.read)},
            {"kept", amount_to_json(flow.kept)},
            {"quarantined", amount_to_json(flow.quarantined)},
            {"dropped", std::move(dropped)}};
  if (flow.cut.documents > 0) json["cut"] = amount_to_json(flow.cut);
  if (flow.damaged_inputs > 0) json["damaged_inputs"] = flow.damaged_inputs;
  return json;
}

Flow flow_from_json(const Json& json) {
  Flow flow;
  flow.read = amount_from_json(json.at("read"));
  flow.kept = amount_from_json(json.at("kept"));
  flow.quarantined = amount_from_json(json.at("quarantined"));
  flow.damaged_inputs = json.value("damaged_inputs", std::int64_t{0});
  if (json.contains("cut")) flow.cut = amount_from_json(json.at("cut"));
  for (const auto& [rule, amount] : json.at("dropped").items()) flow.dropped[rule] = amount_from_json(amount);
  return flow;
}

std::string flow_table(const Flow& flow, const std::vector<std::string>& stages) {
  std::string text = fmt::format("{:<48} {:>12} {:>10} {:>10}\n", "", "documents", "text", "of read");
  text += row("read", flow.read, flow.read);
  if (flow.quarantined.documents > 0) text += row("quarantined", flow.quarantined, flow.read);
  for (const auto& [rule, amount] : flow.dropped_in_order(stages))
    text += row("  dropped by " + rule, amount, flow.read);
  if (flow.cut.documents > 0) text += row("  cut out of", flow.cut, flow.read);
  return text + row("kept", flow.kept, flow.read);
}

}  // namespace stoa::curate
