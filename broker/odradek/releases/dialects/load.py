"""From the folder of a dialect to the `Release` that a broker can be.

    dialect.toml     name, title, base; [apis], [features], [configs], [since], [verification], [producers], [switches]
    messages/*.json  overlays over the schemas of messages (`odradek.releases.dialects.messages`)
    tables.py        overlays over tables and endpoints (`odradek.releases.dialects.tables`, `odradek.host.overlay`)
    producer.py      the client of the text (`odradek.releases.dialects.producer`)

Everything is checked before a broker starts with it; a violation is a `DialectError` of one sentence.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from odradek.cli.usage import UsageError
from odradek.config.keys import BadValue
from odradek.config.table import BROKER_KEYS
from odradek.host.overlay import Overlay, Overlays, overlays_of
from odradek.host.served import SERVED
from odradek.releases.dialects.errors import DialectError
from odradek.releases.dialects.messages import load_messages
from odradek.releases.dialects.tables import Tables, over
from odradek.releases.release import Range, Release
from odradek.releases.table import FEATURES, RELEASES
from odradek.txn.decision_tables import Rules, rules_of
from odradek.wire import registry
from odradek.wire.codecs import PLAIN, Codecs
from odradek.wire.schema import snake_case

if TYPE_CHECKING:
    from odradek.releases.dialects.producer import Producer
    from odradek.wire.registry import ApiKey

__all__ = ["FOLDER", "Dialect", "load", "names", "producer_class", "read"]

S = TypeVar("S", bound=Struct)
FOLDER = Path(__file__).parent
FILE = "dialect.toml"
_KEYS = {
    "name": str,
    "title": str,
    "base": str,
    "apis": dict,
    "features": dict,
    "configs": dict,
    "since": dict,
    "verification": dict,
    "producers": dict,
    "switches": dict,
}
_SWITCHES = (
    "fences_before_waiting",
    "keeps_zstd_from_old_fetches",
    "share_markers_match_exactly",
    "updates_each_feature",
)
_SERVED = {served.api_key.name: served.api_key for served in SERVED if served.is_for_clients}


class Dialect(Struct, frozen=True):
    """A dialect as it was read: its release for a broker, and its content for `odradek dialects show`."""

    folder: Path
    release: Release
    below: Release
    tables: Tables
    overlays: Sequence[Overlay]
    settings: Mapping[str, Any]
    """The content of `dialect.toml`."""


def names() -> list[str]:
    """The names of the dialects that come with Odradek."""
    return sorted(path.parent.name.replace("_", "-") for path in FOLDER.glob(f"*/{FILE}"))


def load(name: str) -> Release:
    """The dialect of this name, or in this folder. Raises `UsageError` if there is none, or it breaks a rule."""
    return read(name).release


def read(name: str) -> Dialect:
    """The dialect with all its content."""
    return _read(_find(name), ())


def producer_class(name: str) -> type[Producer]:
    """The producer of this dialect: `PRODUCER` of its `producer.py`, or that of its base."""
    from odradek.releases.dialects.producer import Producer  # part of clients, which no broker needs

    folder: Path | None = _find(name)
    while folder is not None:
        file = folder / "producer.py"
        if file.is_file():
            kind = getattr(_run(file), "PRODUCER", None)
            if not (isinstance(kind, type) and issubclass(kind, Producer)):
                raise DialectError(
                    file, "PRODUCER", "there is none, or it is no odradek.releases.dialects.producer.Producer"
                )
            return kind
        folder = _folder_below(folder / FILE, _settings(folder / FILE)["base"])
    return Producer


def _find(name: str) -> Path:
    if name in names():
        return FOLDER / name.replace("-", "_")
    folder = Path(name)
    if (folder / FILE).is_file():
        return folder.resolve()
    if folder.is_dir() or "/" in name:
        raise UsageError(f"{name} is no dialect: there is no {FILE} in it.")
    raise UsageError(f"There is no dialect {name}: there are {', '.join(names())}, and folders with a {FILE}.")


def _read(folder: Path, above: tuple[Path, ...]) -> Dialect:
    file = folder / FILE
    settings = _settings(file)
    below = _base(file, settings["base"], (*above, folder))
    codecs = _codecs(folder, below)
    tables, overlays = _tables(folder)
    rules = over(_rules(file, settings, rules_of(below)), tables, folder / "tables.py")
    features, levels = _features(file, settings.get("features", {}), below)
    release = replace(
        below,
        name=settings["name"],
        title=settings.get("title", ""),
        base=settings["base"],
        apis=_apis(file, settings.get("apis", {}), below, codecs),
        features=features,
        levels=levels,
        defaults={**below.defaults, **dict(_configs(file, settings.get("configs", {})))},
        verification=_switched(file, "verification", settings, below.verification),
        producers=_switched(file, "producers", settings, below.producers),
        codecs=codecs,
        parts={Rules: rules, Overlays: overlays_of(below).laid_over(overlays)},
        **_switches(file, settings.get("switches", {})),
    )
    return Dialect(folder, release, below, tables, overlays, settings)


def _settings(file: Path) -> dict[str, Any]:
    try:
        settings = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DialectError(file, "", f"not TOML: {error}") from None
    for key, value in settings.items():
        if key not in _KEYS:
            raise DialectError(file, key, f"there is no such key: there are {', '.join(_KEYS)}")
        if not isinstance(value, _KEYS[key]):
            raise DialectError(file, key, f"it is a {'table' if _KEYS[key] is dict else 'text'}, not {value!r}")
    for key in ("name", "base"):
        if not settings.get(key):
            raise DialectError(file, key, "a dialect has one")
    return settings


def _base(file: Path, base: str, above: tuple[Path, ...]) -> Release:
    folder = _folder_below(file, base)
    if folder is None:
        return RELEASES[base]
    if folder in above:
        raise DialectError(file, "base", f"{base} is over this very dialect")
    return _read(folder, above).release


def _folder_below(file: Path, base: str) -> Path | None:
    """The folder of the base of a dialect; None if the base is a release."""
    if base in RELEASES:
        return None
    nearby = file.parent / base
    folder = nearby.resolve() if (nearby / FILE).is_file() else FOLDER / base.replace("-", "_")
    if not (folder / FILE).is_file():
        known = ", ".join([*RELEASES, *names()])
        raise DialectError(file, "base", f"there is no release or dialect {base}: there are {known}")
    return folder


def _codecs(folder: Path, below: Release) -> Codecs:
    inherited = below.codecs or PLAIN
    own = load_messages(folder / "messages", inherited.changed)
    if not own:
        return inherited
    bases = {cls.__bases__[0]: cls for cls in own}
    kept = {ordinary: inherited.type_of(ordinary) for ordinary in inherited.changed}
    return Codecs({**kept, **bases}.values())


def _tables(folder: Path) -> tuple[Tables, Sequence[Overlay]]:
    file = folder / "tables.py"
    if not file.is_file():
        return Tables(), ()
    module = vars(_run(file))
    overlays = [each.overlay for each in module.values() if isinstance(getattr(each, "overlay", None), Overlay)]
    for each in overlays:
        if each.api_key not in _SERVED.values():
            raise DialectError(file, f"overlay({each.api_key.name})", "the broker serves clients no such API")
    tables = module.get("TABLES", Tables() if overlays else None)
    if not isinstance(tables, Tables):
        raise DialectError(file, "TABLES", "there is none, or it is no odradek.releases.dialects.tables.Tables")
    return tables, overlays


def _run(file: Path) -> object:
    try:
        return _module(file)
    except DialectError:
        raise
    except Exception as error:
        raise DialectError(file, "", f"it cannot be run: {type(error).__name__}: {error}") from error


def _module(file: Path) -> object:
    if file.parent.parent == FOLDER:
        return import_module(f"odradek.releases.dialects.{file.parent.name}.{file.stem}")
    name = f"odradek_dialect_{file.stem}_{abs(hash(str(file)))}"
    spec = spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _rules(file: Path, settings: Mapping[str, Any], rules: Rules) -> Rules:
    since = settings.get("since", {})
    for key, value in since.items():
        if key not in rules.since.__struct_fields__:
            known = ", ".join(rules.since.__struct_fields__)
            raise DialectError(file, f"since.{key}", f"there is no such part: there are {known}")
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise DialectError(file, f"since.{key}", f"it is the version of a request, not {value!r}")
    return replace(rules, since=replace(rules.since, **since)) if since else rules


def _apis(file: Path, told: Mapping[str, Any], below: Release, codecs: Codecs) -> Mapping[str, Range]:
    apis = dict(below.apis or {})
    changed = dict.fromkeys(snake_case(_api_name(cls)).upper() for cls in codecs.changed)
    for key in changed.keys() & apis.keys():
        apis[key] = _offered(apis[key], _SERVED[key], codecs, below.codecs or PLAIN)
    for name, versions in told.items():
        key = snake_case(name).upper()
        if key not in _SERVED:
            raise DialectError(file, f"apis.{name}", "the broker serves no such API")
        if versions is False:
            apis.pop(key, None)
            continue
        apis[key] = _range(file, f"apis.{name}", versions)
    for key in apis.keys() & {*changed, *(snake_case(name).upper() for name in told)}:
        api_key = _SERVED[key]
        for cls in (registry.request_type(api_key), registry.response_type(api_key)):
            _check_range(file, f"apis.{_api_name(cls)}", apis[key], cls, codecs)
    return apis


def _offered(before: Range, api_key: ApiKey, codecs: Codecs, codecs_below: Codecs) -> Range:
    """The versions of an API whose messages a dialect changes: a schema with other versions gives the highest."""
    request = registry.request_type(api_key)
    highest = codecs.valid_versions(request)[1]
    return before if highest == codecs_below.valid_versions(request)[1] else (before[0], highest)


def _api_name(cls: type[Struct]) -> str:
    return re.sub("(Request|Response)$", "", cls.__name__)


def _check_range(file: Path, field: str, offered: Range, cls: type[Struct], codecs: Codecs) -> None:
    low, high = offered
    lowest, highest = codecs.valid_versions(cls)
    if not lowest <= low <= high <= highest:
        rule = f"versions {low} to {high} are offered, and {cls.__name__} has a schema for {lowest} to {highest}"
        raise DialectError(file, field, rule)


def _range(file: Path, field: str, value: object) -> Range:
    match value:
        case [int(low), int(high)] if 0 <= low <= high:
            return low, high
        case _:
            raise DialectError(file, field, f"it is the lowest and the highest version, or false, not {value!r}")


def _features(file: Path, told: Mapping[str, Any], below: Release) -> tuple[Mapping[str, Range], Mapping[str, int]]:
    features, levels = dict(below.features), dict(below.levels)
    for name, value in told.items():
        if name not in FEATURES:
            raise DialectError(file, f"features.{name}", f"there is no such feature: there are {', '.join(FEATURES)}")
        if value is False:
            features.pop(name, None)
            levels.pop(name, None)
            continue
        if not isinstance(value, dict) or value.keys() != {"levels", "default"}:
            raise DialectError(file, f"features.{name}", "it is false, or has levels and a default")
        low, high = features[name] = _range(file, f"features.{name}.levels", value["levels"])
        default = value["default"]
        if not isinstance(default, int) or not low <= default <= high:
            raise DialectError(file, f"features.{name}.default", f"it is a level from {low} to {high}, not {default!r}")
        levels[name] = default
    return features, levels


def _configs(file: Path, told: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in told.items():
        if name not in BROKER_KEYS:
            raise DialectError(file, f"configs.{name}", "there is no such configuration key of a broker")
        text = str(value).lower() if isinstance(value, bool) else str(value)
        try:
            BROKER_KEYS[name].parse(text)
        except BadValue as error:
            raise DialectError(file, f"configs.{name}", str(error)) from None
        yield name, text


def _switched(file: Path, table: str, settings: Mapping[str, Any], below: S) -> S:
    told = settings.get(table, {})
    for key, value in told.items():
        if key not in below.__struct_fields__:
            known = ", ".join(below.__struct_fields__)
            raise DialectError(file, f"{table}.{key}", f"there is no such switch: there are {known}")
        if not isinstance(value, bool):
            raise DialectError(file, f"{table}.{key}", f"it is true or false, not {value!r}")
    return replace(below, **told)


def _switches(file: Path, told: Mapping[str, Any]) -> dict[str, bool]:
    for key, value in told.items():
        if key not in _SWITCHES:
            raise DialectError(file, f"switches.{key}", f"there is no such switch: there are {', '.join(_SWITCHES)}")
        if not isinstance(value, bool):
            raise DialectError(file, f"switches.{key}", f"it is true or false, not {value!r}")
    return dict(told)
