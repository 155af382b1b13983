import numpy as np
import pytest
import torch

from focalibrate._array import is_concrete, like, stop_gradient, to_numpy, working_dtype


@pytest.mark.slow
def test_half_precision_works_in_float32(jax):
    assert working_dtype(np.zeros(1, np.float16)) == np.float32
    assert working_dtype(torch.zeros(1, dtype=torch.bfloat16)) == torch.float32
    assert working_dtype(jax.numpy.zeros(1, jax.numpy.bfloat16)) == jax.numpy.float32
    assert working_dtype(np.zeros(1, np.float64)) == np.float64


def test_to_numpy_from_anywhere(xp):
    assert to_numpy(xp.asarray([1.0, 2.0])).tolist() == [1.0, 2.0]


@pytest.mark.slow
def test_to_numpy_leaves_graph_and_bfloat16_behind(jax):
    x = torch.ones(2, dtype=torch.bfloat16, requires_grad=True)
    assert to_numpy(x * 2).dtype == np.float32
    assert float(to_numpy(jax.numpy.ones(1, jax.numpy.bfloat16)).astype(np.float64)[0]) == 1.0


@pytest.mark.slow
def test_traced_values_are_not_concrete(jax):
    seen = []
    jax.jit(lambda x: seen.append(is_concrete(x)) or x)(jax.numpy.ones(1))
    torch.func.vmap(lambda x: seen.append(is_concrete(x)) or x)(torch.ones(1))
    assert seen == [False, False]
    assert all(is_concrete(x) for x in (np.ones(1), jax.numpy.ones(1), torch.ones(1)))


@pytest.mark.slow
def test_stop_gradient_stops_it(jax):
    x = torch.tensor(2.0, requires_grad=True)
    assert torch.autograd.grad(x * stop_gradient(x), x)[0] == 2.0
    assert jax.grad(lambda x: x * stop_gradient(x))(2.0) == 2.0
    assert stop_gradient(np.float64(2.0)) == 2.0


def test_like_keeps_library_and_dtype(xp):
    x = xp.ones(3, dtype=xp.float32)
    number = like(2.0, x)
    assert (number.dtype, number.ndim) == (xp.float32, 0)
    assert like(xp.ones(3, dtype=xp.float64), x, dtype=xp.float32).dtype == xp.float32
