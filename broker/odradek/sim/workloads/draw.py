"""Draws a schedule from a seed, with the tables of a workload."""

from __future__ import annotations

from random import Random

from msgspec import Struct
from msgspec.structs import replace

from odradek.faults.model import Rule
from odradek.releases.dialects.load import load
from odradek.sim.schedules.faults import RULES, SLOWED_MARKERS_MAX_MS, slowed_markers_ms
from odradek.sim.schedules.schedule import PARTITIONS, Deed, Player, Schedule, Send, Txn
from odradek.sim.workloads.catalogue import FOCUSES
from odradek.sim.workloads.focus import Focus
from odradek.sim.workloads.habits import Habits
from odradek.sim.world.dice import Dice
from odradek.wire.registry import ApiKey

__all__ = ["Settings", "draw"]

PRODUCERS, WORKERS = 5, 2
PLAIN_IDS = ("tid-3",)
"""Transactional ids whose producers are plain ones, also with a dialect."""
"""The last producer is a rival: another instance of the first one's id."""
TRANSACTIONS = 40
"""More transactions than a producer finishes in its time."""
TROUBLE_MS = 4_000
SUCCEEDS_MS = 1_500


class Settings(Struct, frozen=True, kw_only=True):
    """Choices of the user for a run. Levels that are None are drawn from the seed."""

    levels: tuple[int, ...] | None = None
    verification: bool = True
    brokers: int = 3
    dialect: str | None = None
    careful: bool = False
    rules: tuple[Rule, ...] = ()
    """Rules that apply from the start, besides those that are drawn."""


def draw(seed: int, workload: str | Focus = "general", settings: Settings | None = None) -> Schedule:
    """The schedule of a seed, for a workload or the name of one. With other settings it is another run."""
    settings = settings or Settings()
    focus = FOCUSES[workload] if isinstance(workload, str) else workload
    if settings.dialect is None:
        settings = replace(settings, dialect=focus.dialect)
    dice = Dice(seed)
    # Newer fields are drawn with dice of their own, so that the seeds of old findings give the same runs.
    world = Random(f"{seed} world")
    drawn = dice.choice(focus.levels)
    levels = _levels(settings, drawn)
    slowest = dice.choice(focus.slowest_ms)
    replicas = min(dice.choice((1, 3, 3)), settings.brokers)
    load_ms = dice.choice((0, 0, 100))
    habits, weights = focus.drawn(dice)
    players = [
        _player(
            f"p{number}",
            f"tid-{_id_of(number, habits)}",
            dice,
            habits,
            levels=levels,
            settings=settings,
        )
        for number in range(PRODUCERS + WORKERS - habits.workers)
    ] + [_worker(number, dice, habits, levels=levels, settings=settings) for number in range(habits.workers)]
    if habits.succeeds:
        players = _succeeding(players)
    lookups = Random(f"{seed} lookups")
    if habits.looks_up:
        players = [replace(each, looks_up=not each.speaks and lookups.random() < habits.looks_up) for each in players]
    return Schedule(
        seed=seed,
        workload=workload if isinstance(workload, str) else "own",
        levels=levels,
        verification=settings.verification,
        brokers=settings.brokers,
        replicas=replicas,
        dialect=settings.dialect,
        careful=settings.careful,
        slowest_ms=slowest,
        load_ms=load_ms,
        transaction_timeout_ms=habits.timeout_ms,
        id_expiration_ms=habits.expires_ms,
        producer_expiration_ms=world.choice(focus.producer_expiration_ms),
        segments_ms=world.choice(focus.segments_ms),
        min_insync=min(world.choice(focus.min_insync), replicas),
        disk=focus.disk,
        lag_ms=focus.lag_ms,
        sessions=habits.sessions,
        dawdles=habits.dawdles,
        rejects=habits.rejects,
        heartbeats=habits.heartbeats,
        ranges=habits.ranges,
        session_ms=habits.session_ms,
        consumers_look_up=habits.looks_up > 0 and lookups.random() < habits.looks_up,
        lookers=habits.lookers,
        watchers=habits.watchers,
        aborters=habits.aborters,
        committers=habits.committers,
        watches_members=habits.watches_members,
        sharers=habits.sharers,
        share_workers=habits.share_workers if _offers_share_work(settings.dialect) else 0,
        duration_ms=TROUBLE_MS,
        players=tuple(players),
        consumers=tuple(range(PARTITIONS)),
        deeds=(
            *(Deed(at_ms=0, kind="rule", rule=rule, lasts_ms=TROUBLE_MS) for rule in settings.rules),
            *_deeds(dice, weights, focus, brokers=settings.brokers),
        ),
    )


