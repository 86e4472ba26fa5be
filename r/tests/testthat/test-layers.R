# Sums over windows, written with R's loops.
slide <- function(x, kernel) {
  steps <- dim(x)[2] - dim(kernel)[1] + 1
  out <- array(0, c(dim(x)[1], steps, dim(kernel)[3]))
  for (b in seq_len(dim(x)[1])) {
    for (s in seq_len(steps)) {
      for (f in seq_len(dim(kernel)[3])) {
        window <- x[b, s + seq_len(dim(kernel)[1]) - 1, ]
        out[b, s, f] <- sum(window * kernel[, , f])
      }
    }
  }
  out
}
kernel <- array(cos(1:40), c(2, 4, 5))
v <- k_variable(a)
expected <- slide(a, kernel)

covers("conv1d", {
  gives(k_conv1d(v, kernel), expected)
  gives(k_conv1d(v, kernel, strides = 2, padding = "valid"), expected[, 1, , drop = FALSE])
})
covers("conv2d", {
  found <- k_conv2d(k_variable(array(a, c(2, 3, 1, 4))), array(kernel, c(2, 1, 4, 5)))
  gives(found, array(expected, c(2, 2, 1, 5)))
})
covers("conv3d", {
  image <- k_variable(array(a, c(2, 3, 1, 1, 4)))
  found <- k_conv3d(image, array(kernel, c(2, 1, 1, 4, 5)), strides = c(1, 1, 1))
  gives(found, array(expected, c(2, 2, 1, 1, 5)))
})
covers("conv2d_transpose", {
  # The adjoint of the convolution: <conv(x), y> = <x, transposed(y)>.
  y <- array(sin(1:20), c(2, 2, 1, 5))
  found <- k_eval(k_conv2d_transpose(
    k_variable(y), array(kernel, c(2, 1, 4, 5)),
    output_shape = c(2, 3, 1, 4)
  ))
  expect_equal(sum(found * array(a, c(2, 3, 1, 4))), sum(expected * as.vector(y)),
    tolerance = 1e-5
  )
})
covers("separable_conv2d", {
  image <- array(a, c(2, 3, 4, 1))
  depth <- array(c(1, 2), c(1, 1, 1, 2))
  point <- array(c(1, 10), c(1, 1, 2, 1))
  gives(k_separable_conv2d(k_variable(image), depth, point), image * 21)
})
covers("pool2d", {
  image <- array(a, c(2, 3, 4, 1))
  largest <- pmax(image[, , 1:2, , drop = FALSE], 0) * 0
  largest[] <- pmax(image[, , c(1, 3), ], image[, , c(2, 4), ])
  gives(k_pool2d(k_variable(image), c(1, 2), strides = c(1, 2)), largest)
})
covers("pool3d", {
  volume <- array(a, c(1, 2, 3, 4, 1))
  found <- k_pool3d(k_variable(volume), c(2, 3, 4), pool_mode = "avg")
  gives(found, array(mean(a), c(1, 1, 1, 1, 1)))
})
covers("local_conv1d", {
  weights <- array(sin(1:80), c(2, 8, 5))
  wanted <- array(0, c(2, 2, 5))
  for (b in 1:2) for (s in 1:2) {
    # Row by row: steps before features.
    window <- as.vector(t(a[b, s + 0:1, ]))
    wanted[b, s, ] <- window %*% weights[s, , ]
  }
  gives(k_local_conv1d(v, weights, 2, 1), wanted)
})
covers("local_conv2d", {
  weights <- array(sin(1:80), c(2, 8, 5))
  image <- k_variable(array(a, c(2, 3, 1, 4)))
  found <- k_local_conv2d(image, weights, c(2, 1), c(1, 1), c(2, 1))
  wanted <- k_eval(k_local_conv1d(v, weights, 2, 1))
  gives(found, array(wanted, c(2, 2, 1, 5)))
})

covers("batch_normalization", {
  found <- k_batch_normalization(
    k_variable(m), c(1, 2, 3), c(4, 4, 4), c(0, 0, 1), c(1, 2, 1),
    epsilon = 0
  )
  gives(found, t((t(m) - 1:3) / 2 * c(1, 2, 1) + c(0, 0, 1)))
})
covers("normalize_batch_in_training", {
  # reduction_axes counts from 0, as in R's keras.
  found <- k_normalize_batch_in_training(k_variable(m), rep(1, 3), rep(0, 3), list(0L), 0)
  expect_length(found, 3)
  gives(found[[2]], colMeans(m))
  gives(found[[1]], apply(m, 2, function(x) (x - mean(x)) / sqrt(mean((x - mean(x))^2))))
})

covers("rnn", {
  w <- matrix(cos(1:12) / 2, nrow = 4)
  u <- matrix(sin(1:9) / 2, nrow = 3)
  step <- function(x, states) {
    h <- k_tanh(k_dot(x, w) + k_dot(states[[1]], u))
    list(h, list(h))
  }
  found <- k_rnn(step, v, list(k_zeros(c(2, 3))))
  h <- matrix(0, 2, 3)
  wanted <- array(0, c(2, 3, 3))
  for (s in 1:3) {
    h <- tanh(a[, s, ] %*% w + h %*% u)
    wanted[, s, ] <- h
  }
  gives(found[[1]], h)
  gives(found[[2]], wanted)
  gives(found[[3]][[1]], h)
  unrolled <- k_rnn(step, v, list(k_zeros(c(2, 3))), unroll = TRUE, input_length = 3)
  gives(unrolled[[2]], wanted)
  mask <- rbind(c(TRUE, TRUE, FALSE), c(TRUE, TRUE, TRUE))
  masked <- k_rnn(step, v, list(k_zeros(c(2, 3))), mask = k_constant(mask, dtype = "bool"))
  gives(masked[[1]], rbind(wanted[1, 2, ], wanted[2, 3, ]))
})
covers("map_fn", gives(k_map_fn(function(x) x * 2 + 1, v), a * 2 + 1))
covers("foldl", {
  gives(k_foldl(function(sum, x) sum * 2 + x, k_variable(c(1, 2, 3))), 11)
})
covers("foldr", {
  gives(k_foldr(function(sum, x) sum * 2 + x, k_variable(c(1, 2, 3))), 17)
})

steps <- array(0.1, c(1, 3, 3))
for (s in 1:3) steps[1, s, c(1, 3, 2)[s]] <- 0.8
covers("ctc_batch_cost", {
  # All ways to write "0 1" in three steps with the blank, class 2.
  ways <- rbind(c(1, 2, 3), c(1, 3, 2), c(3, 1, 2), c(1, 1, 2), c(1, 2, 2))
  chance <- sum(apply(ways, 1, function(w) prod(steps[cbind(1, 1:3, w)])))
  one <- function(n) array(n, c(1, 1))
  found <- k_ctc_batch_cost(rbind(c(0, 1)), k_variable(steps), one(3), one(2))
  gives(found, array(-log(chance), c(1, 1)))
})
covers("ctc_decode", {
  found <- k_ctc_decode(k_variable(steps), array(3), greedy = TRUE)
  gives(found[[1]][[1]], array(c(0, 1), c(1, 2)))
  gives(found[[2]], array(-3 * log(0.8), c(1, 1)), 1e-4)
})
covers("ctc_label_dense_to_sparse", {
  labels <- rbind(c(1, 2), c(3, 0))
  found <- k_ctc_label_dense_to_sparse(k_variable(labels, dtype = "int32"), c(2, 1))
  gives(found$values, 1:3)
  gives(k_to_dense(found), labels)
})
