v <- k_variable(a)
over <- function(axes, f) {
  value <- apply(a, axes, f)
  if (is.null(dim(value))) array(value) else value
}

covers("sum", {
  gives(k_sum(v), sum(a))
  gives(k_sum(v, axis = 1), over(2:3, sum))
  gives(k_sum(v, axis = c(1, 3)), over(2, sum))
  gives(K$sum(v, axis = 0), over(2:3, sum))
  gives(k_sum(v, axis = -1, keepdims = TRUE), array(over(1:2, sum), c(2, 3, 1)))
})
covers("mean", gives(k_mean(v, axis = 2), over(c(1, 3), mean)))
covers("prod", gives(k_prod(v, axis = 3), over(1:2, prod)))
covers("max", gives(k_max(v, axis = 3), over(1:2, max)))
covers("min", gives(k_min(v, axis = 1), over(2:3, min)))
# Those of the whole sample: divided by n, not by n - 1.
covers("var", gives(k_var(v, axis = 3), over(1:2, var) * 3 / 4))
covers("std", gives(k_std(v, axis = 3), over(1:2, sd) * sqrt(3) / 2))
covers("logsumexp", gives(k_logsumexp(v, axis = 2), over(c(1, 3), function(x) log(sum(exp(x))))))
covers("all", gives(k_all(v > -0.9, axis = 3), over(1:2, function(x) all(x > -0.9))))
covers("any", gives(k_any(v > 1.8, axis = 3), over(1:2, function(x) any(x > 1.8))))
# The place counts from 0, as in R's keras.
covers("argmax", {
  gives(k_argmax(v, axis = 3), over(1:2, which.max) - 1)
  gives(k_argmax(v), over(1:2, which.max) - 1)
})
covers("argmin", gives(k_argmin(v, axis = 1), over(2:3, which.min) - 1))
covers("cumsum", {
  gives(k_cumsum(v, axis = 2), aperm(apply(a, c(1, 3), cumsum), c(2, 1, 3)))
  gives(k_cumsum(v), apply(a, 2:3, cumsum))
})
covers("cumprod", gives(k_cumprod(v, axis = 1), apply(a, 2:3, cumprod)))

covers("reshape", {
  # Like Python, K fills row by row: the last axis runs first.
  gives(k_reshape(v, c(-1, 4)), matrix(aperm(a, c(3, 2, 1)), ncol = 4, byrow = TRUE))
  gives(k_reshape(v, list(4L, 6L)), matrix(aperm(a, c(3, 2, 1)), ncol = 6, byrow = TRUE))
  gives(K$reshape(v, -1), as.vector(aperm(a, c(3, 2, 1))))
})
covers("flatten", gives(k_flatten(v), as.vector(aperm(a, c(3, 2, 1)))))
covers("batch_flatten", {
  gives(k_batch_flatten(v), t(apply(a, 1, function(x) as.vector(t(x)))))
})
covers("permute_dimensions", {
  gives(k_permute_dimensions(v, c(3, 1, 2)), aperm(a, c(3, 1, 2)))
  gives(K$permute_dimensions(v, c(2, 0, 1)), aperm(a, c(3, 1, 2)))
})
covers("transpose", gives(k_transpose(k_variable(m)), t(m)))
covers("expand_dims", {
  gives(k_expand_dims(k_variable(m), axis = 1), array(m, c(1, 2, 3)))
  gives(k_expand_dims(k_variable(m)), array(m, c(2, 3, 1)))
})
covers("squeeze", gives(k_squeeze(k_variable(array(m, c(2, 1, 3))), axis = 2), m))
covers("concatenate", {
  gives(k_concatenate(list(k_variable(m), m)), cbind(m, m))
  gives(k_concatenate(list(k_variable(m), m), axis = 1), rbind(m, m))
})
covers("stack", {
  gives(k_stack(list(k_variable(m), -m)), aperm(array(c(m, -m), c(2, 3, 2)), c(3, 1, 2)))
  gives(k_stack(list(k_variable(m), -m), axis = 3), array(c(m, -m), c(2, 3, 2)))
})
covers("repeat_elements", {
  gives(k_repeat_elements(k_variable(m), 2, axis = 2), m[, c(1, 1, 2, 2, 3, 3)])
})
covers("tile", gives(k_tile(k_variable(m), c(2, 1)), rbind(m, m)))
covers("reverse", gives(k_reverse(v, axes = c(1, 3)), a[2:1, , 4:1]))
# Indices count from 0, as in R's keras.
covers("gather", gives(k_gather(k_variable(m), c(1, 0, 1)), m[c(2, 1, 2), ]))
covers("one_hot", gives(k_one_hot(c(2, 0), 3), rbind(c(0, 0, 1), c(1, 0, 0))))
covers("eye", gives(k_eye(3), diag(3)))
covers("arange", {
  gives(k_arange(5), 0:4)
  gives(k_arange(2, 8, 3), c(2L, 5L))
  gives(k_arange(0, 1, 0.25, dtype = "float32"), c(0, 0.25, 0.5, 0.75))
  expect_identical(k_dtype(k_arange(5)), "int32")
})
covers("temporal_padding", {
  padded <- array(0, c(2, 6, 4))
  padded[, 2:4, ] <- a
  gives(k_temporal_padding(v, c(1, 2)), padded)
})
image <- array(a, c(1, 2, 3, 4))
covers("spatial_2d_padding", {
  padded <- array(0, c(1, 4, 6, 4))
  padded[, 2:3, 2:4, ] <- a
  gives(k_spatial_2d_padding(k_variable(image), list(c(1, 1), c(1, 2))), padded)
})
covers("spatial_3d_padding", {
  padded <- array(0, c(1, 3, 5, 6, 1))
  padded[, 1:2, 2:4, 2:5, ] <- a
  volume <- k_variable(array(a, c(1, 2, 3, 4, 1)))
  gives(k_spatial_3d_padding(volume, list(c(0, 1), c(1, 1), c(1, 1))), padded)
})
covers("resize_images", {
  found <- k_resize_images(k_variable(image), 2, 1, "channels_last")
  gives(found, image[, c(1, 1, 2, 2), , , drop = FALSE])
})
covers("resize_volumes", {
  volume <- array(a, c(1, 2, 3, 4, 1))
  found <- k_resize_volumes(k_variable(volume), 2, 1, 2, "channels_last")
  gives(found, volume[, c(1, 1, 2, 2), , rep(1:4, each = 2), , drop = FALSE])
})

covers("dot", {
  gives(k_dot(k_variable(m), t(m)), m %*% t(m))
  gives(k_dot(m, t(m)), m %*% t(m), 1e-12)
})
covers("batch_dot", {
  # Axis 3 of x and axis 2 of y: a matrix product for each sample.
  y <- aperm(a, c(1, 3, 2))
  expected <- array(0, c(2, 3, 3))
  for (i in 1:2) expected[i, , ] <- a[i, , ] %*% y[i, , ]
  gives(k_batch_dot(v, k_variable(y), axes = c(3, 2)), expected)
  gives(K$batch_dot(v, k_variable(y), axes = c(2, 1)), expected)
})
covers("bias_add", gives(k_bias_add(k_variable(m), c(1, 2, 3)), t(t(m) + c(1, 2, 3))))
