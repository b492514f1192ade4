"""Whatever a version can carry comes back as it was, from both forms."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.wire.helpers import MESSAGES, PROFILE, all_versions, messages, numbered_message

from odradek.wire import registry
from odradek.wire.jsonform import from_json, to_json


@pytest.mark.parametrize("name", MESSAGES)
def test_any_message(name: str) -> None:
    cls = registry.message_type(name)
    lowest, highest = registry.valid_versions(cls)

    @PROFILE
    @given(st.data())
    def check(data: st.DataObject) -> None:
        version = data.draw(st.integers(lowest, highest))
        message = data.draw(messages(cls, version))
        encoded = registry.encode(message, version)
        decoded = registry.decode(cls, encoded, version)
        assert message == decoded
        assert encoded == registry.encode(decoded, version)

    check()


def test_every_version_as_bytes_and_as_json() -> None:
    for cls, version in all_versions():
        message = numbered_message(cls, version)
        encoded = registry.encode(message, version)
        assert message == registry.decode(cls, encoded, version), (cls, version)
        as_json = json.loads(json.dumps(to_json(message, version)))
        assert message == from_json(cls, as_json, version), (cls, version)
