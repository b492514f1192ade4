"""Certificates of listeners that change while a broker runs: stories about `listener.name.NAME.ssl.*`."""

from __future__ import annotations

import json
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat
from msgspec import Struct
from tests.security.wire import Raw

from odradek.net import certs
from odradek.wire.messages import alter_configs_request, describe_configs_request, incremental_alter_configs_request

__all__ = ["LISTENERS", "PROTOCOLS", "STORES", "Scene", "config", "make_stores", "play"]

LISTENERS = ("PLAINTEXT", "TLS", "LAX", "MORE", "BARE", "TEXT", "STORE", "INSIDE")
"""LAX lets names change, MORE is for names that cannot be taken back, BARE trusts nobody."""
PROTOCOLS = ",".join(f"{name}:{'PLAINTEXT' if name == 'PLAINTEXT' else 'SSL'}" for name in LISTENERS)
PASSWORD = "of-the-stores"
BROKER = 4
LOCATION, TYPE = "ssl.keystore.location", "ssl.keystore.type"
CHAIN, KEY = "ssl.keystore.certificate.chain", "ssl.keystore.key"
STORE_PASSWORD, KEY_PASSWORD = "ssl.keystore.password", "ssl.key.password"
TRUSTED, TRUSTED_TYPE = "ssl.truststore.location", "ssl.truststore.type"
TRUSTED_PASSWORD, TRUSTED_TEXT = "ssl.truststore.password", "ssl.truststore.certificates"
HOSTS = ("localhost", "127.0.0.1")
SET, DELETE = 0, 1
VERSION = 1
API_VERSIONS_V0 = bytes.fromhex("0000000a 0012 0000 00000001 ffff")


def config(folder: Path) -> dict[str, str]:
    """What both brokers are configured with."""
    files = {LOCATION: folder / "first.pem", TRUSTED: folder / "ca.pem"}
    told = {
        f"listener.name.{listener}.{key}": str(path)
        for listener in ("tls", "lax", "more", "inside", "bare")
        for key, path in files.items()
        if listener != "bare" or key != TRUSTED
    }
    return told | {
        "inter.broker.listener.name": "INSIDE",
        TYPE: "PEM",
        TRUSTED_TYPE: "PEM",
        "listener.name.tls.ssl.client.auth": "requested",
        "listener.name.text.ssl.client.auth": "requested",
        "listener.name.store.ssl.client.auth": "requested",
        "listener.name.lax.ssl.allow.dn.changes": "true",
        "listener.name.lax.ssl.allow.san.changes": "true",
        f"listener.name.text.{CHAIN}": _line(folder / "first-certificate.pem"),
        f"listener.name.text.{KEY}": _line(folder / "first-key.pem"),
        f"listener.name.text.{TRUSTED_TEXT}": _line(folder / "ca.pem"),
        f"listener.name.store.{LOCATION}": str(folder / "first.p12"),
        f"listener.name.store.{TYPE}": "PKCS12",
        f"listener.name.store.{STORE_PASSWORD}": PASSWORD,
        f"listener.name.store.{TRUSTED}": str(folder / "trusted.p12"),
        f"listener.name.store.{TRUSTED_TYPE}": "PKCS12",
        f"listener.name.store.{TRUSTED_PASSWORD}": PASSWORD,
    }


def _line(path: Path) -> str:
    return " ".join(path.read_text().split("\n")).strip()


