# Which Python runs, and what it is told: KERAS_PYTHON, KERAS_IMPLEMENTATION,
# KERAS_BACKEND.

# What one R session has settled on; filled when K is first needed.
session <- new.env(parent = emptyenv())

.onLoad <- function(libname, pkgname) {
  # Before anything else in the session starts another Python.
  choose_python()
}

# KERAS_PYTHON goes before all that reticulate knows: in RETICULATE_PYTHON, its
# strongest setting. A running Python stays; `check_python` refuses another one.
choose_python <- function() {
  python <- Sys.getenv("KERAS_PYTHON")
  if (nzchar(python)) {
    # The folder's links are followed, the binary's are not: in a virtual
    # environment it is a link to the Python that made it.
    folder <- normalizePath(dirname(python), mustWork = FALSE)
    Sys.setenv(RETICULATE_PYTHON = file.path(folder, basename(python)))
  }
}

check_python <- function() {
  python <- Sys.getenv("KERAS_PYTHON")
  if (!nzchar(python)) {
    return(invisible())
  }
  if (!file.exists(python) || dir.exists(python)) {
    stop(
      "KERAS_PYTHON names no Python binary: '", python, "' is ",
      if (dir.exists(python)) "a folder" else "not there",
      call. = FALSE
    )
  }
  if (py_available()) {
    show <- "import sys; print(sys.prefix)"
    asked <- system2(python, c("-c", shQuote(show)), stdout = TRUE)
    running <- import("sys")$prefix
    if (!identical(normalizePath(asked), normalizePath(running))) {
      stop(
        "KERAS_PYTHON asks for ", python, ", but this session already runs ",
        "the Python of ", running, ": restart R and set it earlier",
        call. = FALSE
      )
    }
  }
}

# The value of KERAS_BACKEND that Python shall see; "" for none.
engine_asked <- function() {
  implementation <- Sys.getenv("KERAS_IMPLEMENTATION", "keras")
  asked <- Sys.getenv("KERAS_BACKEND")
  if (implementation %in% c("keras", "")) {
    return(asked)
  }
  if (implementation != "tensorflow") {
    stop(
      "KERAS_IMPLEMENTATION must be 'keras' or 'tensorflow', got '",
      implementation, "'",
      call. = FALSE
    )
  }
  if (!asked %in% c("", "tensorflow", "backplane.tensorflow")) {
    stop(
      "KERAS_IMPLEMENTATION=tensorflow runs on TensorFlow only, ",
      "and KERAS_BACKEND asks for '", asked, "': unset one of the two",
      call. = FALSE
    )
  }
  "tensorflow"
}

# The Python module `backplane.interop.r`, imported at first use.
bridge <- function() {
  if (is.null(session$bridge)) {
    start()
  }
  session$bridge
}

start <- function() {
  asked <- engine_asked()
  choose_python()
  check_python()
  found <- tryCatch(import("backplane"), error = identity)
  if (inherits(found, "error")) {
    said <- conditionMessage(found)
    if (!grepl("No module named 'backplane'", said, fixed = TRUE)) {
      stop(trimws(said), call. = FALSE)
    }
    stop(
      "the Python that serves this session, ", py_config()$python, ", has no ",
      "Backplane. Install it there with: pip install keras-backplane\n",
      "or name another Python in KERAS_PYTHON before R starts it.",
      call. = FALSE
    )
  }
  # Python copied the environment when it started, which may be long ago.
  tell_python("KERAS_BACKEND", asked)
  tell_python("KERAS_HOME", Sys.getenv("KERAS_HOME"))
  module <- rethrow(import("backplane.interop.r"))
  check_arrays()
  session$asked <- asked
  session$bridge <- module
}

tell_python <- function(name, value) {
  environment <- import("os", convert = FALSE)$environ
  if (nzchar(value)) {
    environment$`__setitem__`(name, value)
  } else {
    environment$pop(name, NULL)
  }
}

# reticulate before 1.38 was built for NumPy 1 and hands over no arrays of
# NumPy 2.
check_arrays <- function() {
  numpy <- import("numpy")
  if (!is.numeric(numpy$zeros(2L))) {
    stop(
      "reticulate ", utils::packageVersion("reticulate"), " cannot read the ",
      "arrays of NumPy ", numpy$`__version__`, ": update reticulate, or run ",
      "pip install 'numpy<2' in the environment of ", py_config()$python,
      call. = FALSE
    )
  }
}

# An engine serves from the first use to the end of the session.
warn_if_late <- function() {
  asked <- engine_asked()
  if (!identical(asked, session$asked)) {
    warning(
      "the settings now ask for the engine '", asked, "', but this session ",
      "has begun with '", k_backend(), "': restart R, or use ",
      "with(K$engine(\"", asked, "\"), ...)",
      call. = FALSE
    )
  }
}
