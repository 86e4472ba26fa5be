"""The R package, in real R."""

import functools
import os
import re
import sys
import venv

import pytest

from interop.r_sessions import PACKAGE, ROOT, python, run_r

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.environ.get("TEST_R") == "0", reason="TEST_R=0 leaves R out"),
]

ENGINES = {"numpy": "NumPy", "torch": "PyTorch", "cntk": "CNTK", "tensorflow": "TensorFlow"}
"""The engines that run with the NumPy of `r_sessions`, by name, with the title they announce."""

SESSION = """
source(system.file("examples", "iris.R", package = "backplane"), local = new.env())
cat("--- tests ---\\n")
library(testthat)
test_dir(
  commandArgs(TRUE), package = "backplane", load_package = "installed",
  reporter = "check", stop_on_warning = TRUE
)
"""


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    """What R prints on an engine for the example, for the package's own tests, and to stderr. Both
    run in one session: R, Python and the engine's library take seconds to start.
    """

    @functools.cache
    def printed(engine):
        folder, tests = tmp_path_factory.mktemp(engine), PACKAGE / "tests" / "testthat"
        done = run_r(folder, "-e", SESSION, tests, KERAS_BACKEND=engine)
        return *done.stdout.split("--- tests ---"), done.stderr

    return printed


@pytest.mark.parametrize("name", ENGINES)
def test_the_package_passes_its_own_tests(name, session):
    _, tests, errors = session(name)
    assert f"Using {ENGINES[name]} backend" in errors
    found = re.search(r"\[ FAIL 0 \| WARN 0 \| SKIP 0 \| PASS (\d+) \]", tests)
    assert found, tests
    assert int(found[1]) > 400


def test_the_help_pages_fit_the_functions(tmp_path):
    script = """
    folder <- find.package("backplane")
    for (found in list(
      tools::codoc("backplane"), tools::undoc("backplane"), tools::checkDocFiles("backplane"),
      tools::checkDocStyle("backplane"), tools::checkS3methods("backplane")
    )) { text <- capture.output(print(found)); if (any(nzchar(text))) stop(text) }
    for (page in commandArgs(TRUE)) {
      text <- capture.output(print(tools::checkRd(page)))
      if (length(text)) stop(paste(text, collapse = "\\n"))
    }
    """
    pages = sorted((PACKAGE / "man").glob("*.Rd"))
    assert len(pages) > 165
    run_r(tmp_path, "-e", script, *pages)


# --- the example ----------------------------------------------------------------------------------


def test_the_example_learns_and_every_engine_agrees(session):
    said = {engine: session(engine)[0] for engine in ENGINES}
    figures = {e: [float(n) for n in re.findall(r"\d\.\d+", text)] for e, text in said.items()}
    *losses, held_out, accuracy = figures["numpy"]
    assert len(losses) == 6
    assert losses[-1] < 0.06 < losses[0]
    assert losses == sorted(losses, reverse=True)
    assert held_out < 0.1
    assert accuracy >= 0.95
    for engine in ENGINES:
        assert figures[engine] == pytest.approx(figures["numpy"], abs=2e-4)


# --- settings -------------------------------------------------------------------------------------

NAME = "library(backplane); K <- backend(); cat(K$backend())"


def test_an_external_backend_serves(tmp_path):
    package = tmp_path / "my_package"
    package.mkdir()
    (package / "__init__.py").touch()
    page = (ROOT / "docs" / "external-backends.md").read_text(encoding="utf-8")
    [module] = re.findall(r'^```python\n("""Values are.*?)^```', page, re.M | re.S)
    (package / "my_module.py").write_text(module, encoding="utf-8")
    script = NAME + '; x <- K$placeholder(2); cat("", K$`function`(list(x), list(K$square(x)))'
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    done = run_r(
        tmp_path, "-e", script + "(list(3))[[1]])",
        KERAS_BACKEND="my_package.my_module", PYTHONPATH=path,
    )  # fmt: skip
    assert done.stdout == "my_package.my_module 9"


