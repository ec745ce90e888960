// Images in prompts, as built and run, against transformers in float64 (test/oracle/image_prompts.py): embeddings in place of
// placeholders, positions of three axes, the text behind, drafts; and what the runtime refuses.
#include "HybridModel.h"
#include "runtime/executor/Tower.h"
#include "runtime/include/ninfer/ninfer.h"
#include "schema/Build.h"
#include "test/unit/vision/Vectors.h"

#include <atomic>
#include <chrono>
#include <thread>

using namespace ninfer;
using namespace ninfer::test;

namespace {

// As test/e2e holds the text of the same checkpoints to: float32 activations and cache, weights word for word. The library's own
// float32 run is 1e-6 to 1.1e-5 away. The reference target rounds once per operator: some 30 of them in a row and as many in the
// tower, sqrt(60) * 2^-24 = 5e-7 rms, and the largest of 128 logits lies 4 deviations off.
constexpr double kCriterion = 1e-5, kReferenceCriterion = 2e-6;

struct Prompt {
  std::vector<int32_t> tokens;
  std::vector<size_t> firsts;
  std::vector<vision::Grid> grids;
  std::vector<int> images; ///< pixel patterns
  std::vector<size_t> positions;
  std::vector<std::vector<double>> exact; ///< of `positions`
  int64_t ropeDelta = 0;
  nlohmann::json json;
};

std::vector<Prompt> readPrompts(const std::string &name) {
  std::ifstream in(std::string(NINFER_SOURCE_DIR) + "/test/vectors/hybrid/" + name + "/image_prompts.json");
  const nlohmann::json stored = nlohmann::json::parse(in);
  std::vector<Prompt> prompts;
  for (const auto &from : stored["prompts"]) {
    Prompt p;
    p.json = from;
    p.tokens = from["tokens"].get<std::vector<int32_t>>();
    p.positions = from["positions"].get<std::vector<size_t>>();
    p.ropeDelta = from["rope_delta"];
    for (const auto &image : from["images"]) {
      p.firsts.push_back(image["first"]);
      p.grids.push_back({image["grid"][0], image["grid"][1]});
      p.images.push_back(image["image"]);
    }
    const std::vector<uint8_t> bytes = fromBase64(from["logits_f64"]);
    const size_t vocab = bytes.size() / 8 / p.positions.size();
    for (size_t i = 0; i < p.positions.size(); ++i) {
      p.exact.emplace_back(vocab);
      std::memcpy(p.exact.back().data(), bytes.data() + i * vocab * 8, vocab * 8);
    }
    prompts.push_back(std::move(p));
  }
  return prompts;
}

/// The pixels of pattern n (hybrid_checkpoints.py).
std::vector<float> pixels(int n, const vision::Grid &grid, int64_t width) {
  std::vector<float> out;
  for (int64_t i = 0; i < grid.patches() * width; ++i)
    out.push_back(float((double((7 * i * i + 31 * i + 13 * n) % 256) / 255 - 0.5) / 0.5));
  return out;
}

class ImagePromptTest : public HybridModel {
protected:
  void convert(const std::string &name) {
    name_ = name;
    std::filesystem::remove(file("m.ninfer"));
    const ChildResult made =
        run({NINFER_CONVERT_TOOL, std::string(NINFER_SOURCE_DIR) + "/test/vectors/hybrid/" + name, "-o",
             file("m.ninfer").string(), "--recipe", "bf16", "--vision", "--no-tokenizer"});
    ASSERT_EQ(made.exitCode, 0) << made.err;
  }

  struct Wanted {
    int64_t chunk = 16, drafts = 0;
    bool vision = true;
    std::vector<std::string> targets = {"reference"};
    bool traceLayers = false;
  };
  void makePlan(const Wanted &w) {
    BuildOptions wanted = options(file("m.ninfer"), w.targets);
    wanted.cache.directory = file("kernels").string();
    wanted.maxContext = 64;
    wanted.prefillChunk = w.chunk;
    wanted.kvDtype = "f32";
    wanted.draftTokens = w.drafts;
    wanted.traceLayers = w.traceLayers;
    wanted.vision = w.vision;
    if (w.vision)
      wanted.visionMaxPatches = 80;
    auto report = build(wanted);
    ASSERT_TRUE(report.ok()) << report.error().render();
  }

