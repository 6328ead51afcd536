#include "plan/cluster.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>

#include "base/error.h"
#include "base/nearest.h"
#include "plan/near_devices.h"

namespace stoa::plan {

std::span<const config::EnumName<Format>> enum_names(Format) {
  static constexpr std::array<config::EnumName<Format>, 4> kNames{
      {{"fp32", Format::kFp32}, {"bf16", Format::kBf16}, {"fp16", Format::kFp16}, {"fp8", Format::kFp8}}};
  return kNames;
}

double Cluster::host_link() const {
  constexpr double kUnknown = 15.75;  // PCIe gen 4 x16, 31.5 GB/s, shared by two devices
  // Pinned copies reach 12 to 13 of the 15.75 GB/s of gen 3 x16, and 25 to 26 of the 31.5 of gen 4.
  constexpr double kReached = 0.8;
  if (links.host_is_device || links.shared_device) return 0.5e9 * device.memory_bandwidth_gbs;
  return kReached * 1e9 * links.host_bandwidth_gbs.value_or(kUnknown);
}

double Cluster::host_room(std::int64_t devices) const {
  constexpr double kFilled = 0.9;
  if (!links.host_memory_gb) return std::numeric_limits<double>::infinity();
  return kFilled * 1e9 * *links.host_memory_gb /
         static_cast<double>(std::min(devices, links.devices_per_node));
}

double Cluster::peak(Format format) const {
  const std::array<double, 4> tflops{device.fp32_tflops, device.bf16_tflops, device.fp16_tflops,
                                     device.fp8_tflops.value_or(0)};
  const double peak = tflops[static_cast<std::size_t>(format)];
  if (peak <= 0) {
    std::string known;
    for (const auto& entry : enum_names(Format{}))
      if (tflops[static_cast<std::size_t>(entry.value)] > 0)
        known += (known.empty() ? "" : ", ") + std::string(entry.name);
    fail<ConfigError>("{} has no {}; it has {}", device.name,
                      enum_names(Format{})[static_cast<std::size_t>(format)].name, known);
  }
  return peak * 1e12;
}

namespace {

void declare_device(config::Section<DeviceSheet>& s) {
  s.field("name", &DeviceSheet::name).not_empty().help("Name of the device in measurements.");
  s.field("aliases", &DeviceSheet::aliases).help("Other prefixes of its name.");
  s.field("family", &DeviceSheet::family).not_empty().help("Devices that share a calibration.");
  s.field("fp32_tflops", &DeviceSheet::fp32_tflops)
      .at_least(0)
      .unit("TFLOP/s")
      .help("Dense peak, fp32 or tf32.");
  s.field("bf16_tflops", &DeviceSheet::bf16_tflops)
      .at_least(0)
      .unit("TFLOP/s")
      .help("Dense peak, bf16; 0: none.");
  s.field("fp16_tflops", &DeviceSheet::fp16_tflops)
      .at_least(0)
      .unit("TFLOP/s")
      .help("Dense peak, fp16; 0: none.");
  s.field("fp8_tflops", &DeviceSheet::fp8_tflops).above(0).unit("TFLOP/s").help("Dense peak, fp8.");
  s.field("older_instructions", &DeviceSheet::older_instructions)
      .range(0.05, 1)
      .unit("share of the 16-bit peak")
      .help("Share that kernels written for the previous generation can use.");
  s.field("memory_gb", &DeviceSheet::memory_gb).above(0).unit("10^9 bytes").help("Memory of one device.");
  s.field("memory_bandwidth_gbs", &DeviceSheet::memory_bandwidth_gbs)
      .above(0)
      .unit("10^9 bytes/s")
      .help("Bandwidth of its memory.");
  s.field("compute_units", &DeviceSheet::compute_units).at_least(1).help("SMs, compute units or cores.");
  s.field("power_watts", &DeviceSheet::power_watts).at_least(0).unit("W").help("At full load; 0: not known.");
}

void declare_links(config::Section<Links>& s) {
  s.field("devices_per_node", &Links::devices_per_node).at_least(1).help("Devices of a node.");
  s.field("devices_per_island", &Links::devices_per_island)
      .at_least(1)
      .help("Devices connected by one fast switch; an NVL72 rack has 72.");
  s.field("island_bandwidth_gbs", &Links::island_bandwidth_gbs)
      .above(0)
      .unit("10^9 bytes/s")
      .help("One direction, per device.");
  s.field("island_latency_us", &Links::island_latency_us)
      .at_least(0)
      .unit("microseconds")
      .help("Latency of one step of a collective inside an island.");
  s.field("network_bandwidth_gbs", &Links::network_bandwidth_gbs)
      .above(0)
      .unit("10^9 bytes/s")
      .help("One direction, per device; null: nodes are not connected.");
  s.field("network_latency_us", &Links::network_latency_us)
      .at_least(0)
      .unit("microseconds")
      .help("Latency of one step of a collective between nodes.");
  s.field("oversubscription", &Links::oversubscription)
      .at_least(1)
      .help(
          "Oversubscription above the leaf switches: 2 halves the bandwidth of collectives over many nodes.");
  s.field("network_reduction", &Links::network_reduction).help("Switches add (SHARP).");
  s.field("host_bandwidth_gbs", &Links::host_bandwidth_gbs)
      .above(0)
      .unit("10^9 bytes/s")
      .help(
          "Between a device and host memory, one direction, per device while all devices of a node copy; "
          "null: 15.75, PCIe gen 4 x16 shared by two.");
  s.field("host_memory_gb", &Links::host_memory_gb)
      .above(0)
      .unit("10^9 bytes")
      .help("Host memory of a node, of which offloaded activations may fill nine tenths; null: unlimited.");
  s.field("host_is_device", &Links::host_is_device)
      .help("A CPU: there is no other memory to move activations to, and copies take its own time.");
  s.field("shared_device", &Links::shared_device)
      .help("The ranks of a node are threads of one processor and share its cores and bandwidth.");
}

void declare_economy(config::Section<Economy>& s) {
  s.field("price_per_device_hour", &Economy::price_per_device_hour).at_least(0).help("In any currency.");
  s.field("capital_per_device", &Economy::capital_per_device)
      .at_least(0)
      .help("Including its share of node, network and building.");
  s.field("lifetime_years", &Economy::lifetime_years).above(0).help("Depreciation period.");
  s.field("power_overhead", &Economy::power_overhead)
      .at_least(1)
      .help("Power of the facility over power of devices and hosts (PUE).");
  s.field("host_watts_per_device", &Economy::host_watts_per_device)
      .at_least(0)
      .unit("W")
      .help("Power of the node without its devices, over power of the devices.");
  s.field("price_per_kwh", &Economy::price_per_kwh).at_least(0).help("In the same currency.");
  s.field("failures_per_device_year", &Economy::failures_per_device_year)
      .at_least(0)
      .help("Failures that interrupt a job.");
  s.field("restart_minutes", &Economy::restart_minutes)
      .at_least(0)
      .unit("minutes")
      .help("Time from a failure to resumed training.");
  s.field("storage_bandwidth_gbs", &Economy::storage_bandwidth_gbs)
      .above(0)
      .unit("10^9 bytes/s")
      .help("Write bandwidth of the file system, for checkpoints.");
}

}  // namespace

void declare(config::Section<Cluster>& s) {
  s.field("name", &Cluster::name).not_empty().help("Name of the cluster.");
  s.section("device", &Cluster::device, declare_device, "One device: datasheet figures.");
  s.section("links", &Cluster::links, declare_links, "What joins devices.");
  s.section("economy", &Cluster::economy, declare_economy, "What it costs and how it fails.");
  s.field("nodes", &Cluster::nodes).at_least(1).help("Where the size is fixed.");
  s.field("source", &Cluster::source).help("Where the figures come from.");
  s.validate({"device.bf16_tflops", "device.fp16_tflops", "device.fp32_tflops"}, [](const Cluster& c) {
    require<ConfigError>(
        c.device.bf16_tflops + c.device.fp16_tflops + c.device.fp32_tflops > 0,
        "the device has no peak: give at least one of fp32_tflops, bf16_tflops, fp16_tflops");
  });
  s.validate({"links.devices_per_node", "links.island_bandwidth_gbs"}, [](const Cluster& c) {
    require<ConfigError>(c.links.devices_per_node == 1 || c.links.island_bandwidth_gbs > 0,
                         "{} devices share a node, but the link between them is missing: give "
                         "links.island_bandwidth_gbs",
                         c.links.devices_per_node);
  });
  s.validate({"device.memory_gb", "device.memory_bandwidth_gbs"}, [](const Cluster& c) {
    require<ConfigError>(
        c.device.memory_gb > 0 && c.device.memory_bandwidth_gbs > 0,
        "the device's memory is missing: give device.memory_gb and device.memory_bandwidth_gbs");
  });
}

namespace {

constexpr const char* kOtherDevices =
    "Another device: write its datasheet into a file like those of configs/clusters";

// ConfigError for the name of a device where that of a cluster is expected.
void refuse_device(const std::string& name, const fs::path& directory) {
  std::error_code error;
  if (name.find('/') != std::string::npos || fs::exists(name, error) ||
      fs::exists(directory / (name + ".yaml"), error) || !fs::is_directory(directory, error))
    return;
  const auto clusters = load_clusters(directory);
  std::vector<std::string> names;
  for (const Cluster& cluster : clusters) names.push_back(cluster.name);
  const auto near = near_devices(clusters, name);
  if (near.empty() || !nearest(name, names).empty()) return;  // the list of names says it
  fail<ConfigError>(
      "no cluster '{}': it is neither a file nor a name in configs/clusters. Devices with such a name: {}. "
      "{}",
      name, fmt::join(near, ", "), kOtherDevices);
}

}  // namespace

Cluster load_cluster(const std::string& name, const fs::path& directory) {
  refuse_device(name, directory);
  config::Section<Cluster> section;
  declare(section);
  return config::load<Cluster>(section, name, {}, {directory});
}

std::vector<Cluster> load_clusters(const fs::path& directory) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(directory))
    if (entry.path().extension() == ".yaml") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  std::vector<Cluster> clusters;
  clusters.reserve(files.size());
  for (const auto& file : files) clusters.push_back(load_cluster(file.string(), directory));
  return clusters;
}

const Cluster& find_device(std::span<const Cluster> clusters, const std::string& device) {
  const Cluster* best = nullptr;
  std::size_t length = 0;
  for (const Cluster& cluster : clusters) {
    std::vector<std::string> candidates = cluster.device.aliases;
    candidates.push_back(cluster.device.name);
    for (const std::string& name : candidates) {
      if (device == name) return cluster;
      if (device.starts_with(name + " (") && name.size() > length) {
        best = &cluster;
        length = name.size();
      }
    }
  }
  if (best) return *best;
  std::string known;
  for (const Cluster& cluster : clusters) known += (known.empty() ? "" : ", ") + cluster.device.name;
  const auto near = near_devices(clusters, device);
  fail<ConfigError>("device '{}' is not known, and is not taken as a similar one{}{}. Known are {}. {}",
                    device, near.empty() ? "" : "; the nearest ", fmt::join(near, ", "), known,
                    kOtherDevices);
}

}  // namespace stoa::plan
