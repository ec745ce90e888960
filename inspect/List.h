// The directory of an artifact as a page and as JSON. Reads no payload.
#ifndef NINFER_INSPECT_LIST_H
#define NINFER_INSPECT_LIST_H

#include "artifact/container/Reader.h"
#include "support/Json.h"

#include <string>

namespace ninfer {

/// Framing, signature, files, components with resources, and one line per object with the number of
/// parameters bound to it.
std::string listText(const Artifact &artifact);
/// The same and every binding and use; member names are stable (docs/cli/ninfer-inspect.md).
Json listJson(const Artifact &artifact);
/// {"object": id} or {"parts": [{"object": id, "range": [begin, end]}]}, as framing 3 writes it.
Json bindingJson(const Directory &directory, const Binding &binding);

} // namespace ninfer

#endif // NINFER_INSPECT_LIST_H
