"""Names of topics."""

import pytest

from odradek.metadata.topic_names import collision, invalid_name, similar_names


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "...", "_", "x" * 249])
def test_a_good_name(name: str) -> None:
    assert invalid_name(name) is None


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "a/b", "é", "a\n", "x" * 250, "a:b"])
def test_a_bad_name(name: str) -> None:
    assert (invalid_name(name) or "").startswith("Topic name is invalid: ")


def test_names_collide_in_dots_and_underscores() -> None:
    assert "a.b" == collision("a_b", similar_names(["x", "a.b"]))
    assert "a_b.c" == collision("a.b_c", similar_names(["a_b.c"]))
    assert collision("a.b", similar_names(["a.b"])) is None
    assert collision("ab", similar_names(["a.b"])) is None
    assert collision("a-b", similar_names(["a.b"])) is None
