"""`export.pieces`: every hour and place is in one piece, pieces are small and hold whole chunks."""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from era5_pipeline.export.pieces import PIECE_BYTES, cut

HOURS_OF_2023 = range(464_592, 464_592 + 8760)


@given(
    st.integers(0, 20_000),
    st.integers(1, 3000),
    st.integers(1, 12),
    st.integers(1, 12),
    st.integers(1, 40),
    st.integers(60_000, 4_000_000),
    st.sampled_from([1, 7]),
)
@example(0, 1, 1, 1, 1, 60_000, 1)
@example(700, 100, 12, 12, 1, 60_000, 7)  # a few hours of one month and a few of the next
def test_pieces_cover_the_box_once_in_whole_chunks(
    first: int, count: int, rows: int, columns: int, variables: int, most_bytes: int, days: int
) -> None:
    hours = range(464_592 + first, 464_592 + first + count)
    plan = cut(hours, rows, columns, variables, most_bytes, days)
    covered = np.zeros((count, rows, columns), dtype=np.int8)
    chunks: Counter[tuple[int, ...]] = Counter()
    for piece in plan.pieces():
        start = piece.hours.start - hours.start
        box = (
            slice(start, start + len(piece.hours)),
            *(slice(one.start, one.stop) for one in (piece.rows, piece.columns)),
        )
        covered[box] += 1
        spans = [(one.start // size, (one.stop - 1) // size) for one, size in zip(box, plan.chunk, strict=True)]
        chunks.update(product(*(range(low, high + 1) for low, high in spans)))
        # A month and a week of one place may exceed it.
        locations = len(piece.rows) * len(piece.columns)
        assert len(piece.hours) * locations * (12 + 4 * variables) <= 1.25 * most_bytes or locations == 1
    assert (covered == 1).all()
    assert set(chunks.values()) == {1}


def test_a_month_of_the_globe_is_read_by_latitudes_in_bounded_pieces() -> None:
    plan = cut(range(464_592, 464_592 + 744), 721, 1440, 6)
    pieces = list(plan.pieces())
    assert {len(piece.hours) for piece in pieces} == {744}
    assert max(len(piece.rows) * len(piece.columns) for piece in pieces) * 744 * 36 <= PIECE_BYTES
    assert pieces[0].rows.start == 0
    assert pieces[-1].rows.stop == 721


def test_85_years_of_a_place_are_a_few_pieces() -> None:
    assert len(list(cut(range(-262_968, 482_160), 1, 1, 6).pieces())) <= 3


def test_the_months_of_a_box_are_read_one_by_one() -> None:
    plan = cut(HOURS_OF_2023, 100, 100, 6)
    assert len(plan.slabs) == 12
    assert [slab.start - HOURS_OF_2023.start for slab in plan.slabs[:3]] == [0, 744, 1416]
