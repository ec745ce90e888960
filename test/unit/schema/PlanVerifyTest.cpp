// Every rule of the plan verifier has one case that breaks it and nothing else.
#include "PlanFixture.h"
#include "runtime/abi/kernel_abi.h"
#include "schema/Verify.h"

#include <cstring>
#include <gtest/gtest.h>

using namespace ninfer;
using namespace ninfer::test;

namespace {

std::vector<std::byte> smallFile() {
  auto file = buildPlan(smallPlan(), smallBlobs());
  EXPECT_TRUE(file.ok()) << (file.ok() ? "" : file.error().render());
  return file.take();
}

TEST(PlanView, ReadsBackWhatWasWritten) {
  const auto file = smallFile();
  auto view = PlanView::open(file, "p.bin");
  ASSERT_TRUE(view.ok()) << view.error().render();
  EXPECT_EQ((*view)->model()->vocab_size(), 32u);
  ASSERT_EQ((*view)->blobs()->size(), 2u);
  EXPECT_EQ((*view)->blobs()->Get(0)->offset() % 4096, 0u);
  EXPECT_EQ(view->blob(0).size(), 300u);
  EXPECT_EQ(view->blob(0)[299], std::byte{0x5a});
  EXPECT_EQ(view->blob(1)[0], std::byte{1});
  const plan::Target *target = view->findTarget("cpu:x86-64-v3");
  ASSERT_NE(target, nullptr);
  EXPECT_EQ(view->findTarget("cpu"), nullptr);
  ASSERT_NE(PlanView::findPhase(*target, plan::PhaseKind::Prefill), nullptr);
  EXPECT_EQ(PlanView::findPhase(*target, plan::PhaseKind::Prefill)->max_rows(), 4u);
  EXPECT_EQ(PlanView::findPhase(*target, plan::PhaseKind::Verify), nullptr);
}

TEST(PlanBuild, IsAPureFunction) { EXPECT_EQ(smallFile(), smallFile()); }

TEST(PlanBuild, WithoutBlobsEndsAtTheFlatBuffer) {
  auto plan = smallPlan();
  plan.targets[0]->kernels[0]->kind = plan::KernelKind::Builtin;
  auto file = buildPlan(plan, {});
  ASSERT_TRUE(file.ok()) << file.error().render();
  EXPECT_TRUE(verifyPlan(*file, "p.bin").ok());
}

// --- versions
// -------------------------------------------------------------------------------------------

struct VersionCase {
  const char *what;
  std::function<void(plan::PlanT &, uint32_t)> set;
  uint32_t current;
  bool olderIsLegal = false;
};

TEST(PlanVersions, OtherNumbersAreTargetMismatch) {
  const VersionCase cases[] = {
      {"plan schema version", [](auto &p, uint32_t v) { p.schema_version = v; },
       kPlanSchemaVersion},
      {"plan schema minor version", [](auto &p, uint32_t v) { p.schema_minor = v; },
       kPlanSchemaMinor, true},
      {"kernel ABI version", [](auto &p, uint32_t v) { p.kernel_abi_version = v; },
       NINFER_KERNEL_ABI_VERSION},
  };
  for (const VersionCase &c : cases)
    for (uint32_t version : {c.current - 1, c.current + 1, 0xFFFFFFFFu}) {
      // The writer fills a zero version in, so the field is patched in finished bytes (same size).
      auto file = smallFile();
      plan::PlanT patched;
      plan::GetPlan(file.data() + kPlanHeaderBytes)->UnPackTo(&patched);
      c.set(patched, version);
      flatbuffers::FlatBufferBuilder builder;
      builder.ForceDefaults(true);
      plan::FinishPlanBuffer(builder, plan::Plan::Pack(builder, &patched));
      std::memcpy(file.data() + kPlanHeaderBytes, builder.GetBufferPointer(), builder.GetSize());
      sealPlan(file);
      Status status = verifyPlan(file, "p.bin");
      if (c.olderIsLegal && version < c.current) {
        EXPECT_TRUE(status.ok()) << c.what << " " << version << ": " << status.error().render();
        continue;
      }
      ASSERT_FALSE(status.ok()) << c.what << " " << version;
      EXPECT_EQ(status.error().kind, ErrorKind::TargetMismatch) << status.error().render();
      EXPECT_EQ(status.error().code, "NB0505");
      EXPECT_NE(status.error().message.find(c.what), std::string::npos) << status.error().message;
      EXPECT_NE(status.error().message.find("plan: " + std::to_string(version)), std::string::npos)
          << status.error().message;
      EXPECT_NE(status.error().message.find("this build: "), std::string::npos);
    }
}

TEST(PlanVersions, HeaderVersionAndIdentifierDigit) {
  for (uint32_t version : {kPlanHeaderVersion - 1, kPlanHeaderVersion + 1, 0xFFFFFFFFu}) {
    auto file = smallFile();
    std::memcpy(file.data() + 8, &version, 4);
    Status status = verifyPlan(file, "p.bin");
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().kind, ErrorKind::TargetMismatch);
  }
  auto file = smallFile();
  file[kPlanHeaderBytes + 7] = std::byte{'2'};
  sealPlan(file);
  Status status = verifyPlan(file, "p.bin");
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::TargetMismatch);
  EXPECT_NE(status.error().message.find("plan: NIP2, this build: NIP1"), std::string::npos)
      << status.error().message;
}

