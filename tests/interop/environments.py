"""Environments with releases of their own, made when a test first needs them: of classic Keras, or
of NumPy.

They hold these and what they alone need; all else (the engines, this package) is that of the
environment that runs the tests, which a .pth file appends. A stamp remembers how one was made.
"""

import fcntl
import importlib.util
import os
import shutil
import site
import sys
import venv
from contextlib import contextmanager
from pathlib import Path

import waiting
from lean import lean

BUILD = Path(__file__).parents[2] / "build"
MODULES = {"h5py": "h5py", "scipy": "scipy", "six": "six", "yaml": "pyyaml"}
"""What Keras imports, and the project that has it."""


@contextmanager
def locked(file: Path):
    """One process at a time: pytest-xdist runs several."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with open(file, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def shared_folder(tmp_path_factory) -> Path:
    """The folder for temporary files of all processes of pytest-xdist."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if base.name.startswith("popen-") else base


def python_with(release: str) -> Path:
    """The interpreter of the environment with `keras==release`."""
    wanted = [f"keras=={release}"]
    if release >= "2.2":
        wanted += ["keras_applications==1.0.8", "keras_preprocessing==1.1.2"]
    wanted += [project for name, project in MODULES.items() if not importlib.util.find_spec(name)]
    return environment(BUILD / "classic" / release, wanted)


def environment(folder: Path, wanted: list[str], **modules: str) -> Path:
    """The interpreter of the environment in `folder`, which has the projects `wanted` and modules
    with the given text before those of the environment that runs the tests.
    """
    made = repr((wanted, modules, sys.version, site.getsitepackages()))
    stamp = folder / "stamp"
    with locked(folder.with_name(f"{folder.name}.lock")):
        if not stamp.exists() or stamp.read_text() != made:
            shutil.rmtree(folder, ignore_errors=True)
            _make(folder, wanted, modules)
            stamp.write_text(made)
    return _python(folder)


def _python(folder: Path) -> Path:
    return folder / "bin" / "python"


def _make(folder: Path, wanted: list[str], modules: dict[str, str]) -> None:
    venv.create(folder, with_pip=False, symlinks=True)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    # Python compiles what is imported, which is a small part.
    install = ["--python", str(_python(folder)), "install", "--no-compile", "--no-deps", *wanted]
    waiting.run([*pip, *install], check=True)
    where = [str(_python(folder)), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    packages = Path(waiting.run(where, check=True).stdout.strip())
    lines = [f"import site; site.addsitedir({path!r})\n" for path in site.getsitepackages()]
    (packages / "running.pth").write_text("".join(lines))
    for name, text in modules.items():
        (packages / f"{name}.py").write_text(text)


def run(
    python: Path,
    *arguments: object,
    backend: str,
    folder: Path,
    needed: tuple[str, ...] = (),
    **environment: str,
) -> str:
    """Run a script with a backend; its output, or an AssertionError with what it wrote to stderr.

    Libraries that only some programs of Keras use are not there, but for those `needed`.
    Settings are read from and written to `folder`, never to those of whoever runs the tests.
    """
    env = {
        **os.environ, "KERAS_BACKEND": backend, "KERAS_HOME": str(folder),
        "HOME": str(folder),  # Keras 1 knows no KERAS_HOME.
        "PYTHONWARNINGS": "default", **environment,
    }  # fmt: skip
    done = waiting.run([str(python), *map(str, arguments)], env=lean(env, *needed), cwd=folder)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout
