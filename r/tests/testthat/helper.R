K <- backend()

# A test of one function, which must really call it, as k_name or as K$name.
# tests/interop/test_r.py reads the names and compares them with the document.
covers <- function(name, code) {
  body <- substitute(code)
  used <- all.names(body)
  stopifnot(paste0("k_", name) %in% used || ("K" %in% used && name %in% used))
  if (!identical(body[[1L]], quote(`{`))) {
    body <- call("{", body)
  }
  eval(call("test_that", paste0("k_", name), body), parent.frame())
}

# A tensor's value, or an array that came at once, against what R computes: the
# same numbers under the same subscripts.
gives <- function(found, expected, tolerance = 1e-5) {
  if (inherits(found, "backplane.core.tensor.Tensor")) {
    found <- k_eval(found)
  }
  if (is.null(dim(expected)) && length(expected) > 1L) {
    expected <- array(expected)
  }
  expect_equal(found, expected, tolerance = tolerance)
}

m <- matrix(c(0.5, -1.5, 2, 0.25, -0.75, 1.25), nrow = 2)
a <- array(((1:24) * 7) %% 24 / 8 - 1, dim = c(2, 3, 4))
