"""Seeds tell the same, whichever of both dice they are thrown with."""

from __future__ import annotations

from random import Random

import pytest

from odradek.sim.world.dice import Dice


@pytest.mark.parametrize("seed", [0, 1, 2**40, "4 world"])
def test_they_say_what_pythons_own_say(seed: int | str) -> None:
    ours, theirs = Dice(seed), Random(seed)
    for number in range(300):
        assert ours.randint(-number, 2 * number) == theirs.randint(-number, 2 * number)
        assert ours.choice(range(number + 1)) == theirs.choice(range(number + 1))
        assert ours.below(number + 1) == theirs.randrange(number + 1)
        assert ours.sample(range(9), 3) == theirs.sample(range(9), 3)
        assert ours.random() == theirs.random()


def test_nothing_can_be_chosen_of_nothing() -> None:
    with pytest.raises(IndexError):
        Dice(1).choice([])
