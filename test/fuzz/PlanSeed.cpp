// Writes the small plan of the schema tests into a file: the seed of the plan target (make_corpus.py).
#include "test/unit/schema/PlanFixture.h"

#include <fstream>

int main(int argc, char **argv) {
  const auto file = ninfer::buildPlan(ninfer::test::smallPlan(), ninfer::test::smallBlobs());
  if (argc != 2 || !file.ok())
    return 1;
  std::ofstream(argv[1], std::ios::binary)
      .write(reinterpret_cast<const char *>(file->data()), static_cast<std::streamsize>(file->size()));
  return 0;
}
