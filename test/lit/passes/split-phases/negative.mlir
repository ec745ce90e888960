// Functions of no component and functions that have a phase stay as they are, and need no module attribute.
// RUN: ninfer-opt %s > %t.in
// RUN: ninfer-opt %s --ninfer-split-phases | diff %t.in -

func.func @helper(%x: tensor<?x64xf32>) -> tensor<?x64xf32> {
  return %x : tensor<?x64xf32>
}
func.func @text.decode(%x: tensor<?x64xf32>) -> tensor<?x64xf32>
    attributes {ninfer.component = "text", ninfer.max_rows = 1 : i64, ninfer.phase = "decode"} {
  return %x : tensor<?x64xf32>
}
