"""Client properties: read as Java reads them, and handed to three kinds of client."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from odradek.access.credential import ScramMechanism
from odradek.access.scram import ScramExchange, credential_of, salted_password
from odradek.cli.usage import UsageError
from odradek.net.certs import Certificates, make_certificates
from odradek_pipeline.access.config import ClientConfig, Login, read_config
from odradek_pipeline.access.login import LoginRefused, ScramClient
from odradek_pipeline.access.properties import parse_properties

PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="al\\"ice" password="s;=p";'
SASL = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.jaas.config": PLAIN}


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certs") / "made", clients=["client"])


def test_properties_are_read_as_java_reads_them() -> None:
    text = (
        "# a comment\n! another\n\n  a = b \n c:d\ne f g\nempty=\nalone\n"
        "long=one,\\\n    two\nslash=C:\\\\dir\nuni\\u0063ode=\\u00e9\\t.\nke\\=y=v\na=last\\\n"
    )
    assert {
        "a": "last", "c": "d", "e": "f g", "empty": "", "alone": "", "long": "one,two", "slash": "C:\\dir",
        "unicode": "é\t.", "ke=y": "v",
    } == parse_properties(text)  # fmt: skip


def test_a_login_and_no_secret_in_what_is_shown() -> None:
    config = ClientConfig(SASL)
    assert Login("PLAIN", 'al"ice', "s;=p") == config.login
    assert "s;=p" not in repr(config) + repr(config.login)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"security.protocol": "TLS"}, "security.protocol=TLS is none: it is PLAINTEXT, SSL"),
        ({"sasl.mechanism": "GSSAPI"}, "sasl.mechanism=GSSAPI cannot be used: only PLAIN, "),
        ({"sasl.mechanism": ""}, "sasl.mechanism= cannot be used"),
        ({"sasl.jaas.config": "alice"}, "sasl.jaas.config is MODULE required"),
        ({"sasl.jaas.config": "a.B required username=alice;"}, "has no username or no password"),
        ({"sasl.mechanism": "OAUTHBEARER"}, "has no unsecuredLoginStringClaim_sub"),
    ],
)
def test_properties_that_cannot_be_used(changed: dict[str, str], sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("\n".join(f"{key}={value}" for key, value in {**SASL, **changed}.items()).replace("\\", "\\\\"))
    with pytest.raises(UsageError) as wrong:
        read_config(path)
    assert sentence in str(wrong.value)
    assert str(wrong.value).startswith(f"{path}: ")


def test_files_that_are_no_properties(tmp_path: Path) -> None:
    def said(path: Path) -> str:
        with pytest.raises(UsageError) as wrong:
            read_config(path)
        return str(wrong.value)

    (tmp_path / "empty").touch()
    (tmp_path / "binary").write_bytes(b"\xff\xfe\0")
    assert "No such file" in said(tmp_path / "absent")
    assert "Is a directory" in said(tmp_path)
    assert "There is no property" in said(tmp_path / "empty")
    assert "is no text" in said(tmp_path / "binary")
    assert "PLAINTEXT" == read_config(None).protocol


def stores(made: Certificates, kind: str) -> dict[str, str]:
    own, password = str(made.client_store("client")), made.store_password
    if kind == "PEM":
        pem = {"ssl.truststore.location": str(made.ca), "ssl.keystore.location": str(made.client("client"))}
        return {**pem, "ssl.truststore.type": "PEM", "ssl.keystore.type": "PEM"}
    if kind == "inline":
        text = made.client("client").read_text()
        at = text.index("-----BEGIN CERTIFICATE")
        given = {"ssl.keystore.key": text[:at], "ssl.keystore.certificate.chain": text[at:]}
        return {**given, "ssl.truststore.certificates": made.ca.read_text()}
    passwords = {"ssl.truststore.password": password, "ssl.keystore.password": password}
    return {**passwords, "ssl.truststore.location": str(made.truststore), "ssl.keystore.location": own}


@pytest.mark.parametrize("kind", ["PEM", "inline", "PKCS12"])
def test_keys_and_certificates_from_every_kind_of_store(certificates: Certificates, kind: str) -> None:
    config = ClientConfig({"security.protocol": "SSL", **stores(certificates, kind)})
    context = config.tls()
    assert context is not None
    assert [certificates_of["subject"] for certificates_of in context.get_ca_certs()]
    told = config.librdkafka("here:1")
    assert "BEGIN CERTIFICATE" in str(told["ssl.ca.pem"])
    assert "PRIVATE KEY" in str(told["ssl.key.pem"])
    assert "PRIVATE KEY" not in str(told["ssl.certificate.pem"])
    assert {"kafka.bootstrap.servers": "here:1", "kafka.security.protocol": "SSL"}.items() <= config.spark_options(
        "here:1"
    ).items()


@pytest.mark.skipif(shutil.which("keytool") is None, reason="no Java here")
def test_a_store_of_javas_own_kind(certificates: Certificates, tmp_path: Path) -> None:
    for store in (certificates.truststore, certificates.client_store("client")):
        from_where = ["-srckeystore", str(store), "-srcstorepass", certificates.store_password]
        to_where = ["-destkeystore", str(tmp_path / store.name), "-deststorepass", "changeit", "-deststoretype", "JKS"]
        command = ["keytool", "-importkeystore", "-noprompt", *from_where, *to_where]
        subprocess.run(command, check=True, capture_output=True)
    given = {
        "security.protocol": "SSL",
        "ssl.truststore.location": str(tmp_path / "truststore.p12"),
        "ssl.truststore.password": "changeit",
        "ssl.keystore.location": str(tmp_path / "client.p12"),
        "ssl.keystore.password": "changeit",
        "ssl.key.password": certificates.store_password,
    }
    assert ClientConfig(given).tls() is not None
    with pytest.raises(UsageError, match=r"ssl\.truststore\.location: .* is ssl\.truststore\.password right"):
        ClientConfig({**given, "ssl.truststore.password": "wrong!"}).tls()


def test_stores_that_cannot_be_used(certificates: Certificates, tmp_path: Path) -> None:
    def said(**given: str) -> str:
        properties = {"security.protocol": "SSL", **{key.replace("_", "."): value for key, value in given.items()}}
        with pytest.raises(UsageError) as wrong:
            ClientConfig(properties).tls()
        assert 1 == len(str(wrong.value).splitlines())
        return str(wrong.value)

    ca = str(certificates.ca)
    (tmp_path / "noise").write_text("noise")
    assert "No such file" in said(ssl_truststore_location=str(tmp_path / "absent"))
    assert "is PEM: add ssl.truststore.type=PEM" in said(ssl_truststore_location=ca)
    assert "holds no PEM" in said(ssl_truststore_location=str(tmp_path / "noise"), ssl_truststore_type="PEM")
    assert "cannot be opened" in said(ssl_truststore_location=str(tmp_path / "noise"))
    wrong = {"ssl_truststore_location": str(certificates.truststore), "ssl_truststore_password": "wrong"}
    assert "ssl.truststore.password right" in said(**wrong)
    other = make_certificates(tmp_path / "other", clients=["client"])
    mixed = {"ssl_keystore_key": other.client("client").read_text(), "ssl_keystore_certificate_chain": ""}
    own = certificates.client("client").read_text()
    mixed["ssl_keystore_key"] = mixed["ssl_keystore_key"][: mixed["ssl_keystore_key"].index("-----BEGIN CERTIFICATE")]
    mixed["ssl_keystore_certificate_chain"] = own[own.index("-----BEGIN CERTIFICATE") :]
    assert "do key and certificate belong together" in said(**mixed, ssl_truststore_certificates=Path(ca).read_text())


# ---------------------------------------------------------------------- SCRAM


@pytest.mark.parametrize("mechanism", list(ScramMechanism))
@pytest.mark.parametrize("user", ["alice", "a,b=c"])
def test_scram_with_the_servers_half(mechanism: ScramMechanism, user: str) -> None:
    login = Login(mechanism.title, user, "pencil")
    client, server = ScramClient(login, "from-the-client"), ScramExchange(mechanism, "from-the-server")
    assert (user, "", False) == server.first(client.first())
    credential = credential_of(mechanism, salted_password(mechanism, "pencil", b"salt", 4096), b"salt", 4096)
    client.check(server.final(client.final(server.challenge(credential)), credential))


def test_scram_as_rfc_7677_has_it() -> None:
    client = ScramClient(Login("SCRAM-SHA-256", "user", "pencil"), "rOprNGfwEbeRWgbNEkqO")
    assert b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO" == client.first()
    nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    said = client.final(f"r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode())
    assert f"c=biws,r={nonce},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=".encode() == said
    client.check(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")
    with pytest.raises(LoginRefused, match="another server"):
        client.check(b"v=AAAA")


@pytest.mark.parametrize(
    "challenge", [b"", b"r=other,s=AAAA,i=4096", b"r=mine+,s=AAAA,i=0", b"r=mine+,s=AAAA,i=9999999"]
)
def test_challenges_that_are_none(challenge: bytes) -> None:
    with pytest.raises(LoginRefused):
        ScramClient(Login("SCRAM-SHA-512", "alice", "x"), "mine").final(challenge)


def test_a_delegation_token_says_so() -> None:
    login = Login("SCRAM-SHA-256", "id", "hmac", is_token=True)
    said = ScramExchange(ScramMechanism.SHA_256, "x").first(ScramClient(login, "y").first())
    assert ("id", "", True) == said
