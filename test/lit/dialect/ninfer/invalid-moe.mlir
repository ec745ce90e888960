// RUN: ninfer-opt %s --split-input-file --verify-diagnostics

func.func @moe_route_c1(%l: tensor<?x4xf32>) {
  // expected-error@+1 {{'ninfer.moe_route' op expected top_k of at most 4 (the experts), got 5}}
  %0 = ninfer.moe_route %l {top_k = 5} : tensor<?x4xf32> -> tensor<?x10xf32>
  return
}

// -----

func.func @moe_route_c2(%l: tensor<?x4xf32>) {
  // expected-error@+1 {{'ninfer.moe_route' op expected result width 4 (a number and a weight per slot), got 2}}
  %0 = ninfer.moe_route %l {top_k = 2} : tensor<?x4xf32> -> tensor<?x2xf32>
  return
}

// -----

func.func @moe_route_c3(%l: tensor<?x4xf32>) {
  // expected-error@+1 {{'ninfer.moe_route' op expected result rows ? (the rows of the logits), got 1}}
  %0 = ninfer.moe_route %l {top_k = 2} : tensor<?x4xf32> -> tensor<1x4xf32>
  return
}

// -----

func.func @moe_up_c1(%x: tensor<?x128xf32>, %r: tensor<?x4xf32>, %b: !ninfer.weight<255x128, BF16, "contiguous-le-v1">) {
  // expected-error@+1 {{'ninfer.moe_up' op expected bank rows 256 (experts times gate and up rows of a slot), got 255}}
  %0 = ninfer.moe_up %x, %r, %b policy<A16Only> {experts = 4, top_k = 2} : tensor<?x128xf32>, tensor<?x4xf32>, !ninfer.weight<255x128, BF16, "contiguous-le-v1"> -> tensor<?x64xf32>
  return
}

// -----

func.func @moe_up_c2(%x: tensor<?x128xf32>, %r: tensor<?x3xf32>, %b: !ninfer.weight<256x128, BF16, "contiguous-le-v1">) {
  // expected-error@+1 {{'ninfer.moe_up' op expected routes width 4 (a number and a weight per slot), got 3}}
  %0 = ninfer.moe_up %x, %r, %b policy<A16Only> {experts = 4, top_k = 2} : tensor<?x128xf32>, tensor<?x3xf32>, !ninfer.weight<256x128, BF16, "contiguous-le-v1"> -> tensor<?x64xf32>
  return
}

// -----

func.func @moe_up_c3(%x: tensor<?x128xf32>, %r: tensor<?x4xf32>, %b: !ninfer.weight<256x64, BF16, "contiguous-le-v1">) {
  // expected-error@+1 {{'ninfer.moe_up' op expected bank K 128 (what an expert reads), got 64}}
  %0 = ninfer.moe_up %x, %r, %b policy<A16Only> {experts = 4, top_k = 2} : tensor<?x128xf32>, tensor<?x4xf32>, !ninfer.weight<256x64, BF16, "contiguous-le-v1"> -> tensor<?x64xf32>
  return
}

// -----

func.func @moe_up_c4(%x: tensor<?x128xf32>, %r: tensor<1x4xf32>, %b: !ninfer.weight<256x128, BF16, "contiguous-le-v1">) {
  // expected-error@+1 {{'ninfer.moe_up' op expected operands and result of equal rows, got ?, 1 and ?}}
  %0 = ninfer.moe_up %x, %r, %b policy<A16Only> {experts = 4, top_k = 2} : tensor<?x128xf32>, tensor<1x4xf32>, !ninfer.weight<256x128, BF16, "contiguous-le-v1"> -> tensor<?x64xf32>
  return
}

// -----

func.func @moe_up_c5(%x: tensor<?x128xf32>, %r: tensor<?x4xf32>, %b: !ninfer.weight<256x128, I32, "contiguous-le-v1">) {
  // expected-error@+1 {{'ninfer.moe_up' op weight format I32 holds indices}}
  %0 = ninfer.moe_up %x, %r, %b policy<A16Only> {experts = 4, top_k = 2} : tensor<?x128xf32>, tensor<?x4xf32>, !ninfer.weight<256x128, I32, "contiguous-le-v1"> -> tensor<?x64xf32>
  return
}

// -----

