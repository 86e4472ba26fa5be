covers("variable", {
  v <- k_variable(a)
  expect_identical(k_dtype(v), "float32")
  gives(v, a)
  expect_identical(k_dtype(k_variable(1:3, dtype = "int32")), "int32")
  gives(k_variable(5), 5)
  gives(k_variable(array(5)), array(5))
  expect_identical(k_variable(1, name = "weight")$name, "weight")
})
covers("constant", {
  gives(k_constant(m), m)
  gives(k_constant(7, shape = c(2, 2)), matrix(7, 2, 2))
})
covers("placeholder", {
  expect_identical(k_int_shape(k_placeholder(shape = list(2L, NULL, 5L))), list(2L, NULL, 5L))
  expect_identical(k_int_shape(k_placeholder(shape = c(2, 3))), list(2L, 3L))
  expect_identical(k_int_shape(k_placeholder(ndim = 2)), list(NULL, NULL))
  expect_identical(k_dtype(k_placeholder(ndim = 1, dtype = "int64")), "int64")
})
covers("zeros", gives(k_zeros(c(3, 4)), matrix(0, 3, 4)))
covers("ones", gives(k_ones(list(2L, 3L)), matrix(1, 2, 3)))
covers("zeros_like", gives(k_zeros_like(k_variable(m)), m * 0))
covers("ones_like", gives(k_ones_like(k_variable(m)), m * 0 + 1))
covers("int_shape", expect_identical(k_int_shape(k_zeros(c(3, 4))), list(3L, 4L)))
covers("shape", gives(k_shape(k_zeros(c(3, 4))), 3:4))
covers("ndim", expect_identical(k_ndim(k_variable(a)), 3L))
covers("dtype", expect_identical(k_dtype(k_variable(m) > 0), "bool"))
covers("count_params", expect_identical(k_count_params(k_variable(a)), 24L))
covers("is_sparse", expect_identical(k_is_sparse(k_placeholder(shape = c(2, 2), sparse = TRUE)), TRUE))
covers("to_dense", gives(k_to_dense(k_variable(m)), m))

covers("eval", expect_identical(k_eval(k_variable(1:3, dtype = "int32")), array(1:3)))
covers("get_value", gives(k_get_value(k_variable(a)), a))
covers("set_value", {
  v <- k_zeros(c(2, 3))
  expect_null(k_set_value(v, m))
  gives(v, m)
  # One number where the variable has one axis.
  one <- k_zeros(1)
  K$set_value(one, 4)
  gives(one, array(4))
  expect_error(k_set_value(v, t(m)), "has shape \\(2, 3\\)")
})
covers("batch_get_value", {
  found <- k_batch_get_value(list(k_variable(m), k_variable(2)))
  expect_equal(found, list(m, 2), tolerance = 1e-6)
})
covers("batch_set_value", {
  v <- k_zeros(c(2, 3))
  one <- k_zeros(1)
  k_batch_set_value(list(list(v, m), list(one, 3)))
  gives(v, m)
  gives(one, array(3))
})
covers("update", {
  v <- k_variable(1)
  gives(k_update(v, v * 5), 5)
  gives(v, 5)
})
covers("update_add", {
  v <- k_variable(m)
  gives(k_update_add(v, m), 2 * m)
  gives(v, 2 * m)
})
covers("update_sub", {
  v <- k_variable(1)
  step <- K$`function`(list(), list(v), updates = list(k_update_sub(v, 0.25)))
  expect_equal(step(list()), list(1))
  expect_equal(step(list()), list(0.75))
  gives(v, 0.5)
})
covers("moving_average_update", {
  gives(k_moving_average_update(k_variable(1), 3, 0.5), 2)
})
covers("gradients", {
  v <- k_variable(m)
  w <- k_variable(1)
  found <- k_gradients(k_sum(v^3), list(v, w))
  gives(found[[1]], 3 * m^2)
  expect_null(found[[2]])
})
covers("print_tensor", {
  gives(k_print_tensor(k_variable(m), "m is"), m)
})

covers("random_normal", {
  sample <- k_eval(k_random_normal(c(100, 100), mean = 2, stddev = 3, seed = 1))
  expect_equal(dim(sample), c(100, 100))
  expect_equal(mean(sample), 2, tolerance = 0.1)
  expect_equal(sd(sample), 3, tolerance = 0.1)
  expect_identical(k_eval(k_random_normal(c(100, 100), mean = 2, stddev = 3, seed = 1)), sample)
})
covers("random_uniform", {
  sample <- k_eval(k_random_uniform(c(50, 2), minval = 1, maxval = 2, seed = 3))
  expect_true(all(sample >= 1 & sample < 2))
})
covers("random_binomial", {
  sample <- k_eval(k_random_binomial(c(100, 100), p = 0.25, seed = 3))
  expect_setequal(sample, c(0, 1))
  expect_equal(mean(sample), 0.25, tolerance = 0.1)
})
covers("truncated_normal", {
  expect_true(all(abs(k_eval(k_truncated_normal(c(100, 10), seed = 1))) <= 2))
})
covers("random_normal_variable", {
  expect_equal(sd(k_eval(k_random_normal_variable(c(100, 100), 0, 2, seed = 1))), 2,
    tolerance = 0.1
  )
})
covers("random_uniform_variable", {
  sample <- k_eval(k_random_uniform_variable(c(100, 10), -1, 1, seed = 1))
  expect_true(min(sample) < -0.9 && max(sample) > 0.9)
})
covers("dropout", {
  kept <- k_eval(k_dropout(k_ones(c(100, 100)), level = 0.5, seed = 2))
  expect_setequal(kept, c(0, 2))
  expect_equal(mean(kept), 1, tolerance = 0.1)
})

