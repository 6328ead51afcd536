#include "ops/cuda/known_operations.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/half.h"
#include "base/rounding.h"
#include "device/host/inline_stream.h"
#include "ops/check/check_backend.h"
#include "ops/reference/reference_backend.h"
#include "ops/reference/values.h"

namespace stoa::ops::cuda {
namespace {

constexpr std::int64_t kGap = 256;  // at least, behind each tensor: nothing may write there

std::size_t room(const TensorView& tensor) {
  return static_cast<std::size_t>(round_up(static_cast<std::int64_t>(tensor.bytes()), kGap) + kGap);
}

std::string number_text(double x) { return std::isnan(x) ? "nan" : fmt::format("{}", x); }

template <class Op>
void compute_expected(const Op& op) {
  ReferenceBackend reference;
  InlineStream stream;
  const AlignedBytes workspace(reference.workspace_bytes(op));
  reference.execute(op, Resources{stream, workspace.data()});
}

std::vector<float> numbers_of(const TensorView& from) {
  std::vector<float> out(static_cast<std::size_t>(from.elements()));
  dispatch_float(from.dtype, [&]<class T>() {
    std::transform(from.as<T>(), from.as<T>() + from.elements(), out.begin(),
                   [](T x) { return static_cast<float>(x); });
  });
  return out;
}

void put_numbers(const std::vector<float>& from, const TensorView& to) {
  dispatch_float(to.dtype, [&]<class T>() {
    std::transform(from.begin(), from.end(), to.as<T>(), [](float x) { return static_cast<T>(x); });
  });
}

std::vector<float> transposed(const std::vector<float>& x, std::int64_t rows, std::int64_t columns) {
  std::vector<float> out(x.size());
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j)
      out[static_cast<std::size_t>(j * rows + i)] = x[static_cast<std::size_t>(i * columns + j)];
  return out;
}

// a [rows, depth], many of whose numbers are 0, times b [depth, columns].
std::vector<float> exact_product(const std::vector<float>& a, const std::vector<float>& b, std::int64_t rows,
                                 std::int64_t depth, std::int64_t columns) {
  std::vector<float> out(static_cast<std::size_t>(rows * columns));
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t p = 0; p < depth; ++p) {
      const float factor = a[static_cast<std::size_t>(i * depth + p)];
      if (factor == 0) continue;
      const float* from = b.data() + p * columns;
      float* to = out.data() + i * columns;
      for (std::int64_t j = 0; j < columns; ++j) to[j] += factor * from[j];
    }
  return out;
}

// Calls body(expert, first row, rows).
template <class Body>
void for_experts(const std::vector<std::int64_t>& counts, const Body& body) {
  std::int64_t expert = 0, first = 0;
  for (const std::int64_t count : counts) {
    body(expert++, first, count);
    first += count;
  }
}

}  // namespace

KnownOperations::KnownOperations() {
  for (const DType type : {DType::kBF16, DType::kF16}) {
    add_experts(type);
    // More than 8 tokens have a tile of their own; many columns of few rows more warps.
    add_few_tokens(type, type, 1, 1096);
    add_few_tokens(type, DType::kF32, 13, 264);
    // One span of keys, and several.
    add_few_queries(type, 64, {{1, 5}, {1, 130}});
    add_few_queries(type, 128, {{1, 700}, {1, 3}, {2, 300}});
  }
  for (Piece& piece : pieces_) {
    piece.offset = image_.size();
    image_.resize(image_.size() + room(piece.tensor), std::byte{0xff});
    std::memcpy(image_.data() + piece.offset, piece.tensor.data, piece.tensor.bytes());
  }
  for (const Step& step : steps_) step.expect();
}

