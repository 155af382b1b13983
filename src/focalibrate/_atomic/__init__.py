"""Files and folders that are written atomically: complete or not at all."""

from focalibrate._atomic.file import NO_ROOM, atomic_path
from focalibrate._atomic.folder import claim_folder, finish_folder, replaced_folder
from focalibrate._atomic.text import json_text

__all__ = [
    "NO_ROOM",
    "atomic_path",
    "claim_folder",
    "finish_folder",
    "json_text",
    "replaced_folder",
]
