"""The commands of `backplane` beside `run`: what they print, their JSON and their exit codes."""

import importlib.util
import inspect
import json
import os
import subprocess
import sys

import pytest
from click.testing import CliRunner, Result

import waiting
from backplane import _keras_json as keras_json
from backplane import backend, config, engines
from backplane.cli import main
from backplane.cli.check import _page, _results
from backplane.cli.explain import fitted
from backplane.project import install_command


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    monkeypatch.delenv("KERAS_BACKEND")
    monkeypatch.setattr(config, "_state", config._State())
    return tmp_path


def call(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


def as_json(*arguments: str) -> object:
    result = call(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def separate(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own; a PYTHONPATH comes before the one that is set."""
    paths = (environment.get("PYTHONPATH"), os.environ.get("PYTHONPATH"))
    environment["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    return waiting.run(
        [sys.executable, "-m", "backplane", *arguments],
        env={**os.environ, **environment},
    )


# engines, show-versions -----------------------------------------------------------------------


def test_engines_says_which_one_is_used_and_why(home):
    (home / "keras.json").write_text('{"backend": "numpy"}')
    found = as_json("engines", "--quick")
    assert [row["engine"] for row in found["engines"]] == engines.names()
    assert [row["engine"] for row in found["engines"] if row["chosen"]] == ["numpy"]
    assert found["because"] == str(home / "keras.json")
    text = call("engines", "--quick").stdout
    assert "numpy *" in text
    assert "onnxruntime" in text


def test_engines_tells_the_command_that_installs(home, monkeypatch):
    monkeypatch.setattr(engines, "installed", lambda name: name == "numpy")
    text = call("engines", "--quick").stdout
    assert install_command("jax") in text
    assert "nothing is configured and TensorFlow is not installed" in text


def test_engines_loads_each_for_its_devices(home, monkeypatch):
    monkeypatch.setattr(engines, "names", lambda: ["numpy"])
    (row,) = as_json("engines")["engines"]
    assert row["devices"] == ["cpu:0"]
    assert "float64" in row["dtypes"]


def test_devices(engine):
    found = engine.devices()
    assert "cpu:0" in found
    assert all(name.partition(":")[2].isdigit() for name in found)


def test_versions(home):
    found = as_json("show-versions")
    assert {"keras-backplane", "python", "numpy"} <= found.keys()
    assert found["python"] in call("show-versions").stdout


# config, use ----------------------------------------------------------------------------------


def test_config_says_where_each_setting_comes_from(home, monkeypatch):
    (home / "keras.json").write_text('{"floatx": "float64", "image_dim_ordering": "th"}')
    monkeypatch.setenv("KERAS_BACKEND", "numpy")
    found = {row["setting"]: (row["value"], row["from"]) for row in as_json("config")["settings"]}
    file = str(home / "keras.json")
    assert found["floatx"] == ("float64", f"{file}, key 'floatx'")
    assert found["image_data_format"] == ("channels_first", f"{file}, key 'image_dim_ordering'")
    assert found["epsilon"] == (1e-7, "the default")
    assert found["backend"] == ("numpy", "KERAS_BACKEND, which comes before the file")


def test_a_file_of_defaults_chooses_no_engine(home):
    keras_json.write(str(home / "keras.json"))
    found = as_json("config")
    assert found["settings"][-1] == {
        "setting": "backend", "value": "tensorflow", "from": "the default"
    }  # fmt: skip


def test_config_points_at_keys_that_nobody_reads(home):
    (home / "keras.json").write_text('{"backend": "numpy", "flotx": "", "nnx_enabled": true}')
    assert as_json("config")["unknown"] == {"flotx": "floatx"}
    assert "did you mean 'floatx'?" in call("config").stdout


def test_config_does_not_write_a_file(home):
    assert call("config").exit_code == 0
    assert not list(home.iterdir())


@pytest.mark.parametrize("text", ["{", '{"epsilon": "small"}'])
def test_config_of_an_unfit_file(home, text):
    (home / "keras.json").write_text(text)
    result = call("config")
    assert result.exit_code == 1
    assert "keras.json, line 1" in result.output


def test_use_leaves_an_unfit_file_alone(home):
    (home / "keras.json").write_text("{")
    result = call("use", "numpy")
    assert result.exit_code == 1
    assert "keras.json, line 1" in result.output
    assert (home / "keras.json").read_text() == "{"


def test_use_keeps_everything_else(home):
    (home / "keras.json").write_text('{"floatx": "float64", "theirs": [1]}')
    assert as_json("use", "numpy")["backend"] == "numpy"
    assert json.loads((home / "keras.json").read_text()) == {
        "floatx": "float64",
        "theirs": [1],
        "backend": "numpy",
    }
    assert [path.name for path in home.iterdir()] == ["keras.json"]


def test_use_begins_a_file(home):
    assert call("use", "numpy").exit_code == 0
    assert json.loads((home / "keras.json").read_text())["floatx"] == "float32"


@pytest.mark.parametrize("before", [None, "jax", "cntk", "theano", "their.module"])
@pytest.mark.parametrize("name", ["cntk", "theano", "mlx"])
def test_keras_3_still_finds_a_backend_of_its_own(home, monkeypatch, before, name):
    if before is not None:
        (home / "keras.json").write_text(json.dumps({"backend": before, "theirs": [1]}))
    monkeypatch.delenv("KERAS_BACKEND", raising=False)
    assert call("use", name).exit_code == 0
    found = json.loads((home / "keras.json").read_text())
    assert found["backplane_backend"] == name
    own = before if before in ("jax", "their.module") else "tensorflow"
    assert found["backend"] == own
    rows = as_json("config")["settings"]
    assert (rows[-1]["value"], rows[-1]["from"].rpartition("key ")[2]) == (
        name,
        "'backplane_backend'",
    )
    assert keras_json.read(str(home / "keras.json"))[1]
    assert call("use", "numpy").exit_code == 0
    found = json.loads((home / "keras.json").read_text())
    assert (found["backend"], "backplane_backend" in found) == ("numpy", False)


def test_use_says_when_the_environment_comes_first(home, monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    result = call("use", "numpy")
    assert result.exit_code == 0
    assert "KERAS_BACKEND=jax comes before the file" in result.output


def test_use_of_what_is_not_there(home, monkeypatch):
    assert "did you mean 'numpy'?" in call("use", "nunpy").output
    monkeypatch.setattr(engines, "installed", lambda name: False)
    result = call("use", "jax")
    assert result.exit_code == 1
    assert install_command("jax") in result.output
    assert not list(home.iterdir())


@pytest.mark.parametrize("command", ["config", "engines --quick"])
def test_a_backend_that_is_nowhere(home, monkeypatch, command):
    monkeypatch.setenv("KERAS_BACKEND", "nunpy")
    result = call(*command.split())
    assert "neither an engine nor a module that can be found" in result.output
    assert "did you mean 'numpy'?" in result.output
    assert " is used here" not in result.output


# explain, completion --------------------------------------------------------------------------


def test_explain_fits_a_terminal_and_loses_no_word():
    for name in ("conv2d", "function", "rnn", "ctc_decode", "relu"):
        text = inspect.getdoc(getattr(backend, name))
        made = fitted(text, 60)
        assert made.split() == text.split()
        prose, _, example = made.partition("\nExample:\n")
        assert all(len(line) <= 60 for line in prose.splitlines())
        assert example == text.partition("\nExample:\n")[2]
    assert "\nArgs:\n    x: Float tensor" in fitted(inspect.getdoc(backend.conv2d), 60)


def test_explain():
    found = as_json("explain", "K.conv2d")
    assert found["signature"].startswith("(x, kernel, strides=(1, 1)")
    assert "Keras 2.3 reference" in found["documents"]
    assert found["engines"]["numpy"] == "value, spec, gradient"
    text = call("explain", "conv2d").stdout
    assert "Example:" in text
    assert "Keras 1 reference" in text


def test_explain_an_unknown_function():
    result = call("explain", "conv2")
    assert result.exit_code == 2
    assert "did you mean conv2d" in result.output


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("reduce_mean", "write K.mean(x, axis)"),
        ("tf.reduce_mean", "write K.mean(x, axis)"),
        ("np.exp", "write K.exp(x)"),
        ("w.assign", "write K.update(w, value)"),
        ("T.nnet.relu", "write K.relu(x)"),
    ],
)
def test_explain_a_name_of_another_library(name, said):
    result = call("explain", name)
    assert result.exit_code == 2
    assert said in result.output


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("use nu", "numpy"),
        ("explain sepa", ",separable_conv2d"),
        ("explain K.sepa", ",K.separable_conv2d"),
    ],
)
def test_completion(words, completed):
    assert "_BACKPLANE_COMPLETE" in call("completion", "bash").stdout
    environment = {"COMP_WORDS": f"backplane {words}", "COMP_CWORD": "2"}
    environment["_BACKPLANE_COMPLETE"] = "bash_complete"
    done = CliRunner().invoke(main, [], prog_name="backplane", env=environment)
    assert completed in done.stdout


# bench ----------------------------------------------------------------------------------------


def test_bench_of_a_network(home):
    rows = as_json("bench", "--engine", "numpy", "--workload", "mlp", "--seconds", "0.01")
    (row,) = rows["results"]
    assert row["engine"] == "numpy"
    assert 0 < row["step"] < row["first"]
    assert row["ratio"] == 1


def test_bench_of_a_script_that_fails(home, tmp_path):
    script = tmp_path / "script.py"
    script.write_text("from keras import backend as K\nK.dot(1, 2)\n")
    result = call("bench", str(script), "--engine", "numpy", "--rounds", "2", "--json")
    assert result.exit_code == 1
    (failure,) = json.loads(result.stdout)["failures"]
    assert "ValueError" in failure["error"]
    script.write_text("raise SystemExit(3)\n")
    result = call("bench", str(script), "--engine", "numpy", "--rounds", "1")
    assert "it ended with the exit status 3" in result.output


def test_bench_of_a_script(home, tmp_path):
    script = tmp_path / "script.py"
    script.write_text("from keras import backend as K\nprint(K.eval(K.ones(2)))\n")
    chart = tmp_path / "chart.svg"
    command = ["bench", str(script), "--engine", "numpy", "--rounds", "1", "--plot", str(chart)]
    result = call(*command)
    assert result.exit_code == 0, result.output
    assert "1.00" in result.stdout
    assert "<svg" in chart.read_text()


@pytest.mark.parametrize(
    ("command", "option", "file", "said"),
    [
        ("bench", "--plot", "none/chart.svg", "nothing can be written into the folder"),
        ("bench", "--plot", "chart.drawing", "the name must end in one of"),
        ("check", "--html", "none/page.html", "nothing can be written into the folder"),
    ],
)
def test_an_unfit_file_is_refused_first(monkeypatch, tmp_path, command, option, file, said):
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("something ran"))
    result = call(command, "--engine", "numpy", option, str(tmp_path / file))
    assert result.exit_code == 2
    assert said in result.output


# check ----------------------------------------------------------------------------------------


def test_check_an_unknown_engine():
    result = call("check", "--engine", "none")
    assert result.exit_code == 2
    assert "no engine is called 'none'" in result.output


REPORT = """<testsuites><testsuite>
<testcase classname="c" name="test_value[tanh-numpy]" time="0.5"/>
<testcase classname="c" name="test_value[dot-numpy]" time="0.25"><failure/></testcase>
<testcase classname="c" name="test_value[dot-jax]" time="0.25"><skipped/></testcase>
</testsuite></testsuites>"""


def test_check_names_the_libraries_that_it_needs(monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: found(name) if name == "numpy" else None
    )
    result = call("check", "--engine", "numpy")
    assert result.exit_code == 1
    assert f"needs ml_dtypes, pytest, scipy: {install_command('check')}" in result.output


def test_check_counts_by_engine(tmp_path):
    (tmp_path / "report.xml").write_text(REPORT)
    rows, failures = _results(tmp_path / "report.xml", ["numpy", "jax"])
    counts = {row["engine"]: (row["passed"], row["failed"], row["skipped"]) for row in rows}
    assert counts == {"numpy": (1, 1, 0), "jax": (0, 0, 1)}
    assert failures == ["c.test_value[dot-numpy]"]
    page = _page(rows, failures, {"tanh": {"numpy": ["value"]}})
    assert "1 failed" in page
    assert "<td>tanh</td><td>✓··</td><td>···</td>" in page


@pytest.mark.slow
def test_check_a_third_party_engine(tmp_path):
    """An engine registered by an entry point, checked by the documented command."""
    (tmp_path / "my_engine.py").write_text(
        "from backplane.engines.numpy.engine import NumPyEngine\n"
        "class Mine(NumPyEngine):\n    name = 'mine'\n"
        "    def owns(self, value): return False\n"
        "ENGINE = Mine()\n"
    )
    info = tmp_path / "my_engine-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-engine\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[backplane.engines]\nmine = my_engine:ENGINE\n")
    environment = {"PYTHONPATH": str(tmp_path), "KERAS_HOME": str(tmp_path)}
    page = tmp_path / "check.html"
    command = ["check", "--engine", "mine", "--json", "--html", str(page), "--"]
    done = separate(
        *command, "-q", "-k", "test_value and tanh", "-p", "no:cacheprovider", **environment
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (row,) = json.loads(done.stdout)["engines"]
    assert (row["engine"], row["failed"]) == ("mine", 0)
    assert row["passed"] > 0
    assert "everything passed" in page.read_text(encoding="utf-8")
    assert "mine" in separate("engines", "--quick", **environment).stdout
