// Gated delta rule for many rows (operator: gated_delta.cuh), a chunk of C = 16 * warps rows at a time. With G_r the sum of
// the decays' logarithms of rows 0..r of the chunk, D_rj = exp(G_r - G_j), k and q of norm one and S the state before it:
//   U = (I + L)^-1 beta (V - exp(G) K S^T)      L_rj = beta_r D_rj (k_r k_j), j < r    (what each row changes)
//   Y = (exp(G) Q S^T + P U) / sqrt(keyDim)     P_rj = D_rj (q_r k_j), j <= r
//   S = exp(G_last) S + sum over j of exp(G_last - G_j) u_j k_j^T
// Every exponent is at most 0, and rows behind the last one have beta 0 and decay 1, so that G_last is right for a short chunk.
//
// Products run on tensor cores. Keys and queries are multiplied as they are stored, their norms applied to the sums; S, P and U
// are two bfloat16 each (value, rest), so that products are as good as 16 bits. The system is solved in binary32: 16 rows at a
// time, those of the diagonal by their inverse. G is a sum of two binary32: differences of large sums stay exact.
// Rows of S do not meet: a thread block has S.values of one head, in registers, as an mma accumulator, for the whole call.
// Launch: grid (deltaChunkedBlocksX, valueHeads), deltaChunkedThreads, deltaChunkedShared.
#ifndef NINFER_CODEGEN_CUDA_KERNELS_DELTA_CHUNKED_CUH
#define NINFER_CODEGEN_CUDA_KERNELS_DELTA_CHUNKED_CUH

#include "delta_gates.cuh"

namespace ni {

struct DeltaChunkedArgs {
  const u16 *query, *key, *value; ///< bfloat16; row r starts at r * stride; query and key rows 16-byte aligned
  const u16 *a, *b;               ///< bfloat16; row r starts at r * scalarStride
  const float *aLog, *dtBias;     ///< [valueHeads]
  float *state;                   ///< [valueHeads][valueDim][keyDim]
  u16 *out;                       ///< bfloat16 [rows][valueHeads * valueDim]
  u32 rows, queryStride, keyStride, valueStride, scalarStride;
};

template <DeltaChunkedSpec S>
struct DeltaChunked {
  static_assert(deltaChunkedAccepts(S), "delta_spec.cuh: deltaChunkedAccepts");
  static constexpr u32 kChunk = deltaChunk(S), kThreads = deltaChunkedThreads(S), kDim = S.keyDim, kValues = S.values;
  static constexpr u32 kTiles = kChunk / 8, kValueTiles = kValues / 8;
  static constexpr u32 kStateRows = kValues / 16, kStateWidth = kDim / S.warps, kStateTiles = kStateWidth / 8;
  static constexpr u32 kKeyStride = deltaKeyStride(S), kChunkStride = deltaChunkStride(S), kSolveStride = kChunk + 4;

  struct Shared {
    u16 key[kChunk][kKeyStride], query[kChunk][kKeyStride];
    u16 state[2][kValues][kKeyStride]; ///< value and rest
    union {
      float lower[kChunk][kChunkStride];    ///< L; blocks of the diagonal become (I + L)^-1
      u16 changes[4][kValues][kChunkStride]; ///< value and rest of U; of U as it enters the state. Behind the solution
    };
    float solve[kValues][kSolveStride]; ///< columns of the right hand side, then of U
    float decay[2][kChunk];             ///< G, base 2: sum and rest
    float beta[kChunk], inverseKey[kChunk], inverseQuery[kChunk];
    float toEnd[kChunk]; ///< exp(G_last - G_r) / |k_r|
  };
  static_assert(sizeof(Shared) == deltaChunkedShared(S), "delta_spec.cuh: deltaChunkedShared");

  /// The lane's elements: row 16 m + g + 8 h, column (warp * kStateTiles + n) * 8 + 2 t + b at [m][n][2 h + b].
  struct State {
    float v[kStateRows][kStateTiles][4];
  };
  /// Sums of a warp's 16 rows.
  struct Sums {
    float keys[kTiles][4], queries[kTiles][4];                 ///< with the keys of the chunk, up to the row's own tile
    float keyState[kValueTiles][4], queryState[kValueTiles][4]; ///< with the state
  };

