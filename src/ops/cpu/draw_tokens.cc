#include "ops/draw_tokens.h"

#include <bit>

#include "ops/cpu/cpu_backend.h"
#include "ops/host_draw.h"

namespace stoa::ops::cpu {

void CpuBackend::execute(const DrawTokens& op, Resources) {
  pool_.run(op.draws.rows(), [&](std::int64_t d, int) {
    const TokenDraw draw = draw_of(op.draws, d);
    const float* const row = op.logits.row<float>(draw.row);
    HostDraw host;
    const std::int32_t id = host.draw({row, static_cast<std::size_t>(op.logits.shape[1])}, draw);
    op.found.row<std::int32_t>(d)[0] = id;
    op.found.row<std::int32_t>(d)[1] = std::bit_cast<std::int32_t>(row[id]);
  });
}

}  // namespace stoa::ops::cpu
