"""Names in certificates, and the rules that make principals of them (KIP-371)."""

from __future__ import annotations

import pytest

from odradek.access.principal import MappingRules, Principal, RulesError, distinguished_name, parse_principal

SERVICE = "CN=serviceuser,OU=ServiceUsers,O=Unknown,L=Unknown,ST=Unknown,C=Unknown"
ADMIN = "CN=adminUser,OU=Admin,O=Unknown,L=Unknown,ST=Unknown,C=Unknown"
RULES = (
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,"
    "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L,"
    "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U,DEFAULT"
)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (SERVICE, "serviceuser"),
        (ADMIN, "adminuser@admin"),
        ("O=x,CN=some.one", "SOME.ONE"),
        ("OU=nobody", "OU=nobody"),
    ],
)
def test_the_first_rule_that_matches_wins(name: str, expected: str) -> None:
    assert Principal(expected) == MappingRules(RULES).principal(name)


def test_who_no_rule_matches_is_nobody() -> None:
    assert MappingRules("RULE:^CN=a$/$0/").principal("CN=b") is None


def test_without_rules_the_name_is_the_name() -> None:
    assert Principal(SERVICE) == MappingRules().principal(SERVICE) == MappingRules("").principal(SERVICE)


def test_slashes_are_escaped() -> None:
    assert Principal("a/b") == MappingRules(r"RULE:^CN=(.*)\/x$/$1\/b/").principal("CN=a/x")


@pytest.mark.parametrize("rules", ["RULE:^CN=(.*)$", "SOMETHING", "RULE:(/a/", "RULE:^a$/$1/", "DEFAULT RULE:a/b/"])
def test_rules_that_are_none(rules: str) -> None:
    with pytest.raises(RulesError, match=r"^ssl\.principal\.mapping\.rules .*\.$"):
        MappingRules(rules)


def test_a_name_is_told_the_most_special_first() -> None:
    subject = (
        (("countryName", "DE"),),
        (("organizationName", 'A, "B" + <C>; D\\E'),),
        (("organizationalUnitName", "#x"), ("userId", "u")),
        (("commonName", " me "),),
        (("emailAddress", "a@b"),),
    )
    assert (
        '1.2.840.113549.1.9.1=#1603614062,CN=\\ me\\ ,OU=\\#x+UID=u,O=A\\, \\"B\\" \\+ \\<C\\>\\; D\\\\E,C=DE'
    ) == distinguished_name(subject)


def test_a_principal_has_a_type() -> None:
    assert Principal("a:b") == parse_principal("User:a:b")
    assert "User:a" == str(Principal("a"))
    for text in ("alice", "User:", ":alice"):
        with pytest.raises(ValueError, match=r"A principal is TYPE:NAME"):
            parse_principal(text)
