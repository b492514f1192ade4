"""Contracts of the rooms of a broker that import-linter does not have; pyproject.toml lists which modules are which."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output

__all__ = ["Rooms", "SubjectsContract", "violations"]


class Rooms(NamedTuple):
    """The rooms of subjects, and their modules that are not machines; a package stands for all its modules."""

    host: str
    subjects: Sequence[str]
    hosted: Sequence[str]
    """APIs, and parts of a subject that live in a broker: these may import the host."""
    doors: Sequence[str]
    """Modules that the host and other subjects may import."""


def violations(rooms: Rooms, imports: Sequence[tuple[str, str]]) -> Iterator[str]:
    """A sentence for each import that the rules of the rooms forbid."""
    for importer, imported in imports:
        subject, other = _within(importer, rooms.subjects), _within(imported, rooms.subjects)
        of_host, to_host = _within(importer, [rooms.host]), _within(imported, [rooms.host])
        if subject and not _within(importer, rooms.hosted) and (to_host or _within(imported, rooms.hosted)):
            yield f"{importer} is a machine and imports {imported}"
        elif subject and other and subject != other and not _within(imported, rooms.doors):
            yield f"{importer} imports {imported}, of another subject"
        elif of_host and other and not _within(imported, rooms.doors):
            yield f"{importer} carries any subject and imports {imported}"


def _within(module: str, packages: Sequence[str]) -> str | None:
    """The package that a module is, or is in."""
    return next((each for each in packages if module == each or module.startswith(f"{each}.")), None)


class SubjectsContract(Contract):
    """Machines import neither the host nor an API; subjects and the host import each other only through doors."""

    type_name = "subjects"

    host = fields.StringField()
    subjects = fields.ListField(subfield=fields.StringField())
    hosted = fields.ListField(subfield=fields.StringField())
    doors = fields.ListField(subfield=fields.StringField())
    ignore_imports = fields.ListField(subfield=fields.StringField(), required=False)

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Every direct import, for types too; an exception that is not needed is an error as well."""
        rooms = Rooms(str(self.host), _texts(self.subjects), _texts(self.hosted), _texts(self.doors))
        imports = sorted(
            (importer, imported)
            for importer in graph.modules
            for imported in graph.find_modules_directly_imported_by(importer)
        )
        allowed = {tuple(each.split(" -> ")) for each in _texts(self.ignore_imports or [])}
        found = list(violations(rooms, [each for each in imports if each not in allowed]))
        unneeded = [each for each in sorted(allowed) if not list(violations(rooms, [(each[0], each[1])]))]
        gone = [each for each in sorted(allowed) if (each[0], each[1]) not in imports]
        found += [f"{' -> '.join(each)} needs no exception" for each in dict.fromkeys([*unneeded, *gone])]
        return ContractCheck(kept=not found, metadata={"found": found})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """One line for each import."""
        for sentence in check.metadata["found"]:
            output.print_error(sentence)


def _texts(values: Any) -> list[str]:
    return [str(each) for each in values]
