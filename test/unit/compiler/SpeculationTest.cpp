// The phases of speculative decoding as built: what each computes and which states it touches, against the oracles
// and against single steps. How the runtime strings them together: test/unit/runtime.
#include "HybridModel.h"

#include "runtime/executor/CpuExecutor.h"

#include <nlohmann/json.hpp>

using namespace ninfer;
using namespace ninfer::test;
using plan::PhaseKind;

namespace {

/// Calls phases of one plan one by one, on this thread, with all states in view.
class Phases {
public:
  explicit Phases(std::shared_ptr<const Engine> engine)
      : engine_(std::move(engine)), ledger_(makeLedger(*engine_, {.threads = 1}, 1)),
        arena_(allocate(ledger_.arenaBytes)), states_(allocate(ledger_.stateBytes)),
        scratch_(allocate(ledger_.scratchBytes)),
        program_(*engine_, {arena_.data(), states_.data(), ledger_.stateOffsets}) {
    run(PhaseKind::Setup, {}, 0, 1);
  }

  /// One call; `rows` when there are no tokens to count.
  void run(PhaseKind kind, std::span<const int32_t> tokens, int64_t position, int64_t rows = 0) {
    ProgramPhase *phase = program_.phase(kind);
    ASSERT_NE(phase, nullptr);
    if (rows == 0)
      rows = int64_t(tokens.size());
    ASSERT_LE(rows, phase->maxRows);
    if (phase->tokens)
      std::copy(tokens.begin(), tokens.end(), phase->tokens);
    int64_t scalars[NINFER_SCALAR_COUNT] = {};
    scalars[NINFER_SCALAR_ROWS] = rows;
    scalars[NINFER_SCALAR_POSITION] = position;
    for (ProgramLaunch &launch : phase->launches)
      launch.run(scalars, 0, launch.tiles(rows), scratch_.data());
  }

  std::vector<float> logits(PhaseKind kind, int64_t row = 0) const {
    const plan::Phase &phase = *engine_->phase(kind);
    const int64_t rows = kind == PhaseKind::Verify ? phase.max_rows() : 1;
    const int64_t width = int64_t(phase.logits()->bytes()) / 4 / rows;
    const float *first = reinterpret_cast<const float *>(arena_.data() + phase.logits()->offset());
    return {first + row * width, first + (row + 1) * width};
  }

