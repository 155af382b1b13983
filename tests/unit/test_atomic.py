import errno
import json
import os
import stat
import time
from pathlib import Path

import pytest

from focalibrate import _atomic as atomic
from focalibrate._atomic import (
    atomic_path,
    claim_folder,
    finish_folder,
    json_text,
)


def test_the_file_appears_whole_at_the_end(tmp_path):
    target = tmp_path / "out.json"
    with atomic_path(target) as temporary:
        assert (temporary.parent, temporary.suffix) == (tmp_path, ".json")
        temporary.write_text("new")
        assert not target.exists()
    assert target.read_text() == "new"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("before", [None, "old"])
def test_after_an_exception_all_is_as_it_was(tmp_path, error, before):
    target = tmp_path / "out.json"
    if before:
        target.write_text(before)

    def interrupted():
        with atomic_path(target, force=True) as temporary:
            temporary.write_text("half")
            raise error

    with pytest.raises(error):
        interrupted()
    assert [p.read_text() for p in tmp_path.iterdir()] == ([before] if before else [])


def test_no_overwriting_without_force(tmp_path):
    target = tmp_path / "out.json"
    target.write_text("old")
    with pytest.raises(
        FileExistsError, match=r"out\.json: already exists .*`force=True` \(command"
    ):
        atomic_path(target).__enter__()
    with atomic_path(target, force=True) as temporary:
        temporary.write_text("new")
    assert target.read_text() == "new"


@pytest.mark.parametrize("has_links", [True, False])
def test_a_file_that_appears_meanwhile_is_kept(tmp_path, monkeypatch, has_links):
    target = tmp_path / "out.json"
    if not has_links:
        monkeypatch.setattr(os, "link", no_links)

    def late():
        with atomic_path(target) as temporary:
            temporary.write_text("ours")
            target.write_text("theirs")

    with pytest.raises(FileExistsError, match="already exists"):
        late()
    assert [p.read_text() for p in tmp_path.iterdir()] == ["theirs"]


def no_links(*args):
    raise OSError(errno.EPERM, "Operation not permitted")


def test_a_file_system_without_links(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "link", no_links)
    with atomic_path(tmp_path / "out") as temporary:
        temporary.write_text("new")
    assert [p.read_text() for p in tmp_path.iterdir()] == ["new"]


def test_permissions_are_those_of_umask_or_of_the_file_replaced(tmp_path):
    target = tmp_path / "out"
    before = os.umask(0o027)
    try:
        with atomic_path(target):
            pass
    finally:
        os.umask(before)
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    target.chmod(0o604)
    with atomic_path(target, force=True):
        pass
    assert stat.S_IMODE(target.stat().st_mode) == 0o604


def test_a_link_is_followed(tmp_path):
    (tmp_path / "real").mkdir()
    link = tmp_path / "link.txt"
    link.symlink_to(tmp_path / "real" / "out.txt")
    with atomic_path(link) as temporary:
        temporary.write_text("new")
    assert link.is_symlink()
    assert (tmp_path / "real" / "out.txt").read_text() == "new"


def test_targets_that_are_no_files(tmp_path):
    with pytest.raises(IsADirectoryError, match=r"is a folder\. Give the name of a file"):
        atomic_path(tmp_path).__enter__()
    with pytest.raises(OSError, match=r"/dev/null: is not a regular file"):
        atomic_path("/dev/null", force=True).__enter__()
    with pytest.raises(FileNotFoundError, match=r"the folder .*gone does not exist\. Make it"):
        atomic_path(tmp_path / "gone" / "out").__enter__()


def test_a_directory_that_may_not_be_written(tmp_path, monkeypatch):
    def refuse(*args):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(atomic.os, "open", refuse)
    with pytest.raises(PermissionError, match=r"Permission denied: '.*out'"):
        atomic_path(tmp_path / "out").__enter__()


def test_a_full_disk_names_the_target(tmp_path):
    def full():
        with atomic_path(tmp_path / "out"):
            raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match=r"No space left on device: '.*/out'"):
        full()
    assert not list(tmp_path.iterdir())


def test_what_a_killed_run_left_is_removed(tmp_path):
    old, held = tmp_path / ".out.0123456789ab.csv", tmp_path / ".out.0123456789ac.csv"
    for path in (old, held):
        path.write_text("half")
        os.utime(path, (0, 0))
    young = tmp_path / ".out.0123456789ad.csv"
    young.write_text("being made")
    descriptor = os.open(held, os.O_RDWR)
    assert atomic.try_lock(descriptor)
    with atomic_path(tmp_path / "out.csv") as path:
        path.write_text("whole")
    os.close(descriptor)
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([held.name, young.name, "out.csv"])


@pytest.mark.skipif(atomic.fcntl is None, reason="without locks a file is left for a minute")
def test_what_a_run_killed_a_moment_ago_left_is_removed(tmp_path):
    left = tmp_path / ".out.0123456789ab.csv"
    left.write_text("half")
    os.utime(left, (time.time() - 2,) * 2)
    with atomic_path(tmp_path / "out.csv") as path:
        path.write_text("whole")
    assert [p.name for p in tmp_path.iterdir()] == ["out.csv"]


def test_without_locks_the_file_is_not_held_open(tmp_path, monkeypatch):
    monkeypatch.setattr(atomic, "fcntl", None)
    opened = []
    real = os.open
    monkeypatch.setattr(os, "open", lambda *a, **k: opened.append(real(*a, **k)) or opened[-1])
    with atomic_path(tmp_path / "out.csv") as path:
        path.write_text("whole")
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(opened[0])
    assert (tmp_path / "out.csv").read_text() == "whole"


