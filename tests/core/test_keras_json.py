"""The file keras.json: where it is, how it is written, and what a bad one says."""

from __future__ import annotations

import builtins
import json
import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from backplane import _keras_json as keras_json
from backplane import config

pytestmark = pytest.mark.usefixtures("file")

DEFAULT_TEXT = """\
{
    "image_data_format": "channels_last",
    "epsilon": 1e-07,
    "floatx": "float32",
    "backend": "tensorflow"
}
"""


# The file -------------------------------------------------------------------------------------


def test_load_writes_the_documented_defaults_when_there_is_no_file(file):
    config.load()
    assert file.read_text() == DEFAULT_TEXT
    assert [path.name for path in file.parent.iterdir()] == ["keras.json"]


def test_load_reads_the_file_and_leaves_it_alone(file, put):
    put(
        {
            "image_data_format": "channels_first",
            "epsilon": 1e-5,
            "floatx": "float64",
            "backend": "torch",
            "some_key_of_keras_3": [1],
        }
    )
    before = file.read_bytes(), file.stat().st_mtime_ns
    config.load()
    assert config.image_data_format() == "channels_first"
    assert config.epsilon() == 1e-5
    assert config.floatx() == "float64"
    assert config.backend() == "torch"
    assert (file.read_bytes(), file.stat().st_mtime_ns) == before


def test_absent_keys_have_the_defaults(put):
    put('{"floatx": "float16"}')
    config.load()
    assert (config.floatx(), config.epsilon()) == ("float16", 1e-7)
    assert (config.image_data_format(), config.backend()) == ("channels_last", "tensorflow")


def test_a_byte_order_mark_is_no_error(file, put):
    put("")
    file.write_bytes(b"\xef\xbb\xbf" + b'{"floatx": "float64"}')
    config.load()
    assert config.floatx() == "float64"


def test_the_file_that_is_written_is_read_as_any_other(file):
    assert json.loads(keras_json.DEFAULT_TEXT) == config.Settings()._asdict()
    config.load()
    as_written = keras_json.read(str(file))
    file.write_text(file.read_text() + "\n")  # Now it is parsed.
    assert keras_json.read(str(file)) == as_written == (config.Settings(), False)


@pytest.mark.parametrize(("old", "new"), [("th", "channels_first"), ("tf", "channels_last")])
def test_keras_1_key(put, old, new):
    put({"image_dim_ordering": old})
    config.load()
    assert config.image_data_format() == new
    assert config.image_dim_ordering() == old


@pytest.mark.parametrize("old_first", [True, False])
def test_the_newer_key_wins_over_keras_1s(put, old_first):
    items = [("image_dim_ordering", "tf"), ("image_data_format", "channels_first")]
    put(dict(items if old_first else items[::-1]))
    config.load()
    assert config.image_data_format() == "channels_first"


def test_keras_home_may_begin_with_a_tilde(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    monkeypatch.setenv("KERAS_HOME", os.path.join("~", "settings"))
    assert keras_json.path() == str(tmp_path / "settings" / "keras.json")


@pytest.mark.parametrize("keras_home", [None, ""])
def test_the_usual_place_is_the_home_folder(tmp_path, monkeypatch, keras_home):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    if keras_home is None:
        monkeypatch.delenv("KERAS_HOME")
    else:
        monkeypatch.setenv("KERAS_HOME", keras_home)
    assert keras_json.path() == str(tmp_path / ".keras" / "keras.json")


@pytest.fixture
def read_only_home(file, tmp_path, monkeypatch):
    """A home folder that cannot be written, and no KERAS_HOME."""
    home = tmp_path / "somebody"
    home.mkdir()
    monkeypatch.delenv("KERAS_HOME")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("USERPROFILE", str(home))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    # Not by permissions: root, as whom containers run tests, may write anywhere.
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: access(path, mode) and Path(path) != home)
    return home


def test_a_temporary_folder_serves_where_home_is_read_only(read_only_home, tmp_path):
    config.load()
    file = Path(keras_json.path())
    assert file.is_relative_to(tmp_path / "tmp")
    assert file.read_text() == DEFAULT_TEXT
    assert not list(read_only_home.iterdir())


def test_a_file_in_a_read_only_home_is_read(read_only_home):
    (read_only_home / ".keras").mkdir()
    (read_only_home / ".keras" / "keras.json").write_text('{"floatx": "float64"}')
    config.load()
    assert config.floatx() == "float64"


# Writing it -----------------------------------------------------------------------------------


@pytest.mark.parametrize("failing", ["makedirs", "open"])
def test_without_a_file_when_it_cannot_be_written(file, monkeypatch, failing):
    def refuse(*_args, **_kwargs):
        raise PermissionError(13, "no")

    if failing == "open":
        opened = open
        monkeypatch.setattr(
            builtins,
            "open",
            lambda path, mode="r", **k: (refuse if "x" in mode else opened)(path, mode, **k),
        )
    else:
        monkeypatch.setattr(os, failing, refuse)
    config.load()
    assert config.floatx() == "float32"
    assert not file.exists()
    assert not file.parent.exists() or not list(file.parent.iterdir()), "a half file was left"


def test_a_link_to_nowhere_is_not_replaced(file, tmp_path):
    file.parent.mkdir()
    file.symlink_to(tmp_path / "not-mounted" / "keras.json")
    config.load()
    assert file.is_symlink()


