// Passes from the graph of one component to its launch list. The order is that of Pipelines.h.
// Generated page: docs/passes/passes.md.
#ifndef NINFER_PASSES_PASSES_TD
#define NINFER_PASSES_PASSES_TD

include "mlir/Pass/PassBase.td"

def BindParametersPass : Pass<"ninfer-bind-parameters", "::mlir::ModuleOp"> {
  let summary = "Find the payload bytes of every parameter";
  let description = [{
    Precondition: a module of `ninfer.object` and `ninfer.parameter` symbols.

    Postcondition: every parameter has `planes`: the payload range of its rows in each plane of its object, in the
    order of runtime/abi/kernel_abi.h. A kernel reads one run of consecutive rows, so the parts of a parameter
    must be one range of one object that starts at a row (for `blockscale-k16-m128x4-v1`: at a block of 128
    rows), and its rows must have the length of the object's.

    ```mlir
    // in: the second 192 rows of a fused matrix
    ninfer.object @qkv : <960x576, W8G32_F16S, "row-split-k128-v1"> at 4096 size 652800
    ninfer.parameter @key : !ninfer.weight<192x576, W8G32_F16S, "row-split-k128-v1">
        parts [#ninfer.part<@qkv, 331776, 442368>] policy<A16Only>
    // out: rows 576..768 of the code plane and of the scale plane
    ninfer.parameter @key : ... planes [#ninfer.plane<372736, 122880>, #ninfer.plane<641536, 7680>]
    ```
  }];
  let statistics = [Statistic<"bound", "parameters", "Parameters bound">];
}

def SplitPhasesPass : Pass<"ninfer-split-phases", "::mlir::ModuleOp"> {
  let summary = "One function per phase";
  let description = [{
    Precondition: functions with `ninfer.component`, and the module attribute `ninfer.prefill_chunk` (and, if
    present, `ninfer.verify_rows`); `ninfer.max_context`, if present, is not smaller than either.

    Postcondition: each such function `@f` without a phase is replaced by one copy `@f.PHASE` per entry of its
    `ninfer.phases`, by default decode and prefill, with `ninfer.phase` and `ninfer.max_rows`: 1 for decode and
    draft_next, the prefill chunk for prefill, the verify rows for verify and commit, the greater of both for draft.
    A function that is named after its phase (`@text.verify`) keeps its name. Functions that have a phase are left
    alone.

    ```mlir
    func.func @text(%tokens: tensor<?xi32>, %position: index) -> tensor<1x64xf32>
      attributes {ninfer.component = "text"} { ... }
    // out
    func.func @text.decode(...) attributes {ninfer.component = "text", ninfer.max_rows = 1, ninfer.phase = "decode"}
    func.func @text.prefill(...) attributes {ninfer.component = "text", ninfer.max_rows = 512, ninfer.phase = "prefill"}
    ```
  }];
}

def SpecializeShapesPass : Pass<"ninfer-specialize-shapes", "::mlir::ModuleOp"> {
  let summary = "Give functions of one row static shapes, and check the rows of the others";
  let description = [{
    Precondition: every function with `ninfer.component` has a phase (ninfer-split-phases).

    Postcondition: in a function with `ninfer.max_rows = 1` every dynamic row count is 1, and `ninfer.last_row` of a
    single row is gone. In the others rows stay dynamic, between 1 and `ninfer.max_rows`. No state that a function
    uses holds fewer positions than `ninfer.max_rows`.

    ```mlir
    %0 = ninfer.add %a, %b : tensor<?x64xf32>   // in @text.decode
    %0 = ninfer.add %a, %b : tensor<1x64xf32>   // out
    ```
  }];
}

def FusePass : Pass<"ninfer-fuse", "::mlir::ModuleOp"> {
  let summary = "Group operations that one kernel computes without storing what lies between";
  let description = [{
    Precondition: functions with a phase; no kernel admitted yet.

    Postcondition: the results of the function are unchanged, and these groups are `ninfer.fused` operations:

    * `"linear"`: linears of one input, as results in order; or two linears whose only user is a `swiglu`; or a
      linear whose only user is an `add`. If the input is an `rms_norm` used by linears alone, the norm moves into the
      group, one copy per group; so does a `last_row` in front of it. Integer-code formats and other formats never
      share a group, because a group has one compute profile.
    * `"rope_append"`: `kv_append` of a rotated key, the rotation of the query that attends to the same cache at
      the same position, and the head norms of both if both have one.

    How many linears, which prologues and epilogues, and whether formats may differ is what the kernels of the
    executor take (`fusionLimits`, codegen/common/Families.h); an executor without fused kernels gets no groups.

    A `last_row` behind an `rms_norm` moves in front of it first: norms work row by row. References
    (`ninfer.param`, `ninfer.state_ref`) move to the start of the function. A tapped value is read outside any
    group, so no group swallows it.

    ```mlir
    %n = ninfer.rms_norm %x, %w {eps = 1.0e-05} : ...
    %q = ninfer.linear %n, %wq policy<A16Only> : ...
    %k = ninfer.linear %n, %wk policy<A16Only> : ...
    // out
    %qk:2 = ninfer.fused "linear" (%a0 = %x : ..., %a1 = %w : ..., %a2 = %wq : ..., %a3 = %wk : ...) -> ... {
      %0 = ninfer.rms_norm %a0, %a1 {eps = 1.0e-05} : ...
      %1 = ninfer.linear %0, %a2 policy<A16Only> : ...
      %2 = ninfer.linear %0, %a3 policy<A16Only> : ...
      ninfer.yield %1, %2 : ...
    }
    ```
  }];
  let options = [Option<"executor", "executor", "std::string", "\"cpu\"", "Executor whose kernels take the groups">];
  let statistics = [
    Statistic<"linearGroups", "linear-groups", "Fused linear groups">,
    Statistic<"ropeAppendGroups", "rope-append-groups", "Fused rope and cache groups">
  ];
}

