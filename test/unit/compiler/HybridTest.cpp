// The hybrid family as built and run: the golden artifact against its double-precision oracle, and
// prefill of every length against single steps, state included.
#include "HybridModel.h"

#include <map>

using namespace ninfer;
using namespace ninfer::test;

namespace {

using HybridTest = HybridModel;

// Criteria, on max |difference| / rms(exact), E being the error of the same model with BF16 operators:
//   reference  2e-6: about 30 operators in a row round to float32, sqrt(30) * 2^-24 = 3e-7, and the
//              largest of 48 logits lies within 4 to 6 standard deviations.
//   16 bits    E / 16: a 16-bit activation has a step of max / 32767 of its group of 64, whose max is at
//              most 8 times its rms, so 2^-12 rms; BF16 has a step of 2^-8 of the value: 1/16 of it.
//   8 bits     5 E: a step of max / 127; the max of 64 Gaussian values is 2.4 times their rms, so 2^-5.7
//              rms or 4.8 of the BF16 step.
TEST_F(HybridTest, GoldenArtifactAgainstItsOracle) {
  const Oracle oracle = readOracle();
  const double bf16 = oracle.bf16Error();
  ASSERT_EQ(oracle.exact.size(), 9u);
  ASSERT_GT(bf16, 0.01);

  buildGolden("stated.bin", {});
  buildGolden("narrow.bin", {.policy = ActivationPolicy::A16Only});
  for (const std::string &target : targets())
    for (const char *plan : {"stated.bin", "narrow.bin"}) {
      const bool narrow = std::string(plan) == "narrow.bin";
      const double bound = target == "reference" ? 2e-6 : narrow ? bf16 / 16 : 5 * bf16;
      const auto engine = open(plan, target);
      ASSERT_TRUE(engine);
      for (unsigned threads : {1u, 2u, 3u}) {
        const auto stepped = context(engine, threads), whole = context(engine, threads);
        for (size_t i = 0; i < oracle.ids.size(); ++i) {
          ASSERT_TRUE(stepped->submit(std::span(&oracle.ids[i], 1)).ok());
          const std::vector<float> row = logits(*stepped);
          EXPECT_LT(distance(row, oracle.exact[i]).relative(), bound)
              << target << " " << plan << ", position " << i;
          EXPECT_EQ(std::max_element(row.begin(), row.end()) - row.begin(),
                    std::max_element(oracle.exact[i].begin(), oracle.exact[i].end()) -
                        oracle.exact[i].begin());
        }
        // In chunks of eight rows: one call of eight, then one of one.
        ASSERT_TRUE(whole->submit(oracle.ids).ok());
        EXPECT_LT(distance(logits(*whole), oracle.exact.back()).relative(), bound)
            << target << " " << plan;
      }
    }
}

/// Rows of test/vectors/traces/v3_single.jsonl (test/oracle/hybrid_forward.py, float64) by output and position.
using LayerRows = std::map<std::pair<std::string, uint32_t>, std::vector<double>>;

LayerRows readLayers() {
  std::istringstream lines(readBytes(NINFER_SOURCE_DIR "/test/vectors/traces/v3_single.jsonl"));
  LayerRows rows;
  std::string line;
  std::getline(lines, line); // the tokens
  while (std::getline(lines, line)) {
    const auto json = nlohmann::json::parse(line);
    rows[{json["output"], json["position"]}] = json["values"].get<std::vector<double>>();
  }
  return rows;
}

/// Largest error of the residual stream with BF16 operators, of the rows that the golden file keeps.
double bf16LayerError() {
  const nlohmann::json json = readJson("v3_single_forward.json");
  double worst = 0;
  for (const char *name : {"layer0_mixer", "layer0_mlp", "layer1_mixer", "layer1_mlp"}) {
    const auto exact = json["oracle_f64"][name]["data"].get<std::vector<double>>();
    const auto bf16 = json["reference_bf16_ops"][name]["data"].get<std::vector<float>>();
    const size_t width = exact.size() / 2;
    for (size_t row = 0; row < 2; ++row)
      worst = std::max(worst, distance(std::span(bf16).subspan(row * width, width),
                                       std::span(exact).subspan(row * width, width))
                                  .relative());
  }
  return worst;
}

// The residual stream after the embedding, every mixer, every layer and the final norm, at every position:
// one by one, and in calls of four, four and one rows. Criteria as for the logits, with E the largest error
// of the residual stream in the BF16 run (two rows per layer are too few for an E per layer). The embedding
// is read, not computed: one rounding to float32 whatever the target.
TEST_F(HybridTest, LayerTracesAgainstTheOracle) {
  const Oracle oracle = readOracle();
  const LayerRows exact = readLayers();
  const double bf16 = bf16LayerError();
  ASSERT_EQ(exact.size(), 6u * 9);
  ASSERT_GT(bf16, 0.01);
  const std::vector<std::string> names = {"text/token_embedding", "text/layers/0/mixer", "text/layers/0",
                                          "text/layers/1/mixer",  "text/layers/1",       "text/final_norm"};
  buildGolden("stated.bin", {.chunk = 4, .traceLayers = true});
  buildGolden("narrow.bin", {.chunk = 4, .policy = ActivationPolicy::A16Only, .traceLayers = true});
  buildGolden("plain.bin", {.chunk = 4});
  for (const std::string &target : targets())
    for (const char *plan : {"stated.bin", "narrow.bin"}) {
      const bool narrow = std::string(plan) == "narrow.bin";
      const double bound = target == "reference" ? 2e-6 : narrow ? bf16 / 16 : 5 * bf16;
      const auto engine = open(plan, target);
      ASSERT_TRUE(engine);
      for (size_t step : {size_t(1), size_t(4)}) {
        const auto run = context(engine, 2);
        EXPECT_TRUE(run->outputs().empty());
        size_t compared = 0;
        double worst = 0;
        for (size_t done = 0; done < oracle.ids.size();) {
          const auto next = std::span(oracle.ids).subspan(done, std::min(step, oracle.ids.size() - done));
          ASSERT_TRUE(run->submit(next).ok());
          done += next.size();
          ASSERT_EQ(run->outputs().size(), names.size());
          for (size_t i = 0; i < names.size(); ++i) {
            const ProgramOutput &output = run->outputs()[i];
            const uint32_t width = output.source->width();
            ASSERT_EQ(output.source->name()->str(), names[i]);
            ASSERT_EQ(width, 128u);
            // The final norm is computed for the last row of a call alone.
            ASSERT_EQ(run->rows(output), i + 1 == names.size() ? 1u : next.size());
            for (uint32_t row = 0; row < run->rows(output); ++row) {
              const uint32_t position = run->firstPosition(output) + row;
              const std::span<const float> values(static_cast<const float *>(output.data) + row * width, width);
              const double d = distance(values, exact.at({names[i], position})).relative();
              EXPECT_LT(d, i == 0 ? 2e-6 : bound)
                  << target << " " << plan << ", " << step << " at a time, " << names[i] << " at " << position;
              worst = std::max(worst, d);
              ++compared;
            }
          }
        }
        EXPECT_EQ(compared, 5u * 9 + (step == 1 ? 9 : 3));
        RecordProperty(target + "." + plan + "." + std::to_string(step), errorText(worst));
        if (narrow)
          continue;
        // Tracing changes which values are kept, not what is computed. Only the last norm leaves its group.
        const auto plain = context(open("plain.bin", target), 2);
        for (size_t done = 0; done < oracle.ids.size(); done += step)
          ASSERT_TRUE(plain->submit(std::span(oracle.ids).subspan(done, std::min(step, oracle.ids.size() - done))).ok());
        EXPECT_TRUE(plain->outputs().empty());
        EXPECT_LT(distance(logits(*run), std::span<const float>(logits(*plain))).relative(),
                  target == "reference" ? 1e-30 : bf16 / 16)
            << target;
      }
    }
}

// The chunk tail: whatever T and the chunk, prefill(T) leaves the state and the logits of T single
// steps. The state shows in the logits of the steps that follow. Criterion on max |difference| / rms:
// reference 2e-6 (the same sums, rounded to float32 between operators); cpu the criterion of 16-bit
// activations, since sums in another order differ in the last bit, which may move such an activation by
// a step. A state that is not carried right shows as 0.1 and more.
TEST_F(HybridTest, PrefillOfEveryLengthEqualsSingleSteps) {
  constexpr int kMost = 260;
  std::vector<int32_t> ids;
  uint32_t seed = 7;
  for (int i = 0; i < kMost + 2; ++i) {
    seed = seed * 1664525u + 1013904223u;
    ids.push_back(int32_t(seed >> 16) % int32_t(kVocab));
  }
  const double a16 = readOracle().bf16Error() / 16;
  std::vector<std::string> names = {"reference"}; // and the best level: all share the lowering
  if (const auto levels = cpuTargets(); !levels.empty())
    names.push_back(levels.back());
  for (int64_t chunk : {1, 16, 64, 128}) {
    const std::string plan = "chunk" + std::to_string(chunk) + ".bin";
    buildGolden(plan, {.context = 512, .chunk = chunk, .policy = ActivationPolicy::A16Only}, names);
    for (const std::string &target : names) {
      const auto engine = open(plan, target);
      ASSERT_TRUE(engine);
      const double bound = target == "reference" ? 2e-6 : a16;
      const auto stepped = context(engine);
      std::vector<std::vector<float>> single; // logits after each single step
      for (int32_t id : ids) {
        ASSERT_TRUE(stepped->submit(std::span(&id, 1)).ok());
        single.push_back(logits(*stepped));
      }
      double worst = 0;
      const auto prefilled = context(engine);
      // The built-ins are slow: a stride that meets every residue of the chunks.
      for (int length = 1; length <= kMost; length += target == "reference" ? 13 : 1) {
        ASSERT_TRUE(prefilled->truncate(0).ok());
        ASSERT_TRUE(prefilled->submit(std::span(ids).first(size_t(length))).ok());
        for (int after = 0; after < 3; ++after) {
          const double d = distance(logits(*prefilled),
                                    std::span<const float>(single[size_t(length + after - 1)]))
                               .relative();
          worst = std::max(worst, d);
          ASSERT_LT(d, bound) << target << ", chunk " << chunk << ", length " << length << " + "
                             << after;
          if (after < 2)
            ASSERT_TRUE(prefilled->submit(std::span(&ids[size_t(length + after)], 1)).ok());
        }
      }
      RecordProperty(target + ".chunk" + std::to_string(chunk), errorText(worst));
    }
  }
}

// int8 keys and values: half a step of max / 127 is 2^-6.7 rms of a group (see above) where BF16 words
// are off by 2^-9 of the value, in one of the about fifteen places that BF16 operators round at. So the
// whole stays below E. Every target stores equal words up to a rounding tie, whose cost is a step in one of
// 32 elements of one of nine rows: below E / 16.
TEST_F(HybridTest, Int8CacheStaysWithinItsCriterion) {
  const Oracle oracle = readOracle();
  buildGolden("int8.bin", {.kv = "int8", .policy = ActivationPolicy::A16Only});
  std::vector<float> reference;
  for (const std::string &target : targets()) {
    const auto engine = open("int8.bin", target);
    ASSERT_TRUE(engine);
    const auto run = context(engine);
    ASSERT_TRUE(run->submit(oracle.ids).ok());
    const std::vector<float> row = logits(*run);
    const Distance d = distance(row, oracle.exact.back());
    EXPECT_LT(d.relative(), oracle.bf16Error()) << target;
    EXPECT_GT(d.relative(), 1e-5) << target << ": the cache is not int8";
    if (reference.empty())
      reference = row;
    else
      EXPECT_LT(distance(row, std::span<const float>(reference)).relative(),
                oracle.bf16Error() / 16)
          << target;
  }
}

// Sparse experts on every target against the built-ins, for any number of threads; prefill equals single
// steps. With BF16 words (profile f32) the criterion is that of float32 sums, 4e-5: at most 256 terms of
// one dot product, 256 * 2^-24 = 1.5e-5, through the layers. With quantized words (16-bit activations)
// each linear map adds 2^-12 of its input's rms over sqrt(12) (see above); 4 layers of at most 5 maps in a
// row, the largest of 256 logits 4 standard deviations off: sqrt(20) * 4 * 7e-5 = 1.3e-3.
TEST_F(HybridTest, ExpertsOfEveryTargetAgree) {
  // A prefill call of all tokens: in one of 60 some of the eight experts have more than 16 rows, others
  // less, which are different micro-kernels. The criterion of quantized words is for a short prompt.
  for (const auto &[recipe, criterion, tokens] :
       {std::tuple("bf16", 4e-5, 60), std::tuple("mixed", 1.3e-3, 21)}) {
    std::vector<int32_t> ids;
    for (int32_t i = 0; i < tokens; ++i)
      ids.push_back(i * 37 % 48);
    const std::string name = std::string(recipe) + ".ninfer";
    const ChildResult made =
        run({NINFER_MAKE_QWEN_ARTIFACT, file(name).string(), "--preset", "tiny-moe", "--no-mtp",
             "--recipe", recipe, "--random", "3"});
    ASSERT_EQ(made.exitCode, 0) << made.err;
    BuildOptions wanted = options(file(name), targets());
    wanted.output = file("moe.bin");
    wanted.maxContext = 64;
    wanted.prefillChunk = 60;
    wanted.kvDtype = "f32";
    auto report = build(wanted);
    ASSERT_TRUE(report.ok()) << report.error().render();
    std::vector<std::vector<float>> reference;
    for (const std::string &target : targets()) {
      auto engine = Engine::open({.plan = file("moe.bin"), .target = target});
      ASSERT_TRUE(engine.ok()) << engine.error().render();
      const double bound = target == "reference" ? 2e-6 : criterion;
      for (unsigned threads : {1u, 2u, 3u}) {
        const auto stepped = context(*engine, threads), whole = context(*engine, threads);
        for (size_t i = 0; i < ids.size(); ++i) {
          ASSERT_TRUE(stepped->submit(std::span(&ids[i], 1)).ok());
          if (reference.size() <= i)
            reference.push_back(logits(*stepped));
          EXPECT_LT(distance(logits(*stepped), std::span<const float>(reference[i])).relative(), bound)
              << recipe << ", " << target << ", " << threads << " threads, position " << i;
        }
        ASSERT_TRUE(whole->submit(ids).ok());
        EXPECT_LT(distance(logits(*whole), std::span<const float>(reference.back())).relative(), bound)
            << recipe << ", " << target << ", " << threads << " threads";
      }
    }
  }
}

// Banks are read by the row number of an expert, so its rows must follow its predecessor's.
TEST_F(HybridTest, ExpertsApartAreRefused) {
  const ChildResult made =
      run({NINFER_MAKE_QWEN_ARTIFACT, file("apart.ninfer").string(), "--preset", "tiny-moe",
           "--no-mtp", "--separate"});
  ASSERT_EQ(made.exitCode, 0) << made.err;
  auto report = build(options(file("apart.ninfer")));
  ASSERT_FALSE(report.ok());
  EXPECT_NE(report.error().render().find("text/layers/0/moe/experts/"), std::string::npos);
  EXPECT_NE(report.error().render().find("must lie side by side in expert order"), std::string::npos)
      << report.error().render();
  EXPECT_FALSE(std::filesystem::exists(file("plan.bin")));
}

// A recurrent state is not indexed by position: the sequence can be cut at its start only.
TEST_F(HybridTest, RecurrentStatesAreCutAtTheStartOnly) {
  const Oracle oracle = readOracle();
  buildGolden("plan.bin", {}, {"reference"});
  const auto run = context(open("plan.bin", "reference"));
  ASSERT_TRUE(run->submit(oracle.ids).ok());
  const std::vector<float> first = logits(*run);
  const Status cut = run->truncate(4);
  ASSERT_FALSE(cut.ok());
  EXPECT_EQ(cut.error().code, "NB0656");
  EXPECT_EQ(run->position(), 9u);
  ASSERT_TRUE(run->truncate(0).ok());
  ASSERT_TRUE(run->submit(oracle.ids).ok());
  EXPECT_EQ(logits(*run), first);
}

} // namespace
