// A machine for training: datasheet figures of its devices and links, costs. Pure data, from YAML.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/reader.h"
#include "config/schema.h"

namespace stoa::plan {

// Number format of GEMMs.
enum class Format { kFp32, kBf16, kFp16, kFp8 };
std::span<const config::EnumName<Format>> enum_names(Format);

// One accelerator (or one CPU socket). Peaks are dense, in TFLOP/s; none for a format that the device lacks.
struct DeviceSheet {
  std::string name;                  // "H100-SXM-80GB": its name in rows of measurements
  std::vector<std::string> aliases;  // other names, matched as prefixes
  std::string family;                // devices that share a calibration: "A100", "H100"
  double fp32_tflops = 0;            // GEMMs, in tf32 if the device has it
  double bf16_tflops = 0;
  double fp16_tflops = 0;
  std::optional<double> fp8_tflops;
  // Share of the 16-bit peak that kernels written for the previous generation reach (warp-level matrix
  // instructions on Hopper reach 0.63 of the rate of its warp-group instructions: 2402.13499).
  double older_instructions = 1;
  double memory_gb = 0;             // 10^9 bytes
  double memory_bandwidth_gbs = 0;  // 10^9 bytes/s
  std::int64_t compute_units = 1;   // SMs, CUs or cores: sets the waves of a kernel's tiles
  double power_watts = 0;           // at full load; 0: not known
};

// Devices connected by one fast switch ("island": NVLink), and the network between islands.
struct Links {
  std::int64_t devices_per_node = 8;
  std::int64_t devices_per_island = 8;          // 72 for an NVL72 rack
  double island_bandwidth_gbs = 0;              // one way, per device
  double island_latency_us = 8;                 // of one step of a collective
  std::optional<double> network_bandwidth_gbs;  // one way, per device: the node's adapters / its devices
  double network_latency_us = 15;
  double oversubscription = 1;     // of the network above the leaf switches
  bool network_reduction = false;  // switches perform reductions (SHARP)
  // Between a device and host memory: datasheet figure, one way, per device while all devices of a node copy.
  std::optional<double> host_bandwidth_gbs;
  std::optional<double> host_memory_gb;  // 10^9 bytes of a node's host
  bool host_is_device = false;           // a CPU: it does copies itself, and there is no other memory
  // The ranks of a node are threads of one processor, which the device's figures describe: they share its
  // cores (compute_units) and its memory bandwidth.
  bool shared_device = false;
};

// Costs and failures; figures that are missing are left out of reports.
struct Economy {
  std::optional<double> price_per_device_hour;  // any currency
  std::optional<double> capital_per_device;     // including its share of node, network and room
  double lifetime_years = 4;
  double power_overhead = 1.25;      // facility over devices and hosts (PUE)
  double host_watts_per_device = 0;  // the node without its devices, per device
  std::optional<double> price_per_kwh;
  double failures_per_device_year =
      0.3;  // interruptions of a job; 2407.21783 sec. 3.3.4: 419 in 54 days on 16,384
  double restart_minutes = 15;
  std::optional<double> storage_bandwidth_gbs;  // of the file system, for checkpoints
};

struct Cluster {
  std::string name;
  DeviceSheet device;
  Links links;
  Economy economy;
  std::optional<std::int64_t> nodes;  // if the size is fixed
  std::string source;                 // origin of the figures

  // Bytes per second of copies to and from host memory: of the link, or of the memory that both ends of a
  // copy share; if the file has neither, of PCIe gen 4 x16 shared by two devices.
  double host_link() const;
  // Host memory in bytes that a device may use if `devices` of the node work: its share of the node's, less a
  // tenth for the system, data and snapshots of checkpoints; infinity if the file does not give it.
  double host_room(std::int64_t devices) const;
  // Peak of a format in FLOP/s; ConfigError names the formats of the device if it lacks this one.
  double peak(Format format) const;
};

void declare(config::Section<Cluster>& s);

// A file, or the name of one in `directory` (configs/clusters). ConfigError lists all that is wrong or
// missing.
Cluster load_cluster(const std::string& name, const fs::path& directory);
// Every cluster of a directory, by name.
std::vector<Cluster> load_clusters(const fs::path& directory);
// The cluster whose device is called `device`: by its name or one of its aliases, or by one of them and a
// place in parentheses ("H100-SXM-80GB (Eos)"; the longest counts). ConfigError with the nearest and all
// known names otherwise: a device of a similar name may be another device (H20 and H200).
const Cluster& find_device(std::span<const Cluster> clusters, const std::string& device);

}  // namespace stoa::plan