def _id_of(number: int, habits: Habits) -> int:
    return number // 2 if habits.succeeds else number % habits.ids


def _succeeding(players: list[Player]) -> list[Player]:
    """Of two producers with one id the first dies with a transaction open, and the second starts then."""
    known = {each.transactional_id: each for each in players}
    succeeding = []
    for each in players:
        heir = known[each.transactional_id]
        if each.works or (heir is each and players[players.index(each) - 1].transactional_id != each.transactional_id):
            succeeding.append(each)
        elif heir is each:
            succeeding.append(replace(each, begins_ms=SUCCEEDS_MS))
        else:
            done, left = each.transactions[0], replace(each.transactions[1], ending="walk away")
            succeeding.append(replace(each, transactions=(done, left)))
    return succeeding


def _levels(settings: Settings, drawn: tuple[int, ...]) -> tuple[int, ...]:
    """The levels of transaction.version, chosen or drawn; always 0 in a dialect without that feature."""
    if settings.dialect is not None and not load(settings.dialect).has_transaction_version:
        return (0,)
    return drawn if settings.levels is None else settings.levels


def _offers_share_work(dialect: str | None) -> bool:
    """Whether acknowledgements of a share group can be part of a transaction."""
    return dialect is not None and ApiKey.TXN_SHARE_ACKNOWLEDGE.name in (load(dialect).apis or {})


def _player(
    name: str,
    tid: str,
    dice: Random,
    habits: Habits,
    *,
    levels: tuple[int, ...],
    settings: Settings,
    works: bool = False,
) -> Player:
    # At level 0 new clients go back to the older style.
    newer = 0 not in levels and dice.random() < habits.newer
    own = Dice(dice.getrandbits(32))
    idempotent = not works and habits.idempotent > 0 and own.random() < habits.idempotent
    transactions = tuple(_transaction(own, habits, works=works) for _ in range(TRANSACTIONS))
    if not works:
        transactions = tuple(_with_groups(txn, f"{name}-{number}", habits) for number, txn in enumerate(transactions))
    seed = own.getrandbits(32)
    recovers = habits.recovers > 0 and not works and own.random() < habits.recovers
    # All producers of one id: a transaction that one of them has prepared the others must keep.
    speaks = settings.dialect is not None and not works and not idempotent and tid not in PLAIN_IDS
    return Player(
        name=name,
        transactional_id=tid,
        newer=newer,
        speaks=speaks,
        idempotent=idempotent,
        works=works,
        dies=habits.dies if works else 0.0,
        rejoins=habits.rejoins,
        away_ms=habits.away_ms if works else 0,
        recovers=recovers,
        seed=seed,
        transactions=transactions,
    )


def _worker(number: int, dice: Random, habits: Habits, *, levels: tuple[int, ...], settings: Settings) -> Player:
    worker = _player(f"w{number}", f"work-{number}", dice, habits, levels=levels, settings=settings, works=True)
    return replace(worker, instance_id=f"static-{number // 2}") if habits.shares_names else worker


