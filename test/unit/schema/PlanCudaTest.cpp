// Rules of CUDA targets in the plan verifier: one case breaks each, and nothing else.
#include "PlanFixture.h"
#include "schema/Verify.h"

#include <gtest/gtest.h>

using namespace ninfer;
using namespace ninfer::test;

namespace {

using plan::CudaParam;
using plan::CudaParamKind;
using plan::Space;

plan::TargetT &target(plan::PlanT &p) { return *p.targets[0]; }
plan::CudaCodeT &code(plan::PlanT &p) { return *target(p).kernels[0]->cuda; }
plan::PhaseT &load(plan::PlanT &p) { return *target(p).phases[0]; }
plan::PhaseT &decode(plan::PlanT &p) { return *target(p).phases[2]; }
plan::PhaseT &prefill(plan::PlanT &p) { return *target(p).phases[3]; }

/// smallPlan() for a device: one kernel of four parameters, a copy and a packing launch, the rope table as built-in.
plan::PlanT cudaPlan() {
  plan::PlanT plan = smallPlan();
  plan::TargetT &t = target(plan);
  t.name = "cuda:sm_89";
  t.executor = "cuda";
  t.cpu_features.clear();
  t.scratch_bytes_per_thread = 0;
  t.cuda = std::make_unique<plan::CudaTargetT>();
  t.cuda->sm = 89;
  t.cuda->min_driver = 13000;
  t.cuda->packed_bytes = 4096;
  t.cuda->staging_bytes = 1024;

  plan::KernelT &kernel = *t.kernels[0];
  kernel.kind = plan::KernelKind::Cuda;
  kernel.scratch_bytes = 0;
  kernel.cuda = std::make_unique<plan::CudaCodeT>();
  kernel.cuda->threads = 128;
  kernel.cuda->registers = 40;
  kernel.cuda->shared_bytes = 1024;
  kernel.cuda->source_sha256.assign(32, 9);
  kernel.cuda->params = {CudaParam(CudaParamKind::Pointer, 0, 0, 4), CudaParam(CudaParamKind::Pointer, 1, 0, 0),
                         CudaParam(CudaParamKind::Pointer, 2, 0, 0), CudaParam(CudaParamKind::Null, 0, 0, 0),
                         CudaParam(CudaParamKind::Position, 0, 0, 0), CudaParam(CudaParamKind::Word, 0, 32, 1)};
  auto copy = std::make_unique<plan::KernelT>();
  copy->name = copy->symbol = "copy";
  copy->kind = plan::KernelKind::Builtin;
  copy->num_args = 2;
  t.kernels.push_back(std::move(copy));

  for (plan::PhaseT *phase : {t.phases[1].get(), t.phases[2].get()})
    phase->launches[0]->args[1] = {Space::Packed, 0, 0, 1536};
  auto phase = std::make_unique<plan::PhaseT>();
  phase->kind = plan::PhaseKind::Load;
  phase->name = "load";
  phase->min_rows = phase->max_rows = 1;
  phase->launches.push_back(launch(2, {{Space::Payload, 0, 0, 512}, {Space::Packed, 0, 0, 512}}));
  phase->launches.push_back(launch(0, {{Space::Payload, 0, 512, 500}, {Space::Payload, 0, 1024, 4}, {Space::Packed, 0, 512, 1024}}));
  t.phases.insert(t.phases.begin(), std::move(phase));
  return plan;
}

struct CudaCase {
  const char *name;
  const char *rule; ///< part of the message
  std::function<void(plan::PlanT &)> breakIt;
};

const CudaCase kCases[] = {
    {"no descriptor", "cuda is absent, but",
     [](auto &p) {
       p.targets[0] = std::move(smallPlan().targets[0]);
       target(p).name = target(p).executor = "cuda";
     }},
    {"architecture", "cuda.sm is 0", [](auto &p) { target(p).cuda->sm = 0; }},
    {"driver", "cuda.min_driver is 13", [](auto &p) { target(p).cuda->min_driver = 13; }},
    {"packed size", "cuda.packed_bytes", [](auto &p) { target(p).cuda->packed_bytes = ~0ull; }},
    {"staging size", "cuda.staging_bytes is", [](auto &p) { target(p).cuda->staging_bytes = ~0ull; }},
    {"no code", "cuda is absent in a CUDA kernel", [](auto &p) { target(p).kernels[0]->cuda.reset(); }},
    {"code of a built-in", "is no CUDA kernel",
     [](auto &p) { target(p).kernels[1]->cuda = std::make_unique<plan::CudaCodeT>(code(p)); }},
    {"elf kernel", "kind is Elf",
     [](auto &p) {
       target(p).kernels[0]->kind = plan::KernelKind::Elf;
       target(p).kernels[0]->cuda.reset();
     }},
    {"blob", "blob is 2", [](auto &p) { target(p).kernels[0]->blob = 2; }},
    {"threads", "threads is 100", [](auto &p) { code(p).threads = 100; }},
    {"threads zero", "threads is 0", [](auto &p) { code(p).threads = 0; }},
    {"shared", "shared_bytes is", [](auto &p) { code(p).shared_bytes = 227 * 1024 + 1; }},
    {"registers zero", "registers is 0", [](auto &p) { code(p).registers = 0; }},
    {"registers of a block", "too many for blocks",
     [](auto &p) {
       code(p).threads = 1024;
       code(p).registers = 65;
     }},
    {"rows of a tile", "rows_per_tile is 0", [](auto &p) { code(p).rows_per_tile = 0; }},
    {"digest", "source_sha256 has 31", [](auto &p) { code(p).source_sha256.resize(31); }},
    {"grid without tiles", "expected one 0", [](auto &p) { code(p).grid_x = 1; }},
    {"grid with two", "expected one 0", [](auto &p) { code(p).grid_y = 0; }},
    {"grid extent", "blocks on axis 1", [](auto &p) { code(p).grid_y = 65536; }},
    {"no params", "params has 0", [](auto &p) { code(p).params.clear(); }},
    {"many params", "params has 65", [](auto &p) { code(p).params.resize(65, code(p).params[0]); }},
    {"param kind", "params[3].kind is 5",
     [](auto &p) { code(p).params[3] = CudaParam(static_cast<CudaParamKind>(5), 0, 0, 0); }},
    {"param kind none", "params[3].kind is 0", [](auto &p) { code(p).params[3] = CudaParam(CudaParamKind::None, 0, 0, 0); }},
    {"param arg", "params[0].arg is 3", [](auto &p) { code(p).params[0] = CudaParam(CudaParamKind::Pointer, 3, 0, 0); }},
    {"param field", "Null does not use", [](auto &p) { code(p).params[3] = CudaParam(CudaParamKind::Null, 0, 1, 0); }},
    {"param offset of a position", "Position does not use",
     [](auto &p) { code(p).params[4] = CudaParam(CudaParamKind::Position, 0, 0, 1); }},
    {"argument without pointer", "no pointer to argument 1",
     [](auto &p) { code(p).params[1] = CudaParam(CudaParamKind::Null, 0, 0, 0); }},
    {"offset beyond the end", "offset beyond its end",
     [](auto &p) { code(p).params[0] = CudaParam(CudaParamKind::Pointer, 0, 0, 6); }},
    {"constant offset beyond the end", "offset beyond its end",
     [](auto &p) { code(p).params[2] = CudaParam(CudaParamKind::Pointer, 2, 128, 0); }},
    {"tiles and grid", "no multiple of the 3 blocks", [](auto &p) { code(p).grid_y = 3; }},
    {"blocks of an axis", "blocks on one axis",
     [](auto &p) {
       code(p).grid_x = 1;
       code(p).grid_y = 0;
       prefill(p).launches[0]->tiles_per_row = 16384;
     }},
    {"payload in a call", "not in the memory of the device",
     [](auto &p) { decode(p).launches[0]->args[1] = {Space::Payload, 0, 0, 64}; }},
    {"constant in a call", "not in the memory of the device",
     [](auto &p) { decode(p).launches[0]->args[1] = {Space::Constant, 0, 0, 64}; }},
    {"built-in in a call", "in Setup and Load only",
     [](auto &p) { decode(p).launches.push_back(launch(1, {{Space::State, 0, 0, 256}})); }},
    {"kernel in setup", "no built-in",
     [](auto &p) { target(p).phases[1]->launches.push_back(launch(0, {arena(0, 64), arena(64, 64), arena(128, 64)})); }},
    {"copy in setup", "which only Load runs",
     [](auto &p) { target(p).phases[1]->launches.push_back(launch(2, {{Space::State, 0, 0, 64}, {Space::State, 0, 64, 64}})); }},
    {"arena in setup", "expected State", [](auto &p) { target(p).phases[1]->launches[0]->args[0] = arena(0, 256); }},
    {"weight nobody packs", "does not write as one",
     [](auto &p) { decode(p).launches[0]->args[1] = {Space::Packed, 0, 0, 1537}; }},
    {"load from the arena", "expected Payload", [](auto &p) { load(p).launches[0]->args[0] = arena(0, 512); }},
    {"load into the arena", "expected Packed", [](auto &p) { load(p).launches[0]->args[1] = arena(0, 512); }},
    {"copy of another size", "expected 'copy'", [](auto &p) { load(p).launches[0]->args[1] = {Space::Packed, 0, 0, 500}; }},
    {"other built-in in load", "expected 'copy'", [](auto &p) { target(p).kernels[2]->symbol = "move"; }},
    {"staging too small", "staging_bytes are 767", [](auto &p) { target(p).cuda->staging_bytes = 767; }},
    {"destinations overlap", "before the end", [](auto &p) { load(p).launches[1]->args[2] = {Space::Packed, 0, 448, 1024}; }},
};

class PlanCuda : public ::testing::TestWithParam<CudaCase> {};

TEST_P(PlanCuda, IsRefused) {
  auto plan = cudaPlan();
  GetParam().breakIt(plan);
  auto file = buildPlan(plan, smallBlobs());
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error().code, "NB0524") << file.error().render();
  EXPECT_NE(file.error().message.find(GetParam().rule), std::string::npos) << file.error().message;
}

