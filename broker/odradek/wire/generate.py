"""MessageSpec -> Python source: up to three modules per message, and one index of all.

    python -m odradek.wire.generate        writes messages/ again, and says what changed

A module holds the message's Structs, one `read_vN` and `write_vN` for each layout that differs from the others,
and its schema as a string, which is parsed only when something goes wrong or somebody asks. The readers and the writers
of requests and responses have modules of their own (`…_reader`, `…_writer`): a broker reads requests and writes
responses, and loads no more.
The output is neither edited nor committed; a test proves that it is what this generator would write.
Standard library only: it runs in the isolated environment of a build.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import TypeAlias

from odradek.wire import primitives
from odradek.wire.emit import Source, annotation, default_source, format_name, has_tags
from odradek.wire.emit_reader import reader_source
from odradek.wire.emit_writer import writer_source
from odradek.wire.schema import Field, MessageSpec, SchemaError, StructSpec, load, snake_case

__all__ = ["generate", "main", "write"]

_WIRE = Path(__file__).parent
SCHEMAS = _WIRE.parents[2] / "protocol_schemas"
MESSAGES = _WIRE / "messages"

_HEADER = '''"""{title}

Generated from {path}. Do not edit.
"""

# ruff: noqa

from __future__ import annotations
'''

_TABLES = {"read": "READERS", "write": "WRITERS"}

_Emitter: TypeAlias = Callable[[MessageSpec, int, set[str]], list[str]]


def generate(schemas: Path = SCHEMAS) -> dict[str, str]:
    """The source of every module, by file name."""
    files: dict[str, str] = {}
    specs: list[MessageSpec] = []
    for path in sorted(schemas.glob("*/*.json")):
        spec = load(path)
        if spec.name != path.stem:
            raise SchemaError(f"{path}: holds {spec.name}")
        made = message_sources(spec, path.read_text(encoding="utf-8"), f"{path.parent.name}/{path.name}")
        if not files.keys().isdisjoint(made):
            raise SchemaError(f"{path}: a second {spec.name}")
        files |= made
        specs.append(spec)
    if not specs:
        raise SchemaError(f"{schemas}: no schemas there")
    files["__init__.py"] = index_source(specs)
    files["apis.py"] = apis_source(specs)
    files["digest.py"] = digest_source(files)
    return files


def write(schemas: Path = SCHEMAS, messages: Path = MESSAGES) -> list[str]:
    """Bring the folder of generated modules up to date; return the names of the files that changed or went."""
    files = generate(schemas)
    messages.mkdir(parents=True, exist_ok=True)
    changed = [name for name, text in files.items() if not _holds(messages / name, text)]
    stale = [path.name for path in messages.glob("*.py") if path.name not in files]
    for name in changed:
        (messages / name).write_text(files[name], encoding="utf-8")
    for name in stale:
        (messages / name).unlink()
    return sorted([*changed, *stale])


def _holds(path: Path, text: str) -> bool:
    return path.is_file() and path.read_text(encoding="utf-8") == text


def message_sources(spec: MessageSpec, schema: str, path: str) -> dict[str, str]:
    """The modules of one message, by file name: its classes, its readers and its writers."""
    path = f"protocol_schemas/{path}"
    if spec.type not in ("request", "response"):
        return {f"{spec.module_name}.py": message_source(spec, schema, path)}
    return {
        f"{spec.module_name}.py": _module(spec, "", path, [*_classes(spec), *_constants(spec, schema)]),
        f"{spec.module_name}_reader.py": _module(spec, "Readers of ", path, _reading(spec)),
        f"{spec.module_name}_writer.py": _module(spec, "Writers of ", path, _writing(spec)),
    }


def message_source(spec: MessageSpec, schema: str, path: str, *, below: Collection[str] = ()) -> str:
    """One module with all of a message.

    For a message of a dialect (`spec.extends`) `below` names the structs that the ordinary one has, too.
    """
    lines = [*_classes(spec, below), *_reading(spec), *_writing(spec), *_constants(spec, schema)]
    return _module(spec, "", path, lines)


def _module(spec: MessageSpec, what: str, path: str, lines: list[str]) -> str:
    api = f", API {spec.api_key}" if spec.api_key is not None else ""
    head = _HEADER.format(title=f"{what}{spec.name}{api}, versions {spec.versions}.", path=path)
    text = "\n".join(lines) + "\n"
    return head + _imports(text, spec) + text


def _classes(spec: MessageSpec, below: Collection[str] = ()) -> list[str]:
    return [line for struct in spec.structs() for line in _class(struct, spec, below)]


def _reading(spec: MessageSpec) -> list[str]:
    """The readers, and their table by version."""
    formats: set[str] = set()
    readers = _functions(spec, "read", formats)
    return ["", "", *_layouts(formats, "unpack", "unpack_from"), *readers.lines, "", "", *_table("read", readers)]


def _writing(spec: MessageSpec) -> list[str]:
    """The writers, and their table by version."""
    formats: set[str] = set()
    writers = _functions(spec, "write", formats)
    defaults = [f"DEFAULT_{struct.upper()} = {struct}()" for struct in sorted(_compared(spec))]
    layouts = _layouts(formats, "pack", "pack")
    return ["", "", *layouts, *defaults, *writers.lines, "", "", *_table("write", writers)]


def _layouts(formats: set[str], prefix: str, method: str) -> list[str]:
    return [
        f'{prefix}_{format_name(codes)} = struct.Struct(">{"".join(codes)}").{method}'
        for codes in sorted(name.split() for name in formats)
    ]


def index_source(specs: Iterable[MessageSpec]) -> str:
    """The package of the messages: which APIs and metadata records there are, without importing any."""
    specs = list(specs)
    requests = _numbered(spec for spec in specs if spec.type == "request")
    # Records of the remote log metadata topic are of the same type and number themselves from 0 again.
    records = _numbered(spec for spec in specs if spec.type == "metadata" and not spec.name.startswith("Remote"))
    out = Source()
    for line in _HEADER.format(title="What messages there are.", path="protocol_schemas/").splitlines():
        out(line)
    for line in _INDEX_HEAD.splitlines():
        out(line)
    with out.block("class ApiKey(IntEnum):"):
        out('"""Every API of the protocol."""')
        out("")
        for key, spec in requests.items():
            out(f"{snake_case(spec.name.removesuffix('Request')).upper()} = {key}")
    out("")
    out("")
    with out.block("APIS: dict[int, ApiSpec] = {"):
        for key, spec in requests.items():
            name = snake_case(spec.name.removesuffix("Request"))
            versions = f"{spec.versions.lowest}, {spec.versions.highest}, {_flexible(spec)}"
            draft = ", draft=True" if spec.draft else ""
            out(f"{key}: ApiSpec({json.dumps(name)}, {versions}, {spec.unstable}, {_tuple(spec.listeners)}{draft}),")
    out("}")
    with out.block("METADATA_RECORDS: dict[int, str] = {"):
        for key, spec in records.items():
            out(f'{key}: "{spec.module_name}",')
    out("}")
    with out.block("MODULES: dict[str, str] = {"):
        for spec in sorted(specs, key=lambda spec: spec.name):
            out(f'"{spec.name}": "{spec.module_name}",')
    out("}")
    return "\n".join(out.lines) + "\n"


def apis_source(specs: Iterable[MessageSpec]) -> str:
    """Each API with the types of its messages, of which none is imported."""
    names = [spec.name.removesuffix("Request") for spec in _numbered(s for s in specs if s.type == "request").values()]
    out = Source()
    for line in _HEADER.format(title="Each API with the types of its messages.", path="protocol_schemas/").splitlines():
        out(line)
    for line in _APIS_HEAD.splitlines():
        out(line)
    with out.block("if TYPE_CHECKING:"):
        for name in names:
            for message in (f"{name}Request", f"{name}Response"):
                out(f"from odradek.wire.messages.{snake_case(message)} import {message}")
    out("")
    for name in names:
        key = snake_case(name).upper()
        out(f"{key}: Api[{name}Request, {name}Response] = Api(ApiKey.{key})")
    return "\n".join(out.lines) + "\n"


_APIS_HEAD = """
from typing import TYPE_CHECKING