  NI_FN void run(const DeltaChunkedArgs &a, Shared *sm) {
    const u32 warp = uniform(warpIndex()), head = blockY(), keyHead = head / (S.valueHeads / S.keyHeads);
    const u64 place = (static_cast<u64>(head) * S.valueDim + blockX() * kValues) * kDim;
    const float rate = exp2Approx(load(a.aLog + head) * kLog2e), bias = load(a.dtBias + head);
    State state;
    loadState(a.state + place, state, warp);
    shareState(sm, state, warp);
    NI_NO_UNROLL
    for (u32 first = 0; first < a.rows; first += kChunk) {
      const u32 rows = smaller(kChunk, a.rows - first);
      blockSync(); // nobody reads the chunk before
      copyRows(sm->query, a.query + keyHead * kDim, a.queryStride, first, rows);
      copyRows(sm->key, a.key + keyHead * kDim, a.keyStride, first, rows);
      copyAsyncCommit();
      if (warp == 0)
        gates(a, sm, head, first, rows, rate, bias);
      u32 values[kValueTiles][2];
      loadValues(a, head, first, rows, warp, values);
      copyAsyncWait<0>();
      blockSync();
      norms(sm);
      Sums sums;
      multiply(sm, warp, sums);
      blockSync(); // scalars are there
      weigh(sm, warp, sums, values);
      blockSync();
      solve(sm, warp);
      blockSync(); // nobody reads L any more
      shareChanges(sm);
      blockSync();
      finish(a, sm, head, first, rows, warp, sums);
      update(sm, warp, state);
      shareState(sm, state, warp);
    }
    storeState(a.state + place, state, warp);
  }

private:
  // --- state

  NI_FN u32 stateAt(u32 warp, u32 m, u32 n, u32 h) {
    return (16 * m + laneIndex() / 4 + 8 * h) * kDim + (warp * kStateTiles + n) * 8 + laneIndex() % 4 * 2;
  }
  NI_FN void loadState(const float *from, State &state, u32 warp) {
    NI_UNROLL
    for (u32 m = 0; m < kStateRows; ++m)
      NI_UNROLL
      for (u32 n = 0; n < kStateTiles; ++n)
        NI_UNROLL
        for (u32 h = 0; h < 2; ++h) {
          const Words2 pair = load(reinterpret_cast<const Words2 *>(from + stateAt(warp, m, n, h)));
          state.v[m][n][2 * h] = asFloat(pair.x);
          state.v[m][n][2 * h + 1] = asFloat(pair.y);
        }
  }
  NI_FN void storeState(float *to, const State &state, u32 warp) {
    NI_UNROLL
    for (u32 m = 0; m < kStateRows; ++m)
      NI_UNROLL
      for (u32 n = 0; n < kStateTiles; ++n)
        NI_UNROLL
        for (u32 h = 0; h < 2; ++h)
          store(reinterpret_cast<Words2 *>(to + stateAt(warp, m, n, h)),
                Words2{asBits(state.v[m][n][2 * h]), asBits(state.v[m][n][2 * h + 1])});
  }
  /// The state as operand of the next chunk.
  NI_FN void shareState(Shared *sm, const State &state, u32 warp) {
    NI_UNROLL
    for (u32 m = 0; m < kStateRows; ++m)
      NI_UNROLL
      for (u32 n = 0; n < kStateTiles; ++n)
        NI_UNROLL
        for (u32 h = 0; h < 2; ++h) {
          u32 value, rest;
          split(state.v[m][n][2 * h], state.v[m][n][2 * h + 1], value, rest);
          const u32 row = 16 * m + laneIndex() / 4 + 8 * h, column = (warp * kStateTiles + n) * 8 + laneIndex() % 4 * 2;
          sharedStore(reinterpret_cast<u32 *>(&sm->state[0][row][column]), value);
          sharedStore(reinterpret_cast<u32 *>(&sm->state[1][row][column]), rest);
        }
  }