  std::shared_ptr<const Engine> openPlan(const std::string &target = "reference") {
    auto engine = Engine::open({.plan = file("plan.bin"), .target = target});
    EXPECT_TRUE(engine.ok()) << engine.error().render();
    return engine.ok() ? engine.take() : nullptr;
  }
  std::unique_ptr<Context> make(const std::string &target = "reference", bool draft = false, unsigned threads = 1) {
    ContextOptions options;
    options.threads = threads;
    options.draft = draft;
    auto made = Context::create(openPlan(target), options);
    EXPECT_TRUE(made.ok()) << made.error().render();
    return made.ok() ? made.take() : nullptr;
  }

  /// The images of a prompt, encoded by the context.
  static std::vector<std::vector<float>> encode(Context &context, const Prompt &prompt) {
    const auto tower = Tower::of(context.engine());
    EXPECT_TRUE(tower.ok());
    std::vector<std::vector<float>> out;
    for (size_t i = 0; i < prompt.grids.size(); ++i) {
      const auto values =
          tower->encode(context, pixels(prompt.images[i], prompt.grids[i], tower->patchWidth()), prompt.grids[i]);
      EXPECT_TRUE(values.ok());
      out.emplace_back(values->begin(), values->end());
    }
    return out;
  }

  /// Tokens [begin, end) of a prompt with the images that begin in them.
  static Status submit(Context &context, const Prompt &prompt, const std::vector<std::vector<float>> &embeddings, size_t begin,
                       size_t end) {
    std::vector<ImageSpan> spans;
    for (size_t i = 0; i < prompt.firsts.size(); ++i)
      if (prompt.firsts[i] >= begin && prompt.firsts[i] < end)
        spans.push_back({prompt.firsts[i] - begin, prompt.grids[i], embeddings[i].data()});
    return context.submit(std::span(prompt.tokens).subspan(begin, end - begin), spans);
  }

  /// The largest error of the stored positions: of prefixes, then of the text behind the last image token by token.
  double worst(Context &context, const Prompt &prompt) {
    const auto embeddings = encode(context, prompt);
    double worst = 0;
    const size_t behind = behindImages(prompt);
    for (size_t i = 0; i < prompt.positions.size(); ++i) {
      const size_t p = prompt.positions[i];
      const bool step = p > behind && p == context.position();
      if (!step)
        EXPECT_TRUE(context.truncate(0).ok());
      Status status = submit(context, prompt, embeddings, step ? p : 0, p + 1);
      EXPECT_TRUE(status.ok()) << status.error().message;
      worst = std::max(worst, distance(logits(context), prompt.exact[i]).relative());
      // And the same prefix in one submit: the text behind in prefill calls.
      if (step && p + 1 == prompt.tokens.size()) {
        EXPECT_EQ(context.ropeDelta(), prompt.ropeDelta);
        EXPECT_TRUE(context.truncate(0).ok());
        EXPECT_TRUE(submit(context, prompt, embeddings, 0, p + 1).ok());
        worst = std::max(worst, distance(logits(context), prompt.exact[i]).relative());
      }
    }
    return worst;
  }

  /// First token of the text behind the last image.
  size_t behindImages(const Prompt &prompt) const {
    const int64_t merge = name_ == "vision" ? 2 : 1;
    return prompt.firsts.back() + size_t(prompt.grids.back().patches() / (merge * merge));
  }

