// How a parity report reads, as text and as JSON.
#include "inspect/Parity.h"

#include "schema/TextTable.h"

#include <algorithm>
#include <cstdio>

namespace ninfer {

namespace {

std::string format(const char *form, double value) {
  char text[64];
  std::snprintf(text, sizeof text, form, value);
  return text;
}

Json optionalJson(const std::optional<uint64_t> &value) {
  return value ? Json(*value) : Json(nullptr);
}

std::string levelLine(const ParityReport &report, size_t level, const char *title,
                      const char *unit) {
  const ParityReport::Level &l = report.levels[level];
  return "level " + std::to_string(level) + "  " + title + ": " + std::to_string(l.checked) + " " +
         unit + ", " + (l.faults == 0 ? "no faults" : std::to_string(l.faults) + " faults") + "\n";
}

} // namespace

std::string ParityFault::text() const {
  std::string out = "level " + std::to_string(level) + ": " + subject;
  if (row)
    out += " row " + std::to_string(*row);
  if (column)
    out += " column " + std::to_string(*column);
  return out + ": " + message + " [" + rule + "]";
}

std::string_view parityBasisText(ParityBasis basis) {
  constexpr std::string_view texts[] = {"same words", "equal values", "prescribed words",
                                        "error only"};
  return texts[static_cast<size_t>(basis)];
}

Status parityStatus(const ParityReport &report) {
  if (report.ok())
    return Status();
  constexpr size_t kQuoted = 10;
  Status status(makeError(ErrorKind::AccuracyFailed, "NB0351",
                          report.artifact + ": " + std::to_string(report.faultCount()) +
                              " conversion fault" + (report.faultCount() == 1 ? "" : "s") +
                              " against " + report.source));
  for (size_t i = 0; i < std::min(kQuoted, report.faults.size()); ++i)
    status.note(report.faults[i].text());
  if (report.faults.size() > kQuoted)
    status.note("the report lists " + std::to_string(report.faults.size() - kQuoted) + " more");
  return status;
}

std::string parityText(const ParityReport &report) {
  std::string out = "source    " + report.source + " (" + report.sourceKind + ")\n" + "artifact  " +
                    report.artifact + "\n";
  out += levelLine(report, 0, "inventory and bytes", "items");
  out += levelLine(report, 1, "pack and unpack", "words");
  out += levelLine(report, 2, "reconstruction", "values");
  TextTable table("  ");
  table.row({"parameter", "source", "format", "held to", "rel. L2", "SNR dB", "max abs", "at"});
  for (const TensorParity &t : report.tensors) {
    const bool exact = t.relativeL2 == 0;
    table.row({t.parameter, t.sourceType, std::string(canonicalName(t.format)),
               std::string(parityBasisText(t.basis)), exact ? "0" : format("%.3e", t.relativeL2),
               t.snrDb ? format("%.2f", *t.snrDb) : "-", exact ? "0" : format("%.3e", t.maxAbs),
               exact ? "-" : std::to_string(t.maxRow) + "," + std::to_string(t.maxColumn)});
  }
  out += table.render();
  for (const ParityFault &fault : report.faults)
    out += "fault: " + fault.text() + "\n";
  for (const std::string &note : report.notes)
    out += "note: " + note + "\n";
  return out + (report.ok() ? "parity: ok, " : "parity: FAILED, ") +
         format("%.2f s\n", report.seconds);
}

Json parityJson(const ParityReport &report) {
  Json levels = Json::array(), tensors = Json::array(), faults = Json::array();
  for (size_t i = 0; i < report.levels.size(); ++i)
    levels.push_back(
        {{"level", i}, {"checked", report.levels[i].checked}, {"faults", report.levels[i].faults}});
  for (const TensorParity &t : report.tensors)
    tensors.push_back({{"parameter", t.parameter},
                       {"source", t.source},
                       {"source_type", t.sourceType},
                       {"format", canonicalName(t.format)},
                       {"shape", t.shape},
                       {"basis", parityBasisText(t.basis)},
                       {"provenance", t.provenance},
                       {"profile", t.profile},
                       {"elements", t.elements},
                       {"different_words", t.differentWords},
                       {"different_rows", t.differentRows},
                       {"relative_l2", t.relativeL2},
                       {"max_abs", t.maxAbs},
                       {"max_at", {t.maxRow, t.maxColumn}},
                       {"snr_db", t.snrDb ? Json(*t.snrDb) : Json(nullptr)}});
  for (const ParityFault &f : report.faults)
    faults.push_back({{"level", f.level},
                      {"rule", f.rule},
                      {"subject", f.subject},
                      {"row", optionalJson(f.row)},
                      {"column", optionalJson(f.column)},
                      {"message", f.message}});
  return Json{
      {"source", report.source},     {"artifact", report.artifact},   {"ok", report.ok()},
      {"levels", std::move(levels)}, {"tensors", std::move(tensors)}, {"faults", std::move(faults)},
      {"notes", report.notes},       {"seconds", report.seconds}};
}

} // namespace ninfer
