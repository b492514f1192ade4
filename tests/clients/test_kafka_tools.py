"""Kafka's own command-line tools against the broker."""

import json
import re
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from tests.clients.driver import Failure, tool
from tests.clients.lacking import with_toolchains
from tests.net.test_kafkas_directories import DATA, copied
from tests.net.test_sasl import bare, keys_of_the_issuer
from tests.security import signed as signing

from odradek.testing import Cluster

pytestmark = [pytest.mark.client, pytest.mark.slow]

GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
CONFIGS = "kafka.admin.ConfigCommand"
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
END_TXN = 26
READS = {"group.id": "operator", "isolation.level": "read_committed"}

Tool = Callable[..., str]


@pytest.fixture
def run(bootstrap: str) -> Tool:
    def on_the_broker(java_class: str, *arguments: str) -> str:
        with with_toolchains(java_class):
            return tool(java_class, "--bootstrap-server", bootstrap, *arguments)

    return on_the_broker


def produce(run: Tool, topic: str, records: int, *more: str) -> str:
    size = ["--record-size", "100", "--throughput", "-1", "--command-property", "acks=all"]
    return run("ProducerPerformance", "--topic", topic, "--num-records", str(records), *size, *more)


def test_topics(run: Tool, name: str) -> None:
    created = run("TopicCommand", "--create", "--topic", name, "--partitions", "3", "--config", "retention.ms=3600000")
    assert f"Created topic {name}." in created
    described = run("TopicCommand", "--describe", "--topic", name)
    assert re.search(r"PartitionCount: 3\s+ReplicationFactor: 1", described)
    assert "retention.ms=3600000" in described
    assert 3 == len(re.findall(r"Partition: \d\s+Leader: \d+\s+Replicas: \d+\s+Isr: \d+", described))
    run("TopicCommand", "--alter", "--topic", name, "--partitions", "4")
    assert "PartitionCount: 4" in run("TopicCommand", "--describe", "--topic", name)
    assert name in run("TopicCommand", "--list").splitlines()
    run("TopicCommand", "--delete", "--topic", name)
    assert name not in run("TopicCommand", "--list").splitlines()


def test_configs(run: Tool, name: str) -> None:
    run("TopicCommand", "--create", "--topic", name)
    entity = ["--entity-type", "topics", "--entity-name", name]
    run(CONFIGS, "--alter", *entity, "--add-config", "max.message.bytes=65536,cleanup.policy=compact")
    described = run(CONFIGS, "--describe", *entity)
    assert "max.message.bytes=65536" in described
    assert "cleanup.policy=compact" in described
    run(CONFIGS, "--alter", *entity, "--delete-config", "cleanup.policy")
    assert "cleanup.policy=compact" not in run(CONFIGS, "--describe", *entity)
    assert "message.max.bytes=" in run(CONFIGS, "--describe", "--entity-type", "brokers", "--entity-name", "1", "--all")


def test_perf_tests_offsets_and_consumer_groups(run: Tool, name: str) -> None:
    run("TopicCommand", "--create", "--topic", name, "--partitions", "2")
    assert "50000 records sent" in produce(run, name, 50_000)
    group = f"{name}-group"
    consumed = run("ConsumerPerformance", "--topic", name, "--num-records", "50000", "--group", group)
    assert "50000" in [field.strip() for line in consumed.splitlines() for field in line.split(",")]

    offsets = run("GetOffsetShell", "--topic", name)
    ends = {int(p): int(at) for p, at in re.findall(rf"{name}:(\d):(\d+)", offsets)}
    assert 2 == len(ends)
    assert 50_000 == sum(ends.values())
    assert {f"{name}:0:0", f"{name}:1:0"} <= set(run("GetOffsetShell", "--topic", name, "--time", "-2").split())

    assert group in run(GROUPS, "--list").splitlines()
    described = run(GROUPS, "--describe", "--group", group)
    row = rf"{group}\s+{name}\s+(\d)\s+(\d+)\s+(\d+)\s+0\s"
    assert {(p, at, at) for p, at in ends.items()} == {tuple(map(int, found)) for found in re.findall(row, described)}
    assert re.search(r"Empty\s+0", run(GROUPS, "--describe", "--state", "--group", group))
    run(GROUPS, "--group", group, "--reset-offsets", "--to-earliest", "--topic", name, "--execute")
    assert 2 == len(re.findall(rf"{group}\s+{name}\s+\d\s+0\s", run(GROUPS, "--describe", "--group", group)))
    assert group in run("GroupsCommand", "--list")
    assert "successful" in run(GROUPS, "--delete", "--group", group)
    assert group not in run(GROUPS, "--list").splitlines()


def test_delete_records(run: Tool, name: str, tmp_path: Path) -> None:
    run("TopicCommand", "--create", "--topic", name)
    produce(run, name, 100)
    wanted = {"partitions": [{"topic": name, "partition": 0, "offset": 40}], "version": 1}
    file = tmp_path / "offsets.json"
    file.write_text(json.dumps(wanted))
    assert "low_watermark: 40" in run("DeleteRecordsCommand", "--offset-json-file", str(file))
    assert f"{name}:0:40" in run("GetOffsetShell", "--topic", name, "--time", "-2").split()


def test_what_the_cluster_says_of_itself(run: Tool, name: str) -> None:
    run("TopicCommand", "--create", "--topic", name)
    produce(run, name, 10)
    assert re.search(r"Produce\(0\): \d+ to \d+ \[usable: \d+\]", run("BrokerApiVersionsCommand"))
    directories = run("LogDirsCommand", "--describe", "--topic-list", name)
    assert f"{name}-0" in directories
    assert "metadata.version" in run("FeatureCommand", "describe")
    assert re.search(r"LeaderId:\s+\d+", run("MetadataQuorumCommand", "describe", "--status"))


def test_leaders_are_elected_and_replicas_move(tmp_path: Path) -> None:
    with Cluster(brokers=3, topics=["t:1:3"]) as cluster, with_toolchains("tools"):

        def run(java_class: str, *arguments: str) -> str:
            return tool(java_class, "--bootstrap-server", cluster.bootstrap, *arguments)

        def replicas() -> list[int]:
            found = re.search(r"Replicas: ([\d,]+)", run("TopicCommand", "--describe", "--topic", "t"))
            assert found is not None
            return [int(each) for each in found[1].split(",")]

        first, second, third = replicas()
        cluster.move_leader("t", 0, to=second)
        one = ["--topic", "t", "--partition", "0"]
        elected = run("LeaderElectionCommand", "--election-type", "preferred", *one)
        assert "Successfully completed leader election (PREFERRED) for partitions t-0" in elected
        assert first == cluster.leader("t", 0)
        assert "Valid replica already elected" in run("LeaderElectionCommand", "--election-type", "preferred", *one)

        file = tmp_path / "plan.json"
        wanted = {"topic": "t", "partition": 0, "replicas": [third, second]}
        file.write_text(json.dumps({"version": 1, "partitions": [wanted]}))
        moves = [REASSIGN, "--reassignment-json-file", str(file)]
        assert "Successfully started partition reassignment for t-0" in run(*moves, "--execute")
        assert "Reassignment of partition t-0 is completed." in run(*moves, "--verify")
        assert [third, second] == replicas()
        assert "No partition reassignments found." in run(REASSIGN, "--list")


def test_transactions(run: Tool, name: str, advertised: set[int]) -> None:
    if END_TXN not in advertised:
        pytest.skip("the broker does not offer transactions")
    run("TopicCommand", "--create", "--topic", name)
    produce(run, name, 100, "--transactional-id", f"{name}-id", "--transaction-duration-ms", "1")
    assert re.search(rf"{name}-id\s+\d+\s+\d+\s+CompleteCommit", run("TransactionsCommand", "list"))
    described = run("TransactionsCommand", "describe", "--transactional-id", f"{name}-id")
    assert "CompleteCommit" in described
    producer_id, epoch = re.findall(rf"{name}-id\s+(\d+)\s+(\d+)\s", described)[0]
    producers = run("TransactionsCommand", "describe-producers", "--topic", name, "--partition", "0")
    assert re.search(rf"^{producer_id}\s+{epoch}\s", producers, re.MULTILINE)
    hanging = run("TransactionsCommand", "find-hanging", "--topic", name)
    assert f"{name}-id" not in hanging