  std::string name_;
};

// Prompts with one to three images of different grids, an image at the very start, text around them, decode steps behind; cut
// into calls of 4, 16 and 64 rows, which fall inside images and around them.
TEST_F(ImagePromptTest, AgreesWithTransformers) {
  double reference = 0, cpu = 0;
  for (const char *name : {"vision", "dense-vision-mtp"}) {
    convert(name);
    const std::vector<Prompt> prompts = readPrompts(name);
    for (int64_t chunk : {4, 16, 64}) {
      makePlan({.chunk = chunk, .targets = targets()});
      for (const std::string &target : targets()) {
        const auto context = make(target);
        ASSERT_TRUE(context);
        double &largest = target == "reference" ? reference : cpu;
        for (size_t i = 0; i < prompts.size(); ++i) {
          const double error = worst(*context, prompts[i]);
          EXPECT_LE(error, target == "reference" ? kReferenceCriterion : kCriterion)
              << name << " " << target << ", chunk " << chunk << ", prompt " << i;
          largest = std::max(largest, error);
        }
      }
    }
  }
  RecordProperty("largest_error_reference", errorText(reference));
  RecordProperty("largest_error_cpu", errorText(cpu));
}

// The draft layer's row of a position takes the embedding of the next token, which may be an image's, and the position of its
// own; the proposal behind it goes on by the rope delta. By the largest logit, where the second is 1e-3 below or more.
TEST_F(ImagePromptTest, DraftsAgreeWithTransformers) {
  convert("dense-vision-mtp");
  size_t compared = 0;
  for (int64_t chunk : {4, 64}) {
    makePlan({.chunk = chunk, .drafts = 2, .targets = targets()});
    for (const std::string &target : targets()) {
      const auto context = make(target, /*draft=*/true);
      ASSERT_TRUE(context);
      for (const Prompt &prompt : readPrompts("dense-vision-mtp")) {
        const auto embeddings = encode(*context, prompt);
        const auto &json = prompt.json;
        for (size_t p : prompt.positions) {
          if (p + 1 >= prompt.tokens.size() || std::count(prompt.firsts.begin(), prompt.firsts.end(), p + 1))
            continue;
          ASSERT_TRUE(context->truncate(0).ok());
          ASSERT_TRUE(submit(*context, prompt, embeddings, 0, p + 1).ok());
          std::vector<int32_t> drafts(2);
          const auto count = context->draft(prompt.tokens[p + 1], drafts);
          ASSERT_TRUE(count.ok()) << count.error().message;
          ASSERT_EQ(*count, 2u);
          if (json["draft_margin"][p] < 1e-3)
            continue;
          EXPECT_EQ(drafts[0], json["draft_top"][p].get<int32_t>()) << target << " chunk " << chunk << " position " << p;
          if (json["next_margin"][p] >= 1e-3) {
            EXPECT_EQ(drafts[1], json["next_top"][p].get<int32_t>()) << target << " chunk " << chunk << " position " << p;
            ++compared;
          }
        }
      }
    }
  }
  EXPECT_GE(compared, 40u * targets().size() / 2);
}

// Verified rows behind images are decoded ones, also after a round that kept only some of them.
TEST_F(ImagePromptTest, VerifiedRowsAreDecodedOnes) {
  convert("dense-vision-mtp");
  makePlan({.drafts = 3});
  const Prompt prompt = readPrompts("dense-vision-mtp")[1];
  const auto drafted = make("reference", true), plain = make();
  const size_t behind = behindImages(prompt);
  for (Context *context : {drafted.get(), plain.get()})
    ASSERT_TRUE(submit(*context, prompt, encode(*context, prompt), 0, behind).ok());
  const std::span text = std::span(prompt.tokens).subspan(behind);
  ASSERT_TRUE(drafted->verify(std::vector<int32_t>{text[0], 9, 8}).ok());
  ASSERT_TRUE(drafted->accept(1).ok());
  ASSERT_TRUE(drafted->verify(text.subspan(1, 3)).ok());
  ASSERT_TRUE(plain->submit(text.first(1)).ok());
  for (size_t row = 0; row < 3; ++row) {
    ASSERT_TRUE(plain->submit(text.subspan(1 + row, 1)).ok());
    const auto got = drafted->rowLogits(row);
    EXPECT_EQ(std::vector<float>(got.begin(), got.end()), logits(*plain)) << row;
  }
  EXPECT_EQ(drafted->ropeDelta(), prompt.ropeDelta);
}

// One submit or several, and whatever was in the context before: the same bits. Text behind images, a cut behind an image or
// at its start, a fresh start.
TEST_F(ImagePromptTest, TheSequenceIsWhatCounts) {
  for (const char *name : {"vision", "dense-vision-mtp"}) {
    convert(name);
    makePlan({.chunk = 8, .targets = targets()});
    const Prompt prompt = readPrompts(name)[1];
    const size_t behind = behindImages(prompt), all = prompt.tokens.size();
    for (const std::string &target : targets()) {
      const auto context = make(target), fresh = make(target);
      const auto embeddings = encode(*context, prompt);
      // The calls are the same ones: up to the second image, up to its end, the rest one by one.
      auto run = [&](Context &c, size_t from) {
        if (from == 0)
          EXPECT_TRUE(submit(c, prompt, embeddings, 0, prompt.firsts[1]).ok());
        EXPECT_TRUE(submit(c, prompt, embeddings, prompt.firsts[1], behind).ok());
        for (size_t p = behind; p < all; ++p)
          EXPECT_TRUE(submit(c, prompt, embeddings, p, p + 1).ok());
        EXPECT_EQ(c.ropeDelta(), prompt.ropeDelta);
        return logits(c);
      };
      const std::vector<float> expected = run(*context, 0);
      ASSERT_TRUE(context->truncate(0).ok());
      EXPECT_EQ(context->ropeDelta(), 0);
      EXPECT_EQ(run(*context, 0), expected) << name << " " << target;
      if (std::string(name) == "vision") { // no recurrent state
        ASSERT_TRUE(context->truncate(uint32_t(prompt.firsts[1])).ok());
        EXPECT_NE(context->ropeDelta(), prompt.ropeDelta);
        EXPECT_EQ(run(*context, prompt.firsts[1]), expected) << target;
        ASSERT_TRUE(context->truncate(uint32_t(behind + 1)).ok());
        EXPECT_EQ(context->ropeDelta(), prompt.ropeDelta);
        for (size_t p = behind + 1; p < all; ++p)
          ASSERT_TRUE(submit(*context, prompt, embeddings, p, p + 1).ok());
        EXPECT_EQ(logits(*context), expected) << target;
        const Status inside = context->truncate(uint32_t(prompt.firsts[1] + 3));
        ASSERT_FALSE(inside.ok());
        EXPECT_EQ(inside.error().code, "NB0674");
        EXPECT_EQ(context->position(), all);
      }
      // Text after images in the same context is text in a new one.
      std::vector<int32_t> text;
      for (int32_t i = 0; i < 40; ++i)
        text.push_back(i * 3 % 90);
      ASSERT_TRUE(context->truncate(0).ok());
      for (Context *c : {context.get(), fresh.get()}) {
        ASSERT_TRUE(c->submit(text).ok());
        ASSERT_TRUE(c->submit(std::vector<int32_t>{5}).ok());
      }
      EXPECT_EQ(logits(*context), logits(*fresh)) << name << " " << target;
    }
  }
}

// A plan with images reads text as one without: the calls differ by a copy of rows.
TEST_F(ImagePromptTest, TextIsThatOfAPlanWithout) {
  convert("dense-vision-mtp");
  const std::vector<int32_t> text = readPrompts("dense-vision-mtp")[0].tokens; // placeholders as text
  std::vector<std::vector<float>> got;
  for (bool vision : {true, false}) {
    makePlan({.vision = vision, .targets = targets()});
    for (const std::string &target : targets()) {
      const auto context = make(target);
      ASSERT_TRUE(context->submit(std::span(text).first(20)).ok());
      ASSERT_TRUE(context->submit(std::span(text).subspan(20, 1)).ok());
      got.push_back(logits(*context));
    }
    // A reader of before knows all that a plan without images has.
    EXPECT_EQ(openPlan()->plan().schema_minor(), vision ? kPlanSchemaMinor : kPlanOldestMinor);
  }
  for (size_t i = 0; i < targets().size(); ++i)
    EXPECT_EQ(got[i], got[targets().size() + i]) << targets()[i];
}

TEST_F(ImagePromptTest, RefusesWhatDoesNotFit) {
  convert("vision");
  makePlan({});
  const Prompt prompt = readPrompts("vision")[1]; // images of 6 and 20 tokens at 3 and 11
  const auto context = make();
  ASSERT_TRUE(context->takesImages());
  const auto embeddings = encode(*context, prompt);
  const float *first = embeddings[0].data(), *second = embeddings[1].data();
  const ImageSpan a{3, {2, 12}, first}, b{11, {10, 8}, second};
  const std::pair<const char *, std::vector<ImageSpan>> cases[] = {
      {"NB0673", {b, a}},
      {"NB0673", {a, {8, {10, 8}, second}}},                  // one token in the first
      {"NB0673", {{prompt.tokens.size() - 5, {2, 12}, first}}}, // one token short
      {"NB0673", {{prompt.tokens.size() + 1, {2, 12}, first}}},
      {"NB0673", {{3, {2, 12}, nullptr}}},
      {"NB0676", {{3, {3, 8}, first}}},
      {"NB0676", {{0, {0, 4}, first}}},
      {"NB0676", {{0, {12, 8}, first}}}, // 96 patches, the plan takes 80
  };
  for (size_t i = 0; i < std::size(cases); ++i) {
    const Status refused = context->submit(prompt.tokens, cases[i].second);
    ASSERT_FALSE(refused.ok()) << i;
    EXPECT_EQ(refused.error().code, cases[i].first) << i;
    EXPECT_EQ(context->position(), 0u);
    EXPECT_EQ(context->ropeDelta(), 0);
  }
  // What the tower returned lies where the next call works.
  const auto tower = Tower::of(context->engine());
  const auto values = tower->encode(*context, pixels(0, {2, 12}, tower->patchWidth()), {2, 12});
  const ImageSpan uncopied{3, {2, 12}, values->data()};
  const Status refused = context->submit(prompt.tokens, {&uncopied, 1});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, "NB0673");
  EXPECT_NE(refused.error().message.find("copy them first"), std::string::npos);
  EXPECT_TRUE(context->submit(prompt.tokens, std::vector<ImageSpan>{a, b}).ok());
}

