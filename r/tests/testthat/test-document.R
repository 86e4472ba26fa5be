# The code of the R page of the Keras documentation, as it stands there.

test_that("placeholders", {
  K <- backend()
  input <- K$placeholder(shape = list(2L, 4L, 5L))
  expect_identical(dim(input), c(2L, 4L, 5L))
  # also works:
  input <- K$placeholder(shape = list(NULL, 4L, 5L))
  expect_identical(dim(input), c(NA, 4L, 5L))
  # also works:
  input <- K$placeholder(ndim = 3L)
  expect_identical(dim(input), c(NA_integer_, NA, NA))
})

test_that("variables", {
  val <- array(runif(60), dim = c(3L, 4L, 5L))
  var <- K$variable(value = val)
  gives(var, val)
  # all-zeros variable:
  var <- K$zeros(shape = list(3L, 4L, 5L))
  gives(var, array(0, 3:5))
  # all-ones:
  var <- K$ones(shape = list(3L, 4L, 5L))
  gives(var, array(1, 3:5))
})

test_that("the help pages' arguments are the functions' own", {
  expect_identical(names(formals(k_mean)), c("x", "axis", "keepdims"))
  expect_identical(formals(k_cumsum)$axis, 1L)
  exported <- getNamespaceExports("backplane")
  for (name in exported) expect_true(is.function(getExportedValue("backplane", name)))
  # Each function of K, and no other.
  expect_setequal(
    sub("^k_", "", grep("^k_", exported, value = TRUE)),
    setdiff(unlist(K$`__all__`), character())
  )
})
