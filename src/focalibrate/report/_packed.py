"""Arrays as short text: quantised, shuffled into byte planes, deflated, base64."""

import base64
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

IMPOSSIBLE_CODE = 65535
"""The code of a gap too large to matter, such as that of a class at -inf."""


def pack(array: NDArray[Any], *, delta: bool = False) -> dict[str, Any]:
    """Return `array` ``[N, C]`` or ``[N]`` as JSON: its type, its shape and its bytes as text.

    Columns are stored one after the other, the lowest byte of every entry first, then the next:
    similar bytes are next to each other, which compresses better. With `delta` each column
    holds the difference to the one before it (modulo the type's range).
    """
    table = array.reshape(len(array), -1)
    if delta:
        table = np.diff(table, axis=1, prepend=np.zeros((len(table), 1), dtype=table.dtype))
    little = np.ascontiguousarray(table.T).astype(table.dtype.newbyteorder("<"))
    planes = little.view(np.uint8).reshape(-1, table.dtype.itemsize).T
    text = base64.b64encode(zlib.compress(np.ascontiguousarray(planes).tobytes(), 6)).decode()
    return {
        "dtype": table.dtype.name,
        "shape": list(table.shape),
        "delta": delta,
        "data": text,
    }


def companded(values: NDArray[Any], *, top: float, n_codes: int) -> NDArray[np.uint16]:
    r"""Return whole numbers below `n_codes` whose steps widen with the value.

    .. math:: c = \mathrm{round}\left((n-1) \frac{\log(1+x)}{\log(1+x_{\max})}\right)

    The error of a value :math:`x` is at most :math:`(1+x)\log(1+x_{\max}) / (2n-2)`: for gaps of
    logits, large only where the class has no probability left.
    """
    scale = (n_codes - 1) / np.log1p(top) if top > 0 else 0.0
    codes: NDArray[np.uint16] = np.rint(np.log1p(np.minimum(values, top)) * scale).astype(
        np.uint16
    )
    return codes
