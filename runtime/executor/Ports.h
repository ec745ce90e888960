// Finding the ports that the runtime knows by name.
#ifndef NINFER_RUNTIME_EXECUTOR_PORTS_H
#define NINFER_RUNTIME_EXECUTOR_PORTS_H

#include "schema/View.h"

#include <string_view>

namespace ninfer {

/// The port of that name; null unless it is of the element type, as the caller sees it, and, if `width` is not 0, of the width.
inline const plan::Port *findPort(const flatbuffers::Vector<flatbuffers::Offset<plan::Port>> *ports, std::string_view name,
                                  plan::ElementType element, uint32_t width) {
  if (ports)
    for (const plan::Port *port : *ports)
      if (port->name()->string_view() == name)
        return (port->element() == element || (element == plan::ElementType::F32 && port->element() == plan::ElementType::BF16)) &&
                       (width == 0 || port->width() == width) ? port : nullptr;
  return nullptr;
}

} // namespace ninfer

#endif // NINFER_RUNTIME_EXECUTOR_PORTS_H