/// Writes plan.bin of built-ins anew, changed.
void patchPlan(const std::filesystem::path &path, const std::function<void(plan::TargetT &)> &change) {
  std::ifstream in(path, std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(in), {});
  plan::PlanT plan;
  plan::GetPlan(bytes.data() + kPlanHeaderBytes)->UnPackTo(&plan);
  ASSERT_EQ(plan.blobs.size(), 0u);
  change(*plan.targets.at(0));
  const auto written = buildPlan(plan, {});
  ASSERT_TRUE(written.ok()) << written.error().message;
  std::ofstream(path, std::ios::binary | std::ios::trunc).write(reinterpret_cast<const char *>(written->data()), std::streamsize(written->size()));
}

plan::PhaseT &phaseOf(plan::TargetT &target, plan::PhaseKind kind) {
  for (auto &phase : target.phases)
    if (phase->kind == kind)
      return *phase;
  ADD_FAILURE();
  return *target.phases[0];
}

// A target with a tower and without ports for its embeddings, as CUDA ones are.
TEST_F(ImagePromptTest, ATargetThatTakesNoImagesSaysSo) {
  convert("vision");
  makePlan({});
  patchPlan(file("plan.bin"), [](plan::TargetT &t) { phaseOf(t, plan::PhaseKind::Prefill).inputs.clear(); });
  const auto context = make();
  ASSERT_TRUE(context);
  EXPECT_FALSE(context->takesImages());
  const Prompt prompt = readPrompts("vision")[0];
  const Status refused = submit(*context, prompt, encode(*context, prompt), 0, prompt.tokens.size());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, "NB0672");
  EXPECT_EQ(refused.error().kind, ErrorKind::Unsupported);
}