func.func @moe_up_c6(%x: tensor<?x128xf32>, %r: tensor<?x4xf32>, %b: !ninfer.weight<256x128, BF16, "contiguous-le-v1">) {
  // expected-error@+1 {{'ninfer.moe_up' op expected the result width to be a multiple of top_k 2, got 63}}
  %0 = ninfer.moe_up %x, %r, %b policy<A16Only> {experts = 4, top_k = 2} : tensor<?x128xf32>, tensor<?x4xf32>, !ninfer.weight<256x128, BF16, "contiguous-le-v1"> -> tensor<?x63xf32>
  return
}

// -----

func.func @moe_down_c1(%x: tensor<?x64xf32>, %r: tensor<?x4xf32>, %b: !ninfer.weight<511x32, BF16, "contiguous-le-v1">) {
  // expected-error@+1 {{'ninfer.moe_down' op expected bank rows 512 (experts times the result width), got 511}}
  %0 = ninfer.moe_down %x, %r, %b policy<A16Only> {experts = 4, top_k = 2} : tensor<?x64xf32>, tensor<?x4xf32>, !ninfer.weight<511x32, BF16, "contiguous-le-v1"> -> tensor<?x128xf32>
  return
}

// -----

func.func @moe_down_c2(%x: tensor<?x64xf32>, %r: tensor<?x3xf32>, %b: !ninfer.weight<512x32, BF16, "contiguous-le-v1">) {
  // expected-error@+1 {{'ninfer.moe_down' op expected routes width 4 (a number and a weight per slot), got 3}}
  %0 = ninfer.moe_down %x, %r, %b policy<A16Only> {experts = 4, top_k = 2} : tensor<?x64xf32>, tensor<?x3xf32>, !ninfer.weight<512x32, BF16, "contiguous-le-v1"> -> tensor<?x128xf32>
  return
}

// -----

func.func @moe_down_c3(%x: tensor<?x64xf32>, %r: tensor<?x4xf32>, %b: !ninfer.weight<512x64, BF16, "contiguous-le-v1">) {
  // expected-error@+1 {{'ninfer.moe_down' op expected bank K 32 (what an expert reads), got 64}}
  %0 = ninfer.moe_down %x, %r, %b policy<A16Only> {experts = 4, top_k = 2} : tensor<?x64xf32>, tensor<?x4xf32>, !ninfer.weight<512x64, BF16, "contiguous-le-v1"> -> tensor<?x128xf32>
  return
}

// -----

func.func @moe_down_c4(%x: tensor<?x64xf32>, %r: tensor<?x4xf32>, %b: !ninfer.weight<512x32, BF16, "contiguous-le-v1">) {
  // expected-error@+1 {{'ninfer.moe_down' op expected operands and result of equal rows, got ?, ? and 1}}
  %0 = ninfer.moe_down %x, %r, %b policy<A16Only> {experts = 4, top_k = 2} : tensor<?x64xf32>, tensor<?x4xf32>, !ninfer.weight<512x32, BF16, "contiguous-le-v1"> -> tensor<1x128xf32>
  return
}

// -----

func.func @moe_down_c5(%x: tensor<?x64xf32>, %r: tensor<?x4xf32>, %b: !ninfer.weight<512x32, I32, "contiguous-le-v1">) {
  // expected-error@+1 {{'ninfer.moe_down' op weight format I32 holds indices}}
  %0 = ninfer.moe_down %x, %r, %b policy<A16Only> {experts = 4, top_k = 2} : tensor<?x64xf32>, tensor<?x4xf32>, !ninfer.weight<512x32, I32, "contiguous-le-v1"> -> tensor<?x128xf32>
  return
}

// -----

func.func @moe_down_c6(%x: tensor<?x63xf32>, %r: tensor<?x4xf32>, %b: !ninfer.weight<512x32, BF16, "contiguous-le-v1">) {
  // expected-error@+1 {{'ninfer.moe_down' op expected the products width to be a multiple of top_k 2, got 63}}
  %0 = ninfer.moe_down %x, %r, %b policy<A16Only> {experts = 4, top_k = 2} : tensor<?x63xf32>, tensor<?x4xf32>, !ninfer.weight<512x32, BF16, "contiguous-le-v1"> -> tensor<?x128xf32>
  return
}
