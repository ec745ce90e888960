// draft_probe PLAN WEIGHTS TARGET TOKENS ROWS ACCEPTS: a scripted run of speculative decoding over known tokens, so that the logits
// of verified rows and of the draft layer can be compared with an oracle. The first token is submitted; each round drafts ROWS - 1
// tokens after the next one, verifies the next ROWS tokens of the list, and accepts as many as the list ACCEPTS says, again and
// again; 0 drops them all, and the next round begins with the decoding of one token, since there is nothing to draft from.
// Output, little-endian: records of int32 kind (0 decode, 1 verify, 2 draft), int32 position of the row, int32 count, float32[count].
#include "runtime/executor/Context.h"

#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>

using namespace ninfer;

namespace {

[[noreturn]] void die(const std::string &text) {
  std::fprintf(stderr, "draft_probe: %s\n", text.c_str());
  std::exit(1);
}

void check(Status status) {
  if (!status.ok())
    die(status.error().render());
}

template <typename T>
T checked(Result<T> result) {
  if (!result.ok())
    die(result.error().render());
  return result.take();
}

std::vector<int32_t> list(const char *text) {
  std::vector<int32_t> values;
  std::stringstream in(text);
  for (std::string item; std::getline(in, item, ',');)
    values.push_back(std::atoi(item.c_str()));
  return values;
}

void record(int32_t kind, uint32_t position, std::span<const float> logits) {
  const int32_t head[] = {kind, int32_t(position), int32_t(logits.size())};
  std::fwrite(head, 4, 3, stdout);
  std::fwrite(logits.data(), 4, logits.size(), stdout);
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 7)
    die("usage: draft_probe PLAN WEIGHTS TARGET TOKENS ROWS ACCEPTS");
  const std::vector<int32_t> tokens = list(argv[4]), accepts = list(argv[6]);
  const size_t rows = size_t(std::atoi(argv[5]));
  auto engine = checked(Engine::open({.plan = argv[1], .weights = argv[2], .target = argv[3]}));
  auto context = checked(Context::create(engine, {.threads = 1, .draft = true}));
  const auto draftLogits = [&](plan::PhaseKind kind) {
    for (const ProgramPhase &phase : context->program().phases())
      if (phase.source->kind() == kind)
        return std::span<const float>(phase.logits, size_t(phase.logitCount));
    die("no draft phase");
  };
  size_t at = 0;
  const auto decode = [&] {
    check(context->submit({&tokens[at], 1}));
    record(0, context->position() - 1, context->logits());
    ++at;
  };
  decode();
  std::vector<int32_t> drafts(rows - 1);
  for (size_t round = 0; at + rows <= tokens.size(); ++round) {
    const size_t count = checked(context->draft(tokens[at], std::span(drafts).first(1)));
    if (count == 0) { // nothing to draft from
      decode();
      continue;
    }
    record(2, context->position() - 1, draftLogits(plan::PhaseKind::Draft));
    if (rows > 2) { // the rest too: verification must not see it
      (void)checked(context->draft(tokens[at], drafts));
    }
    check(context->verify({&tokens[at], rows}));
    for (size_t row = 0; row < rows; ++row)
      record(1, context->position() + uint32_t(row), context->rowLogits(row));
    const size_t accepted = size_t(accepts[round % accepts.size()]);
    check(context->accept(accepted));
    at += accepted;
  }
  return 0;
}
