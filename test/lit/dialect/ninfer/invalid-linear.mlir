// RUN: ninfer-opt %s --split-input-file --verify-diagnostics

!w = !ninfer.weight<192x128, BF16, "contiguous-le-v1">

func.func @embedding_c1(%tokens: tensor<?xi32>, %w: !w) {
  // expected-error@+1 {{'ninfer.embedding' op expected result width 128 (the length of a weight row), got 64}}
  %0 = ninfer.embedding %tokens, %w : tensor<?xi32>, !w -> tensor<?x64xf32>
  return
}

// -----

!w = !ninfer.weight<192x128, BF16, "contiguous-le-v1">

func.func @embedding_c2(%tokens: tensor<4xi32>, %w: !w) {
  // expected-error@+1 {{'ninfer.embedding' op expected result rows 4 (the number of tokens), got ?}}
  %0 = ninfer.embedding %tokens, %w : tensor<4xi32>, !w -> tensor<?x128xf32>
  return
}

// -----

!w = !ninfer.weight<192x128, I32, "contiguous-le-v1">

func.func @embedding_c3(%tokens: tensor<?xi32>, %w: !w) {
  // expected-error@+1 {{'ninfer.embedding' op weight format I32 holds indices, expected one of the other formats of: BF16, FP32, I32,}}
  %0 = ninfer.embedding %tokens, %w : tensor<?xi32>, !w -> tensor<?x128xf32>
  return
}

// -----

!w = !ninfer.weight<192x128, BF16, "contiguous-le-v1">

func.func @embedding_tokens(%tokens: tensor<?xi64>, %w: !w) {
  // expected-error@+1 {{'ninfer.embedding' op operand #0 must be int32 token ids of rank 1, but got 'tensor<?xi64>'}}
  %0 = ninfer.embedding %tokens, %w : tensor<?xi64>, !w -> tensor<?x128xf32>
  return
}

// -----

!w = !ninfer.weight<192x128, BF16, "contiguous-le-v1">

func.func @linear_c1(%x: tensor<?x64xf32>, %w: !w) {
  // expected-error@+1 {{'ninfer.linear' op expected x width 128 (K of the weight), got 64}}
  %0 = ninfer.linear %x, %w policy<A16Only> : tensor<?x64xf32>, !w -> tensor<?x192xf32>
  return
}

// -----

!w = !ninfer.weight<192x128, BF16, "contiguous-le-v1">

func.func @linear_c2(%x: tensor<?x128xf32>, %w: !w) {
  // expected-error@+1 {{'ninfer.linear' op expected result width 192 (N of the weight), got 128}}
  %0 = ninfer.linear %x, %w policy<A16Only> : tensor<?x128xf32>, !w -> tensor<?x128xf32>
  return
}

// -----

!w = !ninfer.weight<192x128, BF16, "contiguous-le-v1">

func.func @linear_c3(%x: tensor<?x128xf32>, %w: !w) {
  // expected-error@+1 {{'ninfer.linear' op expected result rows ? (the rows of x), got 1}}
  %0 = ninfer.linear %x, %w policy<A16Only> : tensor<?x128xf32>, !w -> tensor<1x192xf32>
  return
}

// -----

!w = !ninfer.weight<192x128, I32, "contiguous-le-v1">

func.func @linear_c4(%x: tensor<?x128xf32>, %w: !w) {
  // expected-error@+1 {{'ninfer.linear' op weight format I32 holds indices}}
  %0 = ninfer.linear %x, %w policy<A16Only> : tensor<?x128xf32>, !w -> tensor<?x192xf32>
  return
}

// -----

!w = !ninfer.weight<128, BF16, "contiguous-le-v1">

func.func @linear_vector(%x: tensor<?x128xf32>, %w: !w) {
  // expected-error@+1 {{'ninfer.linear' op operand #1 must be weight of rank 2, but got '!ninfer.weight<128, BF16, "contiguous-le-v1">'}}
  %0 = ninfer.linear %x, %w policy<A16Only> : tensor<?x128xf32>, !w -> tensor<?x1xf32>
  return
}

// -----

!w = !ninfer.weight<192x128, BF16, "contiguous-le-v1">

func.func @linear_half(%x: tensor<?x128xf16>, %w: !w) {
  // expected-error@+1 {{'ninfer.linear' op operand #0 must be float32 activation of rank 2 with a static width, but got 'tensor<?x128xf16>'}}
  %0 = ninfer.linear %x, %w policy<A16Only> : tensor<?x128xf16>, !w -> tensor<?x192xf32>
  return
}

// -----

!w = !ninfer.weight<192x128, BF16, "contiguous-le-v1">

func.func @linear_width(%x: tensor<?x?xf32>, %w: !w) {
  // expected-error@+1 {{'ninfer.linear' op operand #0 must be float32 activation of rank 2 with a static width, but got 'tensor<?x?xf32>'}}
  %0 = ninfer.linear %x, %w policy<A16Only> : tensor<?x?xf32>, !w -> tensor<?x192xf32>
  return
}

// -----

!w = !ninfer.weight<192x128, BF16, "contiguous-le-v1">

func.func @linear_policy(%x: tensor<?x128xf32>, %w: !w) {
  // expected-error@+1 {{expected 'policy'}}
  %0 = ninfer.linear %x, %w : tensor<?x128xf32>, !w -> tensor<?x192xf32>
  return
}
