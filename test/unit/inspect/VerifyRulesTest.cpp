// Content verification against faults planted word by word, and against a second implementation of
// the rules that walks every word.
#include "artifact/container/Reader.h"
#include "artifact/container/Verify.h"
#include "test/unit/inspect/TestModel.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <thread>
#include <tuple>

using namespace ninfer;
using namespace ninfer::test;

namespace {

constexpr uint64_t kNone = UINT64_MAX;

/// object, row, group, lane, byte, rule; kNone where a rule has none.
using Fault = std::tuple<std::string, uint64_t, uint64_t, uint64_t, uint64_t, std::string>;

Fault faultOf(const Finding &f) {
  return {f.object, f.row.value_or(kNone), f.group.value_or(kNone), f.lane.value_or(kNone), f.byte,
          f.rule};
}

std::vector<Fault> faultsOf(const VerifyReport &report) {
  std::vector<Fault> out;
  for (const Finding &finding : report.findings)
    out.push_back(faultOf(finding));
  return out;
}

class VerifyRules : public InspectTest {
protected:
  VerifyReport verify(const Model &model, VerifyOptions options = {},
                      const std::vector<uint64_t> &segments = {}) {
    model.write(folder_ / "m.ninfer", segments);
    Result<Artifact> artifact = Artifact::open(folder_ / "m.ninfer");
    EXPECT_TRUE(artifact.ok()) << artifact.error().message;
    Result<VerifyReport> report = verifyArtifact(*artifact, options);
    EXPECT_TRUE(report.ok()) << report.error().message;
    return *report;
  }