def test_limits_of_users_clients_and_addresses() -> None:
    """`kafka-configs` with quotas; and Kafka's own producer, which is slowed down to what is left of them."""
    config = {"quota.window.num": 2}
    with Cluster(config=config, topics=["t"]) as cluster, with_toolchains("tools"):

        def run(java_class: str, *arguments: str) -> str:
            return tool(java_class, "--bootstrap-server", cluster.bootstrap, *arguments)

        entities = {
            ("--entity-type", "users", "--entity-default"): "producer_byte_rate=1000000,request_percentage=40",
            ("--entity-type", "clients", "--entity-name", "perf-producer-client"): "producer_byte_rate=100000",
            ("--user", "alice", "--client", "app"): "consumer_byte_rate=77777",
            ("--entity-type", "ips", "--entity-name", "10.0.0.7"): "connection_creation_rate=9",
        }
        for entity, limits in entities.items():
            assert "Completed updating" in run(CONFIGS, "--alter", *entity, "--add-config", limits)
        users = run(CONFIGS, "--describe", "--entity-type", "users")
        assert re.search(r"default user-principal .*producer_byte_rate=1000000.0", users)
        assert "request_percentage=40.0" in users
        both = run(CONFIGS, "--describe", "--entity-type", "users", "--entity-type", "clients")
        assert re.search(r"user-principal 'alice', client-id 'app' are .*consumer_byte_rate=77777.0", both)
        ips = ("--entity-type", "ips")
        assert re.search(r"ip '10.0.0.7' are .*connection_creation_rate=9.0", run(CONFIGS, "--describe", *ips))
        with pytest.raises(Failure):
            run(CONFIGS, "--alter", *ips, "--entity-name", "10.0.0.300", "--add-config", "connection_creation_rate=9")
        user = ("--entity-type", "users", "--entity-default")
        run(CONFIGS, "--alter", *user, "--delete-config", "producer_byte_rate,request_percentage")
        assert "producer_byte_rate" not in run(CONFIGS, "--describe", *user)

        # 400 KB at 100 KB a second, of which one second's are free.
        settings = ["--command-property", "client.id=perf-producer-client", "--command-property", "batch.size=8000"]
        size = ["--num-records", "400", "--record-size", "1000", "--throughput", "-1"]
        report = run("ProducerPerformance", "--topic", "t", *size, *settings)
        found = re.findall(r"([\d.]+) records/sec", report)
        assert 60 < float(found[-1]) < 220, report


