"""Sizes in bytes are read as people write them, and nonsense is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elbowroom.memory.footprint.size import SizeError, format_size, parse_size


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("4GiB", 4_294_967_296),
        ("24 GB", 24_000_000_000),
        ("512MiB", 536_870_912),
        (" 1.5 kib ", 1536),
        ("0.25 GB", 250_000_000),
        ("7 b", 7),
        ("2TiB", 2_199_023_255_552),
    ],
)
def test_a_number_and_a_unit_is_a_size(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "4", "GiB", "4 Gib iB", "4 giga", "-4GiB", "4,5GiB", "nan GiB", "inf GB", "1e9B"])
def test_anything_else_is_refused_with_an_example(text):
    with pytest.raises(SizeError, match=r"is not a size; write a number and one of B, kB, .* such as 4GiB"):
        parse_size(text)


def test_less_than_one_byte_is_refused():
    with pytest.raises(SizeError, match=r"'0 GiB' is no bytes at all"):
        parse_size("0 GiB")


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.00 KiB"), (3 * 2**29, "1.50 GiB"), (400 * 2**20, "400.0 MiB")],
)
def test_a_size_is_shown_in_the_largest_unit_that_leaves_one_or_more(size, text):
    assert format_size(size) == text


@given(st.integers(1, 2**50))
def test_what_is_shown_can_be_read_back_to_its_last_digit(size):
    assert parse_size(format_size(size)) == pytest.approx(size, rel=0.006)
