"""Unequal split sizes of an all-to-all, as given in its signature."""

import numpy as np
import pytest
from foretrace.sim.facts.splits import Splits, all_to_all_name, parse_collective_name
from hypothesis import given
from hypothesis import strategies as st

counts = st.integers(0, 10**9)


@given(st.integers(2, 6).flatmap(lambda n: st.lists(st.lists(counts, min_size=n, max_size=n),
                                                    min_size=n, max_size=n)))  # fmt: skip
def test_a_collective_name_is_parsed_as_it_was_written(pairs):
    parts = np.array(pairs)
    if not parts.any():
        return
    name, splits, kernel = parse_collective_name(
        all_to_all_name(pairs=pairs, kernel="low-latency"), len(pairs)
    )
    assert (name, kernel) == ("all-to-all", "low-latency")
    assert (splits is None) == bool((parts == parts[0, 0]).all())
    assert splits is None or splits.parts.tolist() == pairs


def test_send_and_receive_splits_form_an_outer_product():
    splits = parse_collective_name("all-to-all send=1,2 receive=3,4", 2).splits
    assert splits.parts.tolist() == [[3, 4], [6, 8]]
    assert splits.total == 21
    assert splits.busiest == pytest.approx(6 * 2 / 21)


def test_splits_follow_the_order_of_members():
    splits = Splits(np.array([[1, 2, 3], [4, 5, 6], [7, 8, 9]])).ordered([2, 0, 1])
    assert splits.parts.tolist() == [[9, 7, 8], [3, 1, 2], [6, 4, 5]]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("all-to-all receive=3,1", "receive=3,1 has 2 numbers for 3 members; write one for each"),
        ("all-to-all send=3,-1,1", "send=3,-1,1 has '-1'; write whole numbers of 0 or more"),
        ("all-to-all send=3,0.5,1", "has '0.5'; write whole numbers of 0 or more"),
        ("all-to-all send=", "send= has 1 numbers for 3 members"),
        ("all-to-all send=0,0,0 receive=1,1,2", "the parts add up to 0; give some member a part"),
        ("all-to-all splits=1,2,3/1,2,3", "splits has 2 rows for 3 members; write one for each"),
        ("all-to-all splits=1,2,3/1,2,3/1,2", "splits=1,2 has 2 numbers for 3 members"),
        (
            "all-to-all splits=1,2/1,2 send=1,1,1",
            "cannot be combined with send or receive; leave those out",
        ),
        ("all-to-all parts=1,2,3", "attribute 'parts' is unknown; write send, receive or splits"),
        ("all-gather receive=1,2,3", "only all-to-all has unequal parts; leave 'receive' out"),
        ("all-to-all receive=1,2,9007199254740992", "write smaller numbers, only ratios count"),
    ],
)
def test_invalid_splits_are_refused(name, said):
    with pytest.raises(ValueError, match=said.replace("[", r"\[")):
        parse_collective_name(name, 3)


def test_an_unknown_kernel_is_refused():
    assert parse_collective_name("all-to-all kernel=low-latency", 4)[1:] == (None, "low-latency")
    assert parse_collective_name("all-to-all", 4)[1:] == (None, "")
    with pytest.raises(ValueError, match="kernel=quick is unknown; write low-latency, or leave"):
        parse_collective_name("all-to-all kernel=quick", 4)
    with pytest.raises(ValueError, match="only all-to-all has unequal parts; leave 'kernel' out"):
        parse_collective_name("all-reduce kernel=low-latency", 4)