  // --- operands

  /// Two numbers as two pairs of bfloat16: the nearest ones, and what they leave.
  NI_FN void split(float low, float high, u32 &value, u32 &rest) {
    value = packBf16(low, high);
    rest = packBf16(low - bf16Low(value), high - bf16High(value));
  }
  /// A operand of rows row.. and columns column.. of a matrix with rows of Stride words.
  template <u32 Stride>
  NI_FN void rowsOperand(u32 (&r)[4], const u16 *matrix, u32 row, u32 column) {
    loadMatrix(r, matrix + (row + laneIndex() % 16) * Stride + column + laneIndex() / 16 * 8);
  }
  /// B operands of columns row.. and row + 8..: rows of the matrix are columns of B.
  template <u32 Stride>
  NI_FN void columnsOperand(u32 (&r)[4], const u16 *matrix, u32 row, u32 column) {
    loadMatrix(r, matrix + (row + laneIndex() % 8 + laneIndex() / 16 * 8) * Stride + column + laneIndex() / 8 % 2 * 8);
  }
  NI_FN void copyRows(u16 (&to)[kChunk][kKeyStride], const u16 *from, u32 stride, u32 first, u32 rows) {
    for (u32 i = threadIndex(); i < kChunk * (kDim / 8); i += kThreads) {
      const u32 row = i / (kDim / 8), eight = i % (kDim / 8);
      const bool valid = row < rows;
      copyAsync(&to[row][eight * 8], from + static_cast<u64>(valid ? first + row : first) * stride + eight * 8, valid);
    }
  }
  /// The values of the lane's two rows, pairs as in an accumulator; zeros behind the last row.
  NI_FN void loadValues(const DeltaChunkedArgs &a, u32 head, u32 first, u32 rows, u32 warp, u32 (&values)[kValueTiles][2]) {
    NI_UNROLL
    for (u32 h = 0; h < 2; ++h) {
      const u32 row = 16 * warp + laneIndex() / 4 + 8 * h;
      const u16 *from = a.value + static_cast<u64>(first + row) * a.valueStride + head * S.valueDim + blockX() * kValues;
      NI_UNROLL
      for (u32 n = 0; n < kValueTiles; ++n)
        values[n][h] = row < rows ? load(reinterpret_cast<const u32 *>(from + n * 8 + laneIndex() % 4 * 2)) : 0u;
    }
  }

  // --- scalars

