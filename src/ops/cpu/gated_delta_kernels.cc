// A chunk of C tokens of a value head, S0 the state before it, c_i the sum of the gates up to token i, e_i =
// exp(c_i), G_ij = exp(c_i - c_j) for j <= i (2412.06464, section 3.3):
//   (I + A) N = beta (V - e K S0),  A_ij = beta_i k_i·k_j G_ij for j < i: what the tokens write
//   O = e Q S0 + P N,               P_ij = q_i·k_j G_ij for j <= i
//   S1 = exp(c_C) S0 + K^T f N,     f_i = exp(c_C - c_i)
// Backward goes through the chunks from the last one, with the states before them recomputed.
#include "ops/cpu/gated_delta_kernels.h"

#include "ops/cpu/simd_math.h"

namespace stoa::ops::cpu::STOA_ISA {
namespace {

constexpr std::int64_t kChunk = 64;
constexpr std::int64_t kPad = 16;    // widths are padded with zeros to a multiple
constexpr std::int64_t kSolved = 8;  // rows of a triangular system that are solved one by one

std::int64_t padded(std::int64_t n) { return (n + kPad - 1) / kPad * kPad; }

enum class Into { kSet, kAdd, kSubtract };

// Matrix A of a product: element (i, p) at data[i * row + p * step].
struct Left {
  const float* data;
  std::int64_t row, step;
};

template <int Rows, int Vectors>
STOA_INLINE void product_tile(std::int64_t reduction, const float* a, std::int64_t row, std::int64_t step,
                              const float* b, std::int64_t ldb, float* c, std::int64_t ldc, Into into) {
  F sum[Rows][Vectors];
#pragma GCC unroll 8
  for (int i = 0; i < Rows; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < Vectors; ++j) sum[i][j] = F{};
  for (std::int64_t p = 0; p < reduction; ++p) {
    F right[Vectors];
#pragma GCC unroll 4
    for (int j = 0; j < Vectors; ++j) right[j] = load(b + p * ldb + j * kLanes);
#pragma GCC unroll 8
    for (int i = 0; i < Rows; ++i) {
      const F left = splat(a[i * row + p * step]);
#pragma GCC unroll 4
      for (int j = 0; j < Vectors; ++j) sum[i][j] = fma(left, right[j], sum[i][j]);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < Rows; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < Vectors; ++j) {
      float* to = c + i * ldc + j * kLanes;
      if (into == Into::kAdd) sum[i][j] = load(to) + sum[i][j];
      if (into == Into::kSubtract) sum[i][j] = load(to) - sum[i][j];
      store(to, sum[i][j]);
    }
}

template <int Vectors>
STOA_INLINE void product_panel(std::int64_t rows, std::int64_t reduction, Left a, const float* b,
                               std::int64_t ldb, float* c, std::int64_t ldc, Into into) {
  constexpr int kTall = kRegisters == 32 ? 6 : 4;
  std::int64_t i = 0;
  for (; i + kTall <= rows; i += kTall)
    product_tile<kTall, Vectors>(reduction, a.data + i * a.row, a.row, a.step, b, ldb, c + i * ldc, ldc,
                                 into);
  for (; i + 2 <= rows; i += 2)
    product_tile<2, Vectors>(reduction, a.data + i * a.row, a.row, a.step, b, ldb, c + i * ldc, ldc, into);
  if (i < rows)
    product_tile<1, Vectors>(reduction, a.data + i * a.row, a.row, a.step, b, ldb, c + i * ldc, ldc, into);
}

// C [rows, columns] = A B, or C + A B, or C - A B; columns a multiple of kPad.
void product(std::int64_t rows, std::int64_t columns, std::int64_t reduction, Left a, const float* b,
             std::int64_t ldb, float* c, std::int64_t ldc, Into into = Into::kSet) {
  constexpr int kWide = kRegisters == 32 ? 4 : 2;
  std::int64_t j = 0;
  for (; j + kWide * kLanes <= columns; j += kWide * kLanes)
    product_panel<kWide>(rows, reduction, a, b + j, ldb, c + j, ldc, into);
  for (; j < columns; j += kLanes) product_panel<1>(rows, reduction, a, b + j, ldb, c + j, ldc, into);
}

// to [columns, ldt] = from [rows, ldf]^T.
void transpose(const float* from, std::int64_t rows, std::int64_t columns, std::int64_t ldf, float* to,
               std::int64_t ldt) {
  constexpr std::int64_t kBlock = 16;
  for (std::int64_t i = 0; i < rows; i += kBlock)
    for (std::int64_t j = 0; j < columns; j += kBlock)
      for (std::int64_t x = i; x < i + kBlock && x < rows; ++x)
        for (std::int64_t y = j; y < j + kBlock && y < columns; ++y) to[y * ldt + x] = from[x * ldf + y];
}

void fill(float* x, std::int64_t n, float value) {
  for (std::int64_t i = 0; i < n; ++i) x[i] = value;
}

float dot(const float* a, const float* b, std::int64_t n) {  // n a multiple of kPad
  F sum{};
  for (std::int64_t i = 0; i < n; i += kLanes) sum = fma(load(a + i), load(b + i), sum);
  return reduce_add(sum);
}

// y = factor * x, or y += that.
void scaled(const float* x, float factor, float* y, std::int64_t n, bool add) {
  for (std::int64_t i = 0; i < n; i += kLanes) {
    const F value = load(x + i) * factor;
    store(y + i, add ? load(y + i) + value : value);
  }
}

void read_row(const Rows& rows, std::int64_t r, std::int64_t n, float* to) {
  with_type(rows.type, [&](auto type) {
    using E = decltype(type);
    const auto* x = row_of<E>(rows, r);
    for_vectors(n, [&](std::int64_t i, auto part) {
      store(to + i, E::get(x + i, part));  // rows are padded: what is beyond n becomes zeros
    });
  });
}

void write_row(const Rows& rows, std::int64_t r, std::int64_t n, const float* from) {
  with_type(rows.type, [&](auto type) {
    using E = decltype(type);
    auto* y = row_of<E>(rows, r);
    for_vectors(n, [&](std::int64_t i, auto part) { E::put(y + i, load(from + i), part); });
  });
}

// Reads rows of heads scaled to length 1, and returns the factors.
void read_units(const Rows& rows, std::int64_t first, std::int64_t tokens, std::int64_t heads,
                std::int64_t head, std::int64_t width, float epsilon, float* to, std::int64_t ld,
                float* factors) {
  for (std::int64_t i = 0; i < tokens; ++i) {
    float* row = to + i * ld;
    fill(row, ld, 0);
    read_row(rows, (first + i) * heads + head, width, row);
    factors[i] = 1 / __builtin_sqrtf(dot(row, row, ld) + epsilon);
    scaled(row, factors[i], row, ld, false);
  }
}

// Writes the gradient of the raw rows, given that of the rows at length 1.
void write_unit_gradients(const Rows& rows, std::int64_t first, std::int64_t tokens, std::int64_t heads,
                          std::int64_t head, std::int64_t width, const float* units, const float* factors,
                          float* gradients, std::int64_t ld) {
  for (std::int64_t i = 0; i < tokens; ++i) {
    float* row = gradients + i * ld;
    scaled(units + i * ld, -dot(units + i * ld, row, ld), row, ld, true);
    scaled(row, factors[i], row, ld, false);
    write_row(rows, (first + i) * heads + head, width, row);
  }
}

class Memory {
 public:
  explicit Memory(float* data) : data_(data) {}
  float* take(std::int64_t n) {
    float* out = data_ + used_;
    used_ += padded(n);
    return out;
  }
  std::int64_t used() const { return used_; }

 private:
  float* data_;
  std::int64_t used_ = 0;
};

// The part of a chunk that the value heads of a key head share. Token-by-token matrices are [kChunk, kChunk].
struct KeyChunk {
  std::int64_t dk, ld;
  float *q, *k, *kt;  // [kChunk, ld], [ld, kChunk]: at length 1, q scaled
  float *qf, *kf;     // what raw rows were multiplied by, q without its scale
  float *qk, *kk;
  std::int64_t first = 0, tokens = 0;

  KeyChunk(Memory& memory, std::int64_t width) : dk(width), ld(padded(width)) {
    q = memory.take(kChunk * ld), k = memory.take(kChunk * ld), kt = memory.take(ld * kChunk);
    qf = memory.take(kChunk), kf = memory.take(kChunk);
    qk = memory.take(kChunk * kChunk), kk = memory.take(kChunk * kChunk);
  }

  void read(const DeltaArgs& a, const DeltaTask& task, std::int64_t begin, bool with_q) {
    first = task.first + begin;
    tokens = task.tokens - begin < kChunk ? task.tokens - begin : kChunk;
    read_units(a.k, first, tokens, a.key_heads, task.key_head, dk, a.epsilon, k, ld, kf);
    fill(kt, ld * kChunk, 0);
    transpose(k, tokens, ld, ld, kt, kChunk);
    product(tokens, padded(tokens), ld, {k, ld, 1}, kt, kChunk, kk, kChunk);
    if (!with_q) return;
    read_units(a.q, first, tokens, a.key_heads, task.key_head, dk, a.epsilon, q, ld, qf);
    for (std::int64_t i = 0; i < tokens; ++i) scaled(q + i * ld, a.scale, q + i * ld, ld, false);
    product(tokens, padded(tokens), ld, {q, ld, 1}, kt, kChunk, qk, kChunk);
  }
};

// A value head in a chunk.
struct ValueChunk {
  std::int64_t dv, ld;
  float *n, *r;         // [kChunk, ld]: what is written; K S0
  float *g, *a;         // [kChunk, kChunk]: G; A, below the diagonal
  float *e, *f, *beta;  // [kChunk]
  float* spare;         // [kChunk, ld]
  float whole = 0;      // exp(c_C)

  ValueChunk(Memory& memory, std::int64_t width) : dv(width), ld(padded(width)) {
    n = memory.take(kChunk * ld), r = memory.take(kChunk * ld), spare = memory.take(kChunk * ld);
    g = memory.take(kChunk * kChunk), a = memory.take(kChunk * kChunk);
    e = memory.take(kChunk), f = memory.take(kChunk), beta = memory.take(kChunk);
  }

  void decays(const DeltaArgs& args, const KeyChunk& keys, std::int64_t head) {
    float sums[kChunk];
    float sum = 0;
    const std::int64_t tokens = keys.tokens;
    for (std::int64_t i = 0; i < kChunk; ++i) {
      const std::int64_t at = (keys.first + i) * args.value_heads + head;
      if (i < tokens) sum += args.gate[at];
      sums[i] = sum;
      beta[i] = i < tokens ? args.beta[at] : 0;
    }
    for (std::int64_t i = 0; i < kChunk; i += kLanes) {
      store(e + i, exp(load(sums + i)));
      store(f + i, exp(sum - load(sums + i)));
    }
    whole = e[kChunk - 1];
    for (std::int64_t i = 0; i < tokens; ++i) {
      float* row = g + i * kChunk;
      for (std::int64_t j = 0; j < kChunk; j += kLanes)
        store(row + j, exp(min(splat(sums[i]) - load(sums + j), F{})));
      fill(row + i + 1, kChunk - i - 1, 0);
      scaled(row, beta[i], a + i * kChunk, kChunk, false);
      for (std::int64_t j = 0; j < padded(tokens); j += kLanes)
        store(a + i * kChunk + j, load(a + i * kChunk + j) * load(keys.kk + i * kChunk + j));
      fill(a + i * kChunk + i, kChunk - i, 0);
    }
  }

  // Computes n from the state before the chunk, [dk, ld].
  void writes(const DeltaArgs& args, const KeyChunk& keys, std::int64_t head, const float* state) {
    const std::int64_t tokens = keys.tokens;
    product(tokens, ld, keys.dk, {keys.k, keys.ld, 1}, state, ld, r, ld);
    for (std::int64_t i = 0; i < tokens; ++i) {
      float* row = n + i * ld;
      fill(row, ld, 0);
      read_row(args.v, (keys.first + i) * args.value_heads + head, dv, row);
      scaled(r + i * ld, -e[i], row, ld, true);
      scaled(row, beta[i], row, ld, false);
    }
    solve(tokens, n);
  }

  // x = (I + A)^-1 x
  void solve(std::int64_t tokens, float* x) const {
    for (std::int64_t begin = 0; begin < tokens; begin += kSolved) {
      const std::int64_t end = begin + kSolved < tokens ? begin + kSolved : tokens;
      product(end - begin, ld, begin, {a + begin * kChunk, kChunk, 1}, x, ld, x + begin * ld, ld,
              Into::kSubtract);
      for (std::int64_t i = begin + 1; i < end; ++i)
        product(1, ld, i - begin, {a + i * kChunk + begin, 0, 1}, x + begin * ld, ld, x + i * ld, ld,
                Into::kSubtract);
    }
  }
  // x = (I + A)^-T x
  void solve_transposed(std::int64_t tokens, float* x) const {
    for (std::int64_t end = tokens; end > 0;) {
      const std::int64_t begin = end > kSolved ? end - kSolved : 0;
      product(end - begin, ld, tokens - end, {a + end * kChunk + begin, 1, kChunk}, x + end * ld, ld,
              x + begin * ld, ld, Into::kSubtract);
      for (std::int64_t i = end - 1; i-- > begin;)
        product(1, ld, end - i - 1, {a + (i + 1) * kChunk + i, 0, kChunk}, x + (i + 1) * ld, ld, x + i * ld,
                ld, Into::kSubtract);
      end = begin;
    }
  }

  // Replaces the state before the chunk by the state after it.
  void advance(const KeyChunk& keys, float* state) {
    for (std::int64_t i = 0; i < keys.tokens; ++i) scaled(n + i * ld, f[i], spare + i * ld, ld, false);
    scaled(state, whole, state, keys.dk * ld, false);
    product(keys.dk, ld, keys.tokens, {keys.k, 1, keys.ld}, spare, ld, state, ld, Into::kAdd);
  }
};

void read_state(const float* from, std::int64_t rows, std::int64_t columns, float* to, std::int64_t ld) {
  fill(to, rows * ld, 0);
  for (std::int64_t i = 0; i < rows && from; ++i)
    for (std::int64_t j = 0; j < columns; ++j) to[i * ld + j] = from[i * columns + j];
}

struct Forward {
  Memory memory;
  KeyChunk keys;
  ValueChunk values;
  float *p, *o;   // [kChunk, kChunk], [kChunk, ld]
  float* states;  // [value heads of the key head, dk, ld]

  Forward(const DeltaArgs& a, float* data)
      : memory(data), keys(memory, a.key_width), values(memory, a.value_width) {
    p = memory.take(kChunk * kChunk), o = memory.take(kChunk * values.ld);
    states = memory.take(a.value_heads / a.key_heads * keys.dk * values.ld);
  }
};

std::int64_t forward_floats(const DeltaArgs& args) { return Forward(args, nullptr).memory.used(); }

void forward(const DeltaArgs& args, const DeltaTask& task, float* memory) {
  Forward m(args, memory);
  KeyChunk& keys = m.keys;
  ValueChunk& values = m.values;
  const std::int64_t shared = args.value_heads / args.key_heads, size = keys.dk * values.ld,
                     kept = args.key_width * args.value_width;
  for (std::int64_t h = 0; h < shared; ++h)
    read_state(task.state ? task.state + h * kept : nullptr, keys.dk, values.dv, m.states + h * size,
               values.ld);
  for (std::int64_t begin = 0; begin < task.tokens; begin += kChunk) {
    keys.read(args, task, begin, true);
    for (std::int64_t h = 0; h < shared; ++h) {
      const std::int64_t head = task.key_head * shared + h, tokens = keys.tokens;
      float* state = m.states + h * size;
      values.decays(args, keys, head);
      values.writes(args, keys, head, state);
      product(tokens, values.ld, keys.dk, {keys.q, keys.ld, 1}, state, values.ld, m.o, values.ld);
      for (std::int64_t i = 0; i < tokens; ++i) {
        scaled(m.o + i * values.ld, values.e[i], m.o + i * values.ld, values.ld, false);
        for (std::int64_t j = 0; j < padded(tokens); j += kLanes)
          store(m.p + i * kChunk + j, load(keys.qk + i * kChunk + j) * load(values.g + i * kChunk + j));
      }
      product(tokens, values.ld, tokens, {m.p, kChunk, 1}, values.n, values.ld, m.o, values.ld, Into::kAdd);
      for (std::int64_t i = 0; i < tokens; ++i)
        write_row(args.o, (keys.first + i) * args.value_heads + head, values.dv, m.o + i * values.ld);
      values.advance(keys, state);
    }
  }
  for (std::int64_t h = 0; h < shared && task.state; ++h)
    for (std::int64_t i = 0; i < keys.dk; ++i)
      for (std::int64_t j = 0; j < values.dv; ++j)
        task.state[h * kept + i * values.dv + j] = m.states[h * size + i * values.ld + j];
}

struct Backward {
  Memory memory;
  KeyChunk keys;
  ValueChunk values;
  float *p, *d, *nt;        // [kChunk, kChunk], twice; [ld, kChunk]: N transposed
  float *dout, *dn, *dr;    // [kChunk, ld]
  float *dq, *dk, *spare;   // [kChunk, ld of keys]
  float *st, *dst;          // [ld, ld of keys]: states transposed
  float* dsum;              // [kChunk]: of c
  float *dstates, *states;  // [value heads of the key head, dk, ld]; the latter of every chunk

  Backward(const DeltaArgs& a, float* data, std::int64_t longest)
      : memory(data), keys(memory, a.key_width), values(memory, a.value_width) {
    const std::int64_t shared = a.value_heads / a.key_heads, chunks = (longest + kChunk - 1) / kChunk;
    p = memory.take(kChunk * kChunk), d = memory.take(kChunk * kChunk), nt = memory.take(values.ld * kChunk);
    dout = memory.take(kChunk * values.ld), dn = memory.take(kChunk * values.ld);
    dr = memory.take(kChunk * values.ld);
    dq = memory.take(kChunk * keys.ld), dk = memory.take(kChunk * keys.ld),
    spare = memory.take(kChunk * keys.ld);
    st = memory.take(values.ld * keys.ld), dst = memory.take(values.ld * keys.ld);
    dsum = memory.take(kChunk);
    dstates = memory.take(shared * keys.dk * values.ld);
    states = memory.take(chunks * shared * keys.dk * values.ld);
  }
};

std::int64_t backward_floats(const DeltaArgs& args, std::int64_t longest) {
  return Backward(args, nullptr, longest).memory.used();
}

// d_ij = dG-weighted gradient of a token-by-token matrix: adds its contribution to the sums of gates. `m` is
// the matrix, `dm` its gradient, both zero where j > i.
void add_sums(const float* m, const float* dm, std::int64_t tokens, float* dsum) {
  for (std::int64_t i = 0; i < tokens; ++i)
    for (std::int64_t j = 0; j < i; ++j) {
      const float x = m[i * kChunk + j] * dm[i * kChunk + j];
      dsum[i] += x;
      dsum[j] -= x;
    }
}

// Backward of one value head in one chunk: adds to m.dq and m.dk, and replaces its dstate.
void backward_values(const DeltaArgs& args, Backward& m, std::int64_t head, const float* state,
                     float* dstate) {
  KeyChunk& keys = m.keys;
  ValueChunk& v = m.values;
  const std::int64_t tokens = keys.tokens, ld = v.ld, kld = keys.ld, wide = padded(tokens);
  v.decays(args, keys, head);
  v.writes(args, keys, head, state);
  fill(m.st, ld * kld, 0);
  fill(m.dst, ld * kld, 0);
  transpose(state, keys.dk, ld, ld, m.st, kld);
  transpose(dstate, keys.dk, ld, ld, m.dst, kld);
  fill(m.nt, ld * kChunk, 0);
  transpose(v.n, tokens, ld, ld, m.nt, kChunk);
  fill(m.dsum, kChunk, 0);
  for (std::int64_t i = 0; i < tokens; ++i) {
    fill(m.dout + i * ld, ld, 0);
    read_row(args.dout, (keys.first + i) * args.value_heads + head, v.dv, m.dout + i * ld);
    for (std::int64_t j = 0; j < wide; j += kLanes)
      store(m.p + i * kChunk + j, load(keys.qk + i * kChunk + j) * load(v.g + i * kChunk + j));
  }

  // S1 = exp(c_C) S0 + K^T f N
  const std::int64_t last = tokens - 1;
  m.dsum[last] += v.whole * dot(state, dstate, keys.dk * ld);
  product(tokens, kld, ld, {v.n, ld, 1}, m.dst, kld, m.spare, kld);  // of f K
  for (std::int64_t i = 0; i < tokens; ++i) {
    const float x = v.f[i] * dot(keys.k + i * kld, m.spare + i * kld, kld);
    m.dsum[last] += x;
    m.dsum[i] -= x;
    scaled(m.spare + i * kld, v.f[i], m.dk + i * kld, kld, true);
  }
  product(tokens, ld, keys.dk, {keys.k, kld, 1}, dstate, ld, m.dn, ld);
  for (std::int64_t i = 0; i < tokens; ++i) scaled(m.dn + i * ld, v.f[i], m.dn + i * ld, ld, false);
  scaled(dstate, v.whole, dstate, keys.dk * ld, false);

  // O = e Q S0 + P N
  product(tokens, ld, tokens, {m.p, 1, kChunk}, m.dout, ld, m.dn, ld, Into::kAdd);
  product(tokens, wide, ld, {m.dout, ld, 1}, m.nt, kChunk, m.d, kChunk);
  for (std::int64_t i = 0; i < tokens; ++i) fill(m.d + i * kChunk + i + 1, kChunk - i - 1, 0);
  // The gradient of P times P, computed from q·k: both contain G.
  for (std::int64_t i = 0; i < tokens; ++i)
    for (std::int64_t j = 0; j < wide; j += kLanes)
      store(m.d + i * kChunk + j, load(m.d + i * kChunk + j) * load(v.g + i * kChunk + j));
  add_sums(keys.qk, m.d, tokens, m.dsum);
  product(tokens, kld, tokens, {m.d, kChunk, 1}, keys.k, kld, m.dq, kld, Into::kAdd);
  product(tokens, kld, tokens, {m.d, 1, kChunk}, keys.q, kld, m.dk, kld, Into::kAdd);
  for (std::int64_t i = 0; i < tokens; ++i) scaled(m.dout + i * ld, v.e[i], m.dout + i * ld, ld, false);
  product(tokens, kld, ld, {m.dout, ld, 1}, m.st, kld, m.spare, kld);
  for (std::int64_t i = 0; i < tokens; ++i) {
    m.dsum[i] += dot(keys.q + i * kld, m.spare + i * kld, kld);
    scaled(m.spare + i * kld, 1, m.dq + i * kld, kld, true);
  }
  product(keys.dk, ld, tokens, {keys.q, 1, kld}, m.dout, ld, dstate, ld, Into::kAdd);

  // (I + A) N = beta (V - e K S0)
  v.solve_transposed(tokens, m.dn);
  product(tokens, wide, ld, {m.dn, ld, 1}, m.nt, kChunk, m.d, kChunk);  // of -A
  float dbeta[kChunk];
  for (std::int64_t i = 0; i < tokens; ++i) {
    float* row = m.d + i * kChunk;
    fill(row + i, kChunk - i, 0);
    // beta is in A and in the right-hand side, where the part read from the state is subtracted.
    float sum = 0;
    for (std::int64_t j = 0; j < i; ++j) {
      row[j] *= -v.g[i * kChunk + j];
      sum += row[j] * keys.kk[i * kChunk + j];
    }
    dbeta[i] = sum;
    scaled(row, v.beta[i], row, wide, false);
  }
  add_sums(keys.kk, m.d, tokens, m.dsum);
  product(tokens, kld, tokens, {m.d, kChunk, 1}, keys.k, kld, m.dk, kld, Into::kAdd);
  product(tokens, kld, tokens, {m.d, 1, kChunk}, keys.k, kld, m.dk, kld, Into::kAdd);
  for (std::int64_t i = 0; i < tokens; ++i) {
    const std::int64_t row = (keys.first + i) * args.value_heads + head;
    float *dn = m.dn + i * ld, *right = v.spare + i * ld, *dr = m.dr + i * ld;
    fill(right, ld, 0);
    read_row(args.v, row, v.dv, right);
    scaled(v.r + i * ld, -v.e[i], right, ld, true);
    args.dbeta[row] = dbeta[i] + dot(dn, right, ld);
    scaled(dn, -v.beta[i] * v.e[i], dr, ld, false);
    m.dsum[i] += dot(dr, v.r + i * ld, ld);
    scaled(dn, v.beta[i], dn, ld, false);
    write_row(args.dv, row, v.dv, dn);
  }
  product(tokens, kld, ld, {m.dr, ld, 1}, m.st, kld, m.dk, kld, Into::kAdd);
  product(keys.dk, ld, tokens, {keys.k, 1, kld}, m.dr, ld, dstate, ld, Into::kAdd);

  float sum = 0;
  for (std::int64_t i = tokens; i-- > 0;) {
    sum += m.dsum[i];
    args.dgate[(keys.first + i) * args.value_heads + head] = sum;
  }
}

void backward(const DeltaArgs& args, const DeltaTask& task, float* memory) {
  Backward m(args, memory, task.tokens);
  const std::int64_t shared = args.value_heads / args.key_heads, size = m.keys.dk * m.values.ld,
                     chunks = (task.tokens + kChunk - 1) / kChunk;
  fill(m.states, shared * size, 0);
  fill(m.dstates, shared * size, 0);
  for (std::int64_t c = 0; c + 1 < chunks; ++c) {
    m.keys.read(args, task, c * kChunk, false);
    for (std::int64_t h = 0; h < shared; ++h) {
      const std::int64_t head = task.key_head * shared + h;
      const float* before = m.states + (c * shared + h) * size;
      float* after = m.states + ((c + 1) * shared + h) * size;
      m.values.decays(args, m.keys, head);
      m.values.writes(args, m.keys, head, before);
      scaled(before, 1, after, size, false);
      m.values.advance(m.keys, after);
    }
  }
  for (std::int64_t c = chunks; c-- > 0;) {
    m.keys.read(args, task, c * kChunk, true);
    fill(m.dq, kChunk * m.keys.ld, 0);
    fill(m.dk, kChunk * m.keys.ld, 0);
    for (std::int64_t h = 0; h < shared; ++h)
      backward_values(args, m, task.key_head * shared + h, m.states + (c * shared + h) * size,
                      m.dstates + h * size);
    const std::int64_t tokens = m.keys.tokens, kld = m.keys.ld;
    // Undo q's scale: what follows needs gradients and values of the rows at length 1.
    for (std::int64_t i = 0; i < tokens; ++i) {
      scaled(m.dq + i * kld, args.scale, m.dq + i * kld, kld, false);
      scaled(m.keys.q + i * kld, 1 / args.scale, m.keys.q + i * kld, kld, false);
    }
    write_unit_gradients(args.dq, m.keys.first, tokens, args.key_heads, task.key_head, args.key_width,
                         m.keys.q, m.keys.qf, m.dq, kld);
    write_unit_gradients(args.dk, m.keys.first, tokens, args.key_heads, task.key_head, args.key_width,
                         m.keys.k, m.keys.kf, m.dk, kld);
  }
}

}  // namespace

const DeltaKernels& gated_delta_kernels() {
  static constexpr DeltaKernels kTable{forward_floats, backward_floats, forward, backward};
  return kTable;
}

}  // namespace stoa::ops::cpu::STOA_ISA