INSTANTIATE_TEST_SUITE_P(Rules, PlanCuda, ::testing::ValuesIn(kCases), [](const auto &info) {
  std::string name = info.param.name;
  for (char &c : name)
    if (!std::isalnum(static_cast<unsigned char>(c)))
      c = '_';
  return name;
});

TEST(PlanCudaLegal, TheUnbrokenPlan) {
  auto file = buildPlan(cudaPlan(), smallBlobs());
  EXPECT_TRUE(file.ok()) << file.error().render();
}

TEST(PlanCudaLegal, BesideACpuTarget) {
  auto plan = cudaPlan();
  plan.targets.push_back(std::move(smallPlan().targets[0]));
  auto file = buildPlan(plan, smallBlobs());
  EXPECT_TRUE(file.ok()) << file.error().render();
}

TEST(PlanCudaElsewhere, NothingOfItInACpuTarget) {
  const std::pair<const char *, std::function<void(plan::PlanT &)>> cases[] = {
      {"the executor is not cuda",
       [](auto &p) { target(p).cuda = std::make_unique<plan::CudaTargetT>(*cudaPlan().targets[0]->cuda); }},
      {"the executor is not cuda",
       [](auto &p) {
         target(p).kernels[0]->kind = plan::KernelKind::Cuda;
         target(p).kernels[0]->cuda = std::make_unique<plan::CudaCodeT>(*cudaPlan().targets[0]->kernels[0]->cuda);
       }},
      {"has a Load phase", [](auto &p) {
         auto phase = std::make_unique<plan::PhaseT>(*target(p).phases[0]);
         phase->kind = plan::PhaseKind::Load;
         phase->name = "load";
         target(p).phases.push_back(std::move(phase));
       }}};
  for (const auto &[rule, breakIt] : cases) {
    auto plan = smallPlan();
    breakIt(plan);
    auto file = buildPlan(plan, smallBlobs());
    ASSERT_FALSE(file.ok());
    EXPECT_EQ(file.error().code, "NB0524") << file.error().render();
    EXPECT_NE(file.error().message.find(rule), std::string::npos) << file.error().message;
  }
}

/// Without a descriptor the space Packed has no bytes.
TEST(PlanCudaElsewhere, PackedIsEmptyInACpuTarget) {
  auto plan = smallPlan();
  target(plan).phases[1]->launches[0]->args[1] = {Space::Packed, 0, 0, 64};
  auto file = buildPlan(plan, smallBlobs());
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error().code, "NB0520") << file.error().render();
}

} // namespace
