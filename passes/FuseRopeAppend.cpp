// rope_append groups: head norms and rotation of query and key, and the append to the cache.
#include "passes/Fuse.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace ninfer {
namespace {

/// The rotation of the query that attends to the cache `append` writes, at the same position, by
/// the same table.
RopeOp queryOf(KvAppendOp append, RopeOp key) {
  for (Operation *user : append.getCache().getUsers()) {
    auto attention = dyn_cast<AttentionOp>(user);
    if (!attention || attention->getBlock() != append->getBlock() ||
        attention.getPosition() != append.getPosition() || !append->isBeforeInBlock(attention))
      continue;
    auto query = attention.getQuery().getDefiningOp<RopeOp>();
    if (query && query != key && query->hasOneUse() && query.getTable() == key.getTable() &&
        query.getPosition() == key.getPosition())
      return query;
  }
  return {};
}

/// The head norm in front of a rotation that nobody else reads.
HeadNormOp normOf(RopeOp rope) {
  auto norm = rope.getX().getDefiningOp<HeadNormOp>();
  return norm && norm->hasOneUse() ? norm : HeadNormOp();
}

/// True if a cache is touched between the two operations; then neither may move to the other.
bool cacheTouchedBetween(Operation *first, Operation *second) {
  for (Operation *op = first->getNextNode(); op && op != second; op = op->getNextNode())
    if (!isMemoryEffectFree(op))
      return true;
  return false;
}

bool fuse(KvAppendOp append) {
  auto key = append.getKey().getDefiningOp<RopeOp>();
  if (!key || !key->hasOneUse() || key.getPosition() != append.getPosition())
    return false;
  RopeOp query = queryOf(append, key);
  if (!query)
    return false;
  Operation *position = append;
  if (append->isBeforeInBlock(query)) {
    // The append moves down to the rotation of the query.
    if (cacheTouchedBetween(append, query))
      return false;
    position = query;
  }
  HeadNormOp queryNorm = normOf(query), keyNorm = normOf(key);
  const bool norms = queryNorm && keyNorm;

  llvm::SmallVector<Operation *> ops;
  llvm::SmallSetVector<Value, 8> inputs;
  if (norms)
    ops.append({queryNorm, keyNorm});
  inputs.insert(norms ? queryNorm.getX() : query.getX());
  inputs.insert(norms ? keyNorm.getX() : key.getX());
  inputs.insert(append.getValue());
  if (norms) {
    inputs.insert(queryNorm.getWeight());
    inputs.insert(keyNorm.getWeight());
  }
  for (Value value :
       {Value(query.getTable()), Value(append.getCache()), Value(append.getPosition())})
    inputs.insert(value);
  ops.append({query, key, append});

  // Everything the group reads must stand before it.
  for (Value input : inputs)
    if (Operation *producer = input.getDefiningOp();
        producer && !producer->isBeforeInBlock(position))
      return false;
  // The result must stand before its reader, which is behind the append by the choice of the query.
  makeFused("rope_append", position, ops, {}, inputs.getArrayRef(), {query.getResult()});
  return true;
}

} // namespace

int64_t fuseRopeAppends(Block &block) {
  int64_t made = 0;
  for (auto append : llvm::to_vector(block.getOps<KvAppendOp>()))
    made += fuse(append);
  return made;
}

} // namespace ninfer
