"""The keys that sign tokens, read from the files that the configuration names."""

from __future__ import annotations

from odradek.cli.usage import UsageError
from odradek.config.table import Config

__all__ = ["KeyFileError", "with_keys"]

URL = "sasl.oauthbearer.jwks.endpoint.url"
KEYS = "odradek.sasl.oauthbearer.jwks"


class KeyFileError(UsageError):
    """Keys that cannot be read; the text is one clear sentence."""


def with_keys(config: Config) -> Config:
    """The same configuration with the keys themselves beside the names of their files. Raises `KeyFileError`."""
    texts = {name: text for _, layer in config.layers for name, text in layer.items()}
    urls = {
        name: text
        for name, text in texts.items()
        if name.endswith(URL) and name.removesuffix(URL) + KEYS not in texts  # a recording has the keys themselves
    }
    if not urls:
        return config
    return config.with_static({name.removesuffix(URL) + KEYS: _read(name, url) for name, url in urls.items()})


def _read(name: str, url: str) -> str:
    from pathlib import Path  # few configurations name such a file
    from urllib.parse import unquote, urlsplit

    parts = urlsplit(url)
    if parts.scheme != "file":
        raise KeyFileError(f"{name} is {url}: keys are read from files (file:///…) only.")
    path = Path(unquote(parts.path))
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise KeyFileError(f"Cannot read {path}, which {name} names: {reason}.") from error
