"""Opening one part of a data set for reading in batches, by its format."""

from dataclasses import replace

from focalibrate.io._formats import Opening, chosen_format, open_file
from focalibrate.io._place import Place
from focalibrate.io._stream import Kinds, Stream, whole_stream
from focalibrate.io._stream_arrays import stream_npy, stream_npz, stream_safetensors
from focalibrate.io._stream_arrow import stream_ipc, stream_parquet
from focalibrate.io._stream_text import stream_text


def open_stream(place: Place, opening: Opening, kinds: Kinds | None) -> Stream:
    """Open one file; formats that cannot be read in pieces are read whole.

    Args:
        place: the file.
        opening: limits, header and encoding.
        kinds: what the columns of the first part hold; None for that part itself.
    """
    suffix, notes = chosen_format(place.path, place.open)
    if suffix == ".parquet":
        found = stream_parquet(place)
    elif suffix in (".arrow", ".feather"):
        found = stream_ipc(place)
    elif suffix in (".csv", ".tsv", ".txt"):
        found = stream_text(place, opening, kinds)
    elif suffix == ".npy":
        found = stream_npy(place)
    elif suffix == ".npz":
        found = stream_npz(place)
    elif suffix == ".safetensors":
        found = stream_safetensors(place)
    else:
        whole = replace(open_file(place.local(), opening), path=place.path)
        return whole_stream(place, whole)
    return replace(found, frame=replace(found.frame, notes=(*found.frame.notes, *notes)))
