"""The folder that parts are written to: on this machine, or behind a URL that pyarrow opens."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from focalibrate._atomic import atomic_path
from focalibrate.io._error import file_error, shown
from focalibrate.io._place import file_system, named_errors, url_of

WITHOUT_FOLDERS = ("s3", "gcs")
"""Stores of objects: a folder is only a prefix of names, and need not be made."""


@dataclass(frozen=True)
class OutFolder:
    """A folder for files that appear only when they are complete.

    Attributes:
        path: the folder; of a URL, what messages call it.
        remote: the file system and the path in it, of a URL.
    """

    path: Path
    remote: tuple[Any, str] | None = None

    @classmethod
    def of(cls, out: str | Path) -> "OutFolder":
        """Return the folder that a path or URL names; it need not exist."""
        url = url_of(out)
        if url is None:
            return cls(Path(out))
        system, inside = file_system(url, Path(out))
        if system.type_name == "local":
            return cls(Path(inside))
        return cls(Path(shown(url)), (system, inside.rstrip("/")))

    def check_is_folder(self) -> None:
        """Raise where a file has the name of the folder."""
        if self.remote is None:
            is_file = self.path.exists() and not self.path.is_dir()
        else:
            is_file = self._info(self.remote[1]).type.name == "File"
        if is_file:
            raise file_error(self.path, "exists and is not a folder. Name another with -o.")

    def size_of(self, name: str) -> int | None:
        """Return the bytes of a file in the folder, or None if there is none."""
        if self.remote is None:
            path = self.path / name
            return path.stat().st_size if path.is_file() else None
        info = self._info(f"{self.remote[1]}/{name}")
        return int(info.size) if info.type.name == "File" else None

    def read(self, name: str) -> bytes | None:
        """Return the content of a file in the folder, or None if there is none."""
        if self.size_of(name) is None:
            return None
        if self.remote is None:
            return (self.path / name).read_bytes()
        with (
            named_errors(self.path / name),
            self.remote[0].open_input_stream(f"{self.remote[1]}/{name}") as file,
        ):
            content: bytes = file.read()
            return content

    @contextmanager
    def writing(self, name: str) -> Iterator[Path]:
        """Give a temporary local path that becomes the file `name` when the block succeeds."""
        if self.remote is None:
            target = self.path / name
            target.parent.mkdir(parents=True, exist_ok=True)
            with atomic_path(target, force=True) as temporary:
                yield temporary
            return
        with tempfile.TemporaryDirectory(prefix="focalibrate-") as folder:
            local = Path(folder, PurePosixPath(name).name)
            yield local
            self._upload(local, name)

    def _upload(self, local: Path, name: str) -> None:
        if self.remote is None:
            raise ValueError("only a folder behind a URL is uploaded to")
        system, root = self.remote
        inside = PurePosixPath(root, name)
        with named_errors(self.path / name, what="written"):
            if system.type_name not in WITHOUT_FOLDERS:
                system.create_dir(str(inside.parent), recursive=True)
            with local.open("rb") as source, system.open_output_stream(str(inside)) as target:
                shutil.copyfileobj(source, target, 1 << 22)

    def _info(self, inside: str) -> Any:
        if self.remote is None:
            raise ValueError("only a folder behind a URL is asked")
        with named_errors(self.path):
            return self.remote[0].get_file_info([inside])[0]