def make_stores(folder: Path) -> None:
    """All the files that stories name."""
    make = certs._make
    authority, stranger = make("one", days=30), make("two", days=30)
    servers = {
        "first": make("localhost", days=30, issuer=authority, hosts=HOSTS),
        "renewed": make("localhost", days=30, issuer=authority, hosts=HOSTS),
        "other-name": make("elsewhere", days=30, issuer=authority, hosts=HOSTS),
        "more-hosts": make("localhost", days=30, issuer=authority, hosts=(*HOSTS, "elsewhere.test")),
        "fewer-hosts": make("localhost", days=30, issuer=authority, hosts=HOSTS[:1]),
        "of-stranger": make("localhost", days=30, issuer=stranger, hosts=HOSTS),
        "client": make("client", days=30, issuer=authority),
        "client-of-stranger": make("client", days=30, issuer=stranger),
    }
    files: dict[str, bytes] = {
        "ca.pem": authority.pem,
        "ca-of-stranger.pem": stranger.pem,
        "both.pem": authority.pem + stranger.pem,
        "trusted.p12": certs._truststore(authority, PASSWORD),
        "first-certificate.pem": servers["first"].pem,
        "first-key.pem": servers["first"].key_pem,
        "other-certificate.pem": servers["other-name"].pem,
        "other-key.pem": servers["other-name"].key_pem,
        "first.p12": certs._store("server", servers["first"], authority, PASSWORD),
        "stranger-trusted.p12": certs._truststore(stranger, PASSWORD),
        "empty.pem": b"",
        "nonsense.pem": b"no certificate\n",
        "only-certificate.pem": servers["renewed"].pem,
        "only-key.pem": servers["renewed"].key_pem,
        "renewed.p12": certs._store("server", servers["renewed"], authority, PASSWORD),
        "other-name.p12": certs._store("server", servers["other-name"], authority, PASSWORD),
        "locked.pem": servers["renewed"].key.private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(PASSWORD.encode())
        )
        + servers["renewed"].pem,
        "changing.pem": servers["first"].key_pem + servers["first"].pem,
    }
    files |= {f"{name}.pem": signed.key_pem + signed.pem for name, signed in servers.items()}
    for name, content in files.items():
        (folder / name).write_bytes(content)
    serials = {str(signed.certificate.serial_number): name for name, signed in servers.items()}
    (folder / "serials.json").write_text(json.dumps(serials))


