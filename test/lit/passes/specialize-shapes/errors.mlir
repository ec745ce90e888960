// RUN: ninfer-opt %s --ninfer-specialize-shapes --split-input-file --verify-diagnostics

// expected-error@+1 {{function 'text': expected ninfer.phase and ninfer.max_rows, which ninfer-split-phases sets}}
func.func @text(%x: tensor<?x8xf32>) attributes {ninfer.component = "text"} { return }

// -----

// expected-error@+1 {{function 'text': ninfer.phase: expected decode, prefill, verify, draft, draft_next, commit, encode or place, got 'judge'}}
func.func @text(%x: tensor<?x8xf32>) attributes {ninfer.component = "text", ninfer.max_rows = 4 : i64, ninfer.phase = "judge"} { return }

// -----

// expected-error@+1 {{function 'text': ninfer.max_rows: expected at least 1, got 0}}
func.func @text(%x: tensor<?x8xf32>) attributes {ninfer.component = "text", ninfer.max_rows = 0 : i64, ninfer.phase = "prefill"} { return }

// -----

ninfer.state @kv : !ninfer.kv_cache<2x15x8, bf16>
func.func @text.prefill(%k: tensor<?x16xf32>, %p: index)
    attributes {ninfer.component = "text", ninfer.max_rows = 16 : i64, ninfer.phase = "prefill"} {
  // expected-error@+1 {{state 'kv': expected to hold at least the 16 rows of one call of 'text.prefill', got 15 positions}}
  %c = ninfer.state_ref @kv : !ninfer.kv_cache<2x15x8, bf16>
  ninfer.kv_append %k, %k, %c, %p : tensor<?x16xf32>, !ninfer.kv_cache<2x15x8, bf16>
  return
}

// -----

module {
  ninfer.state @rows : !ninfer.row_buffer<4x8>
  func.func @text.verify(%x: tensor<?x8xf32>) attributes {ninfer.component = "text", ninfer.max_rows = 6 : i64, ninfer.phase = "verify"} {
    // expected-error@+1 {{state 'rows': expected to hold at least the 6 rows of one call of 'text.verify', got 4 rows}}
    %b = ninfer.state_ref @rows : !ninfer.row_buffer<4x8>
    ninfer.store_rows %x, %b {column = 0} : tensor<?x8xf32>, !ninfer.row_buffer<4x8>
    return
  }
}
