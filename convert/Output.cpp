#include "convert/Output.h"

#include "artifact/container/PartFiles.h"
#include "support/File.h"
#include "support/FileKind.h"

#include <array>
#include <climits>
#include <fstream>
#include <string_view>
#include <unistd.h>

namespace ninfer {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kEntryMagic("NINFER\0", 7), kPartMagic("NINPRT\0", 7);

bool beginsWith(const fs::path &path, std::string_view magic) {
  std::array<char, 7> head{};
  std::ifstream in(path, std::ios::binary);
  return in.read(head.data(), head.size()) && std::string_view(head.data(), head.size()) == magic;
}

} // namespace

Status checkOutputName(const fs::path &output, bool inParts) {
  const long known = pathconf(folderOf(output).c_str(), _PC_NAME_MAX);
  const size_t most = known > 0 ? static_cast<size_t>(known) : NAME_MAX;
  const std::string name = output.filename().string();
  const auto tooLong = [&](const std::string &what, size_t bytes) {
    return makeError(ErrorKind::Usage, "NB0904",
                     output.string() + ": " + what + " would have " + std::to_string(bytes) +
                         " bytes, the file system holds names of at most " + std::to_string(most));
  };
  if (name.size() > most)
    return tooLong("the file name", name.size());
  const size_t part = partFileName(name, partToken(ArtifactId{}), 1).size();
  if (inParts && part > most)
    return tooLong("the names of the parts", part);
  return {};
}

Status checkOutputReplaceable(const fs::path &output, bool force) {
  std::error_code ignored;
  if (!fs::exists(fs::symlink_status(output, ignored)))
    return {};
  if (!force) {
    Status status(makeError(ErrorKind::Usage, "NB0905", output.string() + ": file exists"));
    status.help("--force replaces it");
    return status;
  }
  if (!fs::is_regular_file(output, ignored))
    return {}; // a link to nothing is replaced; AtomicFile refuses the rest
  if ((fs::file_size(output, ignored) == 0 && !ignored) || beginsWith(output, kEntryMagic))
    return {};
  const std::string kind =
      beginsWith(output, kPartMagic) ? "a part of a .ninfer artifact" : describeFileKind(output);
  Status status(makeError(ErrorKind::Usage, "NB0905",
                          output.string() + ": exists and is " + kind +
                              "; only a .ninfer artifact or an empty file is replaced"));
  status.help("give another output, or remove the file first");
  return status;
}

} // namespace ninfer
