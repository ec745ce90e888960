// The ninfer dialect itself. Types, attributes and operations are in the files beside this one.
#ifndef NINFER_DIALECTS_NINFER_NINFERDIALECT_TD
#define NINFER_DIALECTS_NINFER_NINFERDIALECT_TD

include "mlir/IR/OpBase.td"

def Ninfer_Dialect : Dialect {
  let name = "ninfer";
  let summary = "Inference of one artifact: stored weights, decoder operations, compiled kernels";
  let description = [{
    The dialect carries one `.ninfer` artifact from its graph to its launch list. Module-level symbols
    describe what is stored (`ninfer.object`), what the model calls it (`ninfer.parameter`) and what it
    remembers between calls (`ninfer.state`). Operations inside functions compute on float32 activations
    `tensor<rows x width x f32>`; stored values keep their exact encoding in `!ninfer.weight`.

    The registry of formats and layouts is closed: a name or a pair outside of it does not parse.
    Rules of every operation, with the numbers used in code and tests: docs/dialect/spec.md.
  }];
  let cppNamespace = "::ninfer";
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
  let extraClassDeclaration = [{
    void registerTypes();
    void registerAttributes();
    void registerOperations();

    // Module attributes.
    static constexpr ::llvm::StringLiteral kArchitecture = "ninfer.architecture";
    static constexpr ::llvm::StringLiteral kMaxContext = "ninfer.max_context";
    static constexpr ::llvm::StringLiteral kPrefillChunk = "ninfer.prefill_chunk";
    static constexpr ::llvm::StringLiteral kVocabSize = "ninfer.vocab_size";
    static constexpr ::llvm::StringLiteral kLayers = "ninfer.layers";
    static constexpr ::llvm::StringLiteral kVerifyRows = "ninfer.verify_rows";
    // Function attributes.
    static constexpr ::llvm::StringLiteral kComponent = "ninfer.component";
    static constexpr ::llvm::StringLiteral kPhases = "ninfer.phases";
    static constexpr ::llvm::StringLiteral kTokenIds = "ninfer.token_ids";
    static constexpr ::llvm::StringLiteral kPhase = "ninfer.phase";
    static constexpr ::llvm::StringLiteral kMaxRows = "ninfer.max_rows";
    static constexpr ::llvm::StringLiteral kMinRows = "ninfer.min_rows"; // absent: 1
    static constexpr ::llvm::StringLiteral kArenaBytes = "ninfer.arena_bytes";
    static constexpr ::llvm::StringLiteral kTokensOffset = "ninfer.tokens_offset";
    static constexpr ::llvm::StringLiteral kPortOffsets = "ninfer.port_offsets";
    // Name of an argument or a result that is a port of the phase.
    static constexpr ::llvm::StringLiteral kPort = "ninfer.port";
    // Admission attributes of a kernel-level operation.
    static constexpr ::llvm::StringLiteral kFamily = "ninfer.family";
    static constexpr ::llvm::StringLiteral kProfile = "ninfer.profile";
    static constexpr ::llvm::StringLiteral kTilesConst = "ninfer.tiles_const";
    static constexpr ::llvm::StringLiteral kTilesPerRow = "ninfer.tiles_per_row";
    static constexpr ::llvm::StringLiteral kTrace = "ninfer.trace";
    /// Where activations are stored in bfloat16: on an operation whose result is stored in float32, because the caller or a
    /// moe_route reads it.
    static constexpr ::llvm::StringLiteral kWide = "ninfer.wide";
    /// There too: on a causal_conv whose three results are columns of one buffer, and on the gated_delta that reads them.
    static constexpr ::llvm::StringLiteral kJoined = "ninfer.joined";
  }];
}

#endif // NINFER_DIALECTS_NINFER_NINFERDIALECT_TD
