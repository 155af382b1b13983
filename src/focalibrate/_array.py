"""Which library an array is from, and the few things that differ between libraries."""

import sys
from typing import Any, TypeAlias

import array_api_compat as compat
import numpy as np
from array_api_compat import is_jax_array
from numpy.typing import NDArray

__all__ = [
    "Array",
    "Floats",
    "array_of",
    "device",
    "is_array_api_obj",
    "is_concrete",
    "is_numpy_array",
    "is_torch_array",
    "like",
    "namespace",
    "stop_gradient",
    "to_numpy",
    "working_dtype",
]

Array: TypeAlias = Any
"""An array of any library that follows the array API standard."""
Floats: TypeAlias = NDArray[np.float64]
"""A NumPy array of double precision."""

NUMPY_TYPES = (np.ndarray, np.generic)
IS_NUMPY_STANDARD = hasattr(np, "cumulative_sum")
"""Since 2.1 NumPy itself follows the standard; array-api-compat takes 0.1 s to wrap it."""


# torch is asked about first and without array-api-compat, whose cached helpers make
# `torch.compile` warn once each and trace for minutes.


def is_torch_array(x: object) -> bool:
    """Return whether `x` is a torch tensor, without importing torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def is_numpy_array(x: object) -> bool:
    """Return whether `x` is a NumPy array."""
    return not is_torch_array(x) and compat.is_numpy_array(x)


def is_array_api_obj(x: object) -> bool:
    """Return whether `x` is an array of a library that follows the standard."""
    if isinstance(x, (int, float, str, list, tuple)) and not isinstance(x, np.generic):
        return False
    return is_torch_array(x) or compat.is_array_api_obj(x)


def device(x: Array) -> Any:
    """Return the device of `x`."""
    return x.device if is_torch_array(x) else compat.device(x)


def namespace(*arrays: object) -> Any:
    """Return the array API namespace common to `arrays`; Python numbers are passed over."""
    found = [x for x in arrays if is_array_api_obj(x)]
    if found and all(is_torch_array(x) for x in found):
        from array_api_compat import torch as torch_namespace

        return torch_namespace
    if IS_NUMPY_STANDARD and found and all(isinstance(x, NUMPY_TYPES) for x in found):
        return np
    if not found:
        given = ", ".join(type(x).__name__ for x in arrays) or "none"
        raise TypeError(f"pass arrays of NumPy, torch or JAX, got {given}: `np.asarray(x)`.")
    return compat.array_namespace(*found)


def is_concrete(x: Array) -> bool:
    """Return whether `x` has values to read: it has none while a compiler or `vmap` traces it."""
    if is_torch_array(x):
        import torch

        return not (
            torch.compiler.is_compiling() or torch._C._functorch.is_functorch_wrapped_tensor(x)
        )
    if is_jax_array(x):
        from jax.core import Tracer

        return not isinstance(x, Tracer)
    return bool(getattr(x, "is_concrete", True))  # arrays that only write down what is computed


def working_dtype(x: Array) -> Any:
    """Return the dtype to compute in: float32 for half-precision floats, else that of `x`.

    Half-precision arithmetic overflows at 65504 and keeps 3 digits, so formulas are
    evaluated in float32 and the result is rounded once, at the end.
    """
    xp = namespace(x)
    if xp.isdtype(x.dtype, "real floating") and xp.finfo(x.dtype).bits >= 32:
        return x.dtype
    # bfloat16 is not an array API dtype, so `isdtype` may not count it as floating.
    return xp.float32 if "float" in str(x.dtype) else xp.float64


def stop_gradient(x: Array) -> Array:
    """Return `x` as a constant: no derivative of any order flows through the result."""
    if is_torch_array(x):
        return x.detach()
    if is_jax_array(x):
        from jax.lax import stop_gradient as jax_stop_gradient

        return jax_stop_gradient(x)
    return x


def array_of(values: Any) -> Array:
    """Return arrays as they are, and data frames, series and lists as NumPy arrays."""
    if not is_array_api_obj(values):
        if hasattr(values, "to_numpy"):  # pandas, polars
            found = values.to_numpy()
            if found.dtype == object and found.ndim == 2 and found.size:  # pandas' Float64
                return _numbers_of(values, found)
            return found
        if isinstance(values, (list, tuple)):
            return np.asarray(values)
    return values


def _numbers_of(frame: Any, cells: NDArray[Any]) -> Floats:
    """Return the cells of a data frame as numbers; name the column that holds others."""
    for position, name in enumerate(getattr(frame, "columns", range(cells.shape[1]))):
        try:
            cells[:, position].astype(np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"a data frame of scores must hold numbers only, but column {str(name)!r} does "
                f"not (it begins with {str(cells[0, position])!r:.60}). Choose the columns of the "
                "classes, such as `df[['cat', 'dog']]`, and leave out rows with missing values."
            ) from error
    return cells.astype(np.float64)


def to_numpy(x: Any) -> NDArray[Any]:
    """Return `x` as a NumPy array, from any library and any device, without its graph."""
    if is_torch_array(x):
        x = x.detach().cpu()
        if x.dtype == namespace(x).bfloat16:
            x = x.float()  # NumPy has no bfloat16
    elif is_array_api_obj(x) and not isinstance(x, NUMPY_TYPES) and not is_jax_array(x):
        try:
            return np.asarray(x)
        except (RuntimeError, TypeError):  # on another device
            return np.from_dlpack(x, device="cpu")
    return np.asarray(x)


def like(value: Any, reference: Array, *, dtype: Any = None) -> Array:
    """Return the number or array `value` as an array beside `reference`: same library, device."""
    xp = namespace(reference)
    if is_array_api_obj(value):
        return xp.astype(value, dtype) if dtype is not None and value.dtype != dtype else value
    return xp.asarray(value, dtype=dtype or reference.dtype, device=device(reference))
