// Registration of the dialect and its operations.
#include "dialects/ninfer/NinferDialect.h"

#include "dialects/ninfer/NinferDialect.cpp.inc"

#include "dialects/ninfer/NinferInterfaces.cpp.inc"

namespace ninfer {

void NinferDialect::initialize() {
  registerAttributes();
  registerTypes();
  registerOperations();
}

} // namespace ninfer