from odradek.wire.api import Api
from odradek.wire.messages import ApiKey

"""

_INDEX_HEAD = '''
from enum import IntEnum
from typing import NamedTuple

__all__ = ["APIS", "METADATA_RECORDS", "MODULES", "ApiKey", "ApiSpec"]


class ApiSpec(NamedTuple):
    """One API: the stem of its two modules, its versions, its first flexible version or None."""

    stem: str
    lowest: int
    highest: int
    flexible: int | None
    unstable: bool
    listeners: tuple[str, ...]
    draft: bool = False
    """Whether no release of Kafka has it: only dialects offer it."""

'''


def digest_source(files: Mapping[str, str]) -> str:
    """The module with a number for all schemas together: who keeps bytes can tell whether others read them alike."""
    digest = sha256("".join(text for _, text in sorted(files.items())).encode()).hexdigest()[:16]
    title = "A digest of all schemas."
    return _HEADER.format(title=title, path="protocol_schemas/") + f'__all__ = ["SCHEMAS"]\n\nSCHEMAS = "{digest}"\n'


def _numbered(specs: Iterable[MessageSpec]) -> dict[int, MessageSpec]:
    """Specs by their API key or record type, in order."""
    found: dict[int, MessageSpec] = {}
    for spec in sorted(specs, key=lambda spec: -1 if spec.api_key is None else spec.api_key):
        if spec.api_key is None or spec.api_key in found:
            raise SchemaError(f"{spec.name}: its API key {spec.api_key} is none of its own")
        found[spec.api_key] = spec
    return found


def _flexible(spec: MessageSpec) -> int | None:
    return spec.flexible.lowest if spec.flexible else None


def _tuple(names: Iterable[str]) -> str:
    return "(" + "".join(f'"{name}", ' for name in names).rstrip() + ")"


class _Functions:
    """The readers or writers of one message, and which version shares which."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.shared: dict[int, int] = {}


