// What is in packaging/ fits the program: options exist, probed paths answer, metrics of panels are there.
#include <gmock/gmock.h>
#include <yaml-cpp/yaml.h>

#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/test_paths.h"
#include "served.h"

namespace stoa::e2e {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class Packaging : public Served {
 protected:
  static std::string packaged(const std::string& name) {
    return read_text(test::source_dir() / "packaging" / name);
  }
  // Options of `stoa serve` in a text are options of the program.
  void expect_options(const std::string& text) const {
    const std::string help = stoa_ok({"serve", "--help"}).out;
    const std::regex option("--[a-z][a-z-]+");
    std::size_t count = 0;
    for (std::sregex_iterator it(text.begin(), text.end(), option), end; it != end; ++it, ++count)
      EXPECT_THAT(help, HasSubstr(it->str())) << text;
    EXPECT_GT(count, 0u);
  }
};

// As systemd reads them; systemd-analyze verify says more where there is a systemd (tests/slow/packaging.sh).
TEST_F(Packaging, TheUnitOfSystemdStartsTheServer) {
  std::istringstream unit(packaged("systemd/stoa-serve@.service"));
  const std::set<std::string> sections{"Unit", "Service", "Install"};
  std::string section, start;
  double stop = 0;
  for (std::string line; std::getline(unit, line);) {
    if (line.empty() || line.front() == '#') continue;
    if (line.front() == '[') {
      section = line.substr(1, line.size() - 2);
      EXPECT_TRUE(sections.contains(section)) << section;
      continue;
    }
    const std::size_t at = line.find('=');
    ASSERT_NE(at, std::string::npos) << line;
    if (line.starts_with("ExecStart=")) start = line.substr(at + 1);
    if (line.starts_with("TimeoutStopSec=")) stop = std::stod(line.substr(at + 1));
  }
  EXPECT_THAT(start, HasSubstr("stoa serve ${MODEL}"));
  expect_options(start);
  std::smatch drain;
  ASSERT_TRUE(std::regex_search(start, drain, std::regex("--drain-seconds ([0-9]+)")));
  EXPECT_GT(stop, std::stod(drain[1]));
}

TEST_F(Packaging, TheManifestOfKubernetesProbesWhatIsThere) {
  const std::vector<YAML::Node> objects = YAML::LoadAll(packaged("kubernetes/stoa-serve.yaml"));
  ASSERT_EQ(objects.size(), 3u);
  const YAML::Node deployment = objects[0], service = objects[1], claim = objects[2];
  EXPECT_EQ(deployment["kind"].as<std::string>(), "Deployment");
  EXPECT_EQ(service["kind"].as<std::string>(), "Service");
  const YAML::Node pod = deployment["spec"]["template"], container = pod["spec"]["containers"][0];
  // Labels, ports and volumes refer to what is there.
  for (const auto& label : deployment["spec"]["selector"]["matchLabels"])
    EXPECT_EQ(pod["metadata"]["labels"][label.first.as<std::string>()].as<std::string>(),
              label.second.as<std::string>());
  for (const auto& label : service["spec"]["selector"])
    EXPECT_EQ(pod["metadata"]["labels"][label.first.as<std::string>()].as<std::string>(),
              label.second.as<std::string>());
  EXPECT_EQ(service["spec"]["ports"][0]["targetPort"].as<std::string>(),
            container["ports"][0]["name"].as<std::string>());
  std::set<std::string> volumes;
  for (const auto& volume : pod["spec"]["volumes"]) {
    volumes.insert(volume["name"].as<std::string>());
    if (const YAML::Node used = volume["persistentVolumeClaim"]) {
      EXPECT_EQ(used["claimName"].as<std::string>(), claim["metadata"]["name"].as<std::string>());
    }
  }
  for (const auto& mount : container["volumeMounts"])
    EXPECT_TRUE(volumes.contains(mount["name"].as<std::string>()));
  std::string arguments;
  double drain = 0;
  const std::string of_drain = "--drain-seconds=";
  for (const auto& argument : container["args"]) {
    const auto text = argument.as<std::string>();
    arguments += text + " ";
    if (text.starts_with(of_drain)) drain = std::stod(text.substr(of_drain.size()));
    if (text.starts_with("--port=")) {
      EXPECT_EQ(text.substr(7), container["ports"][0]["containerPort"].as<std::string>());
    }
  }
  expect_options(arguments);
  EXPECT_GT(pod["spec"]["terminationGracePeriodSeconds"].as<double>(), drain);
  // Probes need no key, and neither does what Prometheus reads.
  write_text(path("keys.txt"), "a-key-of-this-test\n");
  serve({"--api-key-file", "keys.txt"});
  for (const char* probe : {"startupProbe", "readinessProbe", "livenessProbe"}) {
    const YAML::Node of = container[probe]["httpGet"];
    EXPECT_EQ(get(of["path"].as<std::string>()).status, 200) << probe;
    EXPECT_EQ(of["port"].as<std::string>(), container["ports"][0]["name"].as<std::string>());
  }
  const YAML::Node notes = pod["metadata"]["annotations"];
  EXPECT_EQ(get(notes["prometheus.io/path"].as<std::string>()).status, 200);
  EXPECT_EQ(notes["prometheus.io/port"].as<std::string>(),
            container["ports"][0]["containerPort"].as<std::string>());
}

TEST_F(Packaging, PanelsOfTheDashboardShowMetricsThatExist) {
  serve();
  ask("/v1/completions", {{"prompt", "the stone"}, {"max_tokens", 3}});
  const std::string metrics = get("/metrics").body;
  const json dashboard = json::parse(packaged("grafana/stoa.json"));
  EXPECT_GE(dashboard["panels"].size(), 12u);
  std::set<int> ids;
  std::size_t expressions = 0;
  const auto check_metrics = [&](const std::string& expression) {
    const std::regex name("vllm:[a-z_0-9]+");
    for (std::sregex_iterator it(expression.begin(), expression.end(), name), end; it != end; ++it)
      EXPECT_THAT(metrics, HasSubstr("\n" + it->str() + "{model_name=\"chat\"")) << expression;
    ++expressions;
  };
  for (const json& panel : dashboard["panels"]) {
    EXPECT_TRUE(ids.insert(panel["id"].get<int>()).second);
    for (const json& target : panel["targets"]) check_metrics(target["expr"]);
  }
  for (const json& variable : dashboard["templating"]["list"])
    if (variable["type"] == "query") check_metrics(variable["query"]);
  EXPECT_GT(expressions, 20u);
}

}  // namespace
}  // namespace stoa::e2e
