// Accessors over verified plan bytes.
#include "schema/View.h"

#include "schema/Verify.h"

namespace ninfer {

Result<PlanView> PlanView::open(std::span<const std::byte> bytes, std::string_view fileName) {
  NINFER_RETURN_IF_ERROR(verifyPlan(bytes, fileName));
  return PlanView(bytes, plan::GetPlan(bytes.data() + kPlanHeaderBytes));
}

std::span<const std::byte> PlanView::blob(uint32_t index) const {
  const plan::Blob *blob = plan_->blobs()->Get(index);
  return bytes_.subspan(blob->offset(), blob->bytes());
}

const plan::Target *PlanView::findTarget(std::string_view name) const {
  for (const plan::Target *target : *plan_->targets())
    if (target->name()->string_view() == name)
      return target;
  return nullptr;
}

const plan::Phase *PlanView::findPhase(const plan::Target &target, plan::PhaseKind kind) {
  for (const plan::Phase *phase : *target.phases())
    if (phase->kind() == kind)
      return phase;
  return nullptr;
}

} // namespace ninfer