// --- structure
// ------------------------------------------------------------------------------------------

void expectCode(std::span<const std::byte> file, const char *code) {
  Status status = verifyPlan(file, "p.bin");
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, code) << status.error().render();
  EXPECT_EQ(status.error().kind, ErrorKind::BadFile);
  EXPECT_EQ(status.error().message.rfind("p.bin: ", 0), 0u) << status.error().message;
}

TEST(PlanStructure, HeaderRules) {
  const auto good = smallFile();
  const std::span<const std::byte> all(good);
  expectCode(all.first(0), "NB0501");
  expectCode(all.first(7), "NB0501");
  expectCode(all.first(10), "NB0502");
  expectCode(all.first(4095), "NB0502");
  expectCode(all.first(4096), "NB0502");
  expectCode(all.first(good.size() - 1), "NB0502");
  auto longer = good;
  longer.push_back(std::byte{0});
  expectCode(longer, "NB0502");

  struct Patch {
    size_t at;
    const char *code;
  };
  for (Patch patch :
       {Patch{0, "NB0501"}, Patch{12, "NB0502"}, Patch{16, "NB0502"}, Patch{31, "NB0502"},
        Patch{32, "NB0502"}, Patch{40, "NB0503"}, Patch{72, "NB0502"}, Patch{4095, "NB0502"},
        Patch{4096, "NB0503"}, Patch{good.size() - 1, "NB0503"}}) {
    auto file = good;
    file[patch.at] ^= std::byte{0x40};
    SCOPED_TRACE(patch.at);
    expectCode(file, patch.code);
  }
  auto file = good;
  file[kPlanHeaderBytes + 4] = std::byte{'X'};
  sealPlan(file);
  expectCode(file, "NB0504");
  file = good;
  std::memset(file.data() + kPlanHeaderBytes, 0xff, 4); // root offset
  sealPlan(file);
  expectCode(file, "NB0504");
}

TEST(PlanStructure, DigestAndPaddingOfBlobs) {
  auto file = smallFile();
  auto view = PlanView::open(file, "p.bin");
  ASSERT_TRUE(view.ok());
  const uint64_t blob = (*view)->blobs()->Get(0)->offset();
  file[blob] ^= std::byte{1};
  sealPlan(file);
  expectCode(file, "NB0514");
  file = smallFile();
  file[blob - 1] = std::byte{1};
  sealPlan(file);
  expectCode(file, "NB0523");
}

// --- meaning
// --------------------------------------------------------------------------------------------

struct MeaningCase {
  const char *name;
  const char *code;
  std::function<void(plan::PlanT &)> breakIt;
};

plan::TargetT &target(plan::PlanT &p) { return *p.targets[0]; }
plan::LaunchT &decodeLaunch(plan::PlanT &p) { return *target(p).phases[1]->launches[0]; }
plan::LaunchT &prefillLaunch(plan::PlanT &p) { return *target(p).phases[2]->launches[0]; }

plan::PhaseT &phaseOf(plan::PlanT &p, plan::PhaseKind kind) {
  for (auto &phase : target(p).phases)
    if (phase->kind == kind)
      return *phase;
  throw std::logic_error("no such phase");
}

void erasePhase(plan::PlanT &p, plan::PhaseKind kind) {
  std::erase_if(target(p).phases, [&](const auto &phase) { return phase->kind == kind; });
}

