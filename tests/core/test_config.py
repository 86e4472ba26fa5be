"""The settings: what overrides what, which engine is chosen, and the setters."""

from __future__ import annotations

import ast
import doctest
import inspect
import json
import os
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

import waiting
from backplane import _keras_json as keras_json
from backplane import config, engines
from backplane.known_engines import ENGINES
from backplane.project import install_command

pytestmark = pytest.mark.usefixtures("file")

DEFAULT_TEXT = json.dumps(config.Settings()._asdict(), indent=4)
KERAS_1_TEXT = """\
{
    "image_dim_ordering": "tf",
    "epsilon": 1e-07,
    "floatx": "float32",
    "backend": "tensorflow"
}
"""


def only(*names: str):
    """`installed`, where these engines (and always NumPy) are."""
    return lambda name: name in {*names, "numpy"}


def python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return waiting.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
    )


# Import --------------------------------------------------------------------------------------


def test_import_of_the_package_alone_writes_nothing_and_is_silent(file):
    done = python(
        "import sys, backplane; backplane.__version__; import backplane.config\n"
        "libraries = {'tensorflow', 'jax', 'torch', 'pytensor', 'onnx', 'onnxruntime', 'keras'}\n"
        "print(sorted(libraries & set(sys.modules)), backplane.config.floatx())"
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "[] float32\n", "")
    assert not file.parent.exists()


def test_import_of_the_package_does_not_import_numpy():
    done = python("import sys, backplane; print('numpy' in sys.modules)")
    assert done.stdout == "False\n", done.stderr


def test_import_of_the_backend_brings_only_what_it_needs():
    """What NumPy does not bring itself costs every start; the list is short on purpose."""
    done = python(
        "import sys, numpy; before = set(sys.modules); import backplane.backend\n"
        "print(*sorted({m.split('.')[0] for m in set(sys.modules) - before} - {'backplane'}))"
    )
    assert done.returncode == 0, done.stderr
    allowed = {
        "__future__", "gc", "importlib",
    }  # fmt: skip
    assert set(done.stdout.split()) <= allowed


def test_the_package_gives_its_parts_when_asked_and_nothing_else():
    import backplane

    assert backplane.config is config
    assert {"backend", "config", "__version__"} <= set(dir(backplane))
    with pytest.raises(AttributeError, match=r"'backplane' has no attribute 'frontend'"):
        backplane.frontend  # noqa: B018


def test_what_a_setter_set_survives_load(put):
    put({"floatx": "float16", "epsilon": 1e-3})
    config.set_floatx("float64")
    config.load()
    assert config.floatx() == "float64"
    assert config.epsilon() == 1e-3


# The engine -----------------------------------------------------------------------------------


def test_environment_over_file(file, put, monkeypatch):
    put({"backend": "torch"})
    config.load()
    assert config.choose_engine(only("torch", "jax")) == config.Choice("torch", str(file))
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    assert config.choose_engine(only("torch", "jax")) == config.Choice("jax", "KERAS_BACKEND")
    assert config.backend() == "jax"


def test_an_empty_environment_variable_says_nothing(put, monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "")
    put({"backend": "torch"})
    config.load()
    assert config.choose_engine(only("torch", "tensorflow")).name == "torch"


def test_nothing_configured_and_tensorflow_installed():
    config.load()
    choice = config.choose_engine(lambda name: True)
    assert choice.name == "tensorflow"
    assert choice.announcement == "Using TensorFlow backend."


@pytest.mark.parametrize("text", [None, DEFAULT_TEXT, KERAS_1_TEXT, '{"floatx": "float64"}'])
@pytest.mark.parametrize(
    ("there", "served"),
    [
        (("numpy", "cntk", "theano", "torch", "jax"), "jax"),
        (("numpy", "cntk", "theano", "torch"), "torch"),
        (("numpy", "cntk", "theano"), "theano"),
        (("numpy", "cntk"), "cntk"),
        ((), "numpy"),
    ],
)
def test_the_first_installed_serves_and_says_so(file, put, text, there, served):
    """Also when a file holds no more than the defaults, which nobody chose."""
    if text is not None:
        put(text)
    config.load()
    # Every later start finds the file that the first one wrote.
    config.load()
    choice = config.choose_engine(only(*there))
    assert choice.name == served
    assert choice.announcement.startswith(f"Using {ENGINES[served].title} backend")
    assert "TensorFlow is not installed" in choice.announcement
    assert config.backend() == served


@pytest.mark.parametrize(
    "text",
    [
        '{"backend": "tensorflow"}',
        DEFAULT_TEXT.replace("float32", "float64"),
        DEFAULT_TEXT.replace("channels_last", "channels_first"),
    ],
)
def test_tensorflow_in_a_file_that_someone_wrote_is_a_choice(file, put, text):
    put(text)
    config.load()
    with pytest.raises(ImportError) as caught:
        config.choose_engine(only("jax"))
    assert install_command("tensorflow") in str(caught.value)
    assert str(file) in str(caught.value)
    assert "jax, numpy" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "extra"), [("jax", "jax"), ("pytensor", "theano"), ("onnxruntime", "cntk")]
)
def test_a_missing_library_names_the_install_command(monkeypatch, name, extra):
    monkeypatch.setenv("KERAS_BACKEND", name)
    with pytest.raises(ImportError) as caught:
        config.choose_engine(only("tensorflow"))
    assert install_command(extra) in str(caught.value)
    assert "KERAS_BACKEND" in str(caught.value)
    assert repr(name) in str(caught.value)


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        (None, 'pip install "keras-backplane[jax]"'),
        ({"url": "{url}", "dir_info": {}}, 'pip install "{path}[jax]"'),
        ({"url": "{url}", "dir_info": {"editable": True}}, 'pip install -e "{path}[jax]"'),
        ({"url": "{url}/gone", "dir_info": {}}, 'pip install "keras-backplane[jax]"'),
        ({"url": "https://example.org/a.whl"}, 'pip install "keras-backplane[jax]"'),
    ],
)
def test_the_install_command_names_where_backplane_came_from(
    monkeypatch, tmp_path, origin, command
):
    text = None if origin is None else json.dumps(origin).replace("{url}", tmp_path.as_uri())
    monkeypatch.setattr(metadata.PathDistribution, "read_text", lambda self, name: text)
    assert install_command("jax") == command.replace("{path}", str(tmp_path))


