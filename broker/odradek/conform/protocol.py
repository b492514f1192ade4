"""The driver's protocol: one JSON object a line, requests on standard input, answers on standard output.

docs/conform-driver.md describes it for authors of drivers, `driver.schema.json` is these types as a JSON schema.
"""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Any, get_args

import msgspec
from msgspec import Meta, Struct

__all__ = [
    "VERBS",
    "Abort",
    "Answer",
    "Begin",
    "Close",
    "Commit",
    "Driver",
    "ErrorClass",
    "Failed",
    "Flush",
    "Hello",
    "Init",
    "Mode",
    "Offset",
    "Poll",
    "Polled",
    "Record",
    "Request",
    "Role",
    "Send",
    "SendOffsets",
    "Sent",
    "Subscribe",
    "TIMED_OUT",
    "Value",
    "result_of",
    "snake",
    "verb_of",
]

Value = str | int | bool
TIMED_OUT = "TIMED_OUT"
"""The name of the error of a driver whose client has not finished by the `timeout_ms` of the request."""
Milliseconds = Annotated[int, Meta(ge=0)]


class Role(Enum):
    """The kind of client that `init` creates."""

    PRODUCER = "producer"
    CONSUMER = "consumer"


class Mode(Enum):
    """The protocol of a consumer group: the classic one, or that of KIP-848."""

    CLASSIC = "classic"
    CONSUMER = "consumer"


class ErrorClass(Enum):
    """The reaction of an application to an error: repeat, abort the transaction, or close the client."""

    RETRIABLE = "retriable"
    ABORTABLE = "abortable"
    FATAL = "fatal"
    UNKNOWN = "unknown"


def snake(name: str) -> str:
    """`SendOffsets` as `send_offsets`."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")


class _Line(Struct, kw_only=True, omit_defaults=True, frozen=True):
    """A line; fields that are not known are passed over, so that later protocols may add some."""


class _Verb(_Line, tag_field="verb", tag=snake, kw_only=True, frozen=True):
    """A request to the driver."""

    id: int
    """Rises by 1; the answer carries it."""
    client: str
    """The client that is meant; `init` creates it."""
    timeout_ms: Milliseconds | None = None
    """The driver answers TIMED_OUT if the client has not finished by then."""


class Init(_Verb, kw_only=True, frozen=True):
    """Create a client. For a producer with a `transactional.id`, initialise its transactions, too, unless `lazy`."""

    role: Role
    bootstrap: str
    """`HOST:PORT`, several separated by commas."""
    config: dict[str, Value] = {}
    """Settings by the names of the Java client; a driver maps those that its library has."""
    needs: list[str] = []
    """Keys of `config` without which the scenario has no sense: a library that lacks one is `unsupported`."""
    lazy: bool = False
    """Only create the client; a second `init` for the same client without `lazy` initialises its transactions."""


class Begin(_Verb, kw_only=True, frozen=True):
    """Begin a transaction."""


class Send(_Verb, kw_only=True, frozen=True):
    """Give the client a record; with `wait` the answer comes when the record is acknowledged."""

    topic: str
    value: str
    partition: Annotated[int, Meta(ge=0)] | None = None
    key: str | None = None
    wait: bool = False


class Flush(_Verb, kw_only=True, frozen=True):
    """Have the client send its records, and wait until all of them are acknowledged or have failed."""


class Offset(Struct, frozen=True, kw_only=True):
    """The next offset to read of a partition."""

    topic: str
    partition: int
    offset: int


class SendOffsets(_Verb, kw_only=True, frozen=True):
    """Add offsets of a group to the transaction; with `consumer`, as the member of the group that this client is."""

    group: str
    offsets: list[Offset]
    consumer: str | None = None


class Commit(_Verb, kw_only=True, frozen=True):
    """Commit the transaction of a producer; of a consumer, its positions, synchronously."""


class Abort(_Verb, kw_only=True, frozen=True):
    """Abort the transaction."""


class Subscribe(_Verb, kw_only=True, frozen=True):
    """Have a consumer join its group, `group.id` of its `config`, for these topics."""

    topics: list[str]
    mode: Mode = Mode.CLASSIC
    """`init` has it as well, as `group.protocol` in `config`."""


class Poll(_Verb, kw_only=True, frozen=True):
    """Read records until there are `max` or the time is over; no records are no error."""

    max: Annotated[int, Meta(ge=1)] = 500


class Close(_Verb, kw_only=True, frozen=True):
    """Close the client; the driver forgets its name. An open transaction is left to its fate where that is possible."""


Request = Init | Begin | Send | Flush | SendOffsets | Commit | Abort | Subscribe | Poll | Close


def verb_of(request: Request | type[Request]) -> str:
    """The name of a verb, as it stands in the line."""
    return str(request.__struct_config__.tag)


VERBS: tuple[str, ...] = tuple(verb_of(each) for each in get_args(Request))


class Hello(Struct, frozen=True, kw_only=True):
    """The library behind the driver."""

    library: str
    version: str
    language: str
    verbs: list[str]
    """The verbs that the driver serves; the others are `unsupported`."""


class Driver(Struct, frozen=True, kw_only=True):
    """The first line of a driver, before any request."""

    hello: Hello


class Failed(Struct, frozen=True, kw_only=True):
    """An error that the client has raised to its application."""

    name: str
    """The name of the Kafka error, such as PRODUCER_FENCED; else the library's own name of it."""
    class_: ErrorClass = msgspec.field(name="class", default=ErrorClass.UNKNOWN)
    message: str = ""


class Sent(Struct, frozen=True, kw_only=True):
    """`done` of a `send` with `wait`."""

    partition: int
    offset: int


class Record(Struct, frozen=True, kw_only=True):
    """A record that a consumer has read."""

    topic: str
    partition: int
    offset: int
    value: str
    key: str | None = None


class Polled(Struct, frozen=True, kw_only=True):
    """`done` of a `poll`."""

    records: list[Record]


class Answer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer to a request: exactly one of `done`, `error` and `unsupported`."""

    id: int
    done: dict[str, Any] | None = None
    error: Failed | None = None
    unsupported: str | None = None

    def __post_init__(self) -> None:
        given = [each for each in (self.done, self.error, self.unsupported) if each is not None]
        if len(given) != 1:
            raise ValueError("an answer has exactly one of done, error and unsupported")


def result_of(request: Request, done: dict[str, Any]) -> Sent | Polled | None:
    """The values of a `done`, where the request asks for any. Raises `msgspec.ValidationError`."""
    match request:
        case Send(wait=True):
            return msgspec.convert(done, Sent)
        case Poll():
            return msgspec.convert(done, Polled)
        case _:
            return None