TEST_F(ImagePromptTest, OtherPortsAreRefused) {
  convert("dense-vision-mtp");
  using plan::PhaseKind;
  const auto narrow = [](plan::PortT &port) { // half of its elements
    port.width /= 2;
    *port.ref = plan::Ref(plan::Space::Arena, 0, port.ref->offset(), port.ref->bytes() / 2);
  };
  const std::pair<const char *, std::function<void(plan::TargetT &)>> cases[] = {
      {"prefill: expected the inputs 'embeddings'", [](auto &t) { phaseOf(t, PhaseKind::Prefill).inputs[1]->name = "chosen"; }},
      {"prefill: expected the inputs 'embeddings'", [](auto &t) { phaseOf(t, PhaseKind::Prefill).inputs.pop_back(); }},
      {"the tower makes 64", [&](auto &t) {
         narrow(*phaseOf(t, PhaseKind::Prefill).inputs[0]);
         narrow(*phaseOf(t, PhaseKind::Draft).inputs[0]);
       }},
      {"of F32 and width 64", [&](auto &t) { narrow(*phaseOf(t, PhaseKind::Draft).inputs[0]); }},
      {"prefill: expected calls of 1 row", [](auto &t) { phaseOf(t, PhaseKind::Prefill).min_rows = 2; }},
      {"draft: expected the inputs of the prefill phase", [](auto &t) { phaseOf(t, PhaseKind::Draft).inputs.clear(); }},
      {"decode: expected no inputs", [](auto &t) {
         auto port = std::make_unique<plan::PortT>();
         port->name = "embeddings";
         port->width = 1;
         port->ref = std::make_unique<plan::Ref>(plan::Space::Arena, 0, 0, 4);
         phaseOf(t, PhaseKind::Decode).inputs.push_back(std::move(port));
       }},
      {"place: expected the one input 'positions'", [](auto &t) { phaseOf(t, PhaseKind::Place).inputs[0]->name = "places"; }},
      {"place: expected the one input 'positions'", [](auto &t) {
         plan::PhaseT &phase = phaseOf(t, PhaseKind::Place); // too short for a prefill call
         phase.max_rows = 8;
         *phase.inputs[0]->ref = plan::Ref(plan::Space::Arena, 0, phase.inputs[0]->ref->offset(), 8 * 3 * 4);
       }},
  };
  for (const auto &[rule, change] : cases) {
    makePlan({.drafts = 2});
    patchPlan(file("plan.bin"), change);
    const auto refused = Context::create(openPlan(), {.threads = 1});
    ASSERT_FALSE(refused.ok()) << rule;
    EXPECT_EQ(refused.error().code, "NB0677") << rule;
    EXPECT_NE(refused.error().message.find(rule), std::string::npos) << refused.error().message;
  }
}