def _half_written(path):
    path.write_text("half")
    raise KeyboardInterrupt


def test_a_folder_is_filled_whole_or_not_at_all(tmp_path):
    out = tmp_path / "a" / "out"
    claim_folder(out, ["x", "y"], force=False)
    assert not out.parent.exists()
    with pytest.raises(KeyboardInterrupt), finish_folder(out, ["x", "y"], force=False) as folder:
        _half_written(folder / "x")
    assert not out.parent.exists()
    with finish_folder(out, ["x", "y"], force=False) as folder:
        assert folder.parent == out  # on the disk that is mounted there
        (folder / "x").write_text("1")
    assert [p.name for p in out.iterdir()] == ["x"]


def _write(*paths_and_texts):
    for path, text in zip(paths_and_texts[::2], paths_and_texts[1::2], strict=True):
        path.write_text(text)


def test_nothing_is_overwritten_without_force_at_the_moment_of_writing(tmp_path):
    out = tmp_path / "out"
    claim_folder(out, ["x"], force=False)
    with (
        pytest.raises(ValueError, match=r"holds x of an earlier run\. Pass --force"),
        finish_folder(out, ["x"], force=False) as folder,
    ):
        _write(folder / "x", "new", out / "x", "came meanwhile")
    assert (out / "x").read_text() == "came meanwhile"
    assert len(list(out.iterdir())) == 1


def test_files_of_an_earlier_run_do_not_stay_among_new_ones(tmp_path):
    (tmp_path / "x").write_text("old")
    (tmp_path / "y").write_text("old")
    (tmp_path / "mine.txt").write_text("kept")
    with finish_folder(tmp_path, ["x", "y"], force=True) as folder:
        (folder / "x").write_text("new")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["mine.txt", "x"]


def test_an_error_while_moving_puts_the_old_files_back(tmp_path, monkeypatch):
    (tmp_path / "x").write_text("old x")
    (tmp_path / "y").write_text("old y")
    real = Path.replace

    def replace(self, target):
        if self.name == "y" and self.read_text() == "new":
            raise OSError(errno.EIO, "broken")
        return real(self, target)

    monkeypatch.setattr(Path, "replace", replace)
    with pytest.raises(OSError, match="broken"), finish_folder(tmp_path, ["x", "y"]) as folder:
        _write(folder / "x", "new", folder / "y", "new")
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == {"x": "old x", "y": "old y"}


def test_two_runs_cannot_write_into_one_folder(tmp_path):
    with (
        finish_folder(tmp_path) as folder,
        pytest.raises(BlockingIOError, match="another run is writing into this folder"),
        finish_folder(tmp_path),
    ):
        pass
    assert not folder.exists()


def test_leftovers_of_a_killed_run_are_removed_from_a_folder(tmp_path):
    (tmp_path / ".focalibrate-dead").mkdir()
    (tmp_path / ".focalibrate-dead" / "x").write_text("half")
    with finish_folder(tmp_path) as folder:
        (folder / "x").write_text("1")
    assert [p.name for p in tmp_path.iterdir()] == ["x"]


def test_a_folder_that_may_not_be_written_is_found_before_the_work(tmp_path, monkeypatch):
    def refuse(self, *args, **kwargs):
        raise PermissionError(errno.EACCES, "Permission denied", str(self))

    monkeypatch.setattr(Path, "mkdir", refuse)  # the tests may run as root, who may write all
    with pytest.raises(PermissionError, match="Permission denied"):
        claim_folder(tmp_path / "out", ["x"], force=False)


def test_a_writable_folder_in_an_unwritable_parent(tmp_path, monkeypatch):
    out = tmp_path / "out"
    out.mkdir()
    real = Path.mkdir

    def mkdir(self, *args, **kwargs):
        if self.parent == tmp_path and not self.exists():
            raise PermissionError(errno.EACCES, "Permission denied", str(self))
        return real(self, *args, **kwargs)

    monkeypatch.setattr(Path, "mkdir", mkdir)
    claim_folder(out, ["x"], force=False)
    with finish_folder(out, ["x"], force=False) as folder:
        (folder / "x").write_text("1")
    assert (out / "x").read_text() == "1"


def test_a_folder_is_replaced_whole(tmp_path):
    out = tmp_path / "figures"
    for round_ in ("a", "b"):
        with finish_folder(out, [path.name for path in out.glob("*")]) as folder:
            (folder / round_).touch()
        assert [p.name for p in out.iterdir()] == [round_]
    with pytest.raises(ValueError, match="no"), finish_folder(out, ["b"]) as folder:
        raise ValueError("no")
    assert [p.name for p in tmp_path.iterdir()] == ["figures"]
    assert [p.name for p in out.iterdir()] == ["b"]


@pytest.mark.parametrize(
    "value",
    [
        3.5,
        [],
        {},
        {"a": [1, 2.5], "b": {"c": [[1, 2], []], "d": None, "é": "x\n"}},
        [[0.1, 1e-300], {"k": True}, "text"],
        {"t": (1, (2, 3)), "n": {1: [2]}},
    ],
)
def test_json_text_is_json(value) -> None:
    expected = json.loads(json.dumps(value))
    assert json.loads(json_text(value)) == expected
    assert json.loads(json_text(value, ensure_ascii=False)) == expected


def test_json_text_has_a_line_for_each_list_of_numbers() -> None:
    assert json_text({"a": 1, "b": [1, 2]}) == '{\n "a": 1,\n "b": [1, 2]\n}\n'
    with pytest.raises(ValueError, match="not JSON compliant"):
        json_text({"a": [float("nan")]})
