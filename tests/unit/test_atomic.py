import errno
import os
import stat

import pytest

from focalibrate.io import atomic, atomic_path


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
    with pytest.raises(IsADirectoryError, match=r"is a directory\. Give the name of a file"):
        atomic_path(tmp_path).__enter__()
    with pytest.raises(OSError, match=r"/dev/null: is not a regular file"):
        atomic_path("/dev/null", force=True).__enter__()
    with pytest.raises(FileNotFoundError, match=r"the directory .*gone does not exist\. Make it"):
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