def test_permissions_and_users_over_tls(tmp_path: Path) -> None:
    """`kafka-acls` and `kafka-configs --entity-type users`, by who may do everything, and by who may not."""
    users = {"admin": "admin-secret", "alice": "alice-secret"}
    config = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin",
    }
    with Cluster(security="sasl-ssl", users=users, config=config, topics=["orders"]) as cluster:
        settings = tmp_path / "admin.properties"
        settings.write_text("\n".join(f"{key}={value}" for key, value in cluster.access.java.items()))
        alice = tmp_path / "alice.properties"
        alice.write_text(settings.read_text().replace("admin", "alice"))

        def run(java_class: str, *arguments: str, by: Path = settings) -> str:
            with with_toolchains(java_class):
                return tool(
                    java_class, "--bootstrap-server", cluster.bootstrap, "--command-config", str(by), *arguments
                )

        assert "orders" not in run("TopicCommand", "--list", by=alice)
        run("AclCommand", "--add", "--allow-principal", "User:alice", "--operation", "Read", "--topic", "orders")
        assert "orders" in run("TopicCommand", "--list", by=alice)
        prefixed = ("--topic", "ord", "--resource-pattern-type", "prefixed")
        run("AclCommand", "--add", "--deny-principal", "User:alice", "--operation", "All", *prefixed)
        listed = run("AclCommand", "--list")
        assert "(principal=User:alice, host=*, operation=READ, permissionType=ALLOW)" in listed
        assert "ResourcePattern(resourceType=TOPIC, name=ord, patternType=PREFIXED)" in listed
        assert "orders" not in run("TopicCommand", "--list", by=alice)
        run("AclCommand", "--remove", "--force", "--deny-principal", "User:alice", "--operation", "All", *prefixed)
        assert "orders" in run("TopicCommand", "--list", by=alice)
        wrong = tmp_path / "wrong.properties"
        wrong.write_text(settings.read_text().replace("admin-secret", "guessed"))
        with pytest.raises(Failure, match="SaslAuthenticationException"):
            run("AclCommand", "--list", by=wrong)
        user = ("--entity-type", "users", "--entity-name", "zoe")
        run(CONFIGS, "--alter", *user, "--add-config", "SCRAM-SHA-256=[iterations=8192,password=zoe-secret]")
        zoe = {**cluster.access.librdkafka, "sasl.mechanism": "SCRAM-SHA-256"}
        zoe |= {"sasl.username": "zoe", "sasl.password": "zoe-secret"}
        assert not AdminClient({**zoe}).list_topics(timeout=20).topics


def test_delegation_tokens(tmp_path: Path) -> None:
    """`kafka-delegation-tokens`, at a broker that is not the controller, and a Java client that logs in with one."""
    users = {"alice": "alice-secret", "bob": "bob-secret"}
    config = {"delegation.token.secret.key": "hush"}
    with Cluster(brokers=2, security="sasl-ssl", users=users, config=config, topics=["orders"]) as cluster:
        bootstrap = cluster.bootstrap.split(",")[1]
        settings = tmp_path / "alice.properties"
        settings.write_text("\n".join(f"{key}={value}" for key, value in cluster.access.java.items()))

        def run(java_class: str, *arguments: str, by: Path = settings) -> str:
            with with_toolchains(java_class):
                return tool(java_class, "--bootstrap-server", bootstrap, "--command-config", str(by), *arguments)

        made = run(
            "DelegationTokenCommand", "--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob"
        )
        token_id, hmac = re.findall(r"^(\S{22})\s+(\S+)\s+User:alice", made, re.MULTILINE)[0]
        assert token_id in run("DelegationTokenCommand", "--describe", "--owner-principal", "User:alice")
        assert "Completed renew" in run(
            "DelegationTokenCommand", "--renew", "--renew-time-period", "-1", "--hmac", hmac
        )

        def with_token(password: str) -> Path:
            module = "org.apache.kafka.common.security.scram.ScramLoginModule"
            login = f'{module} required username="{token_id}" password="{password}" tokenauth="true";'
            kept = [line for line in settings.read_text().splitlines() if not line.startswith("sasl.")]
            file = tmp_path / "token.properties"
            file.write_text("\n".join([*kept, "sasl.mechanism=SCRAM-SHA-512", f"sasl.jaas.config={login}"]))
            return file

        assert "orders" in run("TopicCommand", "--list", by=with_token(hmac))
        with pytest.raises(Failure, match="SaslAuthenticationException"):
            run("TopicCommand", "--list", by=with_token("guessed"))
        with pytest.raises(Failure, match=r"not allowed|RequestNotAllowed"):
            run("DelegationTokenCommand", "--create", "--max-life-time-period", "-1", by=with_token(hmac))
        run("DelegationTokenCommand", "--expire", "--expiry-time-period", "-1", "--hmac", hmac)
        assert token_id not in run("DelegationTokenCommand", "--describe")
        with pytest.raises(Failure, match="SaslAuthenticationException"):
            run("TopicCommand", "--list", by=with_token(hmac))


