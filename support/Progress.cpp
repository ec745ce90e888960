#include "support/Progress.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sys/ioctl.h>
#include <unistd.h>

namespace ninfer {

std::optional<ProgressMode> progressModeFromName(std::string_view name) {
  if (name == "auto")
    return ProgressMode::Auto;
  if (name == "on")
    return ProgressMode::On;
  if (name == "off")
    return ProgressMode::Off;
  if (name == "json")
    return ProgressMode::Json;
  return std::nullopt;
}

std::string formatBytes(uint64_t bytes) {
  static constexpr const char *kUnits[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
  double value = double(bytes);
  size_t unit = 0;
  while (value >= 999.5 && unit + 1 < std::size(kUnits)) {
    value /= 1000;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 || value >= 99.95 ? "%.0f %s" : "%.1f %s", value,
                kUnits[unit]);
  return text;
}

std::string formatDuration(double seconds) {
  const auto total = uint64_t(std::llround(std::clamp(seconds, 0.0, 3.6e8)));
  char text[32];
  if (total >= 3600)
    std::snprintf(text, sizeof text, "%llu:%02u:%02u",
                  static_cast<unsigned long long>(total / 3600), unsigned(total / 60 % 60),
                  unsigned(total % 60));
  else
    std::snprintf(text, sizeof text, "%u:%02u", unsigned(total / 60), unsigned(total % 60));
  return text;
}

Progress::Progress(std::string phase, uint64_t total, ProgressMode mode, Unit unit,
                   std::FILE *stream)
    : phase_(std::move(phase)), total_(total), unit_(unit), stream_(stream), start_(Clock::now()),
      lastPrint_(start_ - std::chrono::hours(1)) {
  terminal_ = mode != ProgressMode::Json && isatty(fileno(stream)) != 0;
  json_ = mode == ProgressMode::Json;
  enabled_ = mode == ProgressMode::On || json_ || (mode == ProgressMode::Auto && terminal_);
}

Progress::~Progress() { finish(); }

void Progress::update(uint64_t amount, const std::string *detail) {
  const std::lock_guard<std::mutex> lock(mutex_);
  done_ += amount;
  if (detail)
    detail_ = *detail;
  if (!enabled_ || finished_)
    return;
  const double interval = terminal_ ? 0.1 : json_ ? 0.25 : 1.0;
  const Clock::time_point now = Clock::now();
  if (std::chrono::duration<double>(now - lastPrint_).count() < interval)
    return;
  lastPrint_ = now;
  print(false);
}

void Progress::finish() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (finished_)
    return;
  finished_ = true;
  if (enabled_)
    print(true);
}

void Progress::print(bool last) {
  const double elapsed = std::chrono::duration<double>(Clock::now() - start_).count();
  const double fraction =
      total_ ? std::min(1.0, double(done_) / double(total_)) : (last ? 1.0 : 0.0);
  const bool known = done_ > 0 && total_ > 0 && elapsed > 0;
  const double eta = known ? elapsed * (1 - fraction) / fraction : -1;
  if (json_) {
    nlohmann::ordered_json line = {{"phase", phase_},
                                   {"done", done_},
                                   {"total", total_},
                                   {"unit", unit_ == Unit::Bytes ? "bytes" : "items"},
                                   {"elapsed_s", std::round(elapsed * 1000) / 1000}};
    if (known)
      line["eta_s"] = std::round(eta * 1000) / 1000;
    else
      line["eta_s"] = nullptr;
    line["detail"] = detail_;
    const std::string text =
        line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
    std::fwrite(text.data(), 1, text.size(), stream_);
    std::fflush(stream_);
    return;
  }
  if (terminal_ && last) {
    std::fputs("\r\033[K", stream_);
    std::fflush(stream_);
    return;
  }
  const bool bytes = unit_ == Unit::Bytes;
  std::string counts = bytes ? formatBytes(done_) + "/" + formatBytes(total_)
                             : std::to_string(done_) + "/" + std::to_string(total_);
  if (bytes && elapsed > 0)
    counts += " " + formatBytes(uint64_t(double(done_) / elapsed)) + "/s";
  char percent[16];
  std::snprintf(percent, sizeof percent, "%3.0f%%", fraction * 100);
  const std::string when = last    ? "in " + formatDuration(elapsed)
                           : known ? "eta " + formatDuration(eta)
                                   : "eta -";
  if (!terminal_) {
    std::fprintf(stream_, "%s: %s %s %s%s%s\n", phase_.c_str(), percent, counts.c_str(),
                 when.c_str(), detail_.empty() || last ? "" : " ", last ? "" : detail_.c_str());
    std::fflush(stream_);
    return;
  }
  constexpr int kWidth = 24;
  const int filled = int(fraction * kWidth);
  std::string line = phase_ + " [" + std::string(size_t(filled), '#') +
                     std::string(size_t(kWidth - filled), '.') + "] " + percent + " " + counts +
                     " " + when;
  if (!detail_.empty())
    line += " " + detail_;
  winsize window{};
  const size_t columns =
      ioctl(fileno(stream_), TIOCGWINSZ, &window) == 0 && window.ws_col > 0 ? window.ws_col : 80;
  if (line.size() >= columns)
    line.resize(columns - 1);
  std::fprintf(stream_, "\r\033[K%s", line.c_str());
  std::fflush(stream_);
}

} // namespace ninfer