void KnownOperations::run(Backend& backend, Device& device, const KernelChoice& kernels,
                          Findings& findings) const {
  const auto wanted = [&](Part part) { return part != Part::kFewTokens || kernels.few_tokens; };
  const auto finding = [&](Part part) -> std::string& { return findings[static_cast<std::size_t>(part)]; };
  std::size_t workspace = 0;
  for (const Step& step : steps_)
    if (wanted(step.part)) workspace = std::max(workspace, step.workspace(backend));
  const Buffer memory = device.allocate(image_.size() + workspace);
  const std::unique_ptr<Stream> stream = device.create_stream();
  auto* const base = static_cast<std::byte*>(memory.data());
  device.copy_from_host(base, image_.data(), image_.size(), *stream);
  for (const Step& step : steps_) {
    if (!wanted(step.part)) continue;
    try {
      step.run(backend, device.kind(), base, Resources{*stream, base + image_.size()});
    } catch (const DeviceError& error) {
      if (finding(step.part).empty()) finding(step.part) = fmt::format("could not start: {}", error.what());
    }
  }
  std::vector<std::byte> got(image_.size());
  device.copy_to_host(got.data(), base, got.size(), *stream);
  stream->synchronize();
  for (const Piece& piece : pieces_)
    if (wanted(piece.part) && finding(piece.part).empty())
      finding(piece.part) = difference(piece, got.data());
}

template <class Op>
void KnownOperations::add(Part part, const std::string& name, const Op& op, bool exact,
                          std::function<void()> expect) {
  Op::visit(op, [&](const char* tensor_name, const TensorView& tensor, Access access) {
    if (access == Access::kRead || !tensor) return;
    Piece& piece = pieces_[piece_of(tensor)];
    piece.name = fmt::format("{} of {}", tensor_name, name);
    piece.exact = exact;
    if (tensor.dtype == DType::kF32) {
      piece.tolerance.sum_ulps = 4096;  // of numbers that are not rounded to 16 bits on their way
    } else {
      piece.tolerance = tolerance_for(op, Tolerance{});
      piece.tolerance.inner_ulps *= 2;  // what is wrong is far away
    }
  });
  steps_.push_back({part, [op](const Backend& backend) { return backend.workspace_bytes(op); },
                    [this, op](Backend& backend, DeviceKind kind, std::byte* base, Resources resources) {
                      Op there = op;
                      Op::visit(there, [&](const char*, TensorView& tensor, Access) {
                        if (!tensor) return;
                        tensor.data = base + pieces_[piece_of(tensor)].offset;
                        tensor.device = kind;
                      });
                      backend.execute(there, resources);
                    },
                    std::move(expect)});
}

// All bits 1: NaN.
TensorView KnownOperations::make(Part part, DType type, Shape shape) {
  TensorView out(nullptr, type, shape);
  memory_.emplace_back(out.bytes());
  out.data = memory_.back().data();
  std::memset(out.data, 0xff, out.bytes());
  pieces_.push_back({.part = part, .tensor = out, .name = {}});
  return out;
}

// number(random bits) in the first `rows`.
template <class Number>
TensorView KnownOperations::filled(Part part, DType type, Shape shape, std::int64_t rows,
                                   const Number& number) {
  const TensorView out = make(part, type, shape);
  dispatch_float(type, [&]<class T>() {
    std::generate_n(out.as<T>(), rows * shape.inner(), [&] {
      state_ = state_ * 1664525u + 1013904223u;
      return static_cast<T>(number(state_));
    });
  });
  return out;
}

TensorView KnownOperations::whole(Part part, DType type, Shape shape) {
  static constexpr float kNumbers[] = {-2, -1, 1, 2};
  return filled(part, type, shape, shape[0], [](std::uint32_t bits) { return kNumbers[bits >> 30]; });
}

// An eighth is not 0: less to do for the host.
TensorView KnownOperations::sparse(Part part, DType type, Shape shape, std::int64_t rows) {
  static constexpr float kNumbers[32] = {-2, -1, 1, 2};
  return filled(part, type, shape, rows, [](std::uint32_t bits) { return kNumbers[bits >> 27]; });
}