  /// `plant` changes one object of the model of all formats; the fault, and nothing else, is found
  /// with one and with four threads.
  void expectOnly(const std::string &id, const std::function<void(Item &)> &plant,
                  const Fault &fault) {
    Model model = modelOfAllFormats();
    plant(model[id]);
    for (unsigned threads : {1u, 4u}) {
      VerifyOptions options;
      options.threads = threads;
      const VerifyReport report = verify(model, options);
      EXPECT_EQ(faultsOf(report), std::vector<Fault>{fault})
          << id << ": " << (report.findings.empty() ? "" : report.findings[0].text());
      EXPECT_EQ(report.violations, 1u);
    }
  }
};

TEST_F(VerifyRules, LegalWordsAreSoundInEveryFraming) {
  const Model model = modelOfAllFormats();
  const VerifyReport report = verify(model);
  EXPECT_TRUE(report.ok()) << report.findings[0].text();
  EXPECT_EQ(report.objects, model.items.size());
  EXPECT_EQ(report.bytes, model.payload().size());
  EXPECT_LT(report.scanned, report.bytes);
  EXPECT_TRUE(verify(model, {}, {4096, 1000, 3000}).ok());
  model.writeOld(folder_ / "old.ninfer", 2);
  Result<Artifact> old = Artifact::open(folder_ / "old.ninfer");
  ASSERT_TRUE(old.ok()) << old.error().message;
  Result<VerifyReport> oldReport = verifyArtifact(*old);
  EXPECT_TRUE(oldReport.ok() && oldReport->ok());
  EXPECT_EQ(oldReport->bytes, model.payload().size());
}

TEST_F(VerifyRules, GroupedCodesAndScales) {
  const Model m = modelOfAllFormats();
  Model model = m;
  const auto scale = [&](const std::string &id, uint64_t row, uint64_t group, int word) {
    const uint64_t byte = model[id].scaleAt(row, group);
    expectOnly(id, [=](Item &item) { item.setScale(row, group, uint32_t(word)); },
               {id, row, group, kNone, byte, "f16-scale"});
  };
  // Sign (also of zero), infinity, NaN; first, last and a middle group.
  for (const std::string id : {"q4", "q5", "q6", "q8"}) {
    const uint64_t lastRow = model[id].n - 1, lastGroup = model[id].groups() - 1;
    scale(id, 0, 0, 0x8000);
    scale(id, lastRow, lastGroup, 0x7c00);
    scale(id, 2, 1, 0xfc00);
    scale(id, 2, 1, 0x7e00);
    scale(id, 3, 0, 0xbc00);
  }
  for (uint64_t column : {0, 31, 64, 128})
    expectOnly("q8",
               [=](Item &item) {
                 item.setScale(4, column / 32, 0x3c00);
                 item.setCode(4, column, 0x80);
               },
               {"q8", 4, column / 32, column % 32, model["q8"].baseAt(4, column), "w8-code-range"});
}

TEST_F(VerifyRules, CodesUnderAZeroScale) {
  for (const std::string id : {"q4", "q5", "q6", "q8"})
    for (uint64_t lane : {0, 1, 5}) {
      Model model = modelOfAllFormats();
      const uint64_t group = model[id].groups() - 1, column = group * model[id].group() + lane;
      if (column >= model[id].k)
        continue;
      const auto clear = [&](Item &item, uint32_t word) {
        item.setScale(1, group, 0);
        for (uint64_t c = group * item.group(); c < item.k; ++c)
          item.setCode(1, c, 0);
        item.setCode(1, column, word);
      };
      const uint64_t base = model[id].baseAt(1, column);
      expectOnly(id, [&](Item &item) { clear(item, 1); }, {id, 1, group, lane, base, "zero-scale"});
      // A code whose only bits are in the high plane is found there.
      if (id == "q5" || id == "q6")
        expectOnly(id, [&](Item &item) { clear(item, 0x10); },
                   {id, 1, group, lane, model[id].highAt(1, column), "zero-scale"});
    }
  Model model = modelOfAllFormats();
  const auto zeroRow = [](Item &item) {
    item.setScale(3, 0, 0);
    for (uint64_t c = 0; c < item.k; ++c)
      item.setCode(3, c, c % 2 ? 0x80 : 0x00); // -0 and 0 are legal there
  };
  {
    zeroRow(model["fp8"]);
    EXPECT_TRUE(verify(model).ok());
  }
  expectOnly("fp8",
             [&](Item &item) {
               zeroRow(item);
               item.setCode(3, 32, 0x81);
             },
             {"fp8", 3, kNone, 32, model["fp8"].baseAt(3, 32), "zero-scale"});
}

TEST_F(VerifyRules, PaddingLanesGroupsAndBytesBetweenPlanes) {
  Model model = modelOfAllFormats();
  for (const std::string id : {"q4", "q5", "q6", "q8"}) {
    const uint64_t k = model[id].k, kp = model[id].kp();
    for (uint64_t column : {k, k + 1, kp - 1}) {
      expectOnly(id, [=](Item &item) { item.setCode(2, column, 1); },
                 {id, 2, column / model[id].group(), column % model[id].group(),
                  model[id].baseAt(2, column), "padding-code"});
      if (id == "q5" || id == "q6")
        expectOnly(id, [=](Item &item) { item.setCode(2, column, 0x10); },
                   {id, 2, column / 64, column % 64, model[id].highAt(2, column), "padding-code"});
    }
    for (uint64_t group = model[id].groups(); group < model[id].storedGroups(); ++group)
      expectOnly(id, [=](Item &item) { item.setScale(0, group, 0x3c00); },
                 {id, 0, group, kNone, model[id].scaleAt(0, group), "padding-scale"});
  }
  // 0x80 in a padding lane of W8 is a broken padding lane.
  expectOnly("q8", [](Item &item) { item.setCode(2, 140, 0x80); },
             {"q8", 2, 4, 12, model["q8"].baseAt(2, 140), "padding-code"});
  for (const std::string id : {"q4", "q5", "q6", "fp8"}) {
    const Item &item = model[id];
    const uint64_t baseEnd = item.n * item.baseRow(),
                   next = item.highRow() ? item.highOffset() : item.scaleOffset();
    ASSERT_LT(baseEnd, next) << id;
    for (uint64_t byte : {baseEnd, next - 1})
      expectOnly(id, [=](Item &i) { i.poke(byte, {0x40}); },
                 {id, kNone, kNone, kNone, byte, "plane-gap"});
    if (item.highRow()) {
      const uint64_t highEnd = item.highOffset() + item.n * item.highRow();
      ASSERT_LT(highEnd, item.scaleOffset());
      expectOnly(id, [=](Item &i) { i.poke(highEnd, {1}); },
                 {id, kNone, kNone, kNone, highEnd, "plane-gap"});
    }
  }
}

TEST_F(VerifyRules, BlockScaledWords) {
  Model model = modelOfAllFormats();
  for (const auto &[row, group] :
       {std::pair<uint64_t, uint64_t>(0, 0), {31, 7}, {127, 3}, {255, 5}})
    for (int word : {0x7f, 0x80, 0x81, 0xff})
      expectOnly("nvfp4", [&](Item &item) { item.setScale(row, group, uint32_t(word)); },
                 {"nvfp4", row, group, kNone, model["nvfp4"].scaleAt(row, group), "e4m3fn-scale"});
  const uint64_t divisor = model["nvfp4"].divisorAt();
  for (const auto &word : {std::initializer_list<int>{0, 0, 0, 0},
                           {0, 0, 0x80, 0x7f},
                           {0, 0, 0x80, 0xff},
                           {1, 0, 0xc0, 0x7f},
                           {0, 0, 0x80, 0xbf},
                           {0, 0, 0, 0x80}})
    expectOnly("nvfp4", [&](Item &item) { item.poke(divisor, word); },
               {"nvfp4", kNone, kNone, kNone, divisor, "nvfp4-divisor"});
  // Every E2M1 word is legal, under a zero scale too; the smallest subnormal divisor is positive.
  model["nvfp4"].setScale(9, 2, 0);
  model["nvfp4"].poke(divisor, {1, 0, 0, 0});
  EXPECT_TRUE(verify(model).ok());
}

TEST_F(VerifyRules, RowScaledWords) {
  Model model = modelOfAllFormats();
  for (uint64_t column : {0, 15, 32})
    for (int word : {0x7f, 0xff})
      expectOnly("fp8",
                 [&](Item &item) {
                   item.setScale(6, 0, 0x3c00);
                   item.setCode(6, column, uint32_t(word));
                 },
                 {"fp8", 6, kNone, column, model["fp8"].baseAt(6, column), "e4m3fn-code"});
  for (uint64_t row : {0, 16})
    for (int word : {0x8000, 0x7f80, 0xff80, 0x7fc0, 0xbf80})
      expectOnly("fp8", [&](Item &item) { item.setScale(row, 0, uint32_t(word)); },
                 {"fp8", row, kNone, kNone, model["fp8"].scaleAt(row, 0), "bf16-scale"});
}

TEST_F(VerifyRules, BytesBetweenObjects) {
  Model model = modelOfAllFormats();
  const std::vector<uint64_t> at = model.offsets();
  uint64_t gaps = 0, firstGap = 0;
  for (size_t i = 0; i + 1 < at.size(); ++i)
    if (const uint64_t end = at[i] + model.items[i].bytes.size(); end < at[i + 1]) {
      firstGap = gaps++ ? firstGap : end;
    }
  ASSERT_GT(gaps, 5u);
  model.gapByte = "\x01";
  for (unsigned threads : {1u, 3u}) {
    VerifyOptions options;
    options.threads = threads;
    const VerifyReport report = verify(model, options);
    EXPECT_EQ(report.violations, gaps);
    EXPECT_EQ(faultOf(report.findings.at(0)),
              Fault("q4", kNone, kNone, kNone, firstGap, "payload-gap"));
  }
  // Behind the last object: possible in framings 1 and 2 and where the directory says so.
  model = modelOfAllFormats();
  const uint64_t end = model.payload().size();
  model.writeOld(folder_ / "tail.ninfer", 2);
  std::ofstream(folder_ / "tail.ninfer", std::ios::binary | std::ios::app)
      << std::string(100, '\0') << "x";
  Result<Artifact> artifact = Artifact::open(folder_ / "tail.ninfer");
  ASSERT_TRUE(artifact.ok());
  const VerifyReport report = *verifyArtifact(*artifact);
  EXPECT_EQ(faultsOf(report),
            std::vector<Fault>{Fault("template", kNone, kNone, kNone, end + 100, "payload-gap")});
}

TEST_F(VerifyRules, BytesBetweenPlanesOfEightBitRows) {
  Model model; // rows of 128 bytes: an odd number of them ends off a multiple of 256
  model.items = {tensor("w", "q8", 3, 100, 1)};
  EXPECT_TRUE(verify(model).ok());
  for (int byte : {384, 511}) {
    Model broken = model;
    broken["w"].poke(uint64_t(byte), {0x80});
    EXPECT_EQ(faultsOf(verify(broken)),
              std::vector<Fault>{Fault("w", kNone, kNone, kNone, byte, "plane-gap")});
  }
}

/// The rules of docs/formats.md, word by word.
std::vector<Fault> slowFaults(const Item &item) {
  std::vector<Fault> out;
  const auto add = [&](const char *rule, uint64_t byte, uint64_t row = kNone,
                       uint64_t group = kNone, uint64_t lane = kNone) {
    out.emplace_back(item.id, row, group, lane, byte, rule);
  };
  const auto place = [&](uint64_t r, uint64_t c) {
    const bool low = (item.at(item.baseAt(r, c)) >> (c % 2 * 4) & 15) != 0;
    return item.highRow() && !low ? item.highAt(r, c) : item.baseAt(r, c);
  };
  if (item.format.empty() || item.bits() >= 16)
    return out;
  for (uint64_t r = 0; r < item.n; ++r) {
    if (item.grouped()) {
      for (uint64_t c = 0; c < item.k; ++c)
        if (item.format == "q8" && item.code(r, c) == 0x80)
          add("w8-code-range", item.baseAt(r, c), r, c / 32, c % 32);
      for (uint64_t g = 0; g < item.storedGroups(); ++g) {
        const uint32_t scale = item.scale(r, g);
        if (g >= item.groups()) {
          if (scale)
            add("padding-scale", item.scaleAt(r, g), r, g);
          continue;
        }
        if (scale & 0x8000 || (scale & 0x7c00) == 0x7c00)
          add("f16-scale", item.scaleAt(r, g), r, g);
        for (uint64_t c = g * item.group();
             scale == 0 && c < std::min(item.k, (g + 1) * item.group()); ++c)
          if (item.code(r, c)) {
            add("zero-scale", place(r, c), r, g, c % item.group());
            break;
          }
      }
      for (uint64_t c = item.k; c < item.kp(); ++c)
        if (item.code(r, c)) {
          add("padding-code", place(r, c), r, c / item.group(), c % item.group());
          break;
        }
    } else if (item.format == "nvfp4") {
      for (uint64_t g = 0; g < item.groups(); ++g)
        if (item.scale(r, g) >= 0x7f)
          add("e4m3fn-scale", item.scaleAt(r, g), r, g);
    } else {
      const uint32_t scale = item.scale(r, 0);
      if (scale & 0x8000 || (scale & 0x7f80) == 0x7f80)
        add("bf16-scale", item.scaleAt(r, 0), r);
      bool first = true;
      for (uint64_t c = 0; c < item.k; ++c) {
        if ((item.code(r, c) & 0x7f) == 0x7f)
          add("e4m3fn-code", item.baseAt(r, c), r, kNone, c);
        if (scale == 0 && (item.code(r, c) & 0x7f) != 0 && first) {
          add("zero-scale", item.baseAt(r, c), r, kNone, c);
          first = false;
        }
      }
    }
  }
  if (item.format == "nvfp4") {
    float divisor = 0;
    std::memcpy(&divisor, item.bytes.data() + item.divisorAt(), 4);
    if (!(std::isfinite(divisor) && divisor > 0))
      add("nvfp4-divisor", item.divisorAt());
  }
  const auto gap = [&](uint64_t begin, uint64_t end) {
    for (uint64_t i = begin; i < end; ++i)
      if (item.at(i))
        return add("plane-gap", i);
  };
  if (item.highRow()) {
    gap(item.n * item.baseRow(), item.highOffset());
    gap(item.highOffset() + item.n * item.highRow(), item.scaleOffset());
  } else {
    gap(item.n * item.baseRow(), item.scaleOffset());
  }
  return out;
}

TEST_F(VerifyRules, AgreesWithAWalkOverEveryWordOnRandomDamage) {
  Lcg random(77);
  uint64_t faults = 0;
  for (int round = 0; round < 60; ++round) {
    Model model;
    const uint64_t k = 1 + random(300), n = 1 + random(12);
    for (const char *format : {"q4", "q5", "q6", "q8", "fp8"})
      model.items.push_back(tensor(format, format, n, k, uint32_t(round)));
    model.items.push_back(tensor("nvfp4", "nvfp4", 128 * (1 + random(2)), 64 * (1 + random(3)), 3));
    for (Item &item : model.items)
      for (uint32_t hits = random(10); hits-- > 0;) {
        static constexpr int kWords[] = {0x00, 0x01, 0x10, 0x7f, 0x80, 0xff, 0x7c, 0xfc};
        item.bytes[random(uint32_t(item.bytes.size()))] = char(kWords[random(8)]);
      }
    std::vector<Fault> expected;
    for (const Item &item : model.items)
      for (Fault &fault : slowFaults(item))
        expected.push_back(std::move(fault));
    faults += expected.size();
    VerifyOptions options;
    options.maxFindings = 100000;
    options.threads = 1 + unsigned(round) % 3;
    const VerifyReport report = verify(model, options);
    std::vector<Fault> found = faultsOf(report);
    EXPECT_EQ(report.violations, found.size());
    std::sort(found.begin(), found.end());
    std::sort(expected.begin(), expected.end());
    EXPECT_EQ(found, expected) << "round " << round << ", k " << k << ", n " << n;
  }
  EXPECT_GT(faults, 500u);
}

TEST_F(VerifyRules, ManyBlocksGiveTheSameReportWhateverTheThreads) {
  Model model;
  model.items = {tensor("a", "q8", 4000, 1000, 1), tensor("b", "q4", 3000, 900, 2),
                 tensor("c", "fp8", 3000, 800, 3), tensor("d", "nvfp4", 2048, 1024, 4)};
  Lcg random(5);
  std::vector<Fault> expected;
  for (Item &item : model.items) {
    for (int i = 0; i < 40; ++i) {
      const uint64_t row = random(uint32_t(item.n)), column = random(uint32_t(item.k));
      if (item.format == "q4" || item.format == "nvfp4")
        item.setScale(row, column / item.group(), item.format == "q4" ? 0xfc01 : 0xff);
      else
        item.setCode(row, column, item.format == "q8" ? 0x80 : 0x7f);
    }
    for (Fault &fault : slowFaults(item))
      expected.push_back(std::move(fault));
  }
  VerifyOptions options;
  options.maxFindings = 100000;
  uint64_t total = 0;
  std::vector<Fault> one;
  for (unsigned threads : {1u, 2u, 7u}) {
    options.threads = threads;
    std::atomic<uint64_t> bytes = 0;
    options.onBytes = [&](uint64_t count) { bytes += count; };
    const VerifyReport report = verify(model, options);
    EXPECT_EQ(bytes, model.payload().size());
    if (threads == 1) {
      one = faultsOf(report);
      total = report.scanned;
      std::vector<Fault> sorted = one;
      std::sort(sorted.begin(), sorted.end());
      std::sort(expected.begin(), expected.end());
      EXPECT_EQ(sorted, expected);
    }
    EXPECT_EQ(faultsOf(report), one) << threads << " threads";
    EXPECT_EQ(report.scanned, total);
  }
  // Row order within an object, objects in payload order.
  for (size_t i = 1; i < one.size(); ++i)
    EXPECT_LE(std::tie(std::get<0>(one[i - 1]), std::get<1>(one[i - 1])),
              std::tie(std::get<0>(one[i]), std::get<1>(one[i])));
  // The first N are the same when the scan stops there.
  options.onBytes = {};
  options.stopEarly = true;
  for (size_t limit : {1, 2, 50})
    for (unsigned threads : {1u, 5u}) {
      options.maxFindings = limit;
      options.threads = threads;
      const VerifyReport report = verify(model, options);
      EXPECT_EQ(faultsOf(report), std::vector<Fault>(one.begin(), one.begin() + long(limit)));
      EXPECT_TRUE(report.stopped);
    }
}

TEST_F(VerifyRules, ALateFirstBlockStillGivesTheFirstFault) {
  Model model;
  model.items = {tensor("a", "q8", 9000, 1000, 1)}; // nine blocks
  model["a"].setCode(0, 5, 0x80);
  model["a"].setCode(8999, 5, 0x80);
  VerifyOptions options;
  options.threads = 4;
  options.maxFindings = 1;
  options.stopEarly = true;
  std::atomic<int> calls = 0;
  options.cancelled = [&] { // the block that starts first is the last to be looked at
    if (calls++ == 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
    return false;
  };
  EXPECT_EQ(verify(model, options).findings.at(0).row, 0u);
}

TEST_F(VerifyRules, InterruptAndUnknownFormats) {
  Model model = modelOfAllFormats();
  model.write(folder_ / "m.ninfer");
  Result<Artifact> artifact = Artifact::open(folder_ / "m.ninfer");
  VerifyOptions options;
  options.cancelled = [] { return true; };
  Result<VerifyReport> report = verifyArtifact(*artifact, options);
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().code, "NB0125");
  EXPECT_EQ(report.error().kind, ErrorKind::Interrupted);
  // A missing part is an error, not a fault.
  model.write(folder_ / "p.ninfer", {4096});
  std::filesystem::remove(folder_ / "part-1");
  artifact = Artifact::open(folder_ / "p.ninfer");
  ASSERT_TRUE(artifact.ok());
  report = verifyArtifact(*artifact);
  ASSERT_FALSE(report.ok());
  EXPECT_NE(report.error().message.find("part-1"), std::string::npos) << report.error().message;
}

} // namespace
