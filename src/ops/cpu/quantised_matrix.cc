#include "ops/cpu/quantised_matrix.h"

#include <algorithm>
#include <cstring>

#include "base/half.h"

namespace stoa::ops::cpu {
namespace {

using quant::BlockFormat;
using quant::BlockType;

// A super of one row: what its bytes in the file say.
struct RowSuper {
  std::uint16_t scale = 0, minimum = 0;  // half
  std::uint8_t scales[16] = {}, minima[8] = {};
  std::uint8_t codes[256] = {};
};

std::optional<PackedLayout> layout_of(BlockType type) {
  switch (type) {
    case BlockType::kQ8_0:
      return PackedLayout{.bits = 8, .zero = 128};
    case BlockType::kQ4_0:
      return PackedLayout{.bits = 4, .zero = 8};
    case BlockType::kQ5_0:
      return PackedLayout{.bits = 5, .zero = 16};
    case BlockType::kQ4_1:
      return PackedLayout{.bits = 4, .minimum = true};
    case BlockType::kQ5_1:
      return PackedLayout{.bits = 5, .minimum = true};
    case BlockType::kQ4_K:
      return PackedLayout{.bits = 4, .groups = 8, .two_level = true, .minimum = true};
    case BlockType::kQ5_K:
      return PackedLayout{.bits = 5, .groups = 8, .two_level = true, .minimum = true};
    case BlockType::kQ6_K:
      return PackedLayout{.bits = 6, .groups = 8, .two_level = true, .halves = true, .zero = 32};
    default:
      return std::nullopt;
  }
}

int byte(const std::byte* from, int i) { return std::to_integer<int>(from[i]); }

std::uint16_t half_bits(const std::byte* from) {
  return static_cast<std::uint16_t>(byte(from, 0) | byte(from, 1) << 8);
}

// 16 bytes with number j in the low half of byte j and number j + 16 in the high one; fifth bits or null.
void split_pairs(const std::byte* pairs, const std::byte* fifth, std::uint8_t* codes) {
  for (int i = 0; i < 32; ++i) {
    int q = i < 16 ? byte(pairs, i) & 15 : byte(pairs, i - 16) >> 4;
    if (fifth) q |= ((byte(fifth, i / 8) >> (i % 8)) & 1) << 4;
    codes[i] = static_cast<std::uint8_t>(q);
  }
}

// Layouts of blocks: quant/legacy_blocks.cc, quant/k_affine_blocks.cc, quant/k_blocks.cc.
void split_k(const std::byte* block, bool fifth, RowSuper& out) {
  const std::byte *s = block + 4, *high = block + 16, *pairs = block + (fifth ? 48 : 16);
  out.scale = half_bits(block);
  out.minimum = half_bits(block + 2);
  for (int j = 0; j < 8; ++j) {
    out.scales[j] = static_cast<std::uint8_t>(j < 4 ? byte(s, j) & 63 : (byte(s, j + 4) & 15) | (byte(s, j - 4) >> 6) << 4);
    out.minima[j] = static_cast<std::uint8_t>(j < 4 ? byte(s, j + 4) & 63 : byte(s, j + 4) >> 4 | (byte(s, j) >> 6) << 4);
  }
  for (int p = 0; p < 8; ++p)
    for (int l = 0; l < 32; ++l) {
      int q = p % 2 == 0 ? byte(pairs, p / 2 * 32 + l) & 15 : byte(pairs, p / 2 * 32 + l) >> 4;
      if (fifth) q |= ((byte(high, l) >> p) & 1) << 4;
      out.codes[p * 32 + l] = static_cast<std::uint8_t>(q);
    }
}

void split_q6_k(const std::byte* block, RowSuper& out) {
  out.scale = half_bits(block + 208);
  std::memcpy(out.scales, block + 192, 16);
  for (int i = 0; i < 256; ++i) {
    const int half = i / 128, j = i % 128 / 32, l = i % 32;
    const int low = (byte(block, half * 64 + l + 32 * (j & 1)) >> (4 * (j / 2))) & 15;
    const int high = (byte(block, 128 + half * 32 + l) >> (2 * j)) & 3;
    out.codes[i] = static_cast<std::uint8_t>(low | high << 4);
  }
}

void split(BlockType type, const std::byte* block, RowSuper& out) {
  switch (type) {
    case BlockType::kQ8_0:
      for (int i = 0; i < 32; ++i) out.codes[i] = static_cast<std::uint8_t>(byte(block, 2 + i) ^ 128);
      break;
    case BlockType::kQ4_0:
      split_pairs(block + 2, nullptr, out.codes);
      break;
    case BlockType::kQ5_0:
      split_pairs(block + 6, block + 2, out.codes);
      break;
    case BlockType::kQ4_1:
    case BlockType::kQ5_1: {
      const bool fifth = type == BlockType::kQ5_1;
      split_pairs(block + (fifth ? 8 : 4), fifth ? block + 4 : nullptr, out.codes);
      out.minimum = static_cast<std::uint16_t>(half_bits(block + 2) ^ 0x8000);  // weights are s q - t
      break;
    }
    case BlockType::kQ4_K:
      return split_k(block, false, out);
    case BlockType::kQ5_K:
      return split_k(block, true, out);
    default:
      return split_q6_k(block, out);
  }
  out.scale = half_bits(block);
}

void pack_codes(const RowSuper* rows, int group, int bits, std::uint8_t* out) {
  std::memset(out, 0, static_cast<std::size_t>(bits == 8 ? 512 : 256 + (bits - 4) * 64));
  for (int r = 0; r < kPanelRows; ++r)
    for (int k = 0; k < kGroupInputs; ++k) {
      const int quad = k / 4, at = 4 * r + k % 4, code = rows[r].codes[group * kGroupInputs + k];
      if (bits == 8) {
        out[quad * 64 + at] = static_cast<std::uint8_t>(code);
        continue;
      }
      auto& pair = out[quad % 4 * 64 + at];
      pair = static_cast<std::uint8_t>(pair | (code & 15) << (quad < 4 ? 0 : 4));
      for (int plane = 0; plane < bits - 4; ++plane) {
        auto& bit = out[256 + plane * 64 + quad * 8 + at / 8];
        bit = static_cast<std::uint8_t>(bit | ((code >> (4 + plane)) & 1) << (at % 8));
      }
    }
}

// One super of 16 rows; returns what follows it.
std::uint8_t* pack_super(const PackedLayout& l, const RowSuper* rows, std::uint8_t* out) {
  for (int r = 0; r < kPanelRows; ++r) std::memcpy(out + 2 * r, &rows[r].scale, 2);
  out += 2 * kPanelRows;
  if (l.minimum) {
    for (int r = 0; r < kPanelRows; ++r) std::memcpy(out + 2 * r, &rows[r].minimum, 2);
    out += 2 * kPanelRows;
  }
  for (int g = 0; g < l.groups; ++g) {
    for (int h = 0; l.two_level && h < (l.halves ? 2 : 1); ++h)
      for (int r = 0; r < kPanelRows; ++r) *out++ = rows[r].scales[l.halves ? 2 * g + h : g];
    for (int r = 0; l.two_level && l.minimum && r < kPanelRows; ++r) *out++ = rows[r].minima[g];
    pack_codes(rows, g, l.bits, out);
    out += l.code_bytes();
  }
  return out;
}

}  // namespace

std::optional<QuantisedMatrix> QuantisedMatrix::pack(std::int64_t columns, std::span<const QuantisedRow> rows) {
  QuantisedMatrix out;
  out.rows_ = static_cast<std::int64_t>(rows.size());
  out.columns_ = columns;
  const RowSuper none;
  for (std::size_t begin = 0; begin < rows.size(); begin += kPanelRows) {
    const std::size_t count = std::min<std::size_t>(kPanelRows, rows.size() - begin);
    const BlockFormat* format = rows[begin].format;
    const auto layout = layout_of(format->type);
    if (!layout || columns % (kGroupInputs * layout->groups) != 0) return std::nullopt;
    if (out.sections_.empty() || out.sections_.back().format != format)
      out.sections_.push_back({format, *layout, static_cast<std::int64_t>(begin) / kPanelRows, {}});
    const std::int64_t supers = columns / (kGroupInputs * layout->groups);
    auto& panels = out.sections_.back().panels;
    const std::size_t at = panels.size();
    panels.resize(at + static_cast<std::size_t>(supers * layout->super_bytes()));
    std::uint8_t* to = panels.data() + at;
    for (std::int64_t s = 0; s < supers; ++s) {
      RowSuper parts[kPanelRows];
      for (std::size_t r = 0; r < count; ++r) {
        if (rows[begin + r].format != format) return std::nullopt;
        split(format->type, rows[begin + r].bytes + s * format->bytes, parts[r]);
      }
      to = pack_super(*layout, parts, to);
    }
  }
  return out;
}

std::size_t QuantisedMatrix::bytes() const {
  std::size_t total = 0;
  for (const Section& section : sections_) total += section.panels.size();
  return total;
}

void QuantisedMatrix::product(const float* x, std::int64_t count, float* out, const QuantisedKernels& kernels,
                              WorkerPool& pool) const {
  const std::int64_t groups = columns_ / kGroupInputs, all_panels = (rows_ + kPanelRows - 1) / kPanelRows;
  std::vector<std::int8_t> codes(static_cast<std::size_t>(count * columns_));
  std::vector<float> scales(static_cast<std::size_t>(count * groups)), sums(scales.size() * 2);
  pool.run(count, [&](std::int64_t t, int) {
    kernels.quantise(x + t * columns_, columns_, codes.data() + t * columns_, scales.data() + t * groups,
                     sums.data() + 2 * t * groups);
  });
  // Whole panels first; what exceeds the last row is cut off.
  const std::int64_t width = all_panels * kPanelRows;
  std::vector<float> padded;
  if (width != rows_) padded.resize(static_cast<std::size_t>(count * width));
  float* const to = padded.empty() ? out : padded.data();
  constexpr std::int64_t kTask = 8;  // panels
  struct Task {
    const Section* section;
    std::int64_t panel, count;
  };
  std::vector<Task> tasks;
  for (std::size_t i = 0; i < sections_.size(); ++i) {
    const std::int64_t end = i + 1 < sections_.size() ? sections_[i + 1].first_panel : all_panels;
    for (std::int64_t p = sections_[i].first_panel; p < end; p += kTask)
      tasks.push_back({&sections_[i], p, std::min(kTask, end - p)});
  }
  for (std::int64_t first = 0; first < count; first += kQuantisedRows) {
    const auto rows = static_cast<int>(std::min<std::int64_t>(kQuantisedRows, count - first));
    pool.run(static_cast<std::int64_t>(tasks.size()), [&](std::int64_t i, int) {
      const Task& task = tasks[static_cast<std::size_t>(i)];
      const PackedLayout& l = task.section->layout;
      const std::int64_t bytes = groups / l.groups * l.super_bytes();
      QuantisedJob job;
      job.panels = task.section->panels.data() + (task.panel - task.section->first_panel) * bytes;
      job.panel_count = task.count;
      job.layout = l;
      job.inputs = columns_;
      job.rows = rows;
      job.codes = codes.data() + first * columns_;
      job.scales = scales.data() + first * groups;
      job.sums = sums.data() + 2 * first * groups;
      job.out = to + first * width + task.panel * kPanelRows;
      job.out_stride = width;
      kernels.product(job);
    });
  }
  for (std::int64_t t = 0; !padded.empty() && t < count; ++t)
    std::copy_n(padded.data() + t * width, rows_, out + t * rows_);
}

void QuantisedMatrix::decode(std::int64_t row, float* out) const {
  const std::int64_t panel = row / kPanelRows;
  const auto r = static_cast<int>(row % kPanelRows);
  auto section = std::upper_bound(sections_.begin(), sections_.end(), panel,
                                  [](std::int64_t p, const Section& s) { return p < s.first_panel; });
  --section;
  const PackedLayout& l = section->layout;
  const std::int64_t supers = columns_ / kGroupInputs / l.groups;
  const std::uint8_t* from = section->panels.data() + (panel - section->first_panel) * supers * l.super_bytes();
  const auto half_at = [&](const std::uint8_t* at) {
    f16 value;
    std::memcpy(&value.bits, at + 2 * r, 2);
    return static_cast<float>(value);
  };
  for (std::int64_t s = 0; s < supers; ++s, from += l.super_bytes()) {
    const float d = half_at(from), m = l.minimum ? half_at(from + 2 * kPanelRows) : 0;
    const std::uint8_t* group = from + 2 * kPanelRows * (l.minimum ? 2 : 1);
    for (int g = 0; g < l.groups; ++g, group += l.group_bytes()) {
      const int parts = l.two_level ? (l.halves ? 2 : 1) : 0;
      const std::uint8_t* codes = group + kPanelRows * (parts + (l.two_level && l.minimum ? 1 : 0));
      for (int k = 0; k < kGroupInputs; ++k) {
        const int quad = k / 4, at = 4 * r + k % 4;
        int q = l.bits == 8 ? codes[quad * 64 + at] : (codes[quad % 4 * 64 + at] >> (quad < 4 ? 0 : 4)) & 15;
        for (int plane = 0; plane < l.bits - 4 && l.bits < 8; ++plane)
          q |= ((codes[256 + plane * 64 + quad * 8 + at / 8] >> (at % 8)) & 1) << (4 + plane);
        float scale = d;
        if (l.halves)
          scale *= static_cast<float>(static_cast<std::int8_t>(group[kPanelRows * (k / 16) + r]));
        else if (l.two_level)
          scale *= static_cast<float>(group[r]);
        // The operations of quant::BlockFormat::decode, for its bits.
        if (!l.minimum)
          *out++ = scale * static_cast<float>(q - static_cast<int>(l.zero));
        else if (l.two_level)
          *out++ = scale * static_cast<float>(q) - m * static_cast<float>(group[kPanelRows + r]);
        else
          *out++ = scale * static_cast<float>(q) - m;
      }
    }
  }
}

}  // namespace stoa::ops::cpu
