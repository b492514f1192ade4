"""An API with the types of its messages: its name gives mypy the types of request and response.

The APIs of the protocol are made by the generator (`odradek.wire.messages.apis`):

    END_TXN: Api[EndTxnRequest, EndTxnResponse] = Api(ApiKey.END_TXN)
"""

from __future__ import annotations

from typing import Generic, TypeVar

from msgspec import Struct

from odradek.wire.messages import ApiKey

__all__ = ["Api", "RequestOf"]

Q = TypeVar("Q", bound=Struct)
R = TypeVar("R", bound="Struct | None")


A_co = TypeVar("A_co", bound=Struct, covariant=True)


class RequestOf(Struct, Generic[A_co]):
    """The class of all requests that are answered with `A_co`, for mypy: at run time a request is only a `Struct`."""


class Api(Generic[Q, R]):
    """The API of this key; `Q` is its request, `R` its response, or None where there may be none."""

    __slots__ = ("key",)

    def __init__(self, key: ApiKey) -> None:
        self.key = key

    def __repr__(self) -> str:
        return self.key.name
