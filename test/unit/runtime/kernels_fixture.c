/* Kernels for loader and executor tests, compiled by the test's CMakeLists into ELF images that keep or break
 * the rules of plan machine code. */
#include "runtime/abi/kernel_abi.h"

#if defined(BREAK_UNDEFINED)
extern int elsewhere(void);
#endif
#if defined(BREAK_WRITABLE)
int counter = 1;
#endif
#if defined(BREAK_RELOCATION)
static int a, b;
int *const table[2] = {&a, &b};
#endif

/* args: out int32[tiles]; writes tile + 100 * rows + 10000 * position into every tile of the range. */
void mark(void *const *args, const int64_t *scalars, int64_t begin, int64_t end, void *scratch) {
  int32_t *out = args[0];
  *(volatile char *)scratch = 1;
  for (int64_t tile = begin; tile < end; ++tile)
    out[tile] = (int32_t)(tile + 100 * scalars[NINFER_SCALAR_ROWS] + 10000 * scalars[NINFER_SCALAR_POSITION]);
#if defined(BREAK_UNDEFINED)
  out[0] = elsewhere();
#endif
#if defined(BREAK_WRITABLE)
  out[0] = ++counter;
#endif
#if defined(BREAK_RELOCATION)
  out[0] = *table[begin & 1];
#endif
}

/* args: in float[width], out float[vocab]; tile t writes out[t] = in[0] + t. Reads what the launch before wrote. */
void spread(void *const *args, const int64_t *scalars, int64_t begin, int64_t end, void *scratch) {
  const int32_t *in = args[0];
  float *out = args[1];
  (void)scalars;
  (void)scratch;
  for (int64_t tile = begin; tile < end; ++tile)
    out[tile] = (float)(in[0] + tile);
}
