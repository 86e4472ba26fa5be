test_that("arrays come in and go out in R's own order", {
  k_set_floatx("float64")
  gives(k_variable(a), a, 0)
  gives(k_variable(a)[2, 1, 3], a[2, 1, 3], 0)
  k_set_floatx("float32")
  bools <- a > 0
  gives(k_constant(bools, dtype = "bool"), bools)
  expect_type(k_eval(k_constant(bools, dtype = "bool")), "logical")
  ints <- array(1:24, c(2, 3, 4))
  found <- k_eval(k_variable(ints, dtype = "int32"))
  expect_identical(found, ints)
  expect_type(found, "integer")
  # Larger integers and other floats are R's doubles.
  expect_identical(k_eval(k_constant(c(3e9, 1), dtype = "int64")), array(c(3e9, 1)))
  expect_identical(k_eval(k_constant(3e9, dtype = "int64")), 3e9)
  expect_identical(k_eval(k_constant(c(0.5, 2), dtype = "float16")), array(c(0.5, 2)))
})

test_that("arrays give arrays at once, on every engine, as exactly as R", {
  found <- k_dot(m, t(m))
  expect_true(is.matrix(found))
  gives(found, m %*% t(m), 1e-14)
  gives(K$exp(c(1, 2)), exp(c(1, 2)), 1e-14)
  gives(k_mean(a, axis = c(1, 2)), apply(a, 3, mean), 1e-14)
  gives(k_sum(1:3), 6L)
  # What R has is not changed, and what K holds does not change with it.
  x <- m
  y <- k_placeholder(shape = c(2, 3)) * x
  z <- k_constant(x) * 1
  x[1, 1] <- 100
  gives(z, m)
})

test_that("whole numbers are integers where integers are meant", {
  gives(K$sum(k_variable(m), axis = 1), rowSums(m))
  gives(K$reshape(k_variable(m), c(3, 2)), matrix(as.vector(t(m)), 3, byrow = TRUE))
  gives(K$gather(k_variable(m), k_constant(1, dtype = "int32")), m[2, ])
  expect_identical(k_int_shape(K$placeholder(shape = c(2, 3))), list(2L, 3L))
  expect_error(k_sum(k_variable(m), axis = 1.5), "must be an int")
  expect_error(k_zeros(c(2, 1.5)), "must be an int")
})

test_that("axes count from 1 in k_ functions, and errors say so", {
  expect_error(k_mean(m, axis = 0), "count from 1")
  expect_error(k_mean(m, axis = 3), "axis 2 .*k_mean from 1")
  expect_error(K$mean(m, axis = 2), "axis 2 ")
  gives(k_mean(m, axis = -2), colMeans(m))
})

test_that("what has no counterpart is refused", {
  expect_error(k_variable(c(1L, NA)), "NA has no counterpart")
  expect_error(k_constant(NA), "NA has no counterpart")
  expect_true(is.nan(k_eval(k_variable(NA_real_))))
  expect_error(k_variable(iris), "as.matrix")
  expect_error(k_one_hot(iris$Species, 3), "as.integer")
})

test_that("errors are Python's message, and R's own errors come through it", {
  expect_error(k_reshape(k_variable(m), c(5, 5)), "^ValueError: K.reshape: cannot reshape .*\\)$")
  expect_error(k_map_fn(function(x) stop("raised in R"), k_variable(m)), "raised in R")
  expect_error(K$no_such_function, "no_such_function")
  expect_error(k_mean(), "missing")
})

test_that("names on lists go to the results", {
  x <- k_placeholder(shape = c(2, 3))
  y <- k_placeholder(shape = 1)
  f <- k_function(list(x = x, y = y), list(sum = sum(x), plus = x + y), list(u = k_update(k_zeros(1), y)))
  expected <- list(sum = sum(m), plus = m + 2)
  expect_equal(f(list(m, 2)), expected, tolerance = 1e-6)
  expect_equal(f(list(y = 2, x = m)), expected, tolerance = 1e-6)
  expect_error(f(list(x = m, z = 2)), "named x, z, the inputs x, y")
  expect_error(k_function(list(x), list(a = x, x, x)), "names for all elements")
  w <- k_variable(2)
  expect_equal(as.numeric(k_gradients(w^2, list(w = w))$w), 4)
})

test_that("functions go to Python and come back", {
  gives(k_map_fn(K$tanh, k_variable(m)), tanh(m))
  gives(K$map_fn(function(x) list(x, x * 2), k_variable(m))[[2]], 2 * m)
  gives(K$eager(function(x) x * 2)(k_variable(m)), 2 * m)
})

test_that("contexts work with with()", {
  found <- with(K$engine("numpy"), k_exp(m))
  gives(found, exp(m), 1e-14)
  v <- k_variable(1)
  doubled <- with(K$control_dependencies(list(k_update_add(v, 2))), v * 2)
  gives(doubled, 6)
})

test_that("tensors of the engine are taken, and given back", {
  raw <- backend(convert = FALSE)
  tensor <- raw$exp(m)
  expect_s3_class(tensor, "python.builtin.object")
  gives(k_eval(k_sum(tensor, axis = 1)), colSums(exp(m)), 1e-14)
})

test_that("backend(convert = FALSE) gives Python's objects", {
  raw <- backend(convert = FALSE)
  expect_s3_class(raw$int_shape(k_variable(m)), "python.builtin.tuple")
})