class Scene(Struct):
    """A broker, its listeners, and the files that it is told of."""

    raw: Raw
    folder: Path
    ports: Mapping[str, int]
    lines: list[str]
    touched: set[str]

    def file(self, name: str) -> str:
        """Where a file is."""
        return str(self.folder / name)

    def text(self, name: str) -> str:
        """What is in it, as one line (KIP-651)."""
        return _line(self.folder / name)

    def alter(
        self,
        changes: Mapping[str, str | None],
        *,
        listener: str = "tls",
        broker: str = str(BROKER),
        validate_only: bool = False,
    ) -> None:
        """Set or, with None, take back keys of a listener."""
        m = incremental_alter_configs_request
        told = {name if not listener else f"listener.name.{listener}.{name}": value for name, value in changes.items()}
        self.touched |= told.keys()
        configs = [
            m.AlterableConfig(name=name, config_operation=DELETE if value is None else SET, value=value)
            for name, value in told.items()
        ]
        resource = m.AlterConfigsResource(resource_type=BROKER, resource_name="1", configs=configs)
        resource.resource_name = broker if broker != str(BROKER) else "1"
        self.raw.ask(m.IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only), VERSION)
        self.raw.settle()

    def replace_all(self, configs: Mapping[str, str]) -> None:
        """The older AlterConfigs: these keys, and no others."""
        m = alter_configs_request
        self.touched |= configs.keys()
        resource = m.AlterConfigsResource(
            resource_type=BROKER,
            resource_name="1",
            configs=[m.AlterableConfig(name=name, value=value) for name, value in configs.items()],
        )
        self.raw.ask(m.AlterConfigsRequest(resources=[resource]), 2)
        self.raw.settle()

    def describe(self, *names: str, listener: str = "tls") -> None:
        """What DescribeConfigs shows of keys of a listener."""
        m = describe_configs_request
        keys = [name if not listener else f"listener.name.{listener}.{name}" for name in names]
        resource = m.DescribeConfigsResource(resource_type=BROKER, resource_name="1", configuration_keys=keys)
        answer = self.raw.ask(m.DescribeConfigsRequest(resources=[resource], include_synonyms=True), 4)
        answer.results[0].configs.sort(key=lambda each: each.name)
        self.raw.lines.pop()
        for each in answer.results[0].configs:
            synonyms = [(s.name, s.value, s.source) for s in each.synonyms]
            self.raw.lines.append(
                f"{each.name}={each.value} source {each.config_source} read-only {each.read_only}"
                f" sensitive {each.is_sensitive} type {each.config_type} {synonyms}"
            )

    def shown(self, listener: str = "TLS") -> None:
        """Which certificate a new connection is shown."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        try:
            with (
                socket.create_connection(("127.0.0.1", self.ports[listener]), timeout=10) as plain,
                context.wrap_socket(plain) as tls,
            ):
                shown = x509.load_der_x509_certificate(tls.getpeercert(binary_form=True) or b"")
            serials = json.loads((self.folder / "serials.json").read_text())
            self.raw.lines.append(f"{listener} shows {serials[str(shown.serial_number)]}")
        except (ssl.SSLError, ConnectionError):
            self.raw.lines.append(f"{listener} shows none")

    def knock(self, client: str, listener: str = "TLS") -> None:
        """Whether a client with this certificate is let in, or with none."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if client != "nobody":
            context.load_cert_chain(self.file(f"{client}.pem"))
        try:
            with (
                socket.create_connection(("127.0.0.1", self.ports[listener]), timeout=10) as plain,
                context.wrap_socket(plain) as tls,
            ):
                tls.sendall(API_VERSIONS_V0)
                let_in = len(tls.recv(4)) == 4
        except (ssl.SSLError, ConnectionError):
            let_in = False
        self.raw.lines.append(f"{client} is {'let in' if let_in else 'refused'}")

    @contextmanager
    def guest(self, listener: str = "TLS") -> Iterator[None]:
        """A client that is connected meanwhile, and goes on."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with (
            socket.create_connection(("127.0.0.1", self.ports[listener]), timeout=10) as plain,
            context.wrap_socket(plain) as tls,
        ):
            yield
            tls.sendall(API_VERSIONS_V0)
            self.raw.lines.append(f"the guest is {'served' if len(tls.recv(4)) == 4 else 'gone'}")

    def as_before(self) -> None:
        """Take back all that this story has set."""
        told = len(self.raw.lines)
        if self.touched:
            self.alter(dict.fromkeys(sorted(self.touched)), listener="")
        del self.raw.lines[told:]


def a_renewed_certificate(scene: Scene) -> None:
    scene.shown()
    with scene.guest():
        scene.alter({LOCATION: scene.file("renewed.pem")})
    scene.shown()
    scene.shown("LAX")
    scene.describe(LOCATION)
    scene.describe(LOCATION, listener="")
    scene.alter({LOCATION: None})
    scene.shown()
    scene.describe(LOCATION)


def only_asked_about(scene: Scene) -> None:
    scene.alter({LOCATION: scene.file("renewed.pem")}, validate_only=True)
    scene.shown()
    scene.describe(LOCATION)
    scene.alter({LOCATION: scene.file("other-name.pem")}, validate_only=True)
    scene.alter({LOCATION: scene.file("missing.pem")}, validate_only=True)


def other_names(scene: Scene) -> None:
    for name in ("other-name", "fewer-hosts", "of-stranger"):
        for listener in ("tls", "lax"):
            scene.alter({LOCATION: scene.file(f"{name}.pem")}, listener=listener)
            scene.shown(listener.upper())


def more_names(scene: Scene) -> None:
    scene.alter({LOCATION: scene.file("more-hosts.pem")}, listener="more")
    scene.shown("MORE")
    scene.alter({LOCATION: scene.file("renewed.pem")}, listener="more")
    scene.alter({LOCATION: None}, listener="more")
    scene.shown("MORE")
    scene.describe(LOCATION, listener="more")


def files_that_are_none(scene: Scene) -> None:
    names = ("missing.pem", ".", "empty.pem", "nonsense.pem", "only-certificate.pem", "only-key.pem")
    for name in names:
        scene.alter({LOCATION: scene.file(name)})
        scene.shown()
    scene.alter({LOCATION: ""})


def stores_of_java(scene: Scene) -> None:
    store = {LOCATION: scene.file("renewed.p12"), TYPE: "PKCS12", STORE_PASSWORD: PASSWORD}
    scene.alter(store)
    scene.shown()
    scene.describe(LOCATION, TYPE, STORE_PASSWORD)
    scene.alter({STORE_PASSWORD: "wrong"})
    scene.alter({STORE_PASSWORD: None})
    scene.alter({TYPE: "PEM"})
    scene.alter({LOCATION: scene.file("other-name.p12")})
    scene.shown()


def another_store_of_java(scene: Scene) -> None:
    scene.shown("STORE")
    scene.alter({LOCATION: scene.file("renewed.p12")}, listener="store")
    scene.shown("STORE")
    scene.alter({LOCATION: scene.file("other-name.p12")}, listener="store")
    scene.alter({STORE_PASSWORD: "wrong"}, listener="store")
    scene.alter({TRUSTED: scene.file("stranger-trusted.p12")}, listener="store")
    scene.knock("client", "STORE")
    scene.knock("client-of-stranger", "STORE")


def stores_with_wrong_passwords(scene: Scene) -> None:
    store = {LOCATION: scene.file("renewed.p12"), TYPE: "PKCS12"}
    scene.alter(store)
    scene.alter({**store, STORE_PASSWORD: "wrong"})
    scene.alter({**store, STORE_PASSWORD: PASSWORD, KEY_PASSWORD: "wrong"})
    scene.alter({**store, STORE_PASSWORD: PASSWORD, KEY_PASSWORD: PASSWORD})
    scene.shown()


def stores_of_other_types(scene: Scene) -> None:
    scene.alter({LOCATION: scene.file("renewed.p12"), STORE_PASSWORD: PASSWORD})
    scene.alter({LOCATION: scene.file("renewed.p12")})
    scene.alter({TYPE: "PKCS12"})
    scene.alter({TYPE: "CARDBOARD", STORE_PASSWORD: PASSWORD})
    scene.alter({LOCATION: scene.file("renewed.pem"), TYPE: "PKCS12", STORE_PASSWORD: PASSWORD})
    scene.alter({LOCATION: scene.file("renewed.p12"), TYPE: "JKS", STORE_PASSWORD: PASSWORD})
    scene.shown()


def keys_that_are_locked(scene: Scene) -> None:
    location = {LOCATION: scene.file("locked.pem")}
    scene.alter(location)
    scene.alter({**location, KEY_PASSWORD: "wrong"})
    scene.alter({**location, STORE_PASSWORD: PASSWORD})
    scene.shown()


def certificates_in_the_configuration(scene: Scene) -> None:
    chain, key = {CHAIN: scene.text("only-certificate.pem")}, {KEY: scene.text("only-key.pem")}
    scene.alter({**chain, **key})
    scene.shown()
    scene.shown("TEXT")
    scene.alter({**chain, **key}, listener="text")
    scene.shown("TEXT")
    scene.describe(CHAIN, KEY, listener="text")
    other = {CHAIN: scene.text("other-certificate.pem"), KEY: scene.text("other-key.pem")}
    scene.alter(other, listener="text")
    scene.alter({CHAIN: "nonsense"}, listener="text")
    scene.alter({KEY: "nonsense"}, listener="text")
    scene.alter({CHAIN: ""}, listener="text")
    scene.alter({LOCATION: scene.file("renewed.pem")}, listener="text")
    scene.alter({STORE_PASSWORD: PASSWORD}, listener="text")
    scene.shown("TEXT")
    scene.alter({CHAIN: None, KEY: None, STORE_PASSWORD: None}, listener="text")
    scene.shown("TEXT")


def the_same_file_again(scene: Scene) -> None:
    location = {LOCATION: scene.file("changing.pem")}
    scene.alter(location)
    scene.shown()
    changing = scene.folder / "changing.pem"
    before = changing.read_bytes()
    time.sleep(1.1 if scene.raw.settle_s else 0)  # Java knows a file has changed by its time
    changing.write_bytes((scene.folder / "renewed.pem").read_bytes())
    scene.shown()
    scene.alter({"ssl.truststore.type": "PEM"}, listener="lax")
    scene.shown()
    scene.alter(location, validate_only=True)
    scene.shown()
    scene.alter(location)
    scene.shown()
    changing.write_bytes((scene.folder / "other-name.pem").read_bytes())
    scene.alter(location)
    scene.shown()
    changing.write_bytes(before)


def listeners_that_have_none(scene: Scene) -> None:
    for name in ("renewed.pem", "missing.pem"):
        for listener in ("nobody", "plaintext", "TLS"):
            scene.alter({LOCATION: scene.file(name)}, listener=listener)
    scene.shown()
    scene.describe(LOCATION, listener="nobody")


def wrong_places(scene: Scene) -> None:
    scene.alter({LOCATION: scene.file("renewed.pem")}, listener="")
    scene.alter({LOCATION: scene.file("renewed.pem")}, broker="")
    scene.alter({LOCATION: scene.file("renewed.pem")}, broker="2")
    scene.shown()


def trusted_certificates(scene: Scene) -> None:
    def knocks() -> None:
        scene.knock("client")
        scene.knock("client-of-stranger")

    knocks()
    scene.alter({TRUSTED: scene.file("both.pem")})
    knocks()
    scene.describe(TRUSTED)
    scene.alter({TRUSTED: scene.file("ca-of-stranger.pem")})
    knocks()
    for name in ("missing.pem", "empty.pem", "nonsense.pem", "only-key.pem"):
        scene.alter({TRUSTED: scene.file(name)})
    knocks()
    scene.alter({TRUSTED: None})
    knocks()


def trusted_certificates_in_the_configuration(scene: Scene) -> None:
    stranger = scene.text("ca-of-stranger.pem")
    scene.alter({TRUSTED_TEXT: stranger})
    scene.knock("client-of-stranger", "TEXT")
    scene.alter({TRUSTED_TEXT: stranger}, listener="text")
    scene.knock("client-of-stranger", "TEXT")
    scene.knock("client", "TEXT")
    scene.describe(TRUSTED_TEXT, listener="text")
    for text in ("nonsense", "", scene.text("only-key.pem")):
        scene.alter({TRUSTED_TEXT: text}, listener="text")
    scene.alter({TRUSTED: scene.file("ca.pem")}, listener="text")
    scene.alter({TRUSTED_PASSWORD: PASSWORD}, listener="text")


def trust_where_there_was_none(scene: Scene) -> None:
    scene.alter({TRUSTED: scene.file("ca.pem")}, listener="bare")
    scene.alter({TRUSTED_TEXT: scene.text("ca.pem")}, listener="bare")
    scene.alter({LOCATION: scene.file("renewed.pem")}, listener="bare")
    scene.shown("BARE")


def trusted_stores_of_java(scene: Scene) -> None:
    store = {TRUSTED: scene.file("stranger-trusted.p12"), TRUSTED_TYPE: "PKCS12"}
    scene.alter({TRUSTED: scene.file("stranger-trusted.p12")})
    scene.alter({**store, TRUSTED_PASSWORD: "wrong"})
    scene.alter({**store, TRUSTED_PASSWORD: PASSWORD})
    scene.knock("client-of-stranger")
    scene.knock("client")


def what_brokers_trust_of_one_another(scene: Scene) -> None:
    stranger = {LOCATION: scene.file("of-stranger.pem")}
    scene.alter({LOCATION: scene.file("renewed.pem")}, listener="inside")
    scene.shown("INSIDE")
    scene.alter(stranger, listener="inside")
    scene.alter({TRUSTED: scene.file("ca-of-stranger.pem")}, listener="inside")
    scene.alter({**stranger, TRUSTED: scene.file("ca-of-stranger.pem")}, listener="inside")
    scene.alter({**stranger, TRUSTED: scene.file("both.pem")}, listener="inside")
    scene.shown("INSIDE")
    scene.alter({TRUSTED: scene.file("both.pem")}, listener="inside")
    scene.alter(stranger, listener="inside")
    scene.shown("INSIDE")
    scene.alter({TRUSTED: scene.file("ca-of-stranger.pem")}, listener="inside")
    scene.shown("INSIDE")
    scene.alter({LOCATION: None, TRUSTED: None}, listener="inside")
    scene.shown("INSIDE")
    scene.alter({TRUSTED: scene.file("both.pem")}, listener="inside")
    scene.alter({LOCATION: None}, listener="inside")
    scene.shown("INSIDE")
    scene.alter({TRUSTED: None}, listener="inside")
    scene.shown("INSIDE")


def other_keys_of_a_listener(scene: Scene) -> None:
    scene.alter({"ssl.client.auth": "required"})
    scene.knock("nobody")
    scene.alter({LOCATION: scene.file("renewed.pem")})
    scene.knock("nobody")
    scene.alter({"ssl.client.auth": "perhaps"})
    scene.alter({"ssl.enabled.protocols": "TLSv1.2"})
    scene.alter({"ssl.principal.mapping.rules": "DEFAULT"})
    scene.alter({"ssl.allow.dn.changes": "true"})
    scene.alter({LOCATION: scene.file("other-name.pem")})
    scene.alter({"ssl.cipher.suites": "TLS_AES_128_GCM_SHA256"})
    scene.alter({"ssl.client.auth": "required"}, listener="nobody")
    scene.describe("ssl.client.auth")
    scene.shown()


def several_at_once(scene: Scene) -> None:
    good, bad = scene.file("renewed.pem"), scene.file("missing.pem")
    scene.alter(
        {f"listener.name.lax.{LOCATION}": good, f"listener.name.tls.{LOCATION}": bad},
        listener="",
    )
    scene.shown("LAX")
    scene.alter({f"listener.name.lax.{LOCATION}": good, "log.retention.ms": "86400000"}, listener="")
    scene.shown("LAX")


def all_at_once(scene: Scene) -> None:
    """What is not named is taken back, and so is what another listener has and cannot do without."""
    scene.alter({LOCATION: scene.file("more-hosts.pem")}, listener="more")
    scene.raw.lines.clear()
    scene.replace_all({f"listener.name.tls.{LOCATION}": scene.file("renewed.pem")})
    scene.shown()
    scene.replace_all({f"listener.name.tls.{LOCATION}": scene.file("other-name.pem")})
    scene.replace_all({"log.retention.ms": "86400000"})
    scene.shown()


_STORIES: Sequence[Callable[[Scene], None]] = (
    a_renewed_certificate,
    only_asked_about,
    other_names,
    more_names,
    files_that_are_none,
    stores_of_java,
    another_store_of_java,
    stores_with_wrong_passwords,
    stores_of_other_types,
    keys_that_are_locked,
    certificates_in_the_configuration,
    the_same_file_again,
    listeners_that_have_none,
    wrong_places,
    trusted_certificates,
    trusted_certificates_in_the_configuration,
    trust_where_there_was_none,
    trusted_stores_of_java,
    what_brokers_trust_of_one_another,
    other_keys_of_a_listener,
    several_at_once,
    all_at_once,
)
STORES: Mapping[str, Callable[[Scene], None]] = {story.__name__: story for story in _STORIES}


def play(story: str, folder: Path, ports: Mapping[str, int]) -> list[str]:
    """The lines of one story, with files by their names."""
    with Raw(("127.0.0.1", ports["PLAINTEXT"])) as raw:
        scene = Scene(raw, folder, ports, raw.lines, set())
        STORES[story](scene)
        scene.as_before()
        return [line.replace(str(folder), "FOLDER") for line in raw.lines]
