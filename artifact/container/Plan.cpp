// Inventory of a new artifact: offsets in the order of the objects.
#include "artifact/container/Names.h"
#include "artifact/container/Writer.h"
#include "artifact/layouts/Layout.h"
#include "support/Checked.h"

namespace ninfer {

namespace {

Error refusal(const std::string &why) { return makeError(ErrorKind::Failed, "NB0107", why); }

} // namespace

Result<uint32_t> ArtifactPlan::addTensor(std::string id, std::vector<uint64_t> shape, Format format,
                                         Layout layout) {
  Result<EncodedGeometry> geometry = encodedGeometry(format, layout, shape);
  if (!geometry.ok()) {
    Error error = geometry.takeStatus().takeError();
    error.message = "object '" + id + "': " + error.message;
    return error;
  }
  const auto offset = checkedAlignUp(cursor_, geometry->alignment);
  if (!offset)
    return refusal("object '" + id + "': payload exceeds 2^64-1 bytes");
  ObjectEntry object;
  object.id = std::move(id);
  object.shape = std::move(shape);
  object.formatName = v3Name(format);
  object.layoutName = v3Name(layout);
  object.format = format;
  object.layout = layout;
  object.offset = *offset;
  object.bytes = geometry->totalBytes;
  return addObject(std::move(object));
}

Result<uint32_t> ArtifactPlan::addResource(std::string id, uint64_t bytes) {
  ObjectEntry object;
  object.id = std::move(id);
  object.isTensor = false;
  object.encoding = rawEncodingName(3);
  object.offset = cursor_;
  object.bytes = bytes;
  return addObject(std::move(object));
}

Result<uint32_t> ArtifactPlan::addObject(ObjectEntry object) {
  const std::string what = "object '" + object.id + "': ";
  const auto end = checkedAdd(object.offset, object.bytes);
  if (object.bytes == 0 || !end)
    return refusal(what + "size " + std::to_string(object.bytes) +
                   " is zero, or the payload exceeds 2^64-1 bytes");
  if (object.offset < cursor_)
    return refusal(what + "offset " + std::to_string(object.offset) +
                   " lies before the end of the previous object, " + std::to_string(cursor_));
  const auto index = uint32_t(directory_.objects.size());
  if (!ids_.emplace(object.id, index).second)
    return refusal("duplicate object id '" + object.id + "'");
  directory_.objects.push_back(std::move(object));
  cursor_ = *end;
  return index;
}

void ArtifactPlan::bindWhole(const std::string &parameter, uint32_t object) {
  const uint64_t elements = checkedProduct(directory_.objects.at(object).shape).value_or(0);
  directory_.bindings[parameter] = Binding{true, {{object, 0, elements}}};
}

void ArtifactPlan::bindRange(const std::string &parameter, uint32_t object, uint64_t begin,
                             uint64_t end) {
  directory_.bindings[parameter] = Binding{false, {{object, begin, end}}};
}

} // namespace ninfer
