"""Tiles of an image and the halos that they read: each position has one tile, and halos have closed forms."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clustersim.parallelism.historical.halo import TRANSPOSED, Area, Tiles, read_by


def window(height: int, width: int, kernel: int, stride: int = 1, pad: int = 0) -> dict[str, int]:
    sides = {"kernel": kernel, "stride": stride, "pad": pad}
    both = {f"{key}_{side}": value for key, value in sides.items() for side in "hw"}
    return {"height": height, "width": width, **both}


@given(rows=st.integers(1, 9), columns=st.integers(1, 9), height=st.integers(9, 60), width=st.integers(9, 60))
def test_every_position_is_on_one_tile(rows: int, columns: int, height: int, width: int) -> None:
    tiles = Tiles(rows, columns)
    own = [tiles.own(tile, (height, width)) for tile in range(tiles.num)]
    assert sum(area.positions for area in own) == height * width
    assert max(area.positions for area in own) <= (height // rows + 1) * (width // columns + 1)
    covered = [[range(*span) for span in area] for area in own]
    assert len({(y, x) for ys, xs in covered for y in ys for x in xs}) == height * width


@given(
    rows=st.integers(1, 6), columns=st.integers(1, 6), kernel=st.integers(1, 9), stride=st.integers(1, 3),
    pad=st.integers(0, 4), height=st.integers(20, 50), width=st.integers(20, 50),
)  # fmt: skip
def test_a_tile_reads_from_the_tiles_that_have_the_positions(
    rows: int, columns: int, kernel: int, stride: int, pad: int, height: int, width: int
) -> None:
    tiles, shape = Tiles(rows, columns), window(height, width, kernel, stride, min(pad, kernel // 2))
    out = tuple((size + 2 * shape["pad_h"] - kernel) // stride + 1 for size in (height, width))
    for tile in range(tiles.num):
        read = read_by("convolution", shape, tiles.own(tile, (out[0], out[1])))
        shares = list(tiles.shares(read, (height, width)))
        assert sum(share.positions for _, share in shares) == read.positions
        assert len({other for other, _ in shares}) == len(shares)


@pytest.mark.parametrize(("rows", "columns", "kernel"), [(2, 2, 3), (3, 4, 5), (1, 6, 7), (6, 2, 1)])
def test_a_window_reads_half_of_its_width_beyond_the_tile(rows: int, columns: int, kernel: int) -> None:
    """With b = (k - 1) / 2: (h + 2 b (rows - 1)) (w + 2 b (columns - 1)) positions, over all tiles of h x w."""
    tiles, size, border = Tiles(rows, columns), (60, 48), (kernel - 1) // 2
    shape = window(*size, kernel, pad=border)
    read = [read_by("pooling", shape, tiles.own(tile, size)).positions for tile in range(tiles.num)]
    assert sum(read) == (60 + 2 * border * (rows - 1)) * (48 + 2 * border * (columns - 1))


@given(
    kernel=st.integers(1, 9), stride=st.integers(1, 4), pad=st.integers(0, 8), first=st.integers(0, 20),
    length=st.integers(1, 9),
)  # fmt: skip
def test_the_transposed_layer_reads_the_positions_whose_windows_overlap_the_tile(
    kernel: int, stride: int, pad: int, first: int, length: int
) -> None:
    """An input i of the way back is in the window of outputs i s - p to i s - p + k - 1."""
    end, size = first + length, 40
    meeting = [i for i in range(size) if i * stride - pad < end and i * stride - pad + kernel > first]
    shape = window(size, size, kernel, stride, pad)
    rows, _ = read_by(TRANSPOSED, shape, Area((first, end), (first, end)))
    assert list(range(*rows)) == meeting or (stride > kernel and set(meeting) <= set(range(*rows)))
