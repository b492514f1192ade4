"""The messages of a dialect: Kafka's schemas with its overlays, and codecs that the generator makes of them.

An overlay with a `type` is a whole schema; one without names only changes: keys of the message, and fields. Generated
codecs are kept by their content below the cache of the user (`ODRADEK_CACHE`, else `XDG_CACHE_HOME/odradek`, else
`~/.cache/odradek`) for the next start; if nothing can be written there, they are generated each time.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Collection, Mapping
from hashlib import sha256
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import msgspec

from odradek.releases.dialects.errors import DialectError
from odradek.wire import registry
from odradek.wire.messages import MODULES

__all__ = ["cache_folder", "load_message", "load_messages"]

Schema = dict[str, Any]
_WIRE = Path(registry.__file__).parent
_GENERATOR = ("emit", "emit_reader", "emit_writer", "generate", "schema")
"""The modules of the generator: a change in one of them changes its output."""
_FIXED = ("apiKey", "type", "name")
"""Keys that an overlay cannot change, because they identify the message."""


def load_messages(folder: Path, below: Collection[type[msgspec.Struct]]) -> list[type[msgspec.Struct]]:
    """The classes of all overlays in a folder. Raises `DialectError` for one that breaks a rule of the schemas.

    Where only a request or only its response has a file with other versions, both get these versions, unless the
    dialect below has changed the other one (`below`: the messages that it has changed).
    """
    paths = sorted(folder.glob("*.json"))
    classes = [load_message(path, path.read_text(encoding="utf-8")) for path in paths]
    for path, cls in zip(paths, list(classes), strict=True):
        other = path.with_stem(_other(path.stem))
        lowest, highest = registry.valid_versions(cls)
        is_new = (lowest, highest) != registry.valid_versions(registry.message_type(path.stem))
        if is_new and other != path and not other.is_file() and registry.message_type(other.stem) not in below:
            classes.append(load_message(other, json.dumps({"validVersions": f"{lowest}-{highest}"})))
    return classes


def _other(name: str) -> str:
    """The response of a request, or the request of a response; the name itself for other messages."""
    for end, other in (("Request", "Response"), ("Response", "Request")):
        if name.endswith(end):
            return name.removesuffix(end) + other
    return name


def cache_folder() -> Path:
    """The folder in which generated messages are kept."""
    named = os.environ.get("ODRADEK_CACHE")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "odradek"


def load_message(path: Path, text: str) -> type[msgspec.Struct]:
    """The class of one overlay, the text of this file."""
    if path.stem not in MODULES:
        raise DialectError(path, "", f"there is no message {path.stem}: a file is named as the message that it changes")
    ordinary = registry.message_type(path.stem)
    known: str = sys.modules[ordinary.__module__].SCHEMA
    digest = _digest(text, known)
    name = f"odradek_dialect_{digest}"
    module = sys.modules.get(name) or _built(path, text, known, name)
    return cast("type[msgspec.Struct]", module.MESSAGE)


def _digest(*texts: str) -> str:
    content = sha256()
    for text in texts:
        content.update(text.encode())
    for module in _GENERATOR:
        content.update((_WIRE / f"{module}.py").read_bytes())
    content.update(sys.version.encode())
    return content.hexdigest()[:24]


def _built(path: Path, text: str, known: str, name: str) -> ModuleType:
    kept = cache_folder() / "messages" / f"{name}.py"
    if not kept.is_file():
        source = _source(path, text, known)
        try:
            kept.parent.mkdir(parents=True, exist_ok=True)
            fresh = kept.with_suffix(f".{os.getpid()}")
            fresh.write_text(source, encoding="utf-8")
            fresh.replace(kept)
        except OSError:
            return _run(name, source)
    found = spec_from_file_location(name, kept)
    assert found is not None
    assert found.loader is not None
    module = module_from_spec(found)
    sys.modules[name] = module
    found.loader.exec_module(module)
    return module


def _run(name: str, source: str) -> ModuleType:
    module = ModuleType(name)
    sys.modules[name] = module
    exec(compile(source, f"<{name}>", "exec"), module.__dict__)
    return module


def _source(path: Path, text: str, known: str) -> str:
    from odradek.wire import generate, schema  # a message in the cache need not be generated

    ordinary = json.loads(known)
    merged = _merged(path, text, ordinary)
    try:
        spec = schema.parse(json.dumps(merged))
    except schema.SchemaError as error:
        field, _, rule = str(error).partition(": ")
        raise DialectError(path, field, rule) from None
    extends = MODULES[path.stem]
    below = vars(import_module(f"odradek.wire.messages.{extends}"))
    return generate.message_source(
        spec.extending(extends), json.dumps(merged), f"{path.name} of a dialect", below=below
    )


def _merged(path: Path, text: str, ordinary: Schema) -> Schema:
    try:
        overlay = json.loads(text)
    except ValueError as error:
        raise DialectError(path, "", f"not JSON: {error}") from None
    if not isinstance(overlay, dict) or overlay.get("name", path.stem) != path.stem:
        raise DialectError(path, "name", f"the file is of {path.stem}, and of nothing else")
    for key in _FIXED:
        if key in overlay and overlay[key] != ordinary.get(key):
            raise DialectError(
                path, key, f"it is {ordinary.get(key)!r} in Kafka, and an overlay cannot make it another"
            )
    if "type" in overlay:
        return cast("Schema", overlay)
    return _over(path, overlay, ordinary)


def _over(path: Path, overlay: Mapping[str, Any], below: Mapping[str, Any]) -> Schema:
    """The keys of the overlay in place of those below; lists of fields and structs are merged by name."""
    merged = {**below, **overlay}
    for key in ("fields", "commonStructs"):
        if key in overlay and key in below:
            merged[key] = _listed(path, overlay[key], below[key])
    return merged


def _listed(path: Path, overlays: object, below: list[Schema]) -> list[Schema]:
    if not isinstance(overlays, list) or not all(isinstance(each, dict) and "name" in each for each in overlays):
        raise DialectError(path, "fields", "it is a list of fields, each with its name")
    merged = {each["name"]: each for each in below}
    for each in overlays:
        found = merged.get(each["name"])
        merged[each["name"]] = each if found is None else _over(path, each, found)
    return list(merged.values())
