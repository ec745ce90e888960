// Speculative decoding of a Context: which rows the draft layer gets and when, what verify and accept leave, refusals,
// cuts and cancellation.
#include "test/unit/runtime/DraftModel.h"

#include <chrono>
#include <gtest/gtest.h>
#include <random>
#include <set>
#include <thread>

using namespace ninfer;
using namespace ninfer::test;

namespace {

using Tokens = std::vector<int32_t>;
using Lines = std::vector<std::string>;

Tokens countingFrom(int32_t first, size_t count) {
  Tokens tokens(count);
  for (size_t i = 0; i < count; ++i)
    tokens[i] = first + int32_t(i);
  return tokens;
}

Tokens operator+(Tokens a, const Tokens &b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::vector<float> copyOf(std::span<const float> row) { return {row.begin(), row.end()}; }

class SpeculationTest : public testing::Test {
protected:
  std::unique_ptr<Context> make(const DraftOptions &options = {}, ContextOptions context = {.threads = 1, .draft = true}) {
    model_ = DraftModel(options);
    auto engine = Engine::open({.plan = model_.write(folder_)});
    EXPECT_TRUE(engine.ok()) << (engine.ok() ? "" : engine.error().render());
    if (!engine.ok())
      return nullptr;
    auto made = Context::create(*engine, context);
    EXPECT_TRUE(made.ok()) << (made.ok() ? "" : made.error().render());
    return made.ok() ? made.take() : nullptr;
  }
  /// The draft layer's greedy continuation of `tokens`.
  Tokens proposals(Tokens tokens, size_t count) const {
    Tokens drafts;
    for (size_t i = 0; i < count; ++i) {
      drafts.push_back(model_.proposal(tokens));
      tokens.push_back(drafts.back());
    }
    return drafts;
  }

  TemporaryFolder folder_;
  DraftModel model_;
};

/// Everything draft() gives for `count` asked.
Tokens draftOf(Context &context, int32_t next, size_t count) {
  Tokens drafts(count, -1);
  auto written = context.draft(next, drafts);
  EXPECT_TRUE(written.ok()) << (written.ok() ? "" : written.error().message);
  drafts.resize(written.ok() ? *written : 0);
  return drafts;
}

} // namespace

TEST_F(SpeculationTest, PlansAndContextsWithoutDraftsRefuse) {
  TinyModel tiny;
  auto engine = Engine::open({.plan = writeTiny(folder_, tiny)});
  ASSERT_TRUE(engine.ok());
  const Error error = Context::create(*engine, {.threads = 1, .draft = true}).takeStatus().takeError();
  EXPECT_EQ(error.kind, ErrorKind::Unsupported);
  EXPECT_EQ(error.code, "NB0658");
  auto plain = Context::create(*engine, {.threads = 1});
  ASSERT_TRUE(plain.ok());
  const Tokens tokens = {1, 2};
  Tokens drafts(1);
  EXPECT_EQ((*plain)->draft(1, drafts).takeStatus().takeError().code, "NB0658");
  EXPECT_EQ((*plain)->verify(tokens).takeError().code, "NB0658");
  EXPECT_EQ((*plain)->accept(0).takeError().code, "NB0659");
  EXPECT_EQ((*plain)->maxDrafts(), 0u);
}

// Off is the default: nothing of the draft layer runs. Verified rows do not need it.
TEST_F(SpeculationTest, OffCostsNothing) {
  auto context = make({}, {.threads = 1});
  ASSERT_TRUE(context);
  ASSERT_TRUE(context->submit(countingFrom(1, 10)).ok());
  ASSERT_TRUE(context->submit(countingFrom(11, 1)).ok());
  const Tokens guess = {12, 13};
  ASSERT_TRUE(context->verify(guess).ok());
  EXPECT_EQ(copyOf(context->rowLogits(1)), DraftModel::logits(countingFrom(1, 13)));
  ASSERT_TRUE(context->accept(2).ok());
  EXPECT_EQ(callsOf(*context), (Lines{"text @0: 1 2 3 4 5 6 7 8", "text @8: 9 10", "text @10: 11", "verify @11: 12 13"}));
  EXPECT_EQ(context->stats().draftCalls, 0u);
  Tokens drafts(1);
  EXPECT_EQ(context->draft(1, drafts).takeStatus().takeError().code, "NB0658");
}

// A row is drafted when the token after it is known, with the position of the row and that next token.
TEST_F(SpeculationTest, PendingRowsOfEveryChunk) {
  auto context = make();
  ASSERT_TRUE(context);
  EXPECT_EQ(context->maxDrafts(), 3u);
  ASSERT_TRUE(context->submit(countingFrom(1, 19)).ok());
  Lines expected = {"text @0: 1 2 3 4 5 6 7 8", "draft @0: 2 3 4 5 6 7 8 9", "text @8: 9 10 11 12 13 14 15 16",
                    "draft @8: 10 11 12 13 14 15 16 17", "text @16: 17 18 19"};
  EXPECT_EQ(callsOf(*context), expected);
  ASSERT_TRUE(context->submit(countingFrom(20, 1)).ok());
  ASSERT_TRUE(context->submit(countingFrom(21, 1)).ok());
  expected.insert(expected.end(), {"draft @16: 18 19 20", "text @19: 20", "draft @19: 21", "text @20: 21"});
  EXPECT_EQ(callsOf(*context), expected);
  for (uint32_t position = 0; position < 20; ++position)
    EXPECT_EQ(draftCacheOf(*context)[position], DraftModel::hash(countingFrom(1, position + 2))) << position;
  EXPECT_EQ(copyOf(context->logits()), DraftModel::logits(countingFrom(1, 21)));
  EXPECT_EQ(context->stats().draftCalls, 4u);
  EXPECT_EQ(context->stats().draftRows, 20u);
  EXPECT_EQ(context->stats().draftedTokens, 0u);
  EXPECT_EQ(context->stats().prefillTokens, 19u);
  EXPECT_EQ(context->stats().decodeTokens, 2u);
}

TEST_F(SpeculationTest, DraftsFollowTheNextToken) {
  auto context = make();
  ASSERT_TRUE(context);
  const Tokens prompt = countingFrom(1, 5);
  ASSERT_TRUE(context->submit(prompt).ok());
  const Tokens three = draftOf(*context, 50, 3);
  EXPECT_EQ(three, proposals(prompt + Tokens{50}, 3));
  const std::string d1 = std::to_string(three[0]), d2 = std::to_string(three[1]);
  Lines expected = {"text @0: 1 2 3 4 5", "draft @0: 2 3 4 5 50", "next @5: " + d1, "next @6: " + d2};
  EXPECT_EQ(callsOf(*context), expected);
  EXPECT_EQ(context->position(), 5u);
  EXPECT_TRUE(context->logits().empty()); // the arena was used for something else
  // Asked again, for the same token and for another.
  EXPECT_EQ(draftOf(*context, 50, 1), Tokens{three[0]});
  EXPECT_EQ(draftOf(*context, 51, 2), proposals(prompt + Tokens{51}, 2));
  // The rows were last drafted for 51: submitting it needs no other draft call, submitting 52 does.
  const size_t before = callsOf(*context).size();
  ASSERT_TRUE(context->submit(Tokens{51}).ok());
  EXPECT_EQ(callsOf(*context).size(), before + 1);
  EXPECT_EQ(draftOf(*context, 52, 1), proposals(prompt + Tokens{51, 52}, 1));
  ASSERT_TRUE(context->submit(Tokens{53, 54}).ok());
  const Lines calls = callsOf(*context);
  EXPECT_EQ(Lines(calls.end() - 3, calls.end()), (Lines{"draft @5: 52", "draft @5: 53", "text @6: 53 54"}));
  EXPECT_EQ(draftCacheOf(*context)[5], DraftModel::hash(prompt + Tokens{51, 53}));
}

// A rejected row leaves nothing behind, an accepted one is as if it had been submitted; with and without states that a
// commit has to bring forward.
TEST_F(SpeculationTest, AcceptKeepsTheLeadingRows) {
  for (bool recurrent : {false, true})
    for (size_t rows = 1; rows <= 4; ++rows)
      for (size_t count = 0; count <= rows; ++count) {
        SCOPED_TRACE(std::to_string(recurrent) + " " + std::to_string(rows) + " " + std::to_string(count));
        auto context = make({.recurrent = recurrent});
        ASSERT_TRUE(context);
        const Tokens prompt = countingFrom(1, 3), tried = countingFrom(100, rows);
        ASSERT_TRUE(context->submit(prompt).ok());
        ASSERT_TRUE(context->verify(tried).ok());
        EXPECT_EQ(context->position(), 3u);
        for (size_t row = 0; row < rows; ++row) {
          const Tokens upTo(tried.begin(), tried.begin() + ptrdiff_t(row) + 1);
          EXPECT_EQ(copyOf(context->rowLogits(row)), DraftModel::logits(prompt + upTo)) << row;
        }
        EXPECT_TRUE(context->rowLogits(rows).empty());
        ASSERT_TRUE(context->accept(count).ok());
        EXPECT_TRUE(context->rowLogits(0).empty());
        EXPECT_TRUE(context->logits().empty());
        EXPECT_EQ(context->position(), 3 + count);
        const Tokens held = prompt + Tokens(tried.begin(), tried.begin() + ptrdiff_t(count));
        // What is drafted next are the accepted rows of the verify.
        EXPECT_EQ(draftOf(*context, 200, 2), count ? proposals(held + Tokens{200}, 2) : Tokens{});
        ASSERT_TRUE(context->submit(Tokens{200}).ok());
        EXPECT_EQ(copyOf(context->logits()), DraftModel::logits(held + Tokens{200}));
        Lines expected = {"text @0: 1 2 3", "draft @0: 2 3 100"};
        std::string verify = "verify @3:", draft = "draft @3:";
        for (size_t i = 0; i < rows; ++i)
          verify += " " + std::to_string(tried[i]);
        for (size_t i = 1; i < count; ++i)
          draft += " " + std::to_string(tried[i]);
        expected.push_back(verify);
        if (recurrent && count)
          expected.push_back("commit @3: " + std::to_string(count) + " rows");
        if (count) {
          expected.push_back(draft + " 200");
          expected.push_back("next @" + std::to_string(3 + count) + ": " +
                             std::to_string(model_.proposal(held + Tokens{200})));
        }
        expected.push_back("text @" + std::to_string(3 + count) + ": 200");
        EXPECT_EQ(callsOf(*context), expected);
        EXPECT_EQ(context->stats().verifyCalls, 1u);
        EXPECT_EQ(context->stats().verifyRows, rows);
        EXPECT_EQ(context->stats().acceptedTokens, count);
      }
}

TEST_F(SpeculationTest, ProposalsThroughUnalignedIds) {
  auto context = make({.proposals = true});
  ASSERT_TRUE(context);
  for (int32_t next = 0; next < 40; next += 3) {
    ASSERT_TRUE(context->truncate(0).ok());
    ASSERT_TRUE(context->submit(Tokens{7, 8}).ok());
    EXPECT_EQ(draftOf(*context, next, 3), proposals({7, 8, next}, 3)) << next;
  }
  for (uint32_t bad : {260u, 0x80000000u}) {
    DraftModel wrong({.proposals = true, .badId = bad});
    auto engine = Engine::open({.plan = wrong.write(folder_)});
    ASSERT_TRUE(engine.ok());
    const Error error = Context::create(*engine, {.threads = 1, .draft = true}).takeStatus().takeError();
    EXPECT_EQ(error.code, "NB0668");
    EXPECT_EQ(error.kind, ErrorKind::BadFile);
    EXPECT_NE(error.message.find("token id 7 is "), std::string::npos) << error.message;
    EXPECT_TRUE(Context::create(*engine, {.threads = 1}).ok());
  }
}

TEST_F(SpeculationTest, TheEndOfTheContext) {
  auto context = make();
  ASSERT_TRUE(context);
  EXPECT_EQ(draftOf(*context, 1, 3), Tokens{}); // nothing to draft from
  const Tokens tokens = countingFrom(1, 32);
  ASSERT_TRUE(context->submit(std::span(tokens).first(28)).ok());
  for (size_t position = 28; position <= 32; ++position) {
    // `next` takes a position, so does every draft.
    const size_t expected = position < 31 ? std::min<size_t>(3, 31 - position) : 0;
    EXPECT_EQ(draftOf(*context, 99, 3).size(), expected) << position;
    if (position < 32) {
      ASSERT_TRUE(context->submit(std::span(tokens).subspan(position, 1)).ok());
    }
  }
  EXPECT_EQ(context->verify(Tokens{1}).takeError().code, "NB0652");
  ASSERT_TRUE(context->truncate(30).ok());
  EXPECT_EQ(context->verify(Tokens{1, 2, 3}).takeError().code, "NB0652");
  ASSERT_TRUE(context->verify(Tokens{1, 2}).ok());
  ASSERT_TRUE(context->accept(2).ok());
  EXPECT_EQ(context->position(), 32u);
}

TEST_F(SpeculationTest, WrongOrderAndWrongNumbers) {
  auto context = make();
  ASSERT_TRUE(context);
  const auto codeOfDraft = [&](int32_t next, size_t count) {
    Tokens drafts(count);
    return context->draft(next, drafts).takeStatus().takeError().code;
  };
  ASSERT_TRUE(context->submit(Tokens{1, 2}).ok());
  EXPECT_EQ(context->accept(0).takeError().code, "NB0659");
  EXPECT_EQ(codeOfDraft(3, 0), "NB0667");
  EXPECT_EQ(codeOfDraft(3, 4), "NB0667");
  EXPECT_EQ(codeOfDraft(-1, 1), "NB0651");
  EXPECT_EQ(codeOfDraft(260, 1), "NB0651");
  EXPECT_EQ(context->verify({}).takeError().code, "NB0650");
  EXPECT_EQ(context->verify(Tokens{1, 260}).takeError().code, "NB0651");
  EXPECT_EQ(context->verify(Tokens{1, 2, 3, 4, 5}).takeError().code, "NB0667");
  EXPECT_TRUE(context->rowLogits(0).empty());
  EXPECT_EQ(copyOf(context->logits()), DraftModel::logits({1, 2})); // refused before any work

  ASSERT_TRUE(context->verify(Tokens{3, 4}).ok());
  const Error waiting = context->submit(Tokens{3}).takeError();
  EXPECT_EQ(waiting.code, "NB0659");
  EXPECT_EQ(waiting.kind, ErrorKind::Usage);
  EXPECT_EQ(codeOfDraft(3, 1), "NB0659");
  EXPECT_EQ(context->verify(Tokens{3}).takeError().code, "NB0659");
  EXPECT_EQ(context->accept(3).takeError().code, "NB0667");
  EXPECT_EQ(copyOf(context->rowLogits(1)), DraftModel::logits({1, 2, 3, 4}));
  ASSERT_TRUE(context->accept(1).ok());
  EXPECT_EQ(context->accept(1).takeError().code, "NB0659");
  EXPECT_EQ(context->position(), 3u);
}

TEST_F(SpeculationTest, TruncateCutsPendingRows) {
  auto context = make();
  ASSERT_TRUE(context);
  const Tokens prompt = countingFrom(1, 12); // 8, then 4 pending from 8 on
  ASSERT_TRUE(context->submit(prompt).ok());
  ASSERT_TRUE(context->truncate(10).ok());
  const Tokens held = countingFrom(1, 10);
  EXPECT_EQ(draftOf(*context, 77, 2), proposals(held + Tokens{77}, 2));
  EXPECT_EQ(callsOf(*context)[3], "draft @8: 10 77");
  // Drafted rows are drafted again for another next token, also after a cut.
  ASSERT_TRUE(context->truncate(9).ok());
  ASSERT_TRUE(context->submit(Tokens{78}).ok());
  EXPECT_EQ(draftCacheOf(*context)[8], DraftModel::hash(countingFrom(1, 9) + Tokens{78}));
  // Before the pending rows: their hidden rows are gone.
  ASSERT_TRUE(context->truncate(4).ok());
  EXPECT_EQ(draftOf(*context, 5, 3), Tokens{});
  ASSERT_TRUE(context->submit(Tokens{5}).ok());
  EXPECT_EQ(draftOf(*context, 6, 1), proposals(countingFrom(1, 6), 1));
  // Verified rows go with the cut.
  ASSERT_TRUE(context->verify(Tokens{6, 7}).ok());
  ASSERT_TRUE(context->truncate(5).ok());
  EXPECT_TRUE(context->rowLogits(0).empty());
  ASSERT_TRUE(context->submit(Tokens{66}).ok());
  EXPECT_EQ(copyOf(context->logits()), DraftModel::logits(countingFrom(1, 5) + Tokens{66}));
  ASSERT_TRUE(context->truncate(0).ok());
  EXPECT_EQ(draftOf(*context, 5, 3), Tokens{});
}

// Any order of calls: rows and logits are those of the tokens held, and the draft cache is complete.
TEST_F(SpeculationTest, RandomWalks) {
  for (bool recurrent : {false, true}) {
    auto context = make({.recurrent = recurrent}, {.threads = 2, .draft = true});
    ASSERT_TRUE(context);
    std::mt19937 random(recurrent ? 5 : 6);
    const auto draw = [&](size_t below) { return size_t(random() % below); };
    Tokens held;
    std::set<size_t> stale; // draft rows whose next token changed when their hidden row was gone
    size_t callBegin = 0;   // of the last text call
    for (int i = 0; i < 300; ++i) {
      const size_t room = 32 - held.size();
      if (room == 0 || draw(20) == 0) {
        const size_t to = recurrent ? 0 : draw(held.size() + 1);
        ASSERT_TRUE(context->truncate(uint32_t(to)).ok());
        held.resize(to);
        stale.erase(stale.lower_bound(to), stale.end());
        if (to && to <= callBegin)
          stale.insert(to - 1);
        callBegin = std::min(callBegin, to);
      } else if (draw(3) == 0 || held.empty()) {
        const size_t count = 1 + draw(std::min<size_t>(room, 11));
        Tokens tokens;
        for (size_t k = 0; k < count; ++k)
          tokens.push_back(int32_t(draw(260)));
        ASSERT_TRUE(context->submit(tokens).ok());
        callBegin = held.size() + (count > 8 ? 8 : 0);
        held = held + tokens;
        ASSERT_EQ(copyOf(context->logits()), DraftModel::logits(held));
      } else {
        const int32_t next = int32_t(draw(260));
        const bool some = callBegin < held.size();
        const Tokens drafts = draftOf(*context, next, 3);
        if (some) {
          ASSERT_EQ(drafts, proposals(held + Tokens{next}, std::min<size_t>(3, room - 1)));
        }
        const Tokens rows = Tokens{next} + drafts;
        ASSERT_TRUE(context->verify(rows).ok());
        const size_t count = draw(rows.size() + 1);
        if (count == 0)
          stale.insert(held.size() - 1);
        for (size_t row = 0; row < rows.size(); ++row)
          ASSERT_EQ(copyOf(context->rowLogits(row)),
                    DraftModel::logits(held + Tokens(rows.begin(), rows.begin() + ptrdiff_t(row) + 1)));
        ASSERT_TRUE(context->accept(count).ok());
        callBegin = held.size();
        held.insert(held.end(), rows.begin(), rows.begin() + ptrdiff_t(count));
      }
      ASSERT_EQ(context->position(), held.size());
      for (size_t position = 0; position < callBegin; ++position)
        if (!stale.count(position)) {
          ASSERT_EQ(draftCacheOf(*context)[position],
                    DraftModel::hash(Tokens(held.begin(), held.begin() + ptrdiff_t(position) + 2)))
              << i << " " << position;
        }
    }
  }
}

TEST_F(SpeculationTest, LedgerCountsTheTokens) {
  DraftModel model({.maxContext = 2048, .chunk = 1024});
  auto engine = Engine::open({.plan = model.write(folder_)});
  ASSERT_TRUE(engine.ok());
  const Ledger off = makeLedger(**engine, {.threads = 1}, 2), on = makeLedger(**engine, {.threads = 1, .draft = true}, 2);
  // The tokens of the rows that wait, and those of a draft call: 1024 of four bytes each.
  EXPECT_EQ(on.hostBytes, off.hostBytes + 2 * 1024 * 4);
  auto context = Context::create(*engine, {.threads = 1, .draft = true});
  ASSERT_TRUE(context.ok());
  EXPECT_EQ((*context)->ledger().anonymousBytes(), on.anonymousBytes());
}

// --- cancellation --------------------------------------------------------------------------------------------

namespace {

/// Runs `body` while another thread cancels after `us` microseconds.
template <typename Body>
Status cancelledAfter(Context &context, int us, Body body) {
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::microseconds(us));
    context.cancel();
  });
  Status status = body();
  other.join();
  return status;
}

