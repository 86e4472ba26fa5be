# K: the module with all functions of the API.

backend <- function(convert = TRUE) {
  if (is.null(session$bridge)) {
    start()
  } else {
    warn_if_late()
  }
  module <- import("backplane.backend", convert = convert)
  if (convert) {
    class(module) <- c("backplane_backend", class(module))
  }
  module
}

`$.backplane_backend` <- function(x, name) {
  value <- rethrow(py_to_r(py_get_attr(x, name)))
  if (!is.function(value)) {
    return(value)
  }
  call <- function(...) call_python(name, list(...), one_based = FALSE)
  # It prints as Python's function, and Python gets that very function if it is
  # given on, as in K$map_fn(K$tanh, x).
  attributes(call) <- attributes(value)
  call
}

`[[.backplane_backend` <- function(x, name) {
  `$.backplane_backend`(x, name)
}

print.backplane_backend <- function(x, ...) {
  cat("<the Keras backend API on ", k_backend(), ">\n", sep = "")
  invisible(x)
}

# What the functions k_... call: axes count from 1.
call_k <- function(name, arguments) {
  call_python(name, arguments, one_based = TRUE)
}

call_python <- function(name, arguments, one_based) {
  arguments <- lapply(arguments, prepare)
  named <- rep(FALSE, length(arguments))
  if (!is.null(names(arguments))) {
    named <- names(arguments) != ""
  }
  result <- rethrow(bridge()$call(
    name, unname(arguments[!named]), arguments[named], one_based
  ))
  if (inherits(result, "backplane.interop.r.Function")) {
    result <- callable(result)
  }
  if (is.null(result)) invisible() else result
}

# A compiled function as an R function, which is still Python's object too.
callable <- function(object) {
  run <- function(inputs = list()) rethrow(object(prepare(inputs)))
  attributes(run) <- attributes(object)
  class(run) <- c("backplane_function", class(object))
  run
}

print.backplane_function <- function(x, ...) {
  cat("<compiled function '", x$name, "' of a list of values>\n", sep = "")
  invisible(x)
}

# Python's message without the noise that reticulate and Rcpp put around it.
rethrow <- function(expression) {
  tryCatch(expression, error = function(e) {
    stop(sub("\\s+$", "", conditionMessage(e)), call. = FALSE)
  })
}
