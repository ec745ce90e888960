#include "inspect/VerifyPage.h"

#include "inspect/Names.h"
#include "schema/TextTable.h"

namespace ninfer {

std::string verifyText(const Artifact &artifact, const VerifyReport &report, double seconds) {
  std::string out;
  if (!report.ok()) {
    TextTable table;
    table.row({"object", "row", "group", "lane", "byte", "rule", "fault"});
    const auto cell = [](const std::optional<uint64_t> &value) {
      return value ? std::to_string(*value) : std::string("-");
    };
    for (const Finding &finding : report.findings)
      table.row({finding.object, cell(finding.row), cell(finding.group), cell(finding.lane),
                 std::to_string(finding.byte), finding.rule, finding.message});
    out = table.render();
    if (!report.stopped && report.violations > report.findings.size())
      out += std::to_string(report.violations - report.findings.size()) + " more faults\n";
    return out;
  }
  out = "sound       " + artifact.path().string() + ": " + std::to_string(report.objects) +
        " objects, " + std::to_string(report.bytes) + " bytes (" + binaryBytes(report.bytes) +
        ") judged in " + fixedText(seconds, 2) + " s\n";
  return out + "read        " + std::to_string(report.scanned) +
         " bytes; in the rest every word is legal\n";
}

Json verifyJson(const Artifact &artifact, const VerifyReport &report) {
  Json faults = Json::array();
  const auto number = [](const std::optional<uint64_t> &value) {
    return value ? Json(*value) : Json(nullptr);
  };
  for (const Finding &finding : report.findings)
    faults.push_back({{"object", finding.object},
                      {"row", number(finding.row)},
                      {"group", number(finding.group)},
                      {"lane", number(finding.lane)},
                      {"byte", finding.byte},
                      {"rule", finding.rule},
                      {"message", finding.message}});
  Json out = {{"artifact", artifact.path().string()},
              {"sound", report.ok()},
              {"objects", report.objects},
              {"stopped", report.stopped}};
  if (!report.stopped) { // these depend on how far other threads were
    out["bytes"] = report.bytes;
    out["bytes_read"] = report.scanned;
    out["violations"] = report.violations;
  }
  out["faults"] = std::move(faults);
  return out;
}

} // namespace ninfer
