// RUN: ninfer-opt %s --ninfer-split-phases --split-input-file --verify-diagnostics

// expected-error@+1 {{module attribute ninfer.prefill_chunk: expected an integer, got none}}
module {
  func.func @text(%x: tensor<?x64xf32>) attributes {ninfer.component = "text"} { return }
}

// -----

// expected-error@+1 {{module attribute ninfer.prefill_chunk: expected at least 1, got 0}}
module attributes {ninfer.prefill_chunk = 0 : i64} {
  func.func @text(%x: tensor<?x64xf32>) attributes {ninfer.component = "text"} { return }
}

// -----

// expected-error@+1 {{module attribute ninfer.prefill_chunk: expected at most ninfer.max_context 128, got 512}}
module attributes {ninfer.max_context = 128 : i64, ninfer.prefill_chunk = 512 : i64} {
  func.func @text(%x: tensor<?x64xf32>) attributes {ninfer.component = "text"} { return }
}

// -----

module attributes {ninfer.prefill_chunk = 16 : i64} {
  // expected-error@+1 {{function 'text': expected 'text.prefill' to be free}}
  func.func @text(%x: tensor<?x64xf32>) attributes {ninfer.component = "text"} { return }
  // expected-note@+1 {{it is defined here}}
  func.func @text.prefill() { return }
}

// -----

module attributes {ninfer.prefill_chunk = 16 : i64} {
  // expected-error@+1 {{function 'text': expected a body, got a declaration}}
  func.func private @text(tensor<?x64xf32>) attributes {ninfer.component = "text"}
}

// -----

module attributes {ninfer.prefill_chunk = 16 : i64} {
  // expected-error@+1 {{function 'text.verify': ninfer.phases: "verify" is not a phase of a module without its row count}}
  func.func @text.verify(%x: tensor<?x64xf32>) attributes {ninfer.component = "text", ninfer.phases = ["verify"]} { return }
}

// -----

module attributes {ninfer.prefill_chunk = 16 : i64} {
  // expected-error@+1 {{function 'text': ninfer.phases: "judge" is not a phase}}
  func.func @text(%x: tensor<?x64xf32>) attributes {ninfer.component = "text", ninfer.phases = ["judge"]} { return }
}

// -----

module attributes {ninfer.prefill_chunk = 16 : i64} {
  // expected-error@+1 {{function 'text': ninfer.phases: expected a list of phase names}}
  func.func @text(%x: tensor<?x64xf32>) attributes {ninfer.component = "text", ninfer.phases = []} { return }
}

// -----

// expected-error@+1 {{module attribute ninfer.verify_rows: expected at most ninfer.max_context 8, got 9}}
module attributes {ninfer.max_context = 8 : i64, ninfer.prefill_chunk = 8 : i64, ninfer.verify_rows = 9 : i64} {
  func.func @text(%x: tensor<?x64xf32>) attributes {ninfer.component = "text"} { return }
}

// -----

// expected-error@+1 {{module attribute ninfer.verify_rows: expected at least 1, got 0}}
module attributes {ninfer.prefill_chunk = 8 : i64, ninfer.verify_rows = 0 : i64} {
  func.func @text(%x: tensor<?x64xf32>) attributes {ninfer.component = "text"} { return }
}
