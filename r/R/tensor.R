# Symbolic tensors in R's own notation.

Ops.backplane.core.tensor.Tensor <- function(e1, e2) {
  if (missing(e2)) {
    rethrow(bridge()$operate(.Generic, e1))
  } else {
    rethrow(bridge()$operate(.Generic, prepare(e1), prepare(e2)))
  }
}

Math.backplane.core.tensor.Tensor <- function(x, ...) {
  known <- c(
    "abs", "sign", "sqrt", "exp", "log", "cos", "sin", "tanh", "round"
  )
  if (!.Generic %in% known) {
    stop(.Generic, "() is not defined for tensors", call. = FALSE)
  }
  if (.Generic == "log" && ...length()) {
    return(k_log(x) / log(...elt(1L)))
  }
  if (.Generic == "round" && ...length() && !identical(as.numeric(..1), 0)) {
    stop("round() of tensors takes no digits", call. = FALSE)
  }
  call_k(.Generic, list(x = x))
}

Summary.backplane.core.tensor.Tensor <- function(..., na.rm = FALSE) {
  if (.Generic == "range" || ...length() != 1L || na.rm) {
    stop(
      .Generic, "() of tensors takes one tensor and no na.rm; ",
      "k_concatenate() joins several",
      call. = FALSE
    )
  }
  call_k(.Generic, list(x = ..1))
}

mean.backplane.core.tensor.Tensor <- function(x, ...) {
  k_mean(x)
}

t.backplane.core.tensor.Tensor <- function(x) {
  k_transpose(x)
}

# NA for sizes that are not known yet; NULL without axes, as for R's vectors.
dim.backplane.core.tensor.Tensor <- function(x) {
  sizes <- k_int_shape(x)
  if (length(sizes)) {
    vapply(sizes, function(n) if (is.null(n)) NA_integer_ else n, 1L)
  }
}

length.backplane.core.tensor.Tensor <- function(x) {
  sizes <- dim(x)
  if (anyNA(sizes)) {
    stop("a tensor with axes of unknown size has no length yet", call. = FALSE)
  }
  as.integer(prod(sizes))
}

as.array.backplane.core.tensor.Tensor <- function(x, ...) {
  as.array(k_eval(x))
}

as.matrix.backplane.core.tensor.Tensor <- function(x, ...) {
  as.matrix(k_eval(x))
}

as.double.backplane.core.tensor.Tensor <- function(x, ...) {
  as.double(k_eval(x))
}

`[.backplane.core.tensor.Tensor` <- function(x, ..., drop = TRUE) {
  caller <- parent.frame()
  subscripts <- lapply(eval(substitute(alist(...))), function(given) {
    if (identical(given, quote(expr = ))) {
      return(NULL)
    }
    value <- eval(given, caller)
    if (is.null(value)) {
      stop("NULL is no subscript of a tensor", call. = FALSE)
    }
    prepare(value)
  })
  # x[] is all of x.
  if (identical(subscripts, list(NULL))) {
    return(x)
  }
  rethrow(bridge()$subset(x, subscripts, drop))
}

`[<-.backplane.core.tensor.Tensor` <- function(x, ..., value) {
  stop(
    "tensors do not change: compute a new one (k_switch, k_concatenate), ",
    "or set a variable with k_set_value()",
    call. = FALSE
  )
}

# What Python's own classes of names and shapes are in R.

py_to_r.backplane.core.spec.DType <- function(x) {
  bridge()$plain(x)
}

py_to_r.backplane.core.spec.Shape <- function(x) {
  bridge()$plain(x)
}