TEST_F(ImagePromptTest, APlanWithoutTowerSaysSo) {
  convert("vision");
  makePlan({.vision = false});
  const auto context = make();
  EXPECT_FALSE(context->takesImages());
  const std::vector<float> row(64);
  const ImageSpan image{0, {2, 2}, row.data()};
  const Status refused = context->submit(std::vector<int32_t>{1, 2, 3}, {&image, 1});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, "NB0675");
  EXPECT_EQ(refused.error().kind, ErrorKind::Unsupported);
}

// Cancelled between two calls inside an image, the sequence ends there and goes on only from before the image.
TEST_F(ImagePromptTest, CancelledInsideAnImage) {
  convert("vision");
  makePlan({.chunk = 4});
  const Prompt prompt = readPrompts("vision")[1];
  const auto context = make();
  const auto embeddings = encode(*context, prompt);
  ASSERT_TRUE(submit(*context, prompt, embeddings, 0, prompt.tokens.size()).ok());
  const std::vector<float> expected = logits(*context);
  // The second image takes five calls of four rows; which one the cancel meets is up to the machine, so it is tried until one
  // inside is met; a machine that runs other jobs may take long.
  bool met = false;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(3);
  for (int attempt = 0; !met && std::chrono::steady_clock::now() < deadline; ++attempt) {
    ASSERT_TRUE(context->truncate(0).ok());
    std::atomic<bool> started{false};
    std::thread canceller([&] {
      while (!started)
        ;
      std::this_thread::sleep_for(std::chrono::microseconds(20 * (attempt % 100)));
      context->cancel();
    });
    started = true;
    const Status status = submit(*context, prompt, embeddings, 0, prompt.tokens.size());
    canceller.join();
    const uint32_t at = context->position();
    if (status.ok()) { // the flag came too late and waits for the next call
      EXPECT_FALSE(context->submit(std::vector<int32_t>{1}).ok());
      continue;
    }
    EXPECT_EQ(status.error().code, "NB0653");
    if (at <= prompt.firsts[1] || at >= behindImages(prompt))
      continue;
    met = true;
    const Status refused = context->submit(std::vector<int32_t>{1});
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, "NB0674");
    ASSERT_TRUE(context->truncate(uint32_t(prompt.firsts[1])).ok());
    ASSERT_TRUE(submit(*context, prompt, embeddings, prompt.firsts[1], prompt.tokens.size()).ok());
    EXPECT_LE(distance(logits(*context), std::span<const float>(expected)).relative(), 1e-6);
  }
  EXPECT_TRUE(met);
}