def _transaction(dice: Random, habits: Habits, *, works: bool) -> Txn:
    seed, pause_ms = dice.getrandbits(32), dice.choice(habits.pauses_ms)
    if works:
        send = _send(dice, habits, dice.randrange(PARTITIONS), pause_ms=dice.choice((0, 50, 200, 600)))
        return Txn(seed=seed, pause_ms=pause_ms, sends=(send,))
    chosen = dice.sample(range(PARTITIONS), dice.randint(1, PARTITIONS))
    rounds = dice.randint(1, 2)
    sends = [
        _send(dice, habits, partition, pause_ms=dice.choice((0, 0, 0, 20)))
        for _ in range(rounds)
        for partition in chosen
    ]
    if habits.remade and dice.random() < habits.remade:
        elsewhere = replace(_send(dice, habits, 0, pause_ms=dice.choice((0, 20, 200))), topic="remade")
        sends.insert(dice.randrange(len(sends) + 1), elsewhere)
    offset = dice.random() < 0.5
    if dice.random() < habits.walks_away:
        return Txn(seed=seed, pause_ms=pause_ms, sends=tuple(sends), offset=offset, ending="walk away")
    commits = dice.random() < habits.commits
    late = Dice(f"{seed} habits")
    if late.random() < habits.lingers:
        sends = [replace(send, pause_ms=late.choice((300, 900))) for send in sends]
    impatient = Dice(f"{seed} offsets") if habits.gives_up_offsets else late
    gives_up = habits.gives_up_offsets > 0 and impatient.random() < habits.gives_up_offsets
    return Txn(
        seed=seed,
        pause_ms=pause_ms,
        sends=tuple(sends),
        offset=offset or gives_up,
        offset_patience_ms=impatient.choice((20, 60, 150)) if gives_up else 0,
        together=late.random() < habits.together,
        changes_mind=commits and late.random() < habits.changes_mind,
        ending="commit" if commits else "abort",
    )


def _with_groups(txn: Txn, name: str, habits: Habits) -> Txn:
    """The transaction, with the other groups for which it commits offsets."""
    if not (habits.shared_groups or habits.fresh_groups):
        return txn
    dice = Dice(f"{txn.seed} groups")
    shared = [f"shared-{number}" for number in range(habits.shared_groups)]
    chosen = dice.sample(shared, dice.randint(0, len(shared)))
    fresh = [f"fresh-{name}"] if habits.fresh_groups else []
    return replace(txn, groups=(*chosen, *fresh), rests_ms=dice.choice(habits.rests_ms))


def _send(dice: Random, habits: Habits, partition: int, *, pause_ms: int) -> Send:
    gives_up = dice.random() < habits.gives_up
    hurries = habits.hurries > 0 and not gives_up and dice.random() < habits.hurries
    return Send(
        partition=partition,
        records=tuple(dice.randint(1, 3) for _ in range(dice.randint(1, habits.in_flight))),
        patience_ms=dice.choice((10, 40, 150)) if gives_up or hurries else 3_000,
        gives_up=gives_up,
        hangs_up=dice.random() < habits.hangs_up,
        pause_ms=pause_ms,
    )


def _deeds(dice: Random, weights: dict[str, int], focus: Focus, *, brokers: int) -> list[Deed]:
    deeds: list[Deed] = []
    slowed: list[tuple[int, int, int]] = []
    """(End of a rule that delays markers, its broker, its delay)."""
    at_ms = 0
    while at_ms < TROUBLE_MS and weights:
        [kind] = dice.choices(list(weights), list(weights.values()))
        seed, lasts_ms, broker = dice.getrandbits(32), dice.randint(50, 3_000), dice.randint(1, brokers)
        make = RULES.get(kind)
        rule = None if make is None else make(Random(seed), broker)
        then = dice.choice(focus.follow_ups) if focus.follow_ups and rule is not None else ""
        slows_ms = 0 if rule is None else slowed_markers_ms(rule)
        others_ms = sum(each_ms for until, where, each_ms in slowed if where == broker and until > at_ms)
        if not slows_ms or slows_ms + others_ms <= SLOWED_MARKERS_MAX_MS:
            deeds.append(Deed(at_ms=at_ms, kind=kind, seed=seed, rule=rule, lasts_ms=lasts_ms, then=then))
            slowed.append((at_ms + lasts_ms + slows_ms, broker, slows_ms))
        at_ms += dice.randint(*focus.gaps_ms)
    return deeds