/// An output of four float32 per row of the prefill phase.
plan::PortT *addPort(plan::PlanT &p) {
  auto port = std::make_unique<plan::PortT>();
  port->name = "hidden";
  port->width = 4;
  port->ref = std::make_unique<plan::Ref>(arena(1024, 64));
  target(p).phases[2]->outputs.push_back(std::move(port));
  return target(p).phases[2]->outputs.back().get();
}

plan::ArtifactHeadT &addHead(plan::PlanT &p) {
  p.artifact->head = std::make_unique<plan::ArtifactHeadT>();
  p.artifact->head->bytes = 4096;
  p.artifact->head->sha256.assign(32, 5);
  for (const char *role : {"tokenizer.json", "chat_template.jinja"}) {
    p.artifact->head->resources.push_back(std::make_unique<plan::ResourceT>());
    p.artifact->head->resources.back()->role = role;
    p.artifact->head->resources.back()->bytes = 4096;
  }
  p.artifact->head->resources[1]->offset = 4096;
  return *p.artifact->head;
}

const MeaningCase kCases[] = {
    {"no targets", "NB0515", [](auto &p) { p.targets.clear(); }},
    {"framing", "NB0511", [](auto &p) { p.artifact->framing = 4; }},
    {"short signature", "NB0511", [](auto &p) { p.artifact->storage_signature.pop_back(); }},
    {"payload zero", "NB0511", [](auto &p) { p.artifact->payload_bytes = 0; }},
    {"path in file name", "NB0511", [](auto &p) { p.artifact->file_name = "../x.ninfer"; }},
    {"absolute file name", "NB0511", [](auto &p) { p.artifact->file_name = "/x.ninfer"; }},
    {"dot dot", "NB0511", [](auto &p) { p.artifact->file_name = ".."; }},
    {"control character", "NB0510", [](auto &p) { p.artifact->file_name = "a\nb"; }},
    {"head of nothing", "NB0511", [](auto &p) { addHead(p).bytes = 0; }},
    {"short head digest", "NB0511", [](auto &p) { addHead(p).sha256.pop_back(); }},
    {"resource behind the payload", "NB0511", [](auto &p) { addHead(p).resources[1]->offset = 4097; }},
    {"resource longer than the payload", "NB0511", [](auto &p) { addHead(p).resources[0]->bytes = 8193; }},
    {"empty resource", "NB0511", [](auto &p) { addHead(p).resources[0]->bytes = 0; }},
    {"resource twice", "NB0510", [](auto &p) { addHead(p).resources[1]->role = "tokenizer.json"; }},
    {"vocab zero", "NB0512", [](auto &p) { p.model->vocab_size = 0; }},
    {"chunk above context", "NB0512", [](auto &p) { p.model->prefill_chunk = 17; }},
    {"layers zero", "NB0512", [](auto &p) { p.model->layers = 0; }},
    {"zero dimension", "NB0513", [](auto &p) { p.parameters[0]->shape[0] = 0; }},
    {"shape overflow", "NB0513",
     [](auto &p) {
       p.parameters[0]->shape = {1ull << 33, 1ull << 33};
     }},
    {"parameter above payload", "NB0513", [](auto &p) { p.parameters[0]->bytes = 8193; }},
    {"parameter twice", "NB0510",
     [](auto &p) { p.parameters.push_back(std::make_unique<plan::ParameterT>(*p.parameters[0])); }},
    {"target twice", "NB0510",
     [](auto &p) { p.targets.push_back(std::make_unique<plan::TargetT>(target(p))); }},
    {"executor not prefix", "NB0515", [](auto &p) { target(p).executor = "cuda"; }},
    {"executor prefix without colon", "NB0515", [](auto &p) { target(p).executor = "cp"; }},
    {"arena zero", "NB0515", [](auto &p) { target(p).arena_bytes = 0; }},
    {"arena huge", "NB0515", [](auto &p) { target(p).arena_bytes = ~0ull; }},
    {"feature twice", "NB0510",
     [](auto &p) {
       target(p).cpu_features = {"fma", "fma"};
     }},
    {"empty symbol", "NB0510", [](auto &p) { target(p).kernels[0]->symbol = ""; }},
    {"kernel blob", "NB0516", [](auto &p) { target(p).kernels[0]->blob = 2; }},
    {"kernel kind", "NB0516",
     [](auto &p) { target(p).kernels[0]->kind = static_cast<plan::KernelKind>(9); }},
    {"kernel scratch", "NB0516", [](auto &p) { target(p).kernels[0]->scratch_bytes = 257; }},
    {"no args", "NB0516", [](auto &p) { target(p).kernels[0]->num_args = 0; }},
    {"attributes on elf", "NB0516",
     [](auto &p) {
       target(p).kernels[0]->attributes.push_back(
           std::make_unique<plan::AttributeT>(*target(p).kernels[1]->attributes[0]));
     }},
    {"attribute type", "NB0516",
     [](auto &p) {
       target(p).kernels[1]->attributes[0]->type = static_cast<plan::AttributeType>(0);
     }},
    {"attribute nan", "NB0516",
     [](auto &p) {
       target(p).kernels[1]->attributes[0]->floats = {std::numeric_limits<double>::quiet_NaN()};
     }},
    {"attribute without floats", "NB0516",
     [](auto &p) { target(p).kernels[1]->attributes[0]->floats.clear(); }},
    {"attribute without string", "NB0510",
     [](auto &p) { target(p).kernels[1]->attributes[0]->type = plan::AttributeType::String; }},
    {"state empty", "NB0517", [](auto &p) { target(p).states[0]->bytes = 0; }},
    {"state align", "NB0517", [](auto &p) { target(p).states[0]->align = 48; }},
    {"state sum", "NB0517",
     [](auto &p) {
       target(p).states.push_back(std::make_unique<plan::StateT>(*target(p).states[0]));
       target(p).states[1]->name = "b";
       target(p).states[0]->bytes = target(p).states[1]->bytes = 1ull << 47;
       target(p).states[0]->align = 4096;
     }},
    {"phase kind", "NB0518",
     [](auto &p) { target(p).phases[1]->kind = static_cast<plan::PhaseKind>(9); }},
    {"phase kind zero", "NB0518",
     [](auto &p) { target(p).phases[1]->kind = static_cast<plan::PhaseKind>(0); }},
    {"two decodes", "NB0518",
     [](auto &p) {
       target(p).phases.push_back(std::make_unique<plan::PhaseT>(*target(p).phases[1]));
       target(p).phases.back()->name = "again";
     }},
    {"no prefill", "NB0518", [](auto &p) { target(p).phases.pop_back(); }},
    {"decode with two rows", "NB0518", [](auto &p) { target(p).phases[1]->max_rows = 2; }},
    {"rows above context", "NB0518", [](auto &p) { target(p).phases[2]->max_rows = 17; }},
    {"min above max", "NB0518", [](auto &p) { target(p).phases[2]->min_rows = 5; }},
    {"no tokens", "NB0518", [](auto &p) { target(p).phases[1]->tokens.reset(); }},
    {"setup with logits", "NB0518",
     [](auto &p) { target(p).phases[0]->logits = std::make_unique<plan::Ref>(arena(0, 128)); }},
    {"no launches", "NB0518", [](auto &p) { target(p).phases[1]->launches.clear(); }},
    {"token bytes", "NB0518", [](auto &p) { *target(p).phases[2]->tokens = arena(0, 12); }},
    {"logit bytes", "NB0518", [](auto &p) { *target(p).phases[1]->logits = arena(64, 124); }},
    {"tokens in payload", "NB0520",
     [](auto &p) { *target(p).phases[1]->tokens = plan::Ref(plan::Space::Payload, 0, 0, 4); }},
    {"logits outside arena", "NB0520",
     [](auto &p) { *target(p).phases[1]->logits = arena(4096, 128); }},
    {"draft without next", "NB0518",
     [](auto &p) { addSpeculation(p), erasePhase(p, plan::PhaseKind::DraftNext); }},
    {"draft without verify", "NB0518",
     [](auto &p) {
       addSpeculation(p), erasePhase(p, plan::PhaseKind::Commit);
       erasePhase(p, plan::PhaseKind::Verify);
     }},
    {"next without draft", "NB0518",
     [](auto &p) { addSpeculation(p), erasePhase(p, plan::PhaseKind::Draft); }},
    {"commit without verify", "NB0518",
     [](auto &p) {
       addSpeculation(p);
       for (auto kind : {plan::PhaseKind::Verify, plan::PhaseKind::Draft, plan::PhaseKind::DraftNext})
         erasePhase(p, kind);
     }},
    {"draft rows", "NB0518",
     [](auto &p) {
       addSpeculation(p), phaseOf(p, plan::PhaseKind::Draft).max_rows = 3;
       *phaseOf(p, plan::PhaseKind::Draft).tokens = arena(0, 12);
     }},
    {"commit rows", "NB0518",
     [](auto &p) { addSpeculation(p), phaseOf(p, plan::PhaseKind::Commit).max_rows = 2; }},
    {"draft of at least two rows", "NB0518",
     [](auto &p) { addSpeculation(p), phaseOf(p, plan::PhaseKind::Draft).min_rows = 2; }},
    {"commit of at least two rows", "NB0518",
     [](auto &p) { addSpeculation(p), phaseOf(p, plan::PhaseKind::Commit).min_rows = 2; }},
    {"verify without room for a draft", "NB0518",
     [](auto &p) {
       addSpeculation(p), erasePhase(p, plan::PhaseKind::Commit);
       plan::PhaseT &verify = phaseOf(p, plan::PhaseKind::Verify);
       verify.max_rows = 1;
       *verify.tokens = arena(0, 4);
       *verify.logits = arena(64, 128);
     }},
    {"commit with tokens", "NB0518",
     [](auto &p) {
       addSpeculation(p);
       phaseOf(p, plan::PhaseKind::Commit).tokens = std::make_unique<plan::Ref>(arena(0, 12));
     }},
    {"commit without launches", "NB0518",
     [](auto &p) { addSpeculation(p), phaseOf(p, plan::PhaseKind::Commit).launches.clear(); }},
    {"next with two rows", "NB0518",
     [](auto &p) { addSpeculation(p), phaseOf(p, plan::PhaseKind::DraftNext).max_rows = 2; }},
    {"verify logits of one row", "NB0518",
     [](auto &p) { addSpeculation(p), *phaseOf(p, plan::PhaseKind::Verify).logits = arena(64, 128); }},
    {"token ids of decode", "NB0518",
     [](auto &p) { target(p).phases[1]->token_ids = std::make_unique<plan::Ref>(ids()); }},
    {"token ids in the arena", "NB0518",
     [](auto &p) {
       addSpeculation(p);
       phaseOf(p, plan::PhaseKind::Draft).token_ids = std::make_unique<plan::Ref>(arena(0, 64));
     }},
    {"token ids and logits differ", "NB0518",
     [](auto &p) { addSpeculation(p), *phaseOf(p, plan::PhaseKind::Draft).logits = arena(64, 128); }},
    {"port bytes", "NB0518", [](auto &p) { *addPort(p)->ref = arena(1024, 60); }},
    {"port in a state", "NB0518",
     [](auto &p) { *addPort(p)->ref = plan::Ref(plan::Space::State, 0, 0, 64); }},
    {"port width", "NB0518", [](auto &p) { addPort(p)->width = 0; }},
    {"port element", "NB0518",
     [](auto &p) { addPort(p)->element = static_cast<plan::ElementType>(4); }},
    {"port of bfloat16 beside a CPU", "NB0524",
     [](auto &p) {
       auto *port = addPort(p);
       port->element = plan::ElementType::BF16;
       *port->ref = arena(1024, 32);
     }},
    {"port twice", "NB0510", [](auto &p) { addPort(p), addPort(p); }},
    {"port of setup", "NB0518",
     [](auto &p) {
       addPort(p);
       target(p).phases[0]->outputs = std::move(target(p).phases[2]->outputs);
     }},
    {"encode with tokens", "NB0518",
     [](auto &p) {
       auto phase = std::make_unique<plan::PhaseT>(*target(p).phases[2]);
       phase->name = "encode";
       phase->kind = plan::PhaseKind::Encode;
       target(p).phases.push_back(std::move(phase));
     }},
    {"place with tokens", "NB0518",
     [](auto &p) {
       auto phase = std::make_unique<plan::PhaseT>(*target(p).phases[2]);
       phase->name = "place";
       phase->kind = plan::PhaseKind::Place;
       target(p).phases.push_back(std::move(phase));
     }},
    {"phase kind behind the last", "NB0518",
     [](auto &p) {
       auto phase = std::make_unique<plan::PhaseT>(*target(p).phases[2]);
       phase->name = "later";
       phase->kind = static_cast<plan::PhaseKind>(11);
       target(p).phases.push_back(std::move(phase));
     }},
    {"kernel index", "NB0519", [](auto &p) { decodeLaunch(p).kernel = 2; }},
    {"argument count", "NB0519", [](auto &p) { decodeLaunch(p).args.pop_back(); }},
    {"no tiles", "NB0519", [](auto &p) { decodeLaunch(p).tiles_const = 0; }},
    {"tiles overflow", "NB0519", [](auto &p) { prefillLaunch(p).tiles_per_row = 1ull << 39; }},
    {"tiles huge", "NB0519", [](auto &p) { prefillLaunch(p).tiles_const = ~0ull; }},
    {"space none", "NB0520",
     [](auto &p) {
       decodeLaunch(p).args[0] = {plan::Space::None, 0, 0, 4};
     }},
    {"space unknown", "NB0520",
     [](auto &p) {
       decodeLaunch(p).args[0] = {static_cast<plan::Space>(5), 0, 0, 4};
     }},
    {"payload bound", "NB0520",
     [](auto &p) {
       decodeLaunch(p).args[1] = {plan::Space::Payload, 0, 4096, 4097};
     }},
    {"payload wrap", "NB0520",
     [](auto &p) {
       decodeLaunch(p).args[1] = {plan::Space::Payload, 0, ~0ull, 2};
     }},
    {"payload index", "NB0520",
     [](auto &p) {
       decodeLaunch(p).args[1] = {plan::Space::Payload, 1, 0, 2};
     }},
    {"arena bound", "NB0520", [](auto &p) { decodeLaunch(p).args[2] = arena(4032, 65); }},
    {"arena alignment", "NB0520", [](auto &p) { decodeLaunch(p).args[2] = arena(32, 4); }},
    {"empty range", "NB0520", [](auto &p) { decodeLaunch(p).args[2] = arena(64, 0); }},
    {"state index", "NB0520",
     [](auto &p) {
       decodeLaunch(p).args[1] = {plan::Space::State, 1, 0, 4};
     }},
    {"state bound", "NB0520",
     [](auto &p) {
       decodeLaunch(p).args[1] = {plan::Space::State, 0, 192, 65};
     }},
    {"constant index", "NB0520",
     [](auto &p) {
       decodeLaunch(p).args[1] = {plan::Space::Constant, 2, 0, 4};
     }},
    {"constant bound", "NB0520",
     [](auto &p) {
       decodeLaunch(p).args[1] = {plan::Space::Constant, 1, 64, 1};
     }},
    {"partial overlap", "NB0521",
     [](auto &p) {
       decodeLaunch(p).args[0] = arena(0, 68);
       decodeLaunch(p).args[2] = arena(64, 128);
     }},
    {"verdict word", "NB0522",
     [](auto &p) { target(p).traces[0]->verdicts[0]->verdict = "perhaps"; }},
    {"trace kernel", "NB0522", [](auto &p) { target(p).traces[0]->kernel = 2; }},
    {"no verdict", "NB0522", [](auto &p) { target(p).traces[0]->verdicts.clear(); }},
};

