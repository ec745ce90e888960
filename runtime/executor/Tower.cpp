#include "runtime/executor/Tower.h"

#include "runtime/executor/Ports.h"

#include <algorithm>
#include <functional>

namespace ninfer {

namespace {

/// The root of a square number, or 0.
int64_t rootOf(int64_t square) {
  int64_t root = 0;
  while ((root + 1) * (root + 1) <= square)
    ++root;
  return root * root == square ? root : 0;
}

} // namespace

Result<Tower> Tower::of(const Engine &engine) {
  const std::string file = engine.planPath().string();
  const plan::Phase *phase = engine.phase(plan::PhaseKind::Encode);
  if (!phase) {
    Status status = makeError(ErrorKind::Unsupported, "NB0675", file + ": the plan has no vision tower");
    status.help("build the plan with --vision");
    return status;
  }
  const auto foreign = [&](const std::string &what) {
    return makeError(ErrorKind::BadFile, "NB0677", file + ": " + phase->name()->str() + ": " + what);
  };
  Tower tower;
  const std::tuple<const plan::Port **, const char *, plan::ElementType, uint32_t> inputs[] = {
      {&tower.patches_, "patches", plan::ElementType::F32, 0},
      {&tower.positions_, "positions", plan::ElementType::I32, 2},
      {&tower.indices_, "indices", plan::ElementType::I32, 4},
      {&tower.weights_, "weights", plan::ElementType::F32, 4}};
  for (auto [port, name, element, width] : inputs) {
    *port = findPort(phase->inputs(), name, element, width);
    if (!*port)
      return foreign("expected an input '" + std::string(name) + "' of " + plan::EnumNameElementType(element) +
                     (width ? " and width " + std::to_string(width) : std::string()));
  }
  tower.embeddings_ = findPort(phase->outputs(), "embeddings", plan::ElementType::F32, 0);
  if (!tower.embeddings_)
    return foreign("expected an output 'embeddings' of F32");
  if (phase->inputs()->size() != std::size(inputs))
    return foreign("expected " + std::to_string(std::size(inputs)) + " inputs, got " +
                   std::to_string(phase->inputs()->size()));
  tower.maxPatches_ = phase->max_rows();
  tower.merge_ = rootOf(phase->min_rows()); // the rows of a call are whole squares
  tower.patchWidth_ = tower.patches_->width();
  tower.embeddingWidth_ = int64_t(tower.embeddings_->width()) * phase->min_rows();
  for (const plan::Parameter *parameter : *engine.plan().parameters())
    if (parameter->name()->string_view() == "vision/position_embedding" && parameter->shape()->size() == 2)
      tower.side_ = rootOf(int64_t(std::min<uint64_t>(parameter->shape()->Get(0), INT32_MAX)));
  if (tower.merge_ == 0 || tower.side_ == 0)
    return foreign("expected a square number of min_rows and of rows of vision/position_embedding");
  return tower;
}

bool Tower::isOutput(Executor &executor, const float *values) const {
  const auto *first = reinterpret_cast<const float *>(executor.memoryOf(*embeddings_));
  return !std::less<>()(values, first) && std::less<>()(values, first + maxPatches_ * embeddings_->width());
}

Result<std::span<const float>> Tower::encode(Context &context, std::span<const float> patches,
                                             const vision::Grid &grid) const {
  NINFER_RETURN_IF_ERROR(vision::checkGrid(grid, merge_, maxPatches_));
  NINFER_RETURN_IF_ERROR(context.checkEncode());
  const auto rows = size_t(grid.patches());
  if (patches.size() != rows * size_t(patchWidth_))
    return makeError(ErrorKind::Usage, "NB0676",
                     "patches: expected " + std::to_string(rows) + " of " + std::to_string(patchWidth_) +
                         " elements, got " + std::to_string(patches.size()) + " elements");
  std::copy(patches.begin(), patches.end(), reinterpret_cast<float *>(context.memoryOf(*patches_)));
  const auto places = [&](const plan::Port *port) { return context.memoryOf(*port); };
  vision::patchPlaces(grid, merge_, side_, {reinterpret_cast<int32_t *>(places(positions_)), 2 * rows},
                      {reinterpret_cast<int32_t *>(places(indices_)), 4 * rows},
                      {reinterpret_cast<float *>(places(weights_)), 4 * rows});
  NINFER_RETURN_IF_ERROR(context.encode(grid.patches()));
  return std::span<const float>(reinterpret_cast<const float *>(places(embeddings_)),
                                rows / size_t(merge_ * merge_) * size_t(embeddingWidth_));
}

} // namespace ninfer
