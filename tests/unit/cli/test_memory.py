import ctypes
import sys

import pytest

from focalibrate.cli import _group as _memory


def test_the_allocator_is_asked_once_per_setting(monkeypatch):
    asked = []

    class Library:
        def mallopt(self, setting, value):
            asked.append((setting, value))

    monkeypatch.setattr(ctypes, "CDLL", lambda _: Library())
    monkeypatch.setattr(sys, "platform", "linux")
    _memory.reuse_memory()
    assert asked == [(-3, _memory.REUSED), (-1, _memory.KEPT), (-8, 1)]


@pytest.mark.parametrize("platform", ["darwin", "win32", "linux"])
def test_elsewhere_nothing_is_done(monkeypatch, platform):
    def library(_):
        assert platform == "linux", "not asked for"
        return object()  # such as musl, which has no mallopt

    monkeypatch.setattr(ctypes, "CDLL", library)
    monkeypatch.setattr(sys, "platform", platform)
    _memory.reuse_memory()
