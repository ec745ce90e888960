// Progress on stderr: a bar with rate and estimated time on a terminal, JSON lines for programs, or
// nothing.
#ifndef NINFER_SUPPORT_PROGRESS_H
#define NINFER_SUPPORT_PROGRESS_H

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace ninfer {

enum class ProgressMode {
  Auto, ///< bar when the stream is a terminal, otherwise nothing
  On,   ///< bar on a terminal, plain lines (at most one a second) elsewhere
  Off,
  Json, ///< one JSON object per line:
        ///< {"phase":..,"done":..,"total":..,"unit":..,"elapsed_s":..,"eta_s":..,"detail":..}
};

/// auto, on, off, json.
std::optional<ProgressMode> progressModeFromName(std::string_view name);

/// One phase of work with a known total. Thread-safe. Ends (and clears the bar) on finish() or
/// destruction.
class Progress {
public:
  enum class Unit { Items, Bytes };
  Progress(std::string phase, uint64_t total, ProgressMode mode, Unit unit = Unit::Items,
           std::FILE *stream = stderr);
  ~Progress();
  Progress(const Progress &) = delete;
  Progress &operator=(const Progress &) = delete;

  void add(uint64_t amount = 1) { update(amount, nullptr); }
  /// Name of the current item, shown behind the bar.
  void detail(const std::string &text) { update(0, &text); }
  void finish();

private:
  using Clock = std::chrono::steady_clock;
  void update(uint64_t amount, const std::string *detail);
  void print(bool last);

  std::mutex mutex_;
  std::string phase_, detail_;
  uint64_t total_, done_ = 0;
  Unit unit_;
  std::FILE *stream_;
  bool terminal_ = false, json_ = false, enabled_ = false, finished_ = false;
  Clock::time_point start_, lastPrint_;
};

/// "1.4 GB", "830 kB", "12 B" (powers of 1000).
std::string formatBytes(uint64_t bytes);
/// "1:02:03", "2:03", "0:07".
std::string formatDuration(double seconds);

} // namespace ninfer

#endif // NINFER_SUPPORT_PROGRESS_H
