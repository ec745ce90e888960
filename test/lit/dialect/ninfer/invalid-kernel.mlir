// RUN: ninfer-opt %s --split-input-file --verify-diagnostics

!x = tensor<1x128xf32>

func.func @fused_c1(%x: !x) {
  // expected-error@+1 {{'ninfer.fused' op kind must not be empty}}
  %0 = ninfer.fused "" (%a = %x : !x) -> !x {
    %1 = ninfer.add %a, %a : !x
    ninfer.yield %1 : !x
  }
  return
}

// -----

!x = tensor<1x128xf32>

func.func @fused_c2(%x: !x) {
  // expected-error@+1 {{'ninfer.fused' op expected region arguments of the operands' types ('tensor<1x128xf32>'), got ('tensor<?x128xf32>')}}
  %0 = "ninfer.fused"(%x) <{kind = "k"}> ({
  ^bb0(%a: tensor<?x128xf32>):
    %1 = ninfer.last_row %a : tensor<?x128xf32> -> !x
    ninfer.yield %1 : !x
  }) : (!x) -> !x
  return
}

// -----

!x = tensor<1x128xf32>

func.func @fused_c3(%x: !x) {
  // expected-error@+1 {{'ninfer.fused' op region may hold compute operations only}}
  %0 = ninfer.fused "k" (%a = %x : !x) -> !x {
    // expected-note@+1 {{'arith.constant' is not one}}
    %1 = arith.constant dense<0.0> : !x
    ninfer.yield %1 : !x
  }
  return
}

// -----

!x = tensor<1x128xf32>

func.func @fused_c3_empty(%x: !x) {
  // expected-error@+1 {{'ninfer.fused' op region must hold at least one operation}}
  %0 = ninfer.fused "k" (%a = %x : !x) -> !x {
    ninfer.yield %a : !x
  }
  return
}

// -----

!x = tensor<1x128xf32>

func.func @fused_c3_end(%x: !x) {
  // expected-error@+1 {{'ninfer.fused' op region must end in ninfer.yield}}
  %0 = ninfer.fused "k" (%a = %x : !x) -> !x {
    %1 = ninfer.add %a, %a : !x
    llvm.unreachable
  }
  return
}

// -----

!x = tensor<1x128xf32>

func.func @fused_c4(%x: !x) {
  // expected-error@+1 {{'ninfer.fused' op expected ninfer.yield of the result types ('tensor<1x128xf32>'), got ('tensor<1x128xf32>', 'tensor<1x128xf32>')}}
  %0 = ninfer.fused "k" (%a = %x : !x) -> !x {
    %1 = ninfer.add %a, %a : !x
    ninfer.yield %1, %1 : !x, !x
  }
  return
}

// -----

!x = tensor<1x128xf32>

func.func @fused_c5(%x: !x) {
  // expected-error@+1 {{'ninfer.fused' op region may not hold another ninfer.fused}}
  %0 = ninfer.fused "k" (%a = %x : !x) -> !x {
    %1 = ninfer.fused "inner" (%b = %a : !x) -> !x {
      %2 = ninfer.add %b, %b : !x
      ninfer.yield %2 : !x
    }
    ninfer.yield %1 : !x
  }
  return
}

// -----

!x = tensor<1x128xf32>

func.func @fused_isolated(%x: !x) {
  // expected-note@+1 {{required by region isolation constraints}}
  %0 = ninfer.fused "k" (%a = %x : !x) -> !x {
    // expected-error@+1 {{'ninfer.add' op using value defined outside the region}}
    %1 = ninfer.add %a, %x : !x
    ninfer.yield %1 : !x
  }
  return
}

// -----

func.func @yield_parent(%x: tensor<1x128xf32>) {
  // expected-error@+1 {{'ninfer.yield' op expects parent op to be one of 'ninfer.fused, ninfer.kernel'}}
  ninfer.yield %x : tensor<1x128xf32>
}

// -----

!x = tensor<1x128xf32>

// expected-error@+1 {{'ninfer.kernel' op family and profile must not be empty}}
ninfer.kernel @kernel_c1(%a: !x) attributes {family = "", profile = "f32", rows = 1, tiles_const = 1, tiles_per_row = 0} {
  %0 = ninfer.add %a, %a : !x
  ninfer.yield %0 : !x
}

// -----

!x = tensor<1x128xf32>

// expected-error@+1 {{'ninfer.kernel' op must run at least one tile}}
ninfer.kernel @kernel_c2(%a: !x) attributes {family = "f", profile = "f32", rows = 1, tiles_const = 0, tiles_per_row = 0} {
  %0 = ninfer.add %a, %a : !x
  ninfer.yield %0 : !x
}

// -----

!x = tensor<1x128xf32>

