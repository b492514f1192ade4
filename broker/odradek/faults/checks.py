"""Checks of rules: names, ranges, and combinations that are impossible; each error is a sentence with a field."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from itertools import combinations
from types import UnionType
from typing import Literal, Union, get_args, get_origin

from odradek.host.router import SERVED
from odradek.wire import registry
from odradek.wire.errors import ErrorCode
from odradek.wire.registry import ApiKey

__all__ = [
    "ID_FIELDS",
    "RuleError",
    "check_act",
    "check_least",
    "check_match",
    "check_needed",
    "check_throttle",
    "check_together",
    "one_of",
    "read_apis",
    "read_error",
    "read_versions",
    "words_of",
]

INT32_MAX = 2**31 - 1
ID_FIELDS = ("transactional_id", "producer_id", "group", "topic", "partition")
"""The kinds of ids that requests carry."""

_SERVED = {served.api_key: range(served.lowest, served.highest + 1) for served in SERVED}
LISTED_MAX = 60
"""More names than this are not listed in an error."""
_APIS = {api_key.name.replace("_", ""): api_key for api_key in ApiKey}

_ALONE = ("drop", "disconnect", "error", "reply", "duplicate")
"""Each of these actions decides the fate of a request alone; a rule with two of them is refused."""
_APART = {frozenset(pair) for pair in combinations(_ALONE, 2)} | {
    frozenset(pair)
    for pair in (
        ("drop", "hold"),
        ("drop", "delay_ms"),
        ("drop", "throttle_ms"),
        ("drop", "answer_delay_ms"),
        ("disconnect", "throttle_ms"),
    )
}
"""Pairs of actions that exclude each other."""


class RuleError(ValueError):
    """A mistake in a rule, as a sentence; `field` is its place, such as `match.api`."""

    def __init__(self, field: str, sentence: str) -> None:
        super().__init__(sentence)
        self.field = field
        self.sentence = sentence


def one_of(names: Iterable[str], wrong: str) -> str:
    """The permitted names in place of a wrong one: similar ones, else all."""
    known = list(names)
    near = get_close_matches(wrong, known, 3, 0.7) or get_close_matches(wrong.upper(), known, 3, 0.5)
    if near:
        return f"did you mean {' or '.join(near)}?"
    if len(known) > LISTED_MAX:
        return f"it is one of the {len(known)} of Kafka's protocol, such as {', '.join(known[10:16])}."
    return f"there are {', '.join(known)}."


def words_of(kind: object) -> list[str]:
    """The words that may stand where something of this type does, if it is one of some words."""
    alternatives = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    return [str(word) for each in alternatives if get_origin(each) is Literal for word in get_args(each)]


def read_apis(names: str | list[str]) -> tuple[ApiKey, ...]:
    """The APIs of these names, all of which Odradek serves."""
    found = tuple(map(_read_api, [names] if isinstance(names, str) else names))
    if not found:
        raise RuleError("api", "A list of APIs holds at least one.")
    return found


def _read_api(name: str) -> ApiKey:
    api_key = _APIS.get(name.replace("_", "").upper())
    if api_key is None:
        raise RuleError("api", f"There is no API {name}: {one_of(['any', *(key.name for key in _SERVED)], name)}")
    if api_key not in _SERVED:
        served = ", ".join(key.name for key in _SERVED)
        raise RuleError(
            "api", f"Nobody here serves {api_key.name}, so that no request would match: there are {served}."
        )
    return api_key


def read_versions(text: int | str) -> range:
    """`4`, `3-5` or `4+` as a range."""
    found = re.fullmatch(r"(\d{1,4})(\+|-(\d{1,4}))?", str(text))
    if found is None:
        raise RuleError("versions", f"Versions are one number, 3-5 or 4+, not {text}.")
    low = int(found[1])
    high = 9999 if found[2] == "+" else int(found[3] or low)
    if high < low:
        raise RuleError("versions", f"Versions go up: {text} ends below where it begins.")
    return range(low, high + 1)


def read_error(name: str) -> ErrorCode:
    """The error of this name; NONE is none."""
    error = ErrorCode.__members__.get(name)
    if error is None or error is ErrorCode.NONE:
        names = [each for each in ErrorCode.__members__ if each != "NONE"]
        raise RuleError("error", f"There is no error {name}: {one_of(names, name)}")
    return error


def check_least(field: str, number: int | None, least: int, most: int = INT32_MAX) -> None:
    """A number is not below the least, nor above what the protocol has room for."""
    if number is None or least <= number <= most:
        return
    raise RuleError(field, f"{field} is {f'{least} or more' if number < least else f'at most {most}'}, not {number}.")


def check_together(given: frozenset[str]) -> None:
    """Check that the actions of a rule do not exclude each other."""
    for pair in combinations(sorted(given), 2):
        if frozenset(pair) in _APART:
            raise RuleError(pair[1], f"{pair[0]} and {pair[1]} cannot both happen to the same request.")


def versions_of(api_key: ApiKey, versions: range | None) -> list[int]:
    """The versions of an API that are served and meant."""
    return [version for version in _SERVED[api_key] if versions is None or version in versions]


def check_match(apis: tuple[ApiKey, ...] | None, versions: range | None, ids: Mapping[str, object]) -> None:
    """Each API has such versions, and carries such ids in one of them."""
    for api_key in apis or ():
        served = versions_of(api_key, versions)
        if not served:
            all_of = _SERVED[api_key]
            raise RuleError("versions", f"{api_key.name} is served in the versions {all_of[0]} to {all_of[-1]}.")
        if ids:
            _check_carried(api_key, served, ids)


def check_needed(field: str, apis: tuple[ApiKey, ...] | None, versions: range | None, needed: tuple[str, ...]) -> None:
    """The requests carry what a step takes from them."""
    if not needed:
        return
    if apis is None:
        raise RuleError(field, f"It takes the {' and '.join(needed)} from the request: say in match.api of which API.")
    try:
        check_match(apis, versions, dict.fromkeys(needed))
    except RuleError as error:
        raise RuleError(field, error.sentence) from None


def _check_carried(api_key: ApiKey, versions: list[int], ids: Mapping[str, object]) -> None:
    from odradek.faults.carried import carried  # it parses schemas, which a rule without ids does not need

    of_each = [carried(api_key, version).kinds for version in versions]
    if any(ids.keys() <= kinds for kinds in of_each):
        return
    kinds = frozenset[str]().union(*of_each)
    strange = next((name for name in ids if name not in kinds), None)
    if strange is None:
        raise RuleError(next(iter(ids)), f"No version of {api_key.name} carries {' and '.join(ids)} together.")
    there = [name for name in ID_FIELDS if name in kinds]
    carries = f"it carries {', '.join(there)}" if there else "it carries no ids"
    raise RuleError(strange, f"{api_key.name} carries no {strange}: {carries}.")


def check_act(
    apis: tuple[ApiKey, ...] | None, versions: range | None, error: ErrorCode | None, reply: Mapping[str, object] | None
) -> None:
    """The answers of these APIs can say the error, and a reply is one of them."""
    if reply is not None:
        if apis is None or len(apis) != 1:
            raise RuleError("act.reply", "A reply is the answer of one API: say in match.api which.")
        _check_reply(apis[0], versions_of(apis[0], versions), reply)
    if error is not None:
        from odradek.host.failures import can_refuse

        for api_key in apis or ():
            if not any(can_refuse(api_key, version) for version in versions_of(api_key, versions)):
                raise RuleError("act.error", f"The answer of {api_key.name} has no error code in these versions.")


def _check_reply(api_key: ApiKey, versions: list[int], reply: Mapping[str, object]) -> None:
    from odradek.wire.jsonform import response_of  # it parses schemas

    try:
        response_of(registry.response_type(api_key), reply, versions[-1])
    except ValueError as error:
        raise RuleError("act.reply", f"This is no answer of {api_key.name}: {error}.") from None


def check_throttle(apis: tuple[ApiKey, ...] | None, versions: range | None) -> None:
    """The answers of these APIs have a throttle time."""
    for api_key in apis or ():
        fields = registry.spec(registry.response_type(api_key)).root
        if not any(
            field.name == "ThrottleTimeMs"
            for version in versions_of(api_key, versions)
            for field in fields.present(version)
        ):
            raise RuleError("act.throttle_ms", f"The answer of {api_key.name} has no throttle time in these versions.")
