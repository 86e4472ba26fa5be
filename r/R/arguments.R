# R values as Python shall get them. Python makes integers of whole doubles by
# itself where it wants integers (interop/r.py).

prepare <- function(value) {
  if (is.null(value) || inherits(value, "python.builtin.object")) {
    value
  } else if (is.function(value)) {
    function(...) prepare(value(...))
  } else if (is.data.frame(value)) {
    stop("a data frame is no array: give as.matrix(...) of it", call. = FALSE)
  } else if (is.factor(value)) {
    stop(
      "a factor is no array: give as.integer(...) - 1 of it (classes count ",
      "from 0)",
      call. = FALSE
    )
  } else if (is.list(value)) {
    # A list with names becomes Python's dict, which has each name once.
    if (!is.null(names(value)) && (any(names(value) == "") || anyDuplicated(names(value)))) {
      stop("a list must have names for all elements, each another, or none", call. = FALSE)
    }
    lapply(value, prepare)
  } else if (is.integer(value) || is.logical(value) || is.double(value)) {
    as_numbers(value)
  } else {
    value
  }
}

# One number stays a number; a longer vector gets its one axis.
as_numbers <- function(value) {
  if (!is.double(value) && anyNA(value)) {
    stop("NA has no counterpart among Python's ", typeof(value), "s", call. = FALSE)
  }
  if (is.double(value)) {
    # R's NA is a NaN that traps; the plain one says the same.
    value[is.na(value)] <- NaN
  }
  if (is.null(dim(value)) && length(value) != 1L) {
    value <- array(value, dim = length(value))
  }
  value
}