def test_a_java_client_with_signed_tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "token.jwt"
    monkeypatch.setenv("JDK_JAVA_OPTIONS", f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={file.as_uri()}")
    config = keys_of_the_issuer(tmp_path)
    with Cluster(security="sasl-ssl", users={"x": "x"}, config=config, topics=["orders"]) as cluster:
        kept = [f"{key}={value}" for key, value in cluster.access.java.items() if not key.startswith("sasl.")]
        package = "org.apache.kafka.common.security.oauthbearer"
        settings = tmp_path / "alice.properties"
        kept += [
            "sasl.mechanism=OAUTHBEARER",
            f"sasl.jaas.config={package}.OAuthBearerLoginModule required;",
            f"sasl.login.callback.handler.class={package}.OAuthBearerLoginCallbackHandler",
            f"sasl.oauthbearer.token.endpoint.url={file.as_uri()}",
            "sasl.oauthbearer.sub.claim.name=user",
        ]
        settings.write_text("\n".join(kept))

        def topics() -> str:
            with with_toolchains("tools"):
                to = ("--bootstrap-server", cluster.bootstrap, "--command-config", str(settings))
                return tool("TopicCommand", *to, "--list")

        file.write_text(bare(signing.signed()))
        assert "orders" in topics()
        file.write_text(bare(signing.signed(aud="else")))
        with pytest.raises(Failure, match="SaslAuthenticationException"):
            topics()


def test_a_hanging_transaction_in_a_copy_of_kafkas_directory_is_found_and_aborted(tmp_path: Path) -> None:
    """KIP-664, by an operator's steps: find, describe, abort, read on. Kafka's tool finds what it found in Kafka."""
    path = copied("hang", tmp_path)
    told_of_kafka = (DATA / "hang.find-hanging.txt").read_text().splitlines()[1].split()
    topic, partition, producer_id, epoch, coordinator_epoch, start, last, _ = told_of_kafka
    place = ["--topic", topic, "--partition", partition]
    with Cluster(data_dir=path) as cluster, with_toolchains("tools"):

        def run(*arguments: str) -> list[list[str]]:
            said = tool("TransactionsCommand", "--bootstrap-server", cluster.bootstrap, *arguments)
            return [line.split() for line in said.splitlines() if line and "WARN" not in line]

        def stable_end() -> int:
            with closing(Consumer({"bootstrap.servers": cluster.bootstrap, **READS})) as consumer:
                end: int = consumer.get_watermark_offsets(TopicPartition(topic, int(partition)), 15)[1]
                return end

        broker = str(cluster.broker_ids[0])
        _, *hanging = run("find-hanging", "--broker-id", broker)
        assert [[topic, partition, producer_id, epoch, coordinator_epoch, start, last]] == [row[:7] for row in hanging]
        [producer] = [row for row in run("describe-producers", *place)[1:] if row[-1] == start]
        assert [producer_id, epoch] == producer[:2]
        _, *listed = run("list")
        [transactional_id] = [row[0] for row in listed if row[2] == producer_id]
        _, described = run("describe", "--transactional-id", transactional_id)
        # The coordinator knows nothing of it: that is why it hangs.
        assert [transactional_id, producer_id, "CompleteAbort"] == [described[1], described[2], described[4]]
        assert int(start) == stable_end()
        run("abort", *place, "--start-offset", start)
        assert [] == run("find-hanging", "--broker-id", broker)[1:]
        assert int(start) + 2 == stable_end()
        goes_on = Producer({"bootstrap.servers": cluster.bootstrap})
        goes_on.produce(topic, "goes on", partition=int(partition))
        assert 0 == goes_on.flush(15)
        with closing(Consumer({"bootstrap.servers": cluster.bootstrap, **READS})) as consumer:
            consumer.assign([TopicPartition(topic, int(partition), int(start))])
            [message] = consumer.consume(1, 15)
        assert b"goes on" == message.value()
