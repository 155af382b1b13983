import numpy as np
import pytest

from focalibrate.calibrate._engine.blocks import Workers, Workspace, row_blocks, thin_rows


@pytest.mark.slow
@pytest.mark.parametrize(("n", "row_bytes"), [(1, 8), (1000, 40), (5, 10**8), (100_000, 4000)])
def test_blocks_cover_every_row_once(n, row_bytes):
    seen = np.concatenate([np.arange(n)[part] for part in row_blocks(n, row_bytes=row_bytes)])
    assert seen.tolist() == list(range(n))


def test_thinned_rows_are_evenly_spaced_and_few():
    assert len(range(*thin_rows(50_000, at_most=1024).indices(50_000))) <= 1024
    assert thin_rows(10, at_most=100) == slice(0, 10, 1)


@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_results_come_in_order_from_any_number_of_threads(n_threads):
    with Workers(n_threads) as workers:
        assert list(workers.map(lambda i, _: i * i, range(50))) == [i * i for i in range(50)]
        assert list(workers.map(lambda i, _: -i, [3])) == [-3]


def test_an_error_in_a_thread_reaches_the_caller():
    def fail(i, _):
        raise ValueError(f"item {i}")

    with Workers(2) as workers, pytest.raises(ValueError, match="item 0"):
        list(workers.map(fail, range(10)))


def test_threads_do_not_share_a_workspace():
    def fill(i, space):
        x = space.array("x", (1000,))
        x[:] = i
        return bool((np.sort(x) == i).all())

    with Workers(4) as workers:
        assert all(workers.map(fill, range(200)))


def test_workspace_reuses_memory_and_grows():
    space = Workspace()
    small = space.array("a", (2, 3))
    assert np.shares_memory(small, space.array("a", (6,)))
    assert space.array("a", (4, 4)).shape == (4, 4)
    assert space.array("a", (2,), np.float32).dtype == np.float32