def _functions(spec: MessageSpec, verb: str, formats: set[str]) -> _Functions:
    done = _Functions()
    bodies: dict[str, int] = {}
    emit: _Emitter = reader_source if verb == "read" else writer_source
    for version in spec.versions:
        lines = emit(spec, version, formats)
        first = bodies.setdefault("\n".join(lines), version)
        done.shared[version] = first
    for body, first in bodies.items():
        versions = [version for version, shared in done.shared.items() if shared == first]
        done.lines += ["", "", _signature(spec, verb, first), *_docstring(versions), *body.split("\n")]
        done.lines += _ENDINGS[verb](first)
    return done


def _signature(spec: MessageSpec, verb: str, version: int) -> str:
    if verb == "read":
        return f"def read_v{version}(buf: memoryview, pos: int) -> tuple[{spec.name}, int]:"
    return f"def write_v{version}(message: {spec.name}, out: bytearray, splices: list[tuple[int, memoryview]]) -> None:"


def _docstring(versions: list[int]) -> list[str]:
    return [] if len(versions) == 1 else [f'    """Versions {versions[0]} to {versions[-1]}."""']


_ENDINGS: Mapping[str, Callable[[int], list[str]]] = {
    "read": lambda version: [
        "        return message, pos",
        "    except READ_ERRORS:",
        f"        raise decode_error(SCHEMA, {version}, buf, start) from None",
    ],
    "write": lambda version: [
        "    except WRITE_ERRORS:",
        f"        raise encode_error(SCHEMA, {version}, message) from None",
    ],
}