covers("learning_phase", {
  x <- k_placeholder(shape = 2)
  f <- k_function(list(x, k_learning_phase()), list(k_in_train_phase(x, -x)))
  expect_equal(f(list(c(1, 2), 0))[[1]], array(c(-1, -2)))
  expect_equal(f(list(c(1, 2), 1))[[1]], array(c(1, 2)))
})
covers("in_train_phase", gives(k_in_train_phase(k_ones(2), k_zeros(2), training = 1), c(1, 1)))
covers("in_test_phase", gives(k_in_test_phase(k_ones(2), k_zeros(2), training = 1), c(0, 0)))
covers("set_learning_phase", {
  k_set_learning_phase(1)
  gives(k_in_train_phase(k_ones(2), k_zeros(2)), c(1, 1))
  expect_error(k_set_learning_phase(2), "0 or 1|0 \\(test\\)")
  k_clear_session()
})
covers("clear_session", {
  k_set_learning_phase(1)
  k_clear_session()
  gives(k_in_train_phase(k_ones(2), k_zeros(2)), c(0, 0))
})

covers("function", {
  x <- k_placeholder(shape = list(NULL, 3))
  v <- k_variable(m)
  f <- k_function(list(x), list(x * 2, k_sum(x)), updates = list(k_update_add(v, m)))
  expect_equal(f(list(m)), list(2 * m, sum(m)), tolerance = 1e-6)
  gives(v, 2 * m)
  # Integers for floats, a vector for one axis, one number for one axis.
  expect_equal(f(list(matrix(1:6, 2)))[[2]], 21)
  y <- k_placeholder(shape = list(NULL))
  g <- K$`function`(list(y), list(y + 1))
  expect_equal(g(list(c(1, 2))), list(array(c(2, 3))))
  expect_equal(g(list(1)), list(array(2)))
  expect_identical(K[["function"]](y, y)(3), array(3))
  expect_error(f(list(t(m))), "takes shape")
  expect_error(f(m), "list")
  expect_output(print(f), "compiled function")
})

covers("backend", expect_identical(k_backend(), Sys.getenv("KERAS_BACKEND")))
covers("epsilon", expect_identical(k_epsilon(), 1e-7))
covers("set_epsilon", {
  k_set_epsilon(1e-5)
  expect_identical(K$epsilon(), 1e-5)
  k_set_epsilon(1e-7)
})
covers("floatx", expect_identical(k_floatx(), "float32"))
covers("set_floatx", {
  k_set_floatx("float64")
  expect_identical(k_dtype(k_variable(m)), "float64")
  gives(k_variable(m) / 3, m / 3, 1e-15)
  k_set_floatx("float32")
})
covers("cast_to_floatx", expect_equal(k_cast_to_floatx(a), a, tolerance = 1e-6))
covers("image_data_format", expect_identical(k_image_data_format(), "channels_last"))
covers("set_image_data_format", {
  k_set_image_data_format("channels_first")
  expect_identical(K$image_data_format(), "channels_first")
  k_set_image_data_format("channels_last")
})
covers("get_uid", expect_identical(k_get_uid("r") + 1L, k_get_uid("r")))
covers("reset_uids", {
  first <- k_get_uid("again")
  k_reset_uids()
  expect_identical(k_get_uid("again"), first)
})
covers("name_scope", {
  with(k_name_scope("inside"), {
    v <- k_variable(1, name = "v")
  })
  expect_identical(v$name, "inside/v")
})
covers("get_session", {
  expect_equal(as.vector(k_get_session()$run(k_variable(m))), as.vector(m), tolerance = 1e-6)
})
covers("set_session", expect_null(k_set_session(k_get_session())))
covers("manual_variable_initialization", expect_null(k_manual_variable_initialization(FALSE)))
covers("py_all", {
  expect_true(k_py_all(c(TRUE, TRUE)))
  expect_false(K$py_all(list(TRUE, FALSE)))
})
covers("py_sum", {
  expect_equal(k_py_sum(c(1, 2, 3)), 6)
  gives(k_py_sum(list(k_variable(m), m)), 2 * m)
})