TensorView KnownOperations::noise(Part part, DType type, Shape shape) {
  return filled(part, type, shape, shape[0], [](std::uint32_t bits) {
    return static_cast<float>(static_cast<std::int32_t>(bits)) * 0x1p-31f;
  });
}

TensorView KnownOperations::integers(Part part, const std::vector<std::int32_t>& values, Shape shape) {
  const TensorView out = make(part, DType::kI32, shape);
  std::copy(values.begin(), values.end(), out.as<std::int32_t>());
  return out;
}

std::size_t KnownOperations::piece_of(const TensorView& tensor) const {
  const auto found = std::find_if(pieces_.begin(), pieces_.end(),
                                  [&](const Piece& piece) { return piece.tensor.data == tensor.data; });
  return static_cast<std::size_t>(found - pieces_.begin());
}

// Several tiles in every direction, the last of which are not full, and more steps than a tile has places for
// in shared memory; an expert without rows, rows of nobody.
void KnownOperations::add_experts(DType type) {
  constexpr Part kPart = Part::kExperts;
  constexpr std::int64_t kIn = 296, kOut = 328, kNobody = 3;
  const std::vector<std::int64_t> counts{1, 0, 130, 258};
  const std::int64_t experts = std::ssize(counts);
  std::vector<std::int32_t> ids;
  for_experts(counts, [&](std::int64_t e, std::int64_t, std::int64_t count) {
    ids.insert(ids.end(), static_cast<std::size_t>(count), static_cast<std::int32_t>(e));
  });
  const std::int64_t used = std::ssize(ids), rows = used + kNobody;
  ids.resize(static_cast<std::size_t>(rows), -1);
  const TensorView sorted = integers(kPart, ids, {rows, 1}), x = sparse(kPart, type, {rows, kIn}, used),
                   dy = sparse(kPart, type, {rows, kOut}, used),
                   w = whole(kPart, type, {experts * kOut, kIn}), y = make(kPart, type, {rows, kOut}),
                   dx = make(kPart, type, {rows, kIn}), dw = make(kPart, DType::kF32, w.shape),
                   added = whole(kPart, DType::kF32, w.shape);
  const auto name = [&](std::string_view op) { return fmt::format("{} ({})", op, name_of(type)); };
  const auto matrix = [=](std::int64_t e) { return numbers_of(w.slice(e * kOut, kOut)); };
  add(kPart, name(GroupedLinearForward::kName), GroupedLinearForward{x, w, sorted, y}, true, [=] {
    for_experts(counts, [&](std::int64_t e, std::int64_t first, std::int64_t count) {
      put_numbers(exact_product(numbers_of(x.slice(first, count)), transposed(matrix(e), kOut, kIn), count,
                                kIn, kOut),
                  y.slice(first, count));
    });
  });
  add(kPart, name(GroupedLinearBackwardInput::kName), GroupedLinearBackwardInput{dy, w, sorted, dx}, true,
      [=] {
        for_experts(counts, [&](std::int64_t e, std::int64_t first, std::int64_t count) {
          put_numbers(exact_product(numbers_of(dy.slice(first, count)), matrix(e), count, kOut, kIn),
                      dx.slice(first, count));
        });
      });
  add(kPart, name(GroupedLinearBackwardWeight::kName), GroupedLinearBackwardWeight{x, dy, sorted, dw, false},
      true, [=] {
        for_experts(counts, [&](std::int64_t e, std::int64_t first, std::int64_t count) {
          put_numbers(exact_product(transposed(numbers_of(dy.slice(first, count)), count, kOut),
                                    numbers_of(x.slice(first, count)), kOut, count, kIn),
                      dw.slice(e * kOut, kOut));
        });
      });
  add(kPart, name("grouped linear backward weight, added to others,"),
      GroupedLinearBackwardWeight{x, dy, sorted, added, true}, true, [=] {
        std::transform(dw.as<float>(), dw.as<float>() + dw.elements(), added.as<float>(), added.as<float>(),
                       std::plus<>());
      });
}