/// Runs `body` until it is cut in the middle of a call: its first launch ran, its last did not. Between attempts
/// `reset` brings the context to where it was.
template <typename Body, typename Reset>
Error cutInTheMiddle(Context &context, plan::PhaseKind kind, Body body, Reset reset) {
  const ProgramPhase *phase = nullptr;
  for (const ProgramPhase &p : context.program().phases())
    if (p.source->kind() == kind)
      phase = &p;
  // Usually a few attempts; a machine that runs other jobs may need many before both threads have a CPU at the right moment.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(3);
  for (int attempt = 0; attempt < 500 || std::chrono::steady_clock::now() < deadline; ++attempt) {
    const uint64_t first = phase->launches.front().calls, last = phase->launches.back().calls;
    Status status = cancelledAfter(context, attempt % 50 * 20, body);
    if (!status.ok() && phase->launches.front().calls == first + 1 && phase->launches.back().calls == last)
      return status.takeError();
    reset();
  }
  ADD_FAILURE() << "no call was cut";
  return makeError(ErrorKind::Failed, "NB0699", "");
}

constexpr uint32_t kPauses = 200; ///< a call takes about a millisecond

} // namespace

TEST_F(SpeculationTest, CutTextCallEndsARecurrentSequence) {
  auto context = make({.recurrent = true, .pauses = kPauses});
  ASSERT_TRUE(context);
  const Tokens prompt = {1, 2, 3};
  const auto begin = [&] {
    Status status;
    do { // a cancel that came too late waits for the next call
      status = context->truncate(0);
      EXPECT_TRUE(status.ok());
      status = context->submit(prompt);
    } while (!status.ok());
  };
  for (size_t more : {1, 5}) { // decode, prefill
    begin();
    const Error cut = cutInTheMiddle(
        *context, more == 1 ? plan::PhaseKind::Decode : plan::PhaseKind::Prefill,
        [&] { return context->submit(countingFrom(4, more)); }, begin);
    EXPECT_EQ(cut.kind, ErrorKind::Interrupted);
    EXPECT_EQ(context->position(), 3u);
    // The state has taken in tokens that are not part of the sequence.
    const Error error = context->submit(Tokens{4}).takeError();
    EXPECT_EQ(error.code, "NB0666");
    EXPECT_EQ(error.kind, ErrorKind::Usage);
    EXPECT_NE(error.help.size(), 0u);
    EXPECT_EQ(context->verify(Tokens{4}).takeError().code, "NB0666");
    Tokens drafts(1);
    EXPECT_EQ(context->draft(4, drafts).takeStatus().takeError().code, "NB0666");
    EXPECT_EQ(context->truncate(3).takeError().code, "NB0656");
    EXPECT_EQ(context->truncate(1).takeError().code, "NB0656");
    EXPECT_EQ(context->submit(Tokens{4}).takeError().code, "NB0666");
    ASSERT_TRUE(context->truncate(0).ok());
    ASSERT_TRUE(context->submit(prompt + Tokens{4}).ok());
    EXPECT_EQ(copyOf(context->logits()), DraftModel::logits({1, 2, 3, 4}));
  }
  // The first call of a sequence, at position 0.
  const auto empty = [&] {
    begin();
    EXPECT_TRUE(context->truncate(0).ok());
  };
  empty();
  cutInTheMiddle(*context, plan::PhaseKind::Prefill, [&] { return context->submit(prompt); }, empty);
  EXPECT_EQ(context->position(), 0u);
  EXPECT_EQ(context->submit(prompt).takeError().code, "NB0666");
  empty();
  ASSERT_TRUE(context->submit(prompt).ok());
  EXPECT_EQ(copyOf(context->logits()), DraftModel::logits(prompt));
}

