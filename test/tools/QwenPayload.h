// Random but legal and plausible words of one stored tensor of a hybrid model.
#ifndef NINFER_TEST_TOOLS_QWENPAYLOAD_H
#define NINFER_TEST_TOOLS_QWENPAYLOAD_H

#include "artifact/layouts/Layout.h"

#include <string>
#include <vector>

namespace ninfer::testing {

/// Encoded object. Codes of matrices are drawn evenly and scaled so that a row keeps the variance
/// of its input; `role` is the parameter stored there (or the first of several), whose name decides
/// what direct words are like: norms scatter around 0 or 1, decay terms lie in the range of trained
/// models, token ids are distinct and below `tokens`.
Result<std::vector<std::byte>> randomObject(const EncodedGeometry &geometry,
                                            const std::string &role, uint64_t tokens,
                                            uint64_t seed);

} // namespace ninfer::testing

#endif // NINFER_TEST_TOOLS_QWENPAYLOAD_H
