// RUN: ninfer-opt %s | FileCheck %s

// CHECK-LABEL: func.func @rows
func.func @rows(%a: tensor<?x128xf32>, %b: tensor<?x128xf32>) -> tensor<1x128xf32> {
  // CHECK: ninfer.swiglu %{{.*}}, %{{.*}} : tensor<?x128xf32>
  %0 = ninfer.swiglu %a, %b : tensor<?x128xf32>
  // CHECK: ninfer.sigmoid_gate %{{.*}}, %{{.*}} : tensor<?x128xf32>, tensor<?x128xf32>
  %g = ninfer.sigmoid_gate %0, %a : tensor<?x128xf32>, tensor<?x128xf32>
  // CHECK: ninfer.add %{{.*}}, %{{.*}} : tensor<?x128xf32>
  %1 = ninfer.add %g, %b : tensor<?x128xf32>
  // CHECK: ninfer.last_row %{{.*}} : tensor<?x128xf32> -> tensor<1x128xf32>
  %2 = ninfer.last_row %1 : tensor<?x128xf32> -> tensor<1x128xf32>
  return %2 : tensor<1x128xf32>
}

// CHECK-LABEL: func.func @replaced
func.func @replaced(%a: tensor<?x128xf32>, %b: tensor<?x128xf32>, %w: tensor<?x1xi32>) -> tensor<?x128xf32> {
  // CHECK: ninfer.replace_rows %{{.*}}, %{{.*}}, %{{.*}} : tensor<?x128xf32>, tensor<?x1xi32>
  %0 = ninfer.replace_rows %a, %b, %w : tensor<?x128xf32>, tensor<?x1xi32>
  return %0 : tensor<?x128xf32>
}

// CHECK-LABEL: func.func @tapped
func.func @tapped(%a: tensor<?x128xf32>) {
  // CHECK: ninfer.tap %{{.*}} as "text/layers/3" : tensor<?x128xf32>
  ninfer.tap %a as "text/layers/3" : tensor<?x128xf32>
  return
}