def test_many_processes_starting_at_once_never_see_half_a_file(tmp_path):
    """Each waits for the start signal, then loads in many fresh folders, in the same order.

    A writer that opens the file and fills it in two steps fails this: others read it empty.
    """
    folders = [tmp_path / f"home{i}" for i in range(200)]
    start = tmp_path / "start"
    code = (
        "import os, sys, time, pathlib\n"
        "from backplane import config\n"
        "print('ready', flush=True)\n"
        f"while not os.path.exists({str(start)!r}): pass\n"
        f"for i in range({len(folders)}):\n"
        f"    os.environ['KERAS_HOME'] = os.path.join({str(tmp_path)!r}, f'home{{i}}')\n"
        "    config.load()\n"
        "    config.load()\n"
        "    assert config._state.chosen_in is None\n"
    )
    running = [
        subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]
    for process in running:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    start.touch()
    errors = [process.communicate(timeout=300)[1] for process in running]
    assert errors == [""] * len(running)
    for folder in folders:
        assert [path.name for path in folder.iterdir()] == ["keras.json"]
        assert (folder / "keras.json").read_text() == DEFAULT_TEXT


def test_no_reader_sees_the_file_before_it_is_whole(file, monkeypatch):
    """The same without luck: at the moment before the last step, the file is not there."""
    link, seen = os.link, []

    def spy(source, target):
        seen.append((Path(source).read_text(), Path(target).exists()))
        assert Path(source).parent == Path(target).parent, "links stay on one disk"
        link(source, target)

    monkeypatch.setattr(os, "link", spy)
    config.load()
    assert seen == [(DEFAULT_TEXT, False)]


def test_a_file_that_somebody_makes_meanwhile_is_theirs(file, monkeypatch):
    link = os.link

    def late(source, target):
        Path(target).write_text('{"floatx": "float64"}')
        link(source, target)

    monkeypatch.setattr(os, "link", late)
    config.load()
    assert file.read_text() == '{"floatx": "float64"}'
    assert [path.name for path in file.parent.iterdir()] == ["keras.json"]


def test_a_disk_without_links(file, monkeypatch):
    def refuse(*_args):
        raise PermissionError(1, "no links here")

    monkeypatch.setattr(os, "link", refuse)
    config.load()
    assert file.read_text() == DEFAULT_TEXT
    assert [path.name for path in file.parent.iterdir()] == ["keras.json"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="FIFOs")
def test_a_fifo_does_not_hang_the_import(file):
    file.parent.mkdir()
    os.mkfifo(file)
    with pytest.raises(OSError, match=r"it is a FIFO.*keras\.json"):
        config.load()


@pytest.mark.skipif(os.name == "nt", reason="Windows has no permission bits")
def test_the_file_has_the_usual_permissions(file):
    mask = os.umask(0o022)
    try:
        config.load()
    finally:
        os.umask(mask)
    assert stat.S_IMODE(file.stat().st_mode) == 0o644


# A bad file -----------------------------------------------------------------------------------

BAD = [
    ("", ["line 1", "not JSON"]),
    ('{\n    "epsilon": 1e-07,\n    "floatx": "float32\n}', ["line 3", "'floatx'", "not JSON"]),
    ('{\n    "floatx": "float32"\n    "backend": "jax"\n}', ["line 3", "'floatx'", "not JSON"]),
    ('["floatx"]', ["line 1", "object"]),
    ('{\n  "floatx": "float8"\n}', ["line 2", "'floatx'", "'float8'", "'float16'"]),
    ('{"floatx": 32}', ["line 1", "'floatx'", "32"]),
    ('{\n\n  "epsilon": "x"\n}', ["line 3", "'epsilon'", "'x'"]),
    ('{"epsilon": true}', ["'epsilon'", "True"]),
    ('{"epsilon": NaN}', ["'epsilon'", "nan"]),
    ('{"epsilon": -1}', ["'epsilon'", "-1"]),
    ('{"epsilon": 1' + "0" * 400 + "}", ["'epsilon'"]),
    ('{"epsilon": 1' + "0" * 5000 + "}", ["keras.json"]),
    ("[" * 200_000, ["keras.json"]),
    ('{"image_data_format": "foo"}', ["'image_data_format'", "'foo'", "'channels_last'"]),
    ('{"image_dim_ordering": "foo"}', ["'image_dim_ordering'", "'foo'", "'th'"]),
    ('{"image_data_format": ["channels_last"]}', ["'image_data_format'"]),
    ('{\n"backend": 3}', ["line 2", "'backend'", "3"]),
    ('{"backend": ""}', ["'backend'"]),
    (b'{\n"backend": "\xff"}', ["line 2", "UTF-8"]),
    # Given twice: the last one counts, so its line is named.
    ('{"floatx": "float32",\n"floatx": "no"}', ["line 2", "'floatx'", "'no'"]),
]


@pytest.mark.parametrize(("content", "named"), BAD, ids=range(len(BAD)))
def test_a_bad_file_is_named_with_line_and_key_and_stays(file, put, content, named):
    content = content.encode() if isinstance(content, str) else content
    put("")
    file.write_bytes(content)
    with pytest.raises(ValueError, match=r"keras\.json") as caught:
        config.load()
    assert str(file) in str(caught.value)
    for word in named:
        assert word in str(caught.value)
    assert file.read_bytes() == content
    assert config.floatx() == "float32"


def test_a_folder_in_its_place_is_an_os_error(file):
    file.mkdir(parents=True)
    with pytest.raises(IsADirectoryError, match="cannot be read") as caught:
        config.load()
    assert str(file) in str(caught.value)


def test_a_file_that_may_not_be_read_is_a_permission_error(file, put, monkeypatch):
    put(DEFAULT_TEXT)

    def refuse(*_args):
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(builtins, "open", refuse)
        with pytest.raises(PermissionError, match=r"cannot be read .*keras\.json"):
            config.load()
    assert file.read_text() == DEFAULT_TEXT