void KnownOperations::add_few_tokens(DType type, DType result, std::int64_t tokens, std::int64_t columns) {
  constexpr Part kPart = Part::kFewTokens;
  constexpr std::int64_t kRows = 50;
  const LinearForward op{.x = sparse(kPart, type, {tokens, columns}, tokens),
                         .w = whole(kPart, type, {kRows, columns}),
                         .bias = whole(kPart, DType::kF32, {kRows}),
                         .y = make(kPart, result, {tokens, kRows})};
  add(kPart, fmt::format("linear forward of {} tokens ({})", tokens, name_of(type)), op, true,
      [op] { compute_expected(op); });
}

void KnownOperations::add_few_queries(DType type, std::int64_t d, const std::vector<Text>& texts) {
  constexpr Part kPart = Part::kFewQueries;
  constexpr std::int64_t kHeads = 8, kGroups = 2, kBlock = 16;
  AttentionForward op;
  AttentionSegments& segments = op.segments;
  std::vector<std::int32_t> q_begin{0}, k_count, blocks;
  for (const Text& text : texts) {
    q_begin.push_back(q_begin.back() + text.queries);
    k_count.push_back(text.keys);
    segments.longest_q = std::max<std::int64_t>(segments.longest_q, text.queries);
    segments.longest_k = std::max<std::int64_t>(segments.longest_k, text.keys);
  }
  segments.count = std::ssize(texts);
  // Blocks of a text lie apart, the last one first.
  const std::int64_t each = ceil_div(segments.longest_k, kBlock), count = each * segments.count;
  for (std::int64_t s = 0; s < segments.count; ++s)
    for (std::int64_t b = 0; b < each; ++b)
      blocks.push_back(static_cast<std::int32_t>((each - 1 - b) * segments.count + s));
  segments.q_begin = integers(kPart, q_begin, {segments.count + 1});
  segments.k_begin = integers(kPart, blocks, {segments.count, each});
  segments.k_count = integers(kPart, k_count, {segments.count});
  op.options.scale = 4 / std::sqrt(static_cast<double>(d));  // some keys count for much
  op.q = noise(kPart, type, {q_begin.back(), kHeads, d});
  op.k = noise(kPart, type, CacheShape(count, kGroups, kBlock, d).shape());
  op.v = noise(kPart, type, op.k.shape);
  op.o = make(kPart, type, op.q.shape), op.lse = make(kPart, DType::kF32, {op.q.shape[0], kHeads});
  add(kPart, fmt::format("attention over {} keys ({})", segments.longest_k, name_of(type)), op, false,
      [op] { compute_expected(op); });
}

// Of what came back of a tensor and of the gap behind it.
std::string KnownOperations::difference(const Piece& piece, std::byte* got) const {
  const TensorView& expected = piece.tensor;
  const std::byte* const sent = image_.data() + piece.offset;
  std::byte* const came = got + piece.offset;
  const bool result = !piece.name.empty();
  const std::size_t kept = result ? expected.bytes() : 0;
  if (std::memcmp(came + kept, sent + kept, room(expected) - kept) != 0)
    return "wrote to memory that is not of its results";
  if (!result || std::memcmp(came, expected.data, expected.bytes()) == 0) return {};
  const TensorView view(came, expected.dtype, expected.shape);
  if (!piece.exact) {
    const auto worst = worst_mismatch(view, expected, piece.tolerance);
    return worst ? fmt::format("gave a wrong {}: {}", piece.name, worst->text()) : std::string();
  }
  const Values a = load(view), b = load(expected);
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i] != b[i] && !(std::isnan(a[i]) && std::isnan(b[i])))
      return fmt::format("gave element {} of {} = {}, expected {}", i, piece.name, number_text(a[i]),
                         number_text(b[i]));
  return {};
}

}  // namespace stoa::ops::cuda