TEST_F(SpeculationTest, CutBeforeACallIsHarmless) {
  auto context = make({.recurrent = true, .pauses = 2});
  ASSERT_TRUE(context);
  ASSERT_TRUE(context->submit(Tokens{1, 2, 3}).ok());
  context->cancel();
  EXPECT_EQ(context->submit(Tokens{4}).takeError().kind, ErrorKind::Interrupted);
  EXPECT_EQ(context->position(), 3u);
  context->cancel();
  EXPECT_EQ(context->verify(Tokens{4, 5}).takeError().kind, ErrorKind::Interrupted);
  EXPECT_EQ(draftOf(*context, 4, 2), proposals({1, 2, 3, 4}, 2)); // the hidden rows are still there
  // A commit is not cut; neither is a new beginning.
  ASSERT_TRUE(context->verify(Tokens{4, 5}).ok());
  context->cancel();
  ASSERT_TRUE(context->accept(2).ok());
  EXPECT_EQ(context->submit(Tokens{6}).takeError().kind, ErrorKind::Interrupted);
  ASSERT_TRUE(context->submit(Tokens{6}).ok());
  EXPECT_EQ(copyOf(context->logits()), DraftModel::logits(countingFrom(1, 6)));
  context->cancel();
  ASSERT_TRUE(context->truncate(0).ok());
  EXPECT_EQ(context->program().phases()[0].launches.back().calls, 2u); // the setup ran to its end both times
  EXPECT_EQ(context->submit(Tokens{6}).takeError().kind, ErrorKind::Interrupted);
  ASSERT_TRUE(context->submit(Tokens{6, 7}).ok());
  EXPECT_EQ(copyOf(context->logits()), DraftModel::logits({6, 7}));
}

