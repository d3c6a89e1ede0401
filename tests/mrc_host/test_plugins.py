"""Plugins: what a file may register, and how an invalid one is refused."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from mrc_host import plugins
from mrc_host.transport.congestion import LinkParameters

HEAD = """from mrc_host.plugins import congestion_control, path_selection, workload
from mrc_host.transport.congestion import CongestionControl
from mrc_host.transport.path_selection import PathSelection
"""


def write(folder: Path, body: str, name: str = "mine.py") -> Path:
    file = folder / name
    file.write_text(HEAD + body)
    return file


def test_a_file_registers_under_its_names(tmp_path: Path) -> None:
    body = """
@congestion_control("mine_cc", rc=False)
class Mine(CongestionControl):
    def __init__(self, link):
        super().__init__(2 * link.mtu)

@path_selection("mine_paths")
class Paths(PathSelection):
    pass

@workload("mine_work")
def work():
    return []
"""
    file = write(tmp_path, body)
    assert plugins.load(file) == str(file.resolve())
    algorithm = plugins.CONGESTION_CONTROLS["mine_cc"]
    assert (algorithm.mrc, algorithm.rc, algorithm.shared) == (True, False, False)
    assert plugins.make_path_selection("mine_paths").choose(0, [1, 2]) == -1
    assert plugins.WORKLOADS["mine_work"]() == []


def test_a_file_is_loaded_once_and_reloaded_after_changes(tmp_path: Path) -> None:
    body = (
        "import os\nos.environ['RUNS'] = os.environ.get('RUNS', '') + {!r}\n@workload('w')\ndef w():\n    return []\n"
    )
    os.environ.pop("RUNS", None)
    file = write(tmp_path, body.format("a"))
    plugins.load(file)
    plugins.load(file)
    file.write_text(HEAD + body.format("b"))
    plugins.load(file)
    assert os.environ.pop("RUNS") == "ab"


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("x = 1", "registers nothing: use congestion_control"),
        ("x = (", "mine.py, line 4 cannot be loaded: SyntaxError"),
        ("import os\n\nos.nothing()", "mine.py, line 6, cannot be loaded: AttributeError"),
        ("import nothing_at_all", "line 4, cannot be loaded: ModuleNotFoundError: No module named 'nothing_at_all'"),
        (
            "@congestion_control('x')\nclass X:\n    pass",
            "The congestion control 'x' is no subclass of mrc_host.transport.congestion.CongestionControl.",
        ),
        (
            "@path_selection('x')\ndef f():\n    pass",
            "The path selection 'x' is no subclass of mrc_host.transport.path_selection.PathSelection.",
        ),
        (
            "@congestion_control('nscc')\nclass X(CongestionControl):\n    pass",
            "There is a built-in congestion control 'nscc': choose another name.",
        ),
        ("@workload('')\ndef f():\n    pass", "A workload needs a name."),
        (
            "@congestion_control('x')\nclass X(CongestionControl):\n    def on_ack(self, acked):\n        pass",
            "has on_ack, but it cannot be called as on_ack(acked, received, rtt, marked, now).",
        ),
        (
            "@congestion_control('x')\nclass X(CongestionControl):\n    def on_ack(self, a, b, c, d, e):\n        pass",
            "cannot be called as on_ack(acked, received, rtt, marked, now, penalty, restore).",
        ),
        (
            "@path_selection('x')\nclass X(PathSelection):\n    def choose(self, plane):\n        return 0",
            "The path selection 'x' has choose, but it cannot be called as choose(plane, paths).",
        ),
    ],
)
def test_invalid_plugins_are_refused(tmp_path: Path, body: str, error: str) -> None:
    with pytest.raises(plugins.PluginError) as raised:
        plugins.load(write(tmp_path, body))
    assert error in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("init", "error"),
    [
        ("pass", "The congestion control 'x' has no window: __init__ calls super().__init__(window), in bytes."),
        ("link.nothing()", "mine.py, line 7, cannot be made: AttributeError: 'LinkParameters' object has no"),
        ("super().__init__(8.5 * link.mtu)", "'x'"),  # compiled, it is refused at once; plain, it is no window
        ("super().__init__('x')", "'x'"),
    ],
)
def test_a_congestion_control_that_cannot_be_made_is_named_with_its_line(tmp_path: Path, init: str, error: str) -> None:
    body = f"@congestion_control('x')\nclass X(CongestionControl):\n    def __init__(self, link):\n        {init}"
    plugins.load(write(tmp_path, body))
    with pytest.raises(plugins.PluginError) as raised:
        plugins.CONGESTION_CONTROLS["x"].make(LinkParameters())
    assert error in str(raised.value)


def test_a_path_selection_that_cannot_be_made_is_named_with_its_line(tmp_path: Path) -> None:
    body = "@path_selection('x')\nclass X(PathSelection):\n    def __init__(self):\n        1 / 0"
    plugins.load(write(tmp_path, body))
    with pytest.raises(plugins.PluginError, match=r"'x' of the plugin .*mine.py, line 7, cannot be made: ZeroDiv"):
        plugins.make_path_selection("x")


def test_two_files_cannot_register_one_name(tmp_path: Path) -> None:
    body = "@workload('same')\ndef f():\n    return []\n"
    plugins.load(write(tmp_path, body, "one.py"))
    with pytest.raises(
        plugins.PluginError, match=r"There is a workload 'same' already, from .*one\.py: choose another"
    ):
        plugins.load(write(tmp_path, body, "two.py"))


def test_missing_plugins_are_reported() -> None:
    with pytest.raises(plugins.PluginError, match=r"The plugin /none\.py cannot be read: No such file or directory\."):
        plugins.load("/none.py")
    with pytest.raises(plugins.PluginError, match="No plugin nobody is installed"):
        plugins.load("nobody")


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone is careful")
def test_root_refuses_world_writable_files(tmp_path: Path) -> None:
    file = write(tmp_path, "@workload('w')\ndef w():\n    return []\n")
    file.chmod(0o666)
    with pytest.raises(plugins.PluginError, match="is writable for everybody, so root does not run it: chmod o-w"):
        plugins.load(file)


def test_calls_are_checked_against_those_of_the_base_classes() -> None:
    for base, calls in plugins._CALLS.items():
        own = {name: method for name, method in vars(base).items() if inspect.isfunction(method) and name[0] != "_"}
        assert list(calls) == list(own)
        for name, method in own.items():
            _, *parameters = inspect.signature(method).parameters
            assert parameters == ", ".join(filter(None, calls[name])).split(", ")


@pytest.mark.root
@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda file: os.chown(file, 12345, 0), "belongs to user 12345, so root does not run it: chown root"),
        (lambda file: os.chown(file.parent, 12345, 0), "a folder of the plugin .* belongs to user 12345"),
        (lambda file: file.parent.chmod(0o777), "a folder of the plugin .* is writable for everybody"),
        (lambda file: (os.chown(file, 0, 12345), file.chmod(0o664)), "is writable for group 12345"),
    ],
)
def test_root_runs_no_plugin_that_others_may_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], object], problem: str
) -> None:
    folder = tmp_path / "plugins"
    folder.mkdir(mode=0o755)
    file = write(folder, "@workload('w')\ndef w():\n    return []\n")
    change(file)
    with pytest.raises(plugins.PluginError, match=problem):
        plugins.load(file)
    monkeypatch.setenv("SUDO_UID", "12345")
    if "belongs" in problem:
        plugins.load(file)


@pytest.mark.parametrize("name", ["pipe.py", "zero.py"])
def test_what_is_no_file_is_no_plugin(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "zero.py").symlink_to("/dev/zero")
    with pytest.raises(plugins.PluginError, match=r"cannot be read: It is a (pipe|device), not a regular file"):
        plugins.load(tmp_path / name)
