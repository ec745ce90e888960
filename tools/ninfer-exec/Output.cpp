#include "tools/ninfer-exec/Output.h"

#include "runtime/loader/Machine.h"
#include "support/File.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <tuple>
#include <unistd.h>
#include <vector>

namespace ninfer::exec {

namespace {

uint64_t gStart = 0;
uint64_t gStartResident = 0, gStartAnonymous = 0;

double ms(uint64_t ns) { return double(ns) / 1e6; }
double perSecond(uint64_t count, uint64_t ns) { return ns ? double(count) * 1e9 / double(ns) : 0; }

} // namespace

Status Output::write(std::string_view text) {
  while (!text.empty() && !closed_) {
    const ssize_t count = ::write(STDOUT_FILENO, text.data(), text.size());
    if (count >= 0)
      text.remove_prefix(size_t(count));
    else if (errno == EPIPE)
      closed_ = true;
    else if (errno != EINTR)
      return makeError(ErrorKind::Failed, "NB0906", std::string("cannot write to stdout: ") + std::strerror(errno));
  }
  return {};
}

Status checkOutput(const std::string &output, std::initializer_list<std::string> sources) {
  for (const std::string &source : sources) {
    std::error_code none;
    if (output.empty() || source.empty() || !std::filesystem::equivalent(output, source.substr(source[0] == '@'), none))
      continue;
    return makeError(ErrorKind::Usage, "NB0905", output + ": is read by this command (" + source + "), it cannot be the output too");
  }
  return {};
}

Status writeText(const std::string &path, std::string_view text) {
  if (path.empty())
    return Output().write(text);
  return writeFileAtomically(path, std::as_bytes(std::span(text.data(), text.size())));
}

int report(const Error &error) {
  std::fputs(error.render().c_str(), stderr);
  return int(error.kind);
}

int report(Status status) { return status.ok() ? 0 : report(status.error()); }
int report(const Result<int> &result) { return result.ok() ? *result : report(result.error()); }

void markStart() {
  gStart = nowNs();
  gStartResident = currentResidentBytes();
  gStartAnonymous = anonymousResidentBytes();
}

uint64_t sinceStart() { return nowNs() - gStart; }

std::string formatBytes(uint64_t bytes) {
  char text[32];
  if (bytes >= uint64_t(1) << 30)
    std::snprintf(text, sizeof(text), "%.2f GiB", double(bytes) / double(1 << 30));
  else if (bytes >= 1 << 20)
    std::snprintf(text, sizeof(text), "%.1f MiB", double(bytes) / double(1 << 20));
  else
    std::snprintf(text, sizeof(text), "%.1f KiB", double(bytes) / 1024);
  return text;
}

namespace {

/// Shares of the drafts that were compared with the model's own token; one per place in the round.
void printDrafts(const DraftStats &drafts, const ninfer_stats &stats) {
  const uint64_t accepted = drafts.acceptedDrafts();
  std::fprintf(stderr, "drafts      %llu rounds, %llu drafted, %llu accepted", (unsigned long long)drafts.rounds,
               (unsigned long long)drafts.drafted, (unsigned long long)accepted);
  if (drafts.rounds) {
    std::fprintf(stderr, ", %.2f tokens per round, of the compared", double(accepted + drafts.rounds) / double(drafts.rounds));
    for (size_t i = 0; i < drafts.compared.size() && drafts.compared[i]; ++i)
      std::fprintf(stderr, "%s %.1f %%", i ? "," : "", 100.0 * double(drafts.accepted[i]) / double(drafts.compared[i]));
  }
  std::fprintf(stderr, "; draft layer %.1f ms, verification %.1f ms\n", ms(stats.draft_ns), ms(stats.verify_ns));
}

} // namespace

namespace {

void printStats(const Engine &engine, const CommonOptions &options, const Context &context, const ToolStats &own) {
  const ninfer_engine_info info = engine.info();
  const ninfer_stats stats = context.stats();
  auto ledger = engine.ledger(options, own.speculates);
  if (!ledger.ok()) {
    report(ledger.error());
    return;
  }
  std::fprintf(stderr, "\n%s, %s, %u layers, target %s on %s, %u %s, code %s\n", info.public_name,
               info.architecture, info.layers, info.target, info.machine, ledger->threads,
               ledger->threads == 1 ? "thread" : "threads", info.code_mapped);
  std::fprintf(stderr, "startup     plan %.2f ms, weights %.2f ms, code %.2f ms, context %.2f ms", ms(info.plan_ns),
               ms(info.weights_ns), ms(info.code_ns), ms(stats.setup_ns));
  if (own.loadNs)
    std::fprintf(stderr, ", tokenizer and template %.2f ms", ms(own.loadNs));
  if (own.firstTokenNs)
    std::fprintf(stderr, ", first token at %.1f ms", ms(own.firstTokenNs));
  std::fputs("\n", stderr);
  const auto speed = [](const char *name, uint64_t tokens, uint64_t ns) {
    std::fprintf(stderr, "%-11s %llu %s in %.1f ms, %.1f tokens/s\n", name, (unsigned long long)tokens,
                 tokens == 1 ? "token" : "tokens", ms(ns), perSecond(tokens, ns));
  };
  speed("prefill", stats.prefill_tokens, stats.prefill_ns);
  speed("decode", stats.decode_tokens, stats.decode_ns);
  if (own.speculates)
    printDrafts(own.drafts, stats);
  std::fprintf(stderr,
               "ledger      %s: weights %s, plan %s, code %s, opening %s, states %s, activations %s, scratch %s, other %s\n",
               formatBytes(ledger->total_bytes).c_str(), formatBytes(ledger->weights_bytes).c_str(),
               formatBytes(ledger->plan_bytes).c_str(), formatBytes(ledger->code_bytes).c_str(),
               formatBytes(ledger->engine_bytes).c_str(),
               formatBytes(ledger->state_bytes).c_str(), formatBytes(ledger->arena_bytes).c_str(),
               formatBytes(ledger->scratch_bytes).c_str(), formatBytes(ledger->host_bytes).c_str());
  if (ledger->device_bytes)
    std::fprintf(stderr, "device      %s: states, activations and packed weights, which are %s, there in %.2f ms%s%s\n",
                 formatBytes(ledger->device_bytes).c_str(), formatBytes(info.packed_bytes).c_str(), ms(info.device_ns),
                 *info.prepacked_path ? " from " : "", info.prepacked_path);
  const uint64_t peak = peakResidentBytes();
  std::fprintf(stderr, "peak RSS    %s, of which %s before anything was opened; anonymous now %s, %s of them before, ledger %s\n",
               formatBytes(peak).c_str(), formatBytes(gStartResident).c_str(), formatBytes(anonymousResidentBytes()).c_str(),
               formatBytes(gStartAnonymous).c_str(), formatBytes(ledger->anonymous_bytes + ledger->engine_bytes).c_str());
}

void printProfile(const Context &context) {
  struct Sum {
    uint64_t launches = 0, calls = 0, ns = 0, bytes = 0, flops = 0;
    bool dependsOnPosition = false;
  };
  std::map<std::tuple<std::string, std::string>, Sum> sums;
  std::map<std::string, uint64_t> totals;
  for (const ninfer_profile_entry &entry : context.profile()) {
    if (entry.calls == 0)
      continue;
    Sum &sum = sums[{entry.phase, entry.kernel}];
    ++sum.launches;
    sum.calls += entry.calls;
    sum.ns += entry.ns;
    sum.bytes += entry.bytes_read;
    sum.flops += entry.flops;
    sum.dependsOnPosition |= entry.full_state_cost != 0;
    totals[entry.phase] += entry.ns;
  }
  std::vector<std::pair<std::tuple<std::string, std::string>, Sum>> rows(sums.begin(), sums.end());
  std::sort(rows.begin(), rows.end(), [](const auto &a, const auto &b) {
    const auto &[phaseA, kernelA] = a.first;
    const auto &[phaseB, kernelB] = b.first;
    return std::tuple(phaseA, b.second.ns, kernelA) < std::tuple(phaseB, a.second.ns, kernelB);
  });
  std::fprintf(stderr, "\n%-14s %8s %8s %10s %7s %8s %9s  %s\n", "phase", "launches", "calls", "ms", "share", "GB/s",
               "GFLOP/s", "kernel");
  for (const auto &[key, sum] : rows) {
    const auto &[phase, kernel] = key;
    const double ns = double(std::max<uint64_t>(sum.ns, 1));
    const auto rate = [&](uint64_t amount) {
      char text[32] = "-";
      if (!sum.dependsOnPosition)
        std::snprintf(text, sizeof(text), "%.2f", double(amount) / ns);
      return std::string(text);
    };
    std::fprintf(stderr, "%-14s %8llu %8llu %10.3f %6.1f%% %8s %9s  %s\n", phase.c_str(),
                 (unsigned long long)sum.launches, (unsigned long long)sum.calls, ms(sum.ns),
                 100.0 * double(sum.ns) / double(std::max<uint64_t>(totals[phase], 1)), rate(sum.bytes).c_str(),
                 rate(sum.flops).c_str(), kernel.c_str());
  }
}

} // namespace

void printAsked(const Engine &engine, const CommonOptions &options, const Context &context, const ToolStats &own) {
  if (options.stats)
    printStats(engine, options, context, own);
  if (options.profile)
    printProfile(context);
}

} // namespace ninfer::exec
