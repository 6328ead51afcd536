#include "infer/engine/block_pool.h"

#include <string_view>

#include "base/error.h"

namespace stoa::infer {

BlockPool::BlockPool(std::int64_t blocks, std::int64_t block_tokens, bool caches)
    : block_tokens_(block_tokens), caches_(caches) {
  require<InternalError>(blocks >= 1 && block_tokens >= 1, "a pool of {} blocks of {} tokens", blocks,
                         block_tokens);
  const auto n = static_cast<std::size_t>(blocks);
  references_.resize(n);
  keys_.resize(n);
  next_.assign(n + 1, static_cast<BlockId>(blocks));
  previous_ = next_;
  for (BlockId b = 0; b < blocks; ++b) link(b, true);
}

void BlockPool::link(BlockId block, bool last) {
  const auto ring = static_cast<BlockId>(total());
  const BlockId behind = last ? ring : next_[at(ring)], before = previous_[at(behind)];
  next_[at(block)] = behind;
  previous_[at(block)] = before;
  next_[at(before)] = previous_[at(behind)] = block;
  ++free_;
}

void BlockPool::unlink(BlockId block) {
  next_[at(previous_[at(block)])] = next_[at(block)];
  previous_[at(next_[at(block)])] = previous_[at(block)];
  --free_;
}

std::optional<BlockId> BlockPool::take() {
  if (free_ == 0) return {};
  const BlockId block = next_[static_cast<std::size_t>(total())];
  unlink(block);
  references_[at(block)] = 1;
  if (const Key* key = std::exchange(keys_[at(block)], nullptr)) known_.erase(known_.find(*key));
  return block;
}

void BlockPool::share(BlockId block) {
  if (references_[at(block)]++ == 0) unlink(block);
}

void BlockPool::release(BlockId block) {
  require<InternalError>(references_[at(block)] > 0, "block {} is released more often than taken", block);
  if (--references_[at(block)] == 0) link(block, keys_[at(block)] != nullptr);
}

std::size_t BlockPool::Hash::operator()(const Key& key) const {
  std::uint64_t h =
      static_cast<std::uint64_t>(key.before) * 0x9E3779B97F4A7C15u ^ std::hash<std::string_view>()(key.salt);
  for (const std::int32_t token : key.tokens) {
    h = (h ^ static_cast<std::uint32_t>(token)) * 0xBF58476D1CE4E5B9u;
    h ^= h >> 29;
  }
  return static_cast<std::size_t>(h);
}

BlockPool::Key BlockPool::key_of(Content before, const std::string& salt,
                                 std::span<const std::int32_t> tokens) const {
  return {before, before == kStart ? salt : "", {tokens.begin(), tokens.end()}};
}

std::optional<BlockPool::Found> BlockPool::find(Content before, const std::string& salt,
                                                std::span<const std::int32_t> tokens) const {
  if (!caches_) return {};
  const auto it = known_.find(key_of(before, salt, tokens));
  return it == known_.end() ? std::nullopt : std::optional(it->second);
}

BlockPool::Content BlockPool::remember(BlockId block, Content before, const std::string& salt,
                                       std::span<const std::int32_t> tokens) {
  if (!caches_) return kStart;
  const auto [it, added] = known_.try_emplace(key_of(before, salt, tokens), Found{block, last_content_ + 1});
  if (added) {
    ++last_content_;
    keys_[at(block)] = &it->first;
  }
  return it->second.content;
}

}  // namespace stoa::infer
