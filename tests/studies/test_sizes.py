"""Sizes from the command line: the default unless named, and an answer for everything that can be mistyped."""

import pytest

from elbowroom.studies.sizes import CaseSizeError, Size, chosen_sizes

KNOWN = {"crop": Size(default=128, meaning="residues"), "extra": Size(default=64, meaning="rows", least=0)}


def test_sizes_that_are_not_named_keep_their_default():
    assert chosen_sizes(KNOWN, ["crop=64"]) == {"crop": 64, "extra": 64}


def test_a_size_may_be_as_small_as_its_least():
    assert chosen_sizes(KNOWN, ["extra=0"])["extra"] == 0


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["crop"], "not of the form name=number, such as crop=128"),
        (["length=5"], "unknown size 'length'.*the sizes are crop, extra"),
        (["crop=0"], "crop must be a whole number from 1"),
        (["crop=-3"], "crop must be a whole number from 1"),
        (["crop=1.5"], "crop must be a whole number from 1"),
        (["crop=²"], "crop must be a whole number from 1"),
        (["crop=1", "crop=2"], "given twice: 1 and 2"),
    ],
)
def test_everything_else_is_refused(texts, message):
    with pytest.raises(CaseSizeError, match=message):
        chosen_sizes(KNOWN, texts)
