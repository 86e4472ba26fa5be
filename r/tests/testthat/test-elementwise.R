v <- k_variable(m)

covers("abs", gives(k_abs(v), abs(m)))
covers("sqrt", gives(k_sqrt(v), sqrt(pmax(m, 0))))
covers("square", gives(k_square(v), m^2))
covers("exp", gives(k_exp(v), exp(m)))
covers("log", gives(k_log(abs(v)), log(abs(m))))
covers("sin", gives(k_sin(v), sin(m)))
covers("cos", gives(k_cos(v), cos(m)))
covers("tanh", gives(k_tanh(v), tanh(m)))
covers("sign", gives(k_sign(v), sign(m)))
covers("round", gives(k_round(v), round(m)))
covers("pow", gives(k_pow(v, 3), m^3))
covers("clip", gives(k_clip(v, -0.5, 1), pmin(pmax(m, -0.5), 1)))
covers("maximum", gives(k_maximum(v, m[, 3:1]), pmax(m, m[, 3:1])))
covers("minimum", gives(k_minimum(v, m[, 3:1]), pmin(m, m[, 3:1])))
covers("identity", gives(k_identity(v), m))
covers("stop_gradient", {
  gives(k_stop_gradient(v), m)
  loss <- k_sum(k_stop_gradient(v) * v)
  gives(k_gradients(loss, list(v))[[1]], m)
})

covers("relu", {
  gives(k_relu(v), pmax(m, 0))
  gives(k_relu(v, alpha = 0.1, max_value = 1), pmin(ifelse(m < 0, 0.1 * m, m), 1))
})
covers("elu", gives(k_elu(v), ifelse(m < 0, exp(m) - 1, m)))
covers("sigmoid", gives(k_sigmoid(v), 1 / (1 + exp(-m))))
covers("hard_sigmoid", gives(k_hard_sigmoid(v), pmin(pmax(0.2 * m + 0.5, 0), 1)))
covers("softplus", gives(k_softplus(v), log1p(exp(m))))
covers("softsign", gives(k_softsign(v), m / (1 + abs(m))))
covers("softmax", {
  gives(k_softmax(v), exp(m) / rowSums(exp(m)))
  gives(k_softmax(v, axis = 1), t(t(exp(m)) / colSums(exp(m))))
})
covers("l2_normalize", gives(k_l2_normalize(v, axis = 2), m / sqrt(rowSums(m^2))))

other <- m[, c(1, 3, 2)]
covers("equal", gives(k_equal(v, other), m == other))
covers("not_equal", gives(k_not_equal(v, other), m != other))
covers("greater", gives(k_greater(v, other), m > other))
covers("greater_equal", gives(k_greater_equal(v, other), m >= other))
covers("less", gives(k_less(v, other), m < other))
covers("less_equal", gives(k_less_equal(v, other), m <= other))
covers("cast", {
  expect_identical(k_dtype(k_cast(v, "int32")), "int32")
  gives(k_cast(v, "int32"), trunc(m))
})
covers("switch", {
  gives(k_switch(k_variable(TRUE), v, -v), m)
  gives(k_switch(k_variable(FALSE), function() v, function() v * 2), 2 * m)
  gives(k_switch(v > 0, v, k_zeros_like(v)), pmax(m, 0))
})

# A target and a prediction of three classes.
p <- exp(m) / rowSums(exp(m))
one <- rbind(c(0, 1, 0), c(1, 0, 0))
covers("categorical_crossentropy", {
  gives(k_categorical_crossentropy(one, k_variable(p)), -log(c(p[1, 2], p[2, 1])))
  gives(k_categorical_crossentropy(one, v, from_logits = TRUE), -log(c(p[1, 2], p[2, 1])))
})
covers("sparse_categorical_crossentropy", {
  # Classes count from 0, as in R's keras; whole doubles are integers here.
  gives(k_sparse_categorical_crossentropy(c(1, 0), k_variable(p)), -log(c(p[1, 2], p[2, 1])))
})
covers("binary_crossentropy", {
  gives(k_binary_crossentropy(one, k_variable(p)), -one * log(p) - (1 - one) * log(1 - p))
})
covers("in_top_k", {
  gives(k_in_top_k(k_variable(p), c(1, 0), 1), c(TRUE, FALSE))
  gives(k_in_top_k(k_variable(p), c(0, 2), 2), c(TRUE, TRUE))
})
