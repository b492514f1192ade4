"""Keys and certificates from where Kafka's clients have them: PEM, PKCS12, JKS."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from odradek.cli.usage import UsageError

__all__ = ["pem_of_store"]

_JKS = bytes.fromhex("feedfeed")
_PEM = b"-----BEGIN"
_KEYTOOL_S = 60


def pem_of_store(key: str, location: str, kind: str, password: str | None, key_password: str | None = None) -> str:
    """What stands in a store, as PEM; `key` is the property that names it. Raises `UsageError`.

    The type is told by the content too: since Java 9 it reads PKCS12 where JKS was said.
    """
    try:
        content = Path(location).read_bytes()
    except OSError as error:
        raise UsageError(f"{key}: {location} cannot be read: {error.strerror}.") from None
    if kind.upper() == "PEM":
        if _PEM not in content:
            raise UsageError(f"{key}: {location} holds no PEM.")
        return content.decode("utf-8", "replace")
    if content.lstrip().startswith(_PEM):
        raise UsageError(f"{key}: {location} is PEM: add {key.replace('location', 'type')}=PEM.")
    if content.startswith(_JKS):
        content = _as_pkcs12(key, location, password, key_password)
    return _of_pkcs12(key, location, content, password)


def _of_pkcs12(key: str, location: str, content: bytes, password: str | None) -> str:
    try:
        from odradek.net.certs import pem_of_pkcs12
    except ModuleNotFoundError:
        raise UsageError(
            f"{key}: reading {location} needs the package cryptography: pip install 'odradek[certs]'."
        ) from None
    try:
        pem, _ = pem_of_pkcs12(content, password)
    except ValueError:
        word = key.replace("location", "password")
        raise UsageError(f"{key}: {location} cannot be opened: is it a PKCS12 store, and {word} right?") from None
    return pem


def _as_pkcs12(key: str, location: str, password: str | None, key_password: str | None) -> bytes:
    """A store of Java's own kind, which only Java's keytool opens."""
    home = os.environ.get("JAVA_HOME")
    keytool = shutil.which(os.path.join(home, "bin", "keytool") if home else "keytool")
    if keytool is None:
        raise UsageError(f"{key}: {location} is JKS, which needs Java's keytool; there is none. Use PKCS12 or PEM.")
    secret = password or "changeit"
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "store.p12"
        command = [keytool, "-importkeystore", "-noprompt", "-srckeystore", location, "-srcstoretype", "JKS"]
        command += ["-srcstorepass:env", "ODRADEK_STORE", "-destkeystore", str(made), "-deststoretype", "PKCS12"]
        command += ["-deststorepass:env", "ODRADEK_STORE"]
        if key_password is not None:
            command += ["-srckeypass:env", "ODRADEK_KEY", "-destkeypass:env", "ODRADEK_STORE"]
            command += _only_alias(keytool, location, secret)
        secrets = {"ODRADEK_STORE": secret, "ODRADEK_KEY": key_password or secret}
        done = subprocess.run(
            command, env={**os.environ, **secrets}, capture_output=True, timeout=_KEYTOOL_S, check=False
        )
        if done.returncode or not made.exists():
            word = key.replace("location", "password")
            raise UsageError(f"{key}: {location} cannot be opened: is {word} right?")
        return made.read_bytes()


def _only_alias(keytool: str, location: str, secret: str) -> list[str]:
    """keytool takes a password of a key only with the key's name."""
    done = subprocess.run(
        [keytool, "-list", "-keystore", location, "-storepass:env", "ODRADEK_STORE"],
        env={**os.environ, "ODRADEK_STORE": secret, "LC_ALL": "C"},
        capture_output=True,
        text=True,
        timeout=_KEYTOOL_S,
        check=False,
    )
    names = [line.split(",")[0] for line in done.stdout.splitlines() if "PrivateKeyEntry" in line]
    return ["-srcalias", names[0]] if names else []
