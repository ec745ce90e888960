// The phases a function lists, with the rows of each; a function named after its phase keeps its name.
// RUN: ninfer-opt %s --ninfer-split-phases > %t.once
// RUN: FileCheck %s --input-file=%t.once
// RUN: ninfer-opt %t.once --ninfer-split-phases | diff %t.once -

module attributes {ninfer.max_context = 64 : i64, ninfer.prefill_chunk = 4 : i64, ninfer.verify_rows = 6 : i64} {
  // CHECK-NOT: ninfer.phases
  // CHECK: func.func @text.verify({{.*}}ninfer.max_rows = 6 : i64, ninfer.phase = "verify"}
  func.func @text.verify(%x: tensor<?x64xf32>) attributes {ninfer.component = "text", ninfer.phases = ["verify"]} { return }
  // CHECK: func.func @text.commit({{.*}}ninfer.max_rows = 6 : i64, ninfer.phase = "commit"}
  func.func @text.commit() attributes {ninfer.component = "text", ninfer.phases = ["commit"]} { return }
  // The draft layer follows the longest call of the text model.
  // CHECK: func.func @mtp.draft({{.*}}ninfer.max_rows = 6 : i64, ninfer.phase = "draft"}
  // CHECK: func.func @mtp.draft_next({{.*}}ninfer.max_rows = 1 : i64, ninfer.phase = "draft_next"}
  func.func @mtp(%x: tensor<?x64xf32>) attributes {ninfer.component = "mtp", ninfer.phases = ["draft", "draft_next"]} { return }
}