class PlanMeaning : public ::testing::TestWithParam<MeaningCase> {};

TEST_P(PlanMeaning, IsRefused) {
  auto plan = smallPlan();
  GetParam().breakIt(plan);
  auto file = buildPlan(plan, smallBlobs());
  ASSERT_FALSE(file.ok()) << GetParam().name;
  EXPECT_EQ(file.error().code, GetParam().code) << file.error().render();
  EXPECT_EQ(file.error().kind, ErrorKind::BadFile);
}

INSTANTIATE_TEST_SUITE_P(Rules, PlanMeaning, ::testing::ValuesIn(kCases), [](const auto &info) {
  std::string name = info.param.name;
  for (char &c : name)
    if (!std::isalnum(static_cast<unsigned char>(c)))
      c = '_';
  return name;
});

TEST(PlanMeaningLegal, SpeculationAndPortsAreLegal) {
  auto plan = smallPlan();
  addSpeculation(plan);
  addPort(plan);
  auto file = buildPlan(plan, smallBlobs());
  EXPECT_TRUE(file.ok()) << file.error().render();
}

TEST(PlanMeaningLegal, AnOutputMayBeOfTheLastRow) {
  for (bool input : {false, true}) {
    auto plan = smallPlan();
    *addPort(plan)->ref = arena(1024, 16);
    plan::PhaseT &phase = *target(plan).phases[2];
    ASSERT_GT(phase.max_rows, 1u);
    if (input)
      phase.inputs = std::move(phase.outputs);
    EXPECT_EQ(buildPlan(plan, smallBlobs()).ok(), !input);
  }
}

TEST(PlanMeaningLegal, InPlaceArgumentsAreLegal) {
  auto plan = smallPlan();
  decodeLaunch(plan).args[0] = decodeLaunch(plan).args[2];
  EXPECT_TRUE(buildPlan(plan, smallBlobs()).ok());
}

} // namespace
