/* The public header and the kernel ABI are C11: this file is compiled as such, with pedantic errors. */
#include "runtime/abi/kernel_abi.h"
#include "runtime/include/ninfer/ninfer.h"

/* Fixed numbers of the interface. */
_Static_assert(NINFER_OK == 0 && NINFER_FAILED == 1 && NINFER_USAGE == 2 && NINFER_BAD_FILE == 3 &&
                   NINFER_TARGET_MISMATCH == 4 && NINFER_UNSUPPORTED == 5 && NINFER_OUT_OF_MEMORY == 6 &&
                   NINFER_CACHE_MISS == 7 && NINFER_ACCURACY_FAILED == 8 && NINFER_INTERRUPTED == 130,
               "status values are exit codes");
_Static_assert(sizeof(ninfer_status) == 4, "enums are 32 bit");
_Static_assert(offsetof(ninfer_open_options, struct_size) == 0 && offsetof(ninfer_ledger, struct_size) == 0,
               "structs begin with their size");

/* Runs one prompt the way a C program would; returns the status, and the first logit in *logit. */
ninfer_status run_from_c(const char *plan, const int32_t *tokens, size_t count, float *logit);

ninfer_status run_from_c(const char *plan, const int32_t *tokens, size_t count, float *logit) {
  ninfer_open_options options = {0};
  ninfer_engine *engine = NULL;
  ninfer_context *context = NULL;
  const float *logits = NULL;
  size_t vocabulary = 0;
  options.struct_size = sizeof options;
  options.plan_path = plan;
  ninfer_status status = ninfer_engine_open(&options, &engine, NULL);
  if (status == NINFER_OK)
    status = ninfer_context_create(engine, NULL, &context, NULL);
  ninfer_engine_release(engine); /* the context keeps it */
  if (status == NINFER_OK)
    status = ninfer_context_submit(context, tokens, count, NULL);
  if (status == NINFER_OK)
    status = ninfer_context_get_logits(context, &logits, &vocabulary, NULL);
  if (status == NINFER_OK)
    *logit = logits[0];
  ninfer_context_release(context);
  return status;
}
