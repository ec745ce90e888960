// The golden framing 3 artifact cut into parts by hand: no code of the writer is used.
#ifndef NINFER_TEST_UNIT_CONTAINER_SPLITFIXTURE_H
#define NINFER_TEST_UNIT_CONTAINER_SPLITFIXTURE_H

#include "support/Bytes.h"
#include "test/conformance/FixtureFile.h"
#include "test/unit/container/TempFolder.h"

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace ninfer::test {

inline std::string leU64(uint64_t value) {
  std::string out(8, '\0');
  storeLe64(out.data(), value);
  return out;
}

class SplitFixture : public TempFolder {
protected:
  void SetUp() override {
    TempFolder::SetUp();
    const std::string file = readBytes(fixturePath("v3_single.ninfer"));
    json_ = nlohmann::ordered_json::parse(file.substr(32, loadLe64(file.data() + 8)));
    id_ = file.substr(16, 16);
    payload_ = file.substr(32 + loadLe64(file.data() + 8));
    expected_ = readJson("v3_single.json");
  }

  static std::string partName(const std::string &entry, size_t index) {
    return entry + ".part-" + std::to_string(10000 + index).substr(1);
  }

  /// Writes the artifact with the payload cut after the given numbers of bytes; the last part takes
  /// the rest. Part i is named `entry`.part-000i.
  std::filesystem::path split(const std::vector<uint64_t> &sizes,
                              const std::string &entry = "split.ninfer") {
    std::vector<std::string> segments;
    uint64_t at = 0;
    for (uint64_t size : sizes) {
      segments.push_back(payload_.substr(at, size));
      at += size;
    }
    segments.push_back(payload_.substr(at));
    nlohmann::ordered_json files = nlohmann::ordered_json::array();
    for (size_t i = 0; i < segments.size(); ++i) {
      nlohmann::ordered_json file = {{"path", nullptr}, {"payload_bytes", segments[i].size()}};
      if (i)
        file["path"] = partName(entry, i);
      files.push_back(file);
    }
    json_["files"] = files;
    const std::string text = json_.dump();
    std::string head = std::string("NINFER\0\3", 8) + leU64(text.size()) + id_ + text;
    head.resize((head.size() + 4095) / 4096 * 4096);
    write(entry, head + segments[0]);
    for (size_t i = 1; i < segments.size(); ++i)
      write(partName(entry, i), part(i, segments[i]));
    return folder_ / entry;
  }

  std::string part(uint64_t index, const std::string &segment) const {
    std::string head = std::string("NINPRT\0\3", 8) + leU64(index) + id_;
    head.resize(4096);
    return head + segment;
  }

  nlohmann::ordered_json json_;
  nlohmann::json expected_;
  std::string id_, payload_;
};

} // namespace ninfer::test

#endif // NINFER_TEST_UNIT_CONTAINER_SPLITFIXTURE_H
