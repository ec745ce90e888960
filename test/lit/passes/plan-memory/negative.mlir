// A module without component functions and states is not touched.
// RUN: ninfer-opt %s > %t.in
// RUN: ninfer-opt %s --ninfer-plan-memory | diff %t.in -

func.func @helper(%x: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %0 = ninfer.add %x, %x : tensor<?x64xf32>
  return %0 : tensor<?x64xf32>
}
