// Damaged plans are refused or read safely, never a crash. Run with the sanitize preset to see
// stray reads.
#include "PlanFixture.h"
#include "schema/Verify.h"

#include <gtest/gtest.h>
#include <random>

using namespace ninfer;
using namespace ninfer::test;

namespace {

/// Touches everything a consumer reads from an accepted plan.
uint64_t walk(const PlanView &view) {
  uint64_t sum = 0;
  for (const plan::Target *target : *view->targets()) {
    for (const plan::Phase *phase : *target->phases())
      for (const plan::Launch *launch : *phase->launches()) {
        sum += target->kernels()->Get(launch->kernel())->symbol()->size();
        for (const plan::Ref *ref : *launch->args())
          if (ref->space() == plan::Space::Constant)
            sum += static_cast<uint8_t>(view.blob(ref->index())[ref->offset() + ref->bytes() - 1]);
      }
    for (const plan::Kernel *kernel : *target->kernels())
      if (kernel->kind() == plan::KernelKind::Elf)
        for (std::byte b : view.blob(kernel->blob()))
          sum += static_cast<uint8_t>(b);
  }
  return sum;
}

struct Outcome {
  int accepted = 0, refused = 0;
};

void tryBytes(const std::vector<std::byte> &file, Outcome &outcome) {
  auto view = PlanView::open(file, "fuzz.bin");
  if (!view.ok()) {
    EXPECT_FALSE(view.error().message.empty());
    EXPECT_TRUE(view.error().kind == ErrorKind::BadFile ||
                view.error().kind == ErrorKind::TargetMismatch);
    ++outcome.refused;
    return;
  }
  volatile uint64_t sink = walk(*view);
  (void)sink;
  ++outcome.accepted;
}

std::vector<std::byte> goodFile() { return buildPlan(smallPlan(), smallBlobs()).take(); }

TEST(PlanFuzz, EveryByteFlippedWithoutNewDigestIsRefused) {
  const auto good = goodFile();
  Outcome outcome;
  // Header and metadata: each byte; blobs and padding: the digest covers them alike, so every 97th.
  for (size_t at = 0; at < good.size(); at += at < 12000 ? 1 : 97) {
    auto file = good;
    file[at] ^= std::byte{0x81};
    tryBytes(file, outcome);
  }
  EXPECT_EQ(outcome.accepted, 0);
}

TEST(PlanFuzz, MetadataBytesWithNewDigest) {
  const auto good = goodFile();
  const uint64_t end = kPlanHeaderBytes + flatbuffers::ReadScalar<uint64_t>(good.data() + 24);
  Outcome outcome;
  for (size_t at = kPlanHeaderBytes; at < end; ++at)
    for (uint8_t value : {0x00, 0x01, 0x7f, 0x80, 0xff}) {
      auto file = good;
      file[at] = std::byte{value};
      sealPlan(file);
      tryBytes(file, outcome);
    }
  EXPECT_GT(outcome.refused, 1000); // most of the buffer is offsets, sizes and indices
}

TEST(PlanFuzz, RandomDamageWithNewDigest) {
  const auto good = goodFile();
  const uint64_t end = kPlanHeaderBytes + flatbuffers::ReadScalar<uint64_t>(good.data() + 24);
  std::mt19937_64 random(20240611);
  Outcome outcome;
  for (int round = 0; round < 20000; ++round) {
    auto file = good;
    const int edits = 1 + static_cast<int>(random() % 8);
    for (int k = 0; k < edits; ++k) {
      const size_t at = 4096 + random() % (end - 4096);
      if (random() % 2) {
        file[at] = static_cast<std::byte>(random());
      } else { // a whole 32-bit word: offsets and vector lengths
        const uint32_t word = random() % 3 == 0 ? static_cast<uint32_t>(random())
                                                : static_cast<uint32_t>(random() % 64);
        const size_t word_at = std::min<size_t>(at / 4 * 4, end - 4);
        flatbuffers::WriteScalar<uint32_t>(file.data() + word_at, word);
      }
    }
    sealPlan(file);
    tryBytes(file, outcome);
  }
  EXPECT_GT(outcome.refused, 10000);
}

TEST(PlanFuzz, TruncationsAndShrunkHeaders) {
  const auto good = goodFile();
  Outcome outcome;
  for (size_t size = 0; size < good.size(); size += size < 9000 ? 7 : 61) {
    std::vector<std::byte> file(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size));
    tryBytes(file, outcome);
    if (size <= kPlanHeaderBytes + 8)
      continue;
    // The same cut with a header that agrees with it, so only the content can give it away.
    flatbuffers::WriteScalar<uint64_t>(file.data() + 32, size);
    const uint64_t body = size - kPlanHeaderBytes;
    const uint64_t fb = flatbuffers::ReadScalar<uint64_t>(file.data() + 24);
    flatbuffers::WriteScalar<uint64_t>(file.data() + 24, std::min(fb, body));
    sealPlan(file);
    tryBytes(file, outcome);
  }
  EXPECT_EQ(outcome.accepted, 0);
}

} // namespace