def test_the_implementation_of_tensorflow_is_its_engine(tmp_path):
    assert run_r(tmp_path, "-e", NAME, KERAS_IMPLEMENTATION="tensorflow").stdout == "tensorflow"
    both = {"KERAS_IMPLEMENTATION": "tensorflow", "KERAS_BACKEND": "torch"}
    assert "asks for 'torch': unset one" in run_r(tmp_path, "-e", NAME, fails=True, **both).stderr
    other = run_r(tmp_path, "-e", NAME, fails=True, KERAS_IMPLEMENTATION="theano")
    assert "must be 'keras' or 'tensorflow', got 'theano'" in other.stderr
    keras = {"KERAS_IMPLEMENTATION": "keras", "KERAS_BACKEND": "torch"}
    assert run_r(tmp_path, "-e", NAME, **keras).stdout == "torch"


def test_the_settings_may_come_after_python_has_started(tmp_path):
    script = 'invisible(reticulate::import("os")); Sys.setenv(KERAS_BACKEND = "torch"); ' + NAME
    assert run_r(tmp_path, "-e", script, RETICULATE_PYTHON=str(python())).stdout == "torch"


def test_settings_that_come_too_late_are_told(tmp_path):
    script = NAME + '; Sys.setenv(KERAS_BACKEND = "numpy"); K <- backend(); cat("", K$backend())'
    done = run_r(tmp_path, "-e", script, KERAS_BACKEND="torch")
    assert done.stdout == "torch torch"
    assert "this session has begun with 'torch'" in " ".join(done.stderr.split())


def test_an_engine_that_is_not_installed_is_an_error(tmp_path):
    done = run_r(tmp_path, "-e", NAME, fails=True, KERAS_BACKEND="no_such.module")
    assert "asks for the backend 'no_such.module'" in done.stderr


def test_keras_python_must_be_there(tmp_path):
    done = run_r(tmp_path, "-e", NAME, fails=True, KERAS_PYTHON=str(tmp_path / "none"))
    assert "KERAS_PYTHON names no Python binary" in done.stderr


def test_keras_python_cannot_change_a_running_python(tmp_path):
    script = 'invisible(reticulate::import("os")); Sys.setenv(KERAS_PYTHON = commandArgs(TRUE)); '
    done = run_r(
        tmp_path, "-e", script + NAME, sys.executable,
        fails=True, KERAS_PYTHON="", RETICULATE_PYTHON=str(python()),
    )  # fmt: skip
    assert "this session already runs" in done.stderr


def test_a_python_without_backplane_is_told_what_to_install(tmp_path):
    venv.create(tmp_path / "bare", with_pip=False, symlinks=True)
    bare = str(tmp_path / "bare" / "bin" / "python")
    done = run_r(tmp_path, "-e", NAME, fails=True, KERAS_PYTHON=bare, PYTHONPATH="")
    assert "pip install keras-backplane" in done.stderr
    assert str(tmp_path / "bare") in done.stderr


def test_an_environment_named_after_the_package_is_found(tmp_path):
    (tmp_path / "r-backplane").symlink_to(python().parents[1])
    done = run_r(
        tmp_path, "-e", NAME, KERAS_PYTHON="", KERAS_BACKEND="numpy", WORKON_HOME=str(tmp_path)
    )
    assert done.stdout == "numpy"


# --- the page -------------------------------------------------------------------------------------


def test_the_code_of_the_page_prints_what_it_says(tmp_path):
    page = (ROOT / "docs" / "r.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```(r?)\n(.*?)^```$", page, re.M | re.S)
    code = "".join(text for language, text in blocks if language)
    shown = "".join(text for language, text in blocks if not language and text[0] in " [")
    script = tmp_path / "page.R"
    script.write_text(code, encoding="utf-8")
    printed = run_r(tmp_path, script).stdout
    assert printed.split() == shown.split()