def _class(struct: StructSpec, spec: MessageSpec, below: Collection[str] = ()) -> list[str]:
    """One Struct for all versions.

    A message holds no message that holds it, so the collector of cycles need not look at it: with very many entries
    that is what a pause is made of.
    """
    out = Source()
    out("")
    out("")
    base = f"ordinary.{struct.name}" if struct.name in below else "msgspec.Struct"
    if _tells_its_answer(spec) and struct is spec.root:
        base = "Request"
    with out.block(f"class {struct.name}({base}, gc=False):"):
        for field in struct.fields:
            out(f"{field.python_name}: {annotation(field)} = {_class_default(field)}  # {_comment(field, struct)}")
        if has_tags(struct, spec):
            out("unknown_tagged_fields: list[tuple[int, bytes]] = []")
        elif not struct.fields:
            out("pass")
    return out.lines


def _class_default(field: Field) -> str:
    if field.default is ...:
        return f"msgspec.field(default_factory={field.kind})"
    return default_source(field)


def _comment(field: Field, struct: StructSpec) -> str:
    """Facts about a field that its type does not show."""
    clipped = field.versions & struct.versions
    parts = [f"versions {clipped}"]
    if field.tagged:
        parts.append(f"tag {field.tag}")
    if field.entity:
        parts.append(field.entity)
    if field.about:
        parts.append(field.about)
    return "; ".join(parts)


def _compared(spec: MessageSpec) -> set[str]:
    """Structs whose default some writer compares with."""
    return {
        field.kind
        for struct in spec.structs()
        for field in struct.fields
        if field.default is ... and (field.tagged or any(v not in field.versions for v in struct.versions))
    }


def _constants(spec: MessageSpec, schema: str) -> list[str]:
    """What the registry knows of a message without its readers and writers."""
    return [
        "",
        "",
        f"MESSAGE = {spec.name}",
        f"API_KEY: int | None = {spec.api_key}",
        f"VERSIONS = ({spec.versions.lowest}, {spec.versions.highest})",
        f"FLEXIBLE: int | None = {_flexible(spec)}",
        f"SCHEMA = {json.dumps(json.dumps(json.loads(schema), separators=(',', ':')))}",
    ]


def _table(verb: str, functions: _Functions) -> list[str]:
    entries = [f"    {version}: {verb}_v{first}," for version, first in functions.shared.items()]
    return [f"{_TABLES[verb]} = {{", *entries, "}"]


def _imports(text: str, spec: MessageSpec) -> str:
    words = set(re.findall(r"\w+", text))
    has_classes = "MESSAGE" in words
    tells = has_classes and _tells_its_answer(spec)
    errors = [name for name in ("decode_error", "encode_error") if name in words]
    names = sorted(name for name in primitives.__all__ if name in words)
    structs = sorted(struct.name for struct in spec.structs() if struct.name in words)
    lines = [""] if errors or tells else []
    lines += ["import struct"] if errors else []
    lines += ["from typing import TYPE_CHECKING, TypeAlias"] if tells else []
    lines += ["", "import msgspec", ""] if has_classes else [""]
    lines += [f"from odradek.wire.explain import {', '.join(errors)}"] if errors else []
    if not has_classes:
        lines += [f"from odradek.wire.messages.{spec.module_name} import {', '.join([*structs, 'SCHEMA'])}"]
    lines += [f"from odradek.wire.primitives import {', '.join(names)}"] if names else []
    if spec.extends is not None:
        lines += [f"from odradek.wire.messages import {spec.extends} as ordinary", "", f'EXTENDS = "{spec.extends}"']
    if tells:
        answer = f"{spec.name.removesuffix('Request')}Response"
        lines += ["", "if TYPE_CHECKING:", "    from odradek.wire.api import RequestOf"]
        lines += [f"    from odradek.wire.messages.{snake_case(answer)} import {answer}", ""]
        lines += [f"    Request: TypeAlias = RequestOf[{answer}]", "else:", "    Request = msgspec.Struct"]
    return "\n".join(lines) + "\n"


def _tells_its_answer(spec: MessageSpec) -> bool:
    """Whether its class says to mypy which response answers it; that of a dialect is below the ordinary class."""
    return spec.type == "request" and spec.extends is None


def main() -> int:
    try:
        changed = write()
    except SchemaError as error:
        print(error, file=sys.stderr)
        return 1
    print("".join(f"{name}\n" for name in changed), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
