// A fixture with a private folder that is removed afterwards.
#ifndef NINFER_TEST_UNIT_CONTAINER_TEMPFOLDER_H
#define NINFER_TEST_UNIT_CONTAINER_TEMPFOLDER_H

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <string>

namespace ninfer::test {

class TempFolder : public ::testing::Test {
protected:
  void SetUp() override {
    std::string name =
        (std::filesystem::temp_directory_path() / "ninfer-container-test-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path write(const std::string &name, const std::string &bytes) {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
    return folder_ / name;
  }
  size_t entries() const {
    return size_t(std::distance(std::filesystem::directory_iterator(folder_),
                                std::filesystem::directory_iterator()));
  }

  std::filesystem::path folder_;
};

} // namespace ninfer::test

#endif // NINFER_TEST_UNIT_CONTAINER_TEMPFOLDER_H