def AdmitKernelsPass : Pass<"ninfer-admit-kernels", "::mlir::ModuleOp"> {
  let summary = "Choose the kernel family of every operation, with a verdict for every candidate";
  let description = [{
    Precondition: functions with a phase, specialised shapes.

    Postcondition: every operation that becomes a kernel has `ninfer.family`, `ninfer.profile`, `ninfer.tiles_const`,
    `ninfer.tiles_per_row`, `ninfer.signature` (the request, as text) and `ninfer.trace`, an array of dictionaries
    {candidate, verdict, reason} over all families of the executor that compute this operation; CPU linears also
    have `ninfer.granule`, output rows per tile. An operation for which no family is admissible is an error that
    lists the candidates, nearest first; equal requests are reported once. Families: codegen/common/Families.cpp.

    ```mlir
    %0 = ninfer.linear %x, %w policy<A16Only> {ninfer.family = "linear_a16", ninfer.profile = "a16",
      ninfer.tiles_const = 24 : i64, ninfer.tiles_per_row = 0 : i64, ninfer.trace = [
        {candidate = "linear_a8", verdict = "forbidden by policy", reason = "activation policy: expected AllowA8, got A16Only"},
        {candidate = "linear_a16", verdict = "accepted", reason = ""}, ...]} : ...
    ```
  }];
  let options = [
    Option<"target", "target", "std::string", "\"cpu:x86-64-v3\"", "Target: reference, cpu:LEVEL or cuda:sm_N">,
    Option<"executor", "executor", "std::string", "\"\"", "Executor (cpu, cuda, reference) if the target's name does not tell it">,
    ListOption<"features", "features", "std::string", "Target features, instead of those of the named level">
  ];
  let statistics = [Statistic<"admitted", "admitted", "Operations with an admitted kernel">];
}

def OutlineKernelsPass : Pass<"ninfer-outline-kernels", "::mlir::ModuleOp"> {
  let summary = "One ninfer.kernel per distinct structure, one ninfer.launch per operation";
  let description = [{
    Precondition: every operation that becomes a kernel is admitted.

    Postcondition: functions with a phase hold references, launches, taps and the return. Operations that are equal but
    for the values they are given (types, attributes, regions, admission) share a kernel, in all functions: the
    number of kernels does not depend on the number of layers. Names say what a kernel does; kernels are in the
    order of their first launch. The label of a launch is the location name of its operation.

    ```mlir
    %y = ninfer.launch @linear_q6g64_n192_k576_r1_a16(%x, %w) {label = "text/layers/3/attention/key", ...} : ...
    ```
  }];
  let statistics = [
    Statistic<"kernels", "kernels", "Distinct kernels">,
    Statistic<"launches", "launches", "Launches">
  ];
}

def PlanMemoryPass : Pass<"ninfer-plan-memory", "::mlir::ModuleOp"> {
  let summary = "Place activations in an arena and size the states";
  let description = [{
    Precondition: functions with a phase hold launches and taps only (ninfer-outline-kernels).

    Postcondition: every launch has `offsets`, the arena bytes of its results, multiples of 64, at the largest number
    of rows; the function has `ninfer.arena_bytes` and `ninfer.tokens_offset`, or, when its arguments are ports
    (`ninfer.port`), `ninfer.port_offsets`, one offset per port. Values that live at the same launch
    share no byte; a result never lies over an operand of its launch, but for rotated queries of the CPU family
    rope_append over queries that nothing else reads. Tokens live until their last launch, the returned value and
    tapped ones until the end. Taps have distinct names. Every `ninfer.state` has `ninfer.bytes`.

    ```mlir
    %y = ninfer.launch @add_k576_r1(%a, %b) {label = "text/layers/3", offsets = array<i64: 2304>} : ...
    ```
  }];
  let statistics = [Statistic<"arenaBytes", "arena-bytes", "Largest arena, bytes">];
}

#endif // NINFER_PASSES_PASSES_TD