// expected-error@+1 {{'ninfer.kernel' op region must hold at least one operation}}
ninfer.kernel @kernel_c3(%a: !x) attributes {family = "f", profile = "f32", rows = 1, tiles_const = 1, tiles_per_row = 0} {
  ninfer.yield %a : !x
}

// -----

// expected-error@+1 {{'ninfer.kernel' op has an argument or a result with dynamic rows and needs dynamic_rows}}
ninfer.kernel @kernel_c4(%a: tensor<?x128xf32>)
    attributes {family = "f", profile = "f32", rows = 1, tiles_const = 1, tiles_per_row = 0} {
  %0 = ninfer.add %a, %a : tensor<?x128xf32>
  ninfer.yield %0 : tensor<?x128xf32>
}

// -----

// expected-error@+1 {{'ninfer.kernel' op has dynamic_rows and needs an argument or a result with dynamic rows}}
ninfer.kernel @kernel_c4_static(%a: tensor<1x128xf32>)
    attributes {dynamic_rows, family = "f", profile = "f32", rows = 1, tiles_const = 1, tiles_per_row = 0} {
  %0 = ninfer.add %a, %a : tensor<1x128xf32>
  ninfer.yield %0 : tensor<1x128xf32>
}

// -----

!x = tensor<1x128xf32>

// expected-error@+1 {{'ninfer.kernel' op requires attribute 'rows'}}
ninfer.kernel @kernel_rows(%a: !x) attributes {family = "f", profile = "f32", tiles_const = 1, tiles_per_row = 0} {
  %0 = ninfer.add %a, %a : !x
  ninfer.yield %0 : !x
}

// -----

!x = tensor<1x128xf32>

ninfer.kernel @k(%a: !x) attributes {family = "f", profile = "f32", rows = 1, tiles_const = 1, tiles_per_row = 0} {
  %0 = ninfer.add %a, %a : !x
  ninfer.yield %0 : !x
}
func.func @launch_c1(%x: !x) {
  // expected-error@+1 {{'ninfer.launch' op expected 1 offsets (one per result), got 2}}
  %0 = ninfer.launch @k(%x) {label = "l", offsets = array<i64: 0, 64>} : (!x) -> !x
  return
}

// -----

func.func @launch_c2(%x: tensor<1x128xf32>) {
  // expected-error@+1 {{'ninfer.launch' op 'launch_c2' is not a ninfer.kernel of this module}}
  %0 = ninfer.launch @launch_c2(%x) {label = "l"} : (tensor<1x128xf32>) -> tensor<1x128xf32>
  return
}

// -----

!x = tensor<1x128xf32>

// expected-note@+1 {{the kernel is defined here}}
ninfer.kernel @k(%a: !x) attributes {family = "f", profile = "f32", rows = 1, tiles_const = 1, tiles_per_row = 0} {
  %0 = ninfer.add %a, %a : !x
  ninfer.yield %0 : !x
}
func.func @launch_c3(%x: !x) {
  // expected-error@+1 {{'ninfer.launch' op operand types of the launch differ from the kernel's: expected ('tensor<1x128xf32>'), got ('tensor<1x128xf32>', 'tensor<1x128xf32>')}}
  %0 = ninfer.launch @k(%x, %x) {label = "l"} : (!x, !x) -> !x
  return
}

// -----

!x = tensor<1x128xf32>

// expected-note@+1 {{the kernel is defined here}}
ninfer.kernel @k(%a: !x) attributes {family = "f", profile = "f32", rows = 1, tiles_const = 1, tiles_per_row = 0} {
  %0 = ninfer.add %a, %a : !x
  ninfer.yield %0 : !x
}
func.func @launch_c4(%x: !x) {
  // expected-error@+1 {{'ninfer.launch' op result types of the launch differ from the kernel's: expected ('tensor<1x128xf32>'), got ()}}
  ninfer.launch @k(%x) {label = "l"} : (!x) -> ()
  return
}

// -----

!x = tensor<1x128xf32>

ninfer.kernel @k(%a: !x) attributes {family = "f", profile = "f32", rows = 1, tiles_const = 1, tiles_per_row = 0} {
  %0 = ninfer.add %a, %a : !x
  ninfer.yield %0 : !x
}
func.func @launch_c5(%x: !x) {
  // expected-error@+1 {{'ninfer.launch' op offset of result 0 must not be negative, got -64}}
  %0 = ninfer.launch @k(%x) {label = "l", offsets = array<i64: -64>} : (!x) -> !x
  return
}

// -----

func.func @launch_label(%x: tensor<1x128xf32>) {
  // expected-error@+1 {{'ninfer.launch' op requires attribute 'label'}}
  %0 = ninfer.launch @k(%x) : (tensor<1x128xf32>) -> tensor<1x128xf32>
  return
}