  /// The sum of two pairs of (sum, rest).
  NI_FN void add(float &sum, float &rest, float otherSum, float otherRest) {
    const float s = sum + otherSum, part = s - sum;
    const float lost = (sum - (s - part)) + (otherSum - part) + (rest + otherRest);
    sum = s + lost;
    rest = lost - (sum - s);
  }
  /// One warp: beta of every row, decays summed from the first row to each.
  NI_FN void gates(const DeltaChunkedArgs &a, Shared *sm, u32 head, u32 first, u32 rows, float rate, float bias) {
    constexpr u32 kPerLane = kChunk / 32;
    const u32 lane = laneIndex();
    float sums[kPerLane], rests[kPerLane];
    NI_UNROLL
    for (u32 i = 0; i < kPerLane; ++i) {
      const u32 row = lane * kPerLane + i;
      const bool valid = row < rows;
      const u64 scalar = static_cast<u64>(first + row) * a.scalarStride + head;
      sums[i] = valid ? deltaDecay(rate, load(a.a + scalar), bias) : 0.0f;
      rests[i] = 0.0f;
      sharedStore(&sm->beta[row], valid ? sigmoid(bf16ToFloat(load(a.b + scalar))) : 0.0f);
      if (i > 0)
        add(sums[i], rests[i], sums[i - 1], rests[i - 1]);
    }
    float sum = sums[kPerLane - 1], rest = rests[kPerLane - 1];
    NI_UNROLL
    for (u32 distance = 1; distance < 32; distance *= 2) {
      const float otherSum = shuffle(sum, (lane - distance) & 31u), otherRest = shuffle(rest, (lane - distance) & 31u);
      if (lane >= distance)
        add(sum, rest, otherSum, otherRest);
    }
    const float before = shuffle(sum, (lane - 1) & 31u), restBefore = shuffle(rest, (lane - 1) & 31u);
    NI_UNROLL
    for (u32 i = 0; i < kPerLane; ++i) {
      if (lane > 0)
        add(sums[i], rests[i], before, restBefore);
      sharedStore(&sm->decay[0][lane * kPerLane + i], sums[i]);
      sharedStore(&sm->decay[1][lane * kPerLane + i], rests[i]);
    }
  }
  /// 1 / norm of one key or query per thread.
  NI_FN void norms(Shared *sm) {
    const u32 row = threadIndex() % kChunk;
    const bool isKey = threadIndex() < kChunk;
    const u16 *x = isKey ? sm->key[row] : sm->query[row];
    float parts[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    NI_NO_UNROLL
    for (u32 i = 0; i < kDim / 8; ++i) {
      const Words4 eight = sharedLoad(reinterpret_cast<const Words4 *>(x + i * 8));
      const u32 pairs[4] = {eight.x, eight.y, eight.z, eight.w};
      NI_UNROLL
      for (u32 j = 0; j < 4; ++j) {
        parts[j] = fusedMultiplyAdd(bf16Low(pairs[j]), bf16Low(pairs[j]), parts[j]);
        parts[j] = fusedMultiplyAdd(bf16High(pairs[j]), bf16High(pairs[j]), parts[j]);
      }
    }
    const float inverse = rootReciprocalApprox((parts[0] + parts[1]) + (parts[2] + parts[3]) + kDeltaEps);
    sharedStore(isKey ? &sm->inverseKey[row] : &sm->inverseQuery[row], inverse);
  }
  /// exp of (G_to - G_from), at most 1.
  NI_FN float decayed(float to, float toRest, float from, float fromRest) {
    return exp2Approx((to - from) + (toRest - fromRest));
  }

  // --- products

  NI_FN void multiply(Shared *sm, u32 warp, Sums &sums) {
    NI_UNROLL
    for (u32 i = 0; i < 4; ++i) {
      NI_UNROLL
      for (u32 n = 0; n < kTiles; ++n)
        sums.keys[n][i] = sums.queries[n][i] = 0.0f;
      NI_UNROLL
      for (u32 n = 0; n < kValueTiles; ++n)
        sums.keyState[n][i] = sums.queryState[n][i] = 0.0f;
    }
    NI_NO_UNROLL
    for (u32 k = 0; k < kDim; k += 16) {
      u32 key[4], query[4], b[4];
      rowsOperand<kKeyStride>(key, sm->key[0], 16 * warp, k);
      rowsOperand<kKeyStride>(query, sm->query[0], 16 * warp, k);
      NI_UNROLL
      for (u32 n = 0; n < kTiles; n += 2)
        if (n <= 2 * warp) { // later rows are not seen
          columnsOperand<kKeyStride>(b, sm->key[0], n * 8, k);
          mmaBf16(sums.keys[n], key, b[0], b[1]);
          mmaBf16(sums.keys[n + 1], key, b[2], b[3]);
          mmaBf16(sums.queries[n], query, b[0], b[1]);
          mmaBf16(sums.queries[n + 1], query, b[2], b[3]);
        }
      NI_UNROLL
      for (u32 part = 0; part < 2; ++part)
        NI_UNROLL
        for (u32 n = 0; n < kValueTiles; n += 2) {
          columnsOperand<kKeyStride>(b, sm->state[part][0], n * 8, k);
          mmaBf16(sums.keyState[n], key, b[0], b[1]);
          mmaBf16(sums.keyState[n + 1], key, b[2], b[3]);
          mmaBf16(sums.queryState[n], query, b[0], b[1]);
          mmaBf16(sums.queryState[n + 1], query, b[2], b[3]);
        }
    }
  }

  /// Sums become L and the right hand side (shared) and P but for the query's norm (in place of sums.queries).
  NI_FN void weigh(Shared *sm, u32 warp, Sums &sums, const u32 (&values)[kValueTiles][2]) {
    const u32 g = laneIndex() / 4, t = laneIndex() % 4;
    if (threadIndex() < kChunk) {
      const u32 r = threadIndex();
      const float factor = decayed(sharedLoad(&sm->decay[0][kChunk - 1]), sharedLoad(&sm->decay[1][kChunk - 1]),
                                   sharedLoad(&sm->decay[0][r]), sharedLoad(&sm->decay[1][r]));
      sharedStore(&sm->toEnd[r], factor * sharedLoad(&sm->inverseKey[r]));
    }
    NI_UNROLL
    for (u32 h = 0; h < 2; ++h) {
      const u32 row = 16 * warp + g + 8 * h;
      const float sum = sharedLoad(&sm->decay[0][row]), rest = sharedLoad(&sm->decay[1][row]);
      const float beta = sharedLoad(&sm->beta[row]), inverse = sharedLoad(&sm->inverseKey[row]);
      NI_UNROLL
      for (u32 n = 0; n < kTiles; ++n)
        if (n <= 2 * warp + 1) {
          float lower[2];
          NI_UNROLL
          for (u32 b = 0; b < 2; ++b) {
            const u32 column = n * 8 + 2 * t + b;
            const float factor = decayed(sum, rest, sharedLoad(&sm->decay[0][column]), sharedLoad(&sm->decay[1][column])) *
                                 sharedLoad(&sm->inverseKey[column]);
            lower[b] = column < row ? beta * inverse * factor * sums.keys[n][2 * h + b] : 0.0f;
            sums.queries[n][2 * h + b] = column <= row ? factor * sums.queries[n][2 * h + b] : 0.0f;
          }
          sharedStore(reinterpret_cast<Words2 *>(&sm->lower[row][n * 8 + 2 * t]), Words2{asBits(lower[0]), asBits(lower[1])});
        }
      const float seen = exp2Approx(sum + rest) * inverse;
      NI_UNROLL
      for (u32 n = 0; n < kValueTiles; ++n)
        NI_UNROLL
        for (u32 b = 0; b < 2; ++b) {
          const float value = b ? bf16High(values[n][h]) : bf16Low(values[n][h]);
          sharedStore(&sm->solve[n * 8 + 2 * t + b][row], beta * (value - seen * sums.keyState[n][2 * h + b]));
        }
    }
    warpSync();
    invert(sm, 16 * warp);
  }

  /// The block of L at (from, from) becomes (I + L)^-1; a lane computes one column.
  NI_FN void invert(Shared *sm, u32 from) {
    const u32 column = laneIndex() % 16;
    float x[16];
    NI_UNROLL
    for (u32 i = 0; i < 16; ++i) {
      float sum = i == column ? 1.0f : 0.0f;
      NI_UNROLL
      for (u32 j = 0; j < i; ++j)
        sum = fusedMultiplyAdd(-sharedLoad(&sm->lower[from + i][from + j]), x[j], sum);
      x[i] = sum;
    }
    warpSync();
    if (laneIndex() < 16)
      NI_UNROLL
      for (u32 i = 0; i < 16; ++i)
        sharedStore(&sm->lower[from + i][from + column], x[i]);
  }

  /// (I + L) U = right hand side, in place. A warp has kColumns columns, kParts lanes share one: rows part, part + kParts, ..
  NI_FN void solve(Shared *sm, u32 warp) {
    constexpr u32 kColumns = kValues / S.warps, kParts = 32 / kColumns, kMine = 16 / kParts;
    float *const u = sm->solve[warp * kColumns + laneIndex() / kParts];
    const u32 part = laneIndex() % kParts;
    NI_NO_UNROLL
    for (u32 block = 0; block < kChunk; block += 16) {
      float mine[kMine];
      NI_UNROLL
      for (u32 i = 0; i < kMine; ++i)
        mine[i] = sharedLoad(&u[block + part + i * kParts]);
      NI_NO_UNROLL
      for (u32 j = 0; j < block; j += 4)
        addFour<-1>(sm, u, block, j, part, mine);
      NI_UNROLL
      for (u32 i = 0; i < kMine; ++i)
        sharedStore(&u[block + part + i * kParts], mine[i]);
      warpSync();
      NI_UNROLL
      for (u32 i = 0; i < kMine; ++i)
        mine[i] = 0.0f;
      NI_UNROLL
      for (u32 j = 0; j < 16; j += 4)
        addFour<1>(sm, u, block, block + j, part, mine);
      warpSync();
      NI_UNROLL
      for (u32 i = 0; i < kMine; ++i)
        sharedStore(&u[block + part + i * kParts], mine[i]);
      warpSync();
    }
  }
  /// Rows block + part + i * kParts of Sign * lower, columns from..from + 3, times u.
  template <int Sign, u32 Mine>
  NI_FN void addFour(Shared *sm, const float *u, u32 block, u32 from, u32 part, float (&mine)[Mine]) {
    const Words4 x = sharedLoad(reinterpret_cast<const Words4 *>(u + from));
    NI_UNROLL
    for (u32 i = 0; i < Mine; ++i) {
      const Words4 w = sharedLoad(reinterpret_cast<const Words4 *>(&sm->lower[block + part + i * (16 / Mine)][from]));
      mine[i] = fusedMultiplyAdd(Sign * asFloat(w.x), asFloat(x.x), mine[i]);
      mine[i] = fusedMultiplyAdd(Sign * asFloat(w.y), asFloat(x.y), mine[i]);
      mine[i] = fusedMultiplyAdd(Sign * asFloat(w.z), asFloat(x.z), mine[i]);
      mine[i] = fusedMultiplyAdd(Sign * asFloat(w.w), asFloat(x.w), mine[i]);
    }
  }

  NI_FN void shareChanges(Shared *sm) {
    for (u32 i = threadIndex(); i < kValues * (kChunk / 2); i += kThreads) {
      const u32 value = i / (kChunk / 2), row = i % (kChunk / 2) * 2;
      const Words2 pair = sharedLoad(reinterpret_cast<const Words2 *>(&sm->solve[value][row]));
      const Words2 toEnd = sharedLoad(reinterpret_cast<const Words2 *>(&sm->toEnd[row]));
      u32 words[4];
      split(asFloat(pair.x), asFloat(pair.y), words[0], words[1]);
      split(asFloat(pair.x) * asFloat(toEnd.x), asFloat(pair.y) * asFloat(toEnd.y), words[2], words[3]);
      NI_UNROLL
      for (u32 j = 0; j < 4; ++j)
        sharedStore(reinterpret_cast<u32 *>(&sm->changes[j][value][row]), words[j]);
    }
  }

  /// Adds P U and stores the rows.
  NI_FN void finish(const DeltaChunkedArgs &a, Shared *sm, u32 head, u32 first, u32 rows, u32 warp, Sums &sums) {
    const u32 g = laneIndex() / 4, t = laneIndex() % 4;
    NI_UNROLL
    for (u32 h = 0; h < 2; ++h) {
      const u32 row = 16 * warp + g + 8 * h;
      const float seen = exp2Approx(sharedLoad(&sm->decay[0][row]) + sharedLoad(&sm->decay[1][row]));
      NI_UNROLL
      for (u32 n = 0; n < kValueTiles; ++n) {
        sums.queryState[n][2 * h] *= seen;
        sums.queryState[n][2 * h + 1] *= seen;
      }
    }
    NI_UNROLL
    for (u32 step = 0; step < kChunk / 16; ++step)
      if (step <= warp) {
        u32 weights[4], rests[4];
        NI_UNROLL
        for (u32 i = 0; i < 4; ++i) {
          const float(&p)[4] = sums.queries[2 * step + (i >> 1)];
          split(p[2 * (i & 1)], p[2 * (i & 1) + 1], weights[i], rests[i]);
        }
        NI_UNROLL
        for (u32 n = 0; n < kValueTiles; n += 2) {
          u32 value[4], rest[4];
          columnsOperand<kChunkStride>(value, sm->changes[0][0], n * 8, step * 16);
          columnsOperand<kChunkStride>(rest, sm->changes[1][0], n * 8, step * 16);
          NI_UNROLL
          for (u32 i = 0; i < 2; ++i) {
            mmaBf16(sums.queryState[n + i], weights, value[2 * i], value[2 * i + 1]);
            mmaBf16(sums.queryState[n + i], rests, value[2 * i], value[2 * i + 1]);
            mmaBf16(sums.queryState[n + i], weights, rest[2 * i], rest[2 * i + 1]);
          }
        }
      }
    constexpr float kScale = deltaScale(kDim);
    NI_UNROLL
    for (u32 h = 0; h < 2; ++h) {
      const u32 row = 16 * warp + g + 8 * h;
      const float scale = sharedLoad(&sm->inverseQuery[row]) * kScale;
      u16 *out = a.out + (static_cast<u64>(first + row) * S.valueHeads + head) * S.valueDim + blockX() * kValues + 2 * t;
      if (row < rows)
        NI_UNROLL
        for (u32 n = 0; n < kValueTiles; ++n)
          store(reinterpret_cast<u32 *>(out + n * 8),
                packBf16(sums.queryState[n][2 * h] * scale, sums.queryState[n][2 * h + 1] * scale));
    }
  }

  /// S = exp(G_last) S + what the rows change.
  NI_FN void update(Shared *sm, u32 warp, State &state) {
    const float decay = exp2Approx(sharedLoad(&sm->decay[0][kChunk - 1]) + sharedLoad(&sm->decay[1][kChunk - 1]));
    NI_UNROLL
    for (u32 m = 0; m < kStateRows; ++m)
      NI_UNROLL
      for (u32 n = 0; n < kStateTiles; ++n)
        NI_UNROLL
        for (u32 i = 0; i < 4; ++i)
          state.v[m][n][i] *= decay;
    NI_NO_UNROLL
    for (u32 row = 0; row < kChunk; row += 16) {
      u32 changes[kStateRows][2][4];
      NI_UNROLL
      for (u32 m = 0; m < kStateRows; ++m)
        NI_UNROLL
        for (u32 part = 0; part < 2; ++part)
          rowsOperand<kChunkStride>(changes[m][part], sm->changes[2 + part][0], 16 * m, row);
      NI_UNROLL
      for (u32 n = 0; n < kStateTiles; n += 2) {
        u32 b[4]; // of two tiles: rows of the key matrix run along k
        loadMatrixTransposed(b, &sm->key[row + laneIndex() % 16][(warp * kStateTiles + n) * 8 + laneIndex() / 16 * 8]);
        NI_UNROLL
        for (u32 m = 0; m < kStateRows; ++m)
          NI_UNROLL
          for (u32 part = 0; part < 2; ++part) {
            mmaBf16(state.v[m][n], changes[m][part], b[0], b[1]);
            mmaBf16(state.v[m][n + 1], changes[m][part], b[2], b[3]);
          }
      }
    }
  }
};

} // namespace ni

#define NI_DELTA_CHUNKED(name, ...)                                                                                    \
  namespace ni {                                                                                                       \
  constexpr DeltaChunkedSpec name##_spec = __VA_ARGS__;                                                                \
  }                                                                                                                    \
  NI_KERNEL(name, ni::deltaChunkedThreads(ni::name##_spec), 1)                                                         \
  (const ni::u16 *query, const ni::u16 *key, const ni::u16 *value, const ni::u16 *a, const ni::u16 *b,                 \
   const float *aLog, const float *dtBias, float *state, ni::u16 *out, ni::u32 rows, ni::u32 queryStride,              \
   ni::u32 keyStride, ni::u32 valueStride, ni::u32 scalarStride) {                                                     \
    NI_SHARED(ni::DeltaChunked<ni::name##_spec>::Shared, shared);                                                      \
    ni::DeltaChunked<ni::name##_spec>::run({query, key, value, a, b, aLog, dtBias, state, out, rows, queryStride,      \
                                            keyStride, valueStride, scalarStride},                                     \
                                           shared);                                                                    \
  }                                                                                                                    \
  NI_EXPORT(name)

#endif // NINFER_CODEGEN_CUDA_KERNELS_DELTA_CHUNKED_CUH