// Traced layers see the embeddings of the image.
TEST_F(ImagePromptTest, TracesBeginWithTheEmbeddings) {
  convert("vision");
  makePlan({.chunk = 64, .traceLayers = true});
  const Prompt prompt = readPrompts("vision")[0]; // 6 tokens at 5
  const auto context = make();
  const auto embeddings = encode(*context, prompt);
  ASSERT_TRUE(submit(*context, prompt, embeddings, 0, prompt.tokens.size()).ok());
  const ProgramOutput &output = context->outputs()[0];
  ASSERT_EQ(output.source->name()->string_view(), "text/token_embedding");
  const auto *rows = static_cast<const float *>(output.data);
  const size_t width = output.source->width();
  EXPECT_EQ(std::vector<float>(rows + 5 * width, rows + 11 * width), embeddings[0]);
}

TEST_F(ImagePromptTest, CInterface) {
  convert("vision");
  makePlan({});
  const Prompt prompt = readPrompts("vision")[0];
  ninfer_open_options open = {};
  open.struct_size = sizeof(open);
  const std::string plan = file("plan.bin").string();
  open.plan_path = plan.c_str();
  ninfer_engine *engine = nullptr;
  ninfer_error *error = nullptr;
  ASSERT_EQ(ninfer_engine_open(&open, &engine, &error), NINFER_OK);
  ninfer_vision_info info = {};
  info.struct_size = sizeof(info);
  ASSERT_EQ(ninfer_engine_get_vision(engine, &info, &error), NINFER_OK);
  EXPECT_EQ(info.images_in_text, 1u);
  ninfer_context *context = nullptr;
  ASSERT_EQ(ninfer_context_create(engine, nullptr, &context, &error), NINFER_OK);
  const auto patches = pixels(prompt.images[0], prompt.grids[0], info.patch_width);
  const float *values = nullptr;
  size_t count = 0;
  ASSERT_EQ(ninfer_context_encode_image(context, patches.data(), 6, 4, &values, &count, &error), NINFER_OK);
  const std::vector<float> embeddings(values, values + count);
  ninfer_image_span image = {};
  image.struct_size = sizeof(image);
  image.first = prompt.firsts[0];
  image.grid_height = 6;
  image.grid_width = 4;
  image.embeddings = embeddings.data();
  ASSERT_EQ(ninfer_context_submit_images(context, prompt.tokens.data(), prompt.tokens.size(), &image, 1, &error), NINFER_OK);
  ASSERT_EQ(ninfer_context_get_logits(context, &values, &count, &error), NINFER_OK);
  EXPECT_LE(distance(std::span(values, count), prompt.exact.back()).relative(), kReferenceCriterion);
  image.first = prompt.tokens.size();
  EXPECT_EQ(ninfer_context_submit_images(context, prompt.tokens.data(), prompt.tokens.size(), &image, 1, &error), NINFER_USAGE);
  EXPECT_STREQ(ninfer_error_code(error), "NB0673");
  ninfer_error_release(error);
  error = nullptr;
  image.struct_size = 4;
  EXPECT_EQ(ninfer_context_submit_images(context, prompt.tokens.data(), 1, &image, 1, &error), NINFER_USAGE);
  ninfer_error_release(error);
  ninfer_context_release(context);
  ninfer_engine_release(engine);
}

} // namespace