  std::span<std::byte> state(const std::string &name) {
    for (uint32_t i = 0; i < engine_->target().states()->size(); ++i) {
      const plan::State &state = *engine_->target().states()->Get(i);
      if (state.name()->str() == name)
        return {states_.data() + ledger_.stateOffsets[i], state.bytes()};
    }
    ADD_FAILURE() << "no state " << name;
    return {};
  }
  /// Recurrent states, joined.
  std::vector<float> recurrent() const {
    std::vector<float> all;
    for (uint32_t i = 0; i < engine_->target().states()->size(); ++i) {
      const plan::State &state = *engine_->target().states()->Get(i);
      if (state.kind()->str() != "conv_state" && state.kind()->str() != "delta_state")
        continue;
      const auto *words = reinterpret_cast<const float *>(states_.data() + ledger_.stateOffsets[i]);
      all.insert(all.end(), words, words + state.bytes() / 4);
    }
    return all;
  }
  std::vector<std::byte> snapshot() const { return {states_.data(), states_.data() + states_.size()}; }
  void restore(const std::vector<std::byte> &bytes) { std::copy(bytes.begin(), bytes.end(), states_.data()); }
  const Engine &engine() const { return *engine_; }

private:
  static Region allocate(uint64_t bytes) {
    auto region = Region::allocate(bytes, "a test");
    EXPECT_TRUE(region.ok());
    return region.take();
  }
  std::shared_ptr<const Engine> engine_;
  Ledger ledger_;
  Region arena_, states_, scratch_;
  Program program_;
};

class SpeculationTest : public HybridModel {
protected:
  /// Tokens without pattern.
  static std::vector<int32_t> randomIds(size_t count) {
    std::vector<int32_t> ids;
    uint32_t seed = 11;
    for (size_t i = 0; i < count; ++i) {
      seed = seed * 1664525u + 1013904223u;
      ids.push_back(int32_t(seed >> 16) % int32_t(kVocab));
    }
    return ids;
  }
};

constexpr double kReferenceBound = 2e-6; // HybridTest.cpp derives the criteria

// The draft layer over hidden rows of the text model, one row at a time behind decode and all rows behind prefill; the
// proposal head is indexed.
TEST_F(SpeculationTest, DraftsOfTheGoldenArtifactAgainstItsOracle) {
  const Oracle oracle = readOracle("mtp_logits_proposal");
  const double bf16 = oracle.bf16Error();
  ASSERT_EQ(oracle.exact.size(), 8u);
  ASSERT_EQ(oracle.exact[0].size(), 16u);
  ASSERT_GT(bf16, 0.003);
  buildGolden("narrow.bin", {.chunk = 9, .policy = ActivationPolicy::A16Only, .draftTokens = 3});
  buildGolden("stated.bin", {.chunk = 9, .draftTokens = 3});
  const std::vector<int32_t> &ids = oracle.ids;
  for (const std::string &target : targets())
    for (const char *plan : {"narrow.bin", "stated.bin"}) {
      const bool narrow = std::string(plan) == "narrow.bin";
      const double bound = target == "reference" ? kReferenceBound : narrow ? bf16 / 16 : 5 * bf16;
      auto engine = open(plan, target);
      ASSERT_TRUE(engine);
      Phases stepped(engine), whole(engine);
      for (int64_t t = 0; t < 8; ++t) {
        stepped.run(PhaseKind::Decode, std::span(&ids[size_t(t)], 1), t);
        stepped.run(PhaseKind::Draft, std::span(&ids[size_t(t) + 1], 1), t);
        EXPECT_LT(distance(stepped.logits(PhaseKind::Draft), oracle.exact[size_t(t)]).relative(), bound)
            << target << " " << plan << " position " << t;
      }
      whole.run(PhaseKind::Prefill, ids, 0);
      whole.run(PhaseKind::Draft, std::span(ids).subspan(1), 0); // eight of the nine rows have a successor
      EXPECT_LT(distance(whole.logits(PhaseKind::Draft), oracle.exact.back()).relative(), bound)
          << target << " " << plan;
      // Every logit has its token, straight from the artifact.
      const plan::Ref *tokenIds = engine->phase(PhaseKind::Draft)->token_ids();
      ASSERT_NE(tokenIds, nullptr);
      const auto *tokens = reinterpret_cast<const int32_t *>(engine->payload().data() + tokenIds->offset());
      const nlohmann::json expected = readJson("v3_single_forward.json");
      const std::vector<float> last = whole.logits(PhaseKind::Draft);
      EXPECT_EQ(tokens[std::max_element(last.begin(), last.end()) - last.begin()],
                expected["argmax_mtp_proposal_token"].back().get<int32_t>());
    }
}

// A further draft is the draft layer over its own last row: as if that row were one of the text model.
TEST_F(SpeculationTest, FurtherDraftsFeedOnTheLastRow) {
  buildGolden("plan.bin", {.policy = ActivationPolicy::A16Only, .draftTokens = 3});
  const std::vector<int32_t> ids = randomIds(12);
  const double a16 = readOracle("mtp_logits_proposal").bf16Error() / 16;
  for (const std::string &target : targets()) {
    auto engine = open("plan.bin", target);
    ASSERT_TRUE(engine);
    Phases phases(engine);
    phases.run(PhaseKind::Prefill, std::span(ids).first(8), 0);
    phases.run(PhaseKind::Draft, std::span(ids).subspan(1, 8), 0);
    for (int64_t t = 8; t < 11; ++t) {
      const auto before = phases.snapshot();
      phases.run(PhaseKind::DraftNext, std::span(&ids[size_t(t) + 1], 1), t);
      const std::vector<float> next = phases.logits(PhaseKind::DraftNext);
      const auto after = phases.snapshot();
      phases.restore(before);
      const auto row = phases.state("mtp/hidden");
      std::copy(row.begin(), row.end(), phases.state("text/hidden").begin());
      phases.run(PhaseKind::Draft, std::span(&ids[size_t(t) + 1], 1), t);
      EXPECT_LT(distance(phases.logits(PhaseKind::Draft), std::span<const float>(next)).relative(),
                target == "reference" ? 1e-12 : a16)
          << target << " position " << t;
      phases.restore(after);
    }
  }
}

// Rows that are verified give the logits of single steps and leave the recurrent states; rows that are committed leave
// the states of single steps. After every prefix, for every number of rows and of those that count.
TEST_F(SpeculationTest, VerifyAndCommitEqualSingleSteps) {
  buildGolden("plan.bin", {.chunk = 8, .policy = ActivationPolicy::A16Only, .draftTokens = 5});
  const double a16 = readOracle().bf16Error() / 16;
  const std::vector<int32_t> ids = randomIds(24);
  for (const std::string &target : targets()) {
    const bool reference = target == "reference";
    auto engine = open("plan.bin", target);
    ASSERT_TRUE(engine);
    for (int64_t prefix : {0, 1, 2, 3, 4, 8, 13}) {
      // Single steps from the prefix on: logits and states after each.
      Phases steps(engine), run(engine);
      for (int64_t t = 0; t < prefix; ++t)
        for (Phases *phases : {&steps, &run})
          phases->run(PhaseKind::Decode, std::span(&ids[size_t(t)], 1), t);
      std::vector<std::vector<float>> logits, states = {steps.recurrent()};
      for (int64_t t = prefix; t < prefix + 7; ++t) {
        steps.run(PhaseKind::Decode, std::span(&ids[size_t(t)], 1), t);
        logits.push_back(steps.logits(PhaseKind::Decode));
        states.push_back(steps.recurrent());
      }
      for (int64_t rows = 1; rows <= 6; ++rows) {
        const auto start = run.snapshot();
        run.run(PhaseKind::Verify, std::span(ids).subspan(size_t(prefix), size_t(rows)), prefix);
        EXPECT_EQ(run.recurrent(), states[0]) << target << " verify changed a recurrent state";
        for (int64_t r = 0; r < rows; ++r)
          EXPECT_LT(distance(run.logits(PhaseKind::Verify, r), std::span<const float>(logits[size_t(r)])).relative(),
                    reference ? kReferenceBound : a16)
              << target << " prefix " << prefix << " rows " << rows << " row " << r;
        const auto verified = run.snapshot();
        for (int64_t count = 1; count <= rows; ++count) {
          run.restore(verified);
          run.run(PhaseKind::Commit, {}, prefix, count);
          const Distance d = distance(run.recurrent(), std::span<const float>(states[size_t(count)]));
          EXPECT_LT(d.relative(), reference ? kReferenceBound : a16)
              << target << " prefix " << prefix << " commit " << count << " of " << rows;
          EXPECT_GT(distance(run.recurrent(), std::span<const float>(states[size_t(count - 1)])).relative(), 0.01)
              << "the states of neighbours are too much alike for this test";
          // The next step sees the committed rows in cache and states, and nothing of the others.
          const int64_t next = prefix + count;
          run.run(PhaseKind::Decode, std::span(&ids[size_t(next)], 1), next);
          EXPECT_LT(distance(run.logits(PhaseKind::Decode), std::span<const float>(logits[size_t(count)])).relative(),
                    reference ? kReferenceBound : a16)
              << target << " prefix " << prefix << " step after commit " << count << " of " << rows;
        }
        run.restore(start);
      }
    }
  }
}

std::vector<double> unpack(const std::string &base64) {
  std::vector<unsigned char> bytes;
  uint32_t bits = 0;
  int have = 0;
  for (char c : base64) {
    const size_t digit =
        std::string_view("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/").find(c);
    if (digit == std::string_view::npos)
      break;
    bits = bits << 6 | uint32_t(digit);
    if ((have += 6) >= 8)
      bytes.push_back(static_cast<unsigned char>(bits >> (have -= 8)));
  }
  std::vector<double> values(bytes.size() / 8);
  std::memcpy(values.data(), bytes.data(), values.size() * 8);
  return values;
}

// The draft layers of the checkpoints in test/vectors/hybrid, dense and sparse, against modules of another library in
// float64. Criteria: reference as above; cpu that of float32 sums, 4e-5 (HybridTest.cpp, ExpertsOfEveryTargetAgree).
TEST_F(SpeculationTest, DraftLayersOfTheCheckpoints) {
  for (const std::string name : {"dense-vision-mtp", "moe-mtp"}) {
    const std::string folder = NINFER_SOURCE_DIR "/test/vectors/hybrid/" + name;
    const ChildResult made = run({NINFER_CONVERT_TOOL, folder, "-o", file(name + ".ninfer").string(), "--recipe",
                                  "bf16", "--no-tokenizer"});
    ASSERT_EQ(made.exitCode, 0) << made.err;
    BuildOptions wanted = options(file(name + ".ninfer"), targets());
    wanted.output = file(name + ".bin");
    wanted.kvDtype = "f32";
    wanted.prefillChunk = 16;
    wanted.draftTokens = 2;
    auto report = build(wanted);
    ASSERT_TRUE(report.ok()) << report.error().render();
    std::ifstream in(folder + "/logits.json");
    const nlohmann::json vectors = nlohmann::json::parse(in);
    const std::vector<int32_t> ids = vectors["tokens"];
    const std::vector<double> exact = unpack(vectors["mtp_logits_f64"]);
    const size_t vocab = exact.size() / (ids.size() - 1);
    for (const std::string &target : targets()) {
      auto engine = Engine::open({.plan = file(name + ".bin"), .target = target});
      ASSERT_TRUE(engine.ok()) << engine.error().render();
      Phases phases(*engine);
      // Chunks of 16 rows, of which the last has no successor until the next chunk comes.
      double worst = 0;
      for (size_t t = 0; t + 1 < ids.size(); t += 16) {
        const size_t rows = std::min<size_t>(16, ids.size() - 1 - t);
        phases.run(PhaseKind::Prefill, std::span(ids).subspan(t, rows), int64_t(t));
        phases.run(PhaseKind::Draft, std::span(ids).subspan(t + 1, rows), int64_t(t));
        const std::span<const double> row = std::span(exact).subspan((t + rows - 1) * vocab, vocab);
        worst = std::max(worst, distance(phases.logits(PhaseKind::Draft), row).relative());
      }
      EXPECT_LT(worst, target == "reference" ? kReferenceBound : 4e-5) << name << " " << target;
      RecordProperty(name + "." + target, errorText(worst));
    }
  }
}

TEST_F(SpeculationTest, OptionsAreChecked) {
  BuildOptions wanted = options(fixturePath("v3_single.ninfer"));
  wanted.maxContext = 8;
  for (int64_t tokens : {-1, 8, 16}) {
    wanted.draftTokens = tokens;
    auto report = build(wanted);
    ASSERT_FALSE(report.ok()) << tokens;
    EXPECT_EQ(report.error().code, "NB0403") << report.error().render();
    EXPECT_NE(report.error().message.find("--draft-tokens"), std::string::npos);
  }
  BuildOptions plain = options(artifact("plain.ninfer"));
  plain.draftTokens = 1;
  auto report = build(plain);
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().kind, ErrorKind::Unsupported) << report.error().render();
}

} // namespace