// Neither the draft layer nor a verify touches what a sequence is made of.
TEST_F(SpeculationTest, CutDraftAndVerifyLeaveTheSequence) {
  for (bool recurrent : {false, true}) {
    auto context = make({.recurrent = recurrent, .pauses = kPauses});
    ASSERT_TRUE(context);
    const Tokens prompt = {1, 2, 3};
    const auto begin = [&] {
      Status status;
      do {
        status = context->truncate(0);
        EXPECT_TRUE(status.ok());
        status = context->submit(prompt);
      } while (!status.ok());
    };
    begin();
    Tokens drafts(3);
    const auto draft = [&] { return context->draft(4, drafts).takeStatus(); };
    EXPECT_EQ(cutInTheMiddle(*context, plan::PhaseKind::Draft, draft, begin).kind, ErrorKind::Interrupted);
    EXPECT_EQ(draftOf(*context, 4, 3), proposals({1, 2, 3, 4}, 3));
    begin();
    drafts = {-1, -1, -1};
    EXPECT_EQ(cutInTheMiddle(*context, plan::PhaseKind::DraftNext, draft, [&] {
                begin();
                drafts = {-1, -1, -1};
              }).kind,
              ErrorKind::Interrupted);
    EXPECT_EQ(drafts, (Tokens{-1, -1, -1})); // all or nothing
    EXPECT_EQ(draftOf(*context, 4, 3), proposals({1, 2, 3, 4}, 3));
    const auto verify = [&] { return context->verify(Tokens{4, 50, 60}); };
    begin();
    EXPECT_EQ(cutInTheMiddle(*context, plan::PhaseKind::Verify, verify, begin).kind, ErrorKind::Interrupted);
    EXPECT_EQ(context->position(), 3u);
    EXPECT_TRUE(context->rowLogits(0).empty());
    EXPECT_EQ(draftOf(*context, 4, 3), Tokens{}); // the hidden rows are those of nobody
    ASSERT_TRUE(context->submit(Tokens{4}).ok());
    EXPECT_EQ(copyOf(context->logits()), DraftModel::logits({1, 2, 3, 4}));
  }
}
