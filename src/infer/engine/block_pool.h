// The pool of blocks that keys and values are kept in, and which of them hold the beginning of a text that
// was read before. Blocks are counted references; those of no one keep their content until they are taken,
// the one longest unused first. A block's content is known by the content before it and its own tokens,
// compared token by token, so that no prepared collision of hashes gives away someone's text.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "infer/engine/pass_plan.h"

namespace stoa::infer {

class BlockPool {
 public:
  // Numbers a content for as long as the pool lives; kStart: nothing.
  using Content = std::int64_t;
  static constexpr Content kStart = 0;

  BlockPool(std::int64_t blocks, std::int64_t block_tokens, bool caches);

  std::int64_t block_tokens() const { return block_tokens_; }
  std::int64_t total() const { return static_cast<std::int64_t>(references_.size()); }
  std::int64_t free() const { return free_; }  // known contents without an owner among them
  std::int64_t cached() const { return static_cast<std::int64_t>(known_.size()); }

  // A block of one owner; its former content is forgotten. None: all have owners.
  std::optional<BlockId> take();
  void share(BlockId block);
  void release(BlockId block);
  bool is_shared(BlockId block) const { return references_[at(block)] > 1; }
  bool is_free(BlockId block) const { return references_[at(block)] == 0; }

  // The block that holds `tokens` after `before`, in texts of `salt`.
  struct Found {
    BlockId block;
    Content content;
  };
  std::optional<Found> find(Content before, const std::string& salt,
                            std::span<const std::int32_t> tokens) const;
  // A full block was computed. Returns its content's number: that of an equal block if one is known already.
  Content remember(BlockId block, Content before, const std::string& salt,
                   std::span<const std::int32_t> tokens);

 private:
  struct Key {
    Content before;
    std::string salt;  // of a text's first block; "" behind it
    std::vector<std::int32_t> tokens;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    std::size_t operator()(const Key& key) const;
  };
  static std::size_t at(BlockId block) { return static_cast<std::size_t>(block); }
  Key key_of(Content before, const std::string& salt, std::span<const std::int32_t> tokens) const;
  void link(BlockId block, bool last);
  void unlink(BlockId block);

  const std::int64_t block_tokens_;
  const bool caches_;
  std::vector<int> references_;
  // Free blocks as a ring through the block behind the last, next to be taken first.
  std::vector<BlockId> next_, previous_;
  std::int64_t free_ = 0;
  std::unordered_map<Key, Found, Hash> known_;
  std::vector<const Key*> keys_;  // of blocks with known content
  Content last_content_ = kStart;
};

}  // namespace stoa::infer
