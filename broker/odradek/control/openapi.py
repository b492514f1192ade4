"""The OpenAPI document of the hub, made from the table of calls and the Structs of their bodies and answers."""

from __future__ import annotations

import re
from inspect import cleandoc
from typing import Any

import msgspec

from odradek import __version__
from odradek.control.endpoints.asked import Endpoint, File
from odradek.control.endpoints.table import ENDPOINTS
from odradek.control.messages.common import Problem
from odradek.control.plan import Plan
from odradek.faults.model import Rule

__all__ = ["document"]

REF = "#/components/schemas/{name}"


def _anything(kind: type) -> dict[str, str]:
    """The schema of a value that may be any JSON: fields of an answer that a rule gives."""
    if kind is not object:
        raise NotImplementedError
    return {"description": "any JSON"}


def document() -> dict[str, Any]:
    """The OpenAPI 3.1 document."""
    kinds: list[Any] = [Problem, Rule, list[Rule], Plan]
    for endpoint in ENDPOINTS:
        kinds += [kind for kind in (endpoint.body, endpoint.answer) if kind not in (None, type(None), Any, File)]
    schemas, components = msgspec.json.schema_components(kinds, ref_template=REF, schema_hook=_anything)
    by_kind = {str(kind): schema for kind, schema in zip(kinds, schemas, strict=True)}
    either = {"oneOf": [by_kind[str(kind)] for kind in (Rule, list[Rule], Plan)]}
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in ENDPOINTS:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint, by_kind, either)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "odradek hub",
            "version": __version__,
            "description": "Clusters of brokers that are made, driven and removed over HTTP.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "http://127.0.0.1:9644"}],
        "security": [{}, {"token": []}],
        "paths": paths,
        "components": {
            "schemas": {name: _plain(schema) for name, schema in components.items()},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "responses": {
                "Problem": {
                    "description": "What is wrong, in a sentence.",
                    "content": {"application/problem+json": {"schema": by_kind[str(Problem)]}},
                }
            },
        },
    }


def _plain(schema: Any) -> Any:
    """A schema in the form that code generators expect.

    An array names the type of its items, even if that may be anything, and a description has no indentation.
    """
    if isinstance(schema, list):
        return [_plain(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    plain = {name: _plain(value) for name, value in schema.items()}
    if plain.get("type") == "array":
        plain.setdefault("items", {})
    if isinstance(plain.get("description"), str):
        plain["description"] = cleandoc(plain["description"])
    return plain


def _tag(path: str) -> str:
    """The tag of a call: the part of a cluster that it concerns, or clusters."""
    parts = [part for part in path.split("/") if part and not part.startswith("{")]
    return parts[1] if len(parts) > 1 else "clusters"


def _operation(endpoint: Endpoint, by_kind: dict[str, Any], either: dict[str, Any]) -> dict[str, Any]:
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"{(\w+)}", endpoint.path)
    ]
    parameters += [
        {"name": each.name, "in": "query", "description": each.about, "schema": {"type": each.kind}}
        for each in endpoint.query
    ]
    answer: dict[str, Any] = {"description": endpoint.about}
    if endpoint.answer is File:
        answer["content"] = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
    elif endpoint.answer not in (None, type(None)):
        answer["content"] = {"application/json": {"schema": by_kind[str(endpoint.answer)]}}
        if any(each.name == "follow" for each in endpoint.query):
            answer["content"]["text/event-stream"] = {"schema": {"type": "string"}}
    operation: dict[str, Any] = {
        "operationId": endpoint.run.__name__,
        "summary": endpoint.about,
        "tags": [_tag(endpoint.path)],
        "responses": {
            str(endpoint.status): answer,
            "default": {"$ref": "#/components/responses/Problem"},
        },
    }
    if parameters:
        operation["parameters"] = parameters
    if endpoint.body is not None:
        schema = either if endpoint.body is Any else by_kind[str(endpoint.body)]
        operation["requestBody"] = {
            "required": endpoint.body_required,
            "content": {"application/json": {"schema": schema}},
        }
    return operation