@pytest.mark.parametrize("name", sorted(ENGINES))
def test_a_folder_with_the_name_of_a_library_is_none(monkeypatch, tmp_path, name):
    for library in ENGINES[name].libraries:
        (tmp_path / library).mkdir()
        (tmp_path / library / "notes.txt").touch()
        monkeypatch.delitem(sys.modules, library, raising=False)
    before = engines.installed(name)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    assert engines.installed(name) == before
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert not engines.installed(name)


def test_aliases_keep_their_name_and_find_their_engine(monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "pytensor")
    choice = config.choose_engine(only("theano"))
    assert (choice.name, choice.engine, config.backend()) == ("pytensor", "theano", "pytensor")
    assert choice.announcement == "Using Theano backend (PyTensor)."


@pytest.mark.parametrize("name", ["my_package.my_module", "my_module", "backplane.mine"])
def test_other_names_are_modules_of_someone_else(put, name):
    put({"backend": name})
    config.load()
    choice = config.choose_engine(only())
    assert (choice.name, choice.engine) == (name, None)
    assert choice.announcement == f"Using {name} backend."


def test_the_name_by_which_classic_keras_loads_us_means_the_engine(monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "backplane.jax")
    assert config.choose_engine(only("jax")).engine == "jax"
    with pytest.raises(ImportError, match=re.escape(install_command("jax"))):
        config.choose_engine(only())


def test_backend_before_the_choice_is_what_is_configured(put, monkeypatch):
    assert config.backend() == "tensorflow"
    put({"backend": "jax"})
    config.load()
    assert config.backend() == "jax"
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    assert config.backend() == "torch"


# Getters and setters --------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["float16", "float32", "float64"])
def test_floatx(name):
    config.set_floatx(name)
    assert config.floatx() == name
    cast = config.cast_to_floatx([1, 2])
    assert isinstance(cast, np.ndarray)
    assert cast.dtype == name


def test_cast_to_floatx_does_not_copy_without_need():
    x = np.ones(3, "float32")
    assert config.cast_to_floatx(x) is x


@pytest.mark.parametrize(
    ("setter", "bad", "named"),
    [
        (config.set_floatx, "float8", "float16"),
        (config.set_floatx, None, "float16"),
        (config.set_floatx, ["float32"], "float16"),
        (config.set_epsilon, "x", "finite"),
        (config.set_epsilon, float("nan"), "finite"),
        (config.set_epsilon, -1e-7, "finite"),
        (config.set_image_data_format, "foo", "channels_last"),
        (config.set_image_dim_ordering, "channels_last", "'th'"),
        (config.normalize_data_format, "foo", "channels_last"),
        (config.normalize_data_format, 1, "channels_last"),
    ],
)
def test_an_unfit_value_is_refused_and_changes_nothing(setter, bad, named):
    before = config._state.settings
    with pytest.raises(ValueError, match=named) as caught:
        setter(bad)
    assert repr(bad) in str(caught.value)
    assert config._state.settings == before


@pytest.mark.parametrize("value", [1e-5, 0, np.float32(0.5), np.int64(1)])
def test_epsilon_is_a_plain_float(value):
    config.set_epsilon(value)
    assert config.epsilon() == value
    assert type(config.epsilon()) is float


def test_data_format():
    config.set_image_data_format("channels_first")
    assert config.normalize_data_format(None) == "channels_first"
    assert config.normalize_data_format("Channels_Last") == "channels_last"
    assert config.image_dim_ordering() == "th"
    config.set_image_dim_ordering("tf")
    assert config.image_data_format() == "channels_last"


# Documentation --------------------------------------------------------------------------------


def public_functions():
    return {
        name: function
        for module in (config, keras_json)
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if function.__module__ == module.__name__ and not name.startswith(("_", "check_"))
    }


@pytest.mark.parametrize("name", sorted(public_functions()))
def test_the_examples_in_the_docstrings_run(name):
    function = public_functions()[name]
    [test] = doctest.DocTestFinder(recurse=False).find(function, name)
    assert test.examples, f"{name} has no example"
    assert doctest.DocTestRunner().run(test).failed == 0


def test_no_engine_library_is_named_in_an_import():
    """`installed` is the caller's, so that nothing here can import an engine."""
    for module in (config, keras_json):
        for node in ast.walk(ast.parse(inspect.getsource(module))):
            if isinstance(node, ast.Import):
                assert {alias.name for alias in node.names} <= {
                    "json", "math", "os", "re", "stat", "sys", "tempfile", "numpy", "numpy.typing",
                }  # fmt: skip


def test_every_engine_has_an_extra_that_installs_its_library():
    project = tomllib.loads(
        (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    )
    extras = project["project"]["optional-dependencies"]
    [everything] = extras["all"]
    unfollowed = project["tool"]["mypy"]["overrides"][0]["module"]
    for name, known in ENGINES.items():
        if name != "numpy":
            assert any(item.startswith(known.folder) for item in extras[name])
            assert name in re.split(r"[\[\],]", everything)
            assert {f"{library}.*" for library in known.libraries} <= set(unfollowed)
