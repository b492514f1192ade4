"""The metrics page and the event file, as the demo reads them."""

from __future__ import annotations

from pathlib import Path

from odradek.demo.watching import EventTail, sums

PAGE = """
# TYPE odradek_purgatory_size gauge
odradek_purgatory_size{broker="1"} 2.0
odradek_purgatory_size{broker="2"} 3.0
# TYPE odradek_verifications_total counter
odradek_verifications_total{broker="1"} 7.0
# TYPE odradek_verification_time_ms histogram
odradek_verification_time_ms_bucket{broker="1",le="1.0"} 5.0
odradek_verification_time_ms_bucket{broker="1",le="+Inf"} 7.0
odradek_verification_time_ms_count{broker="1"} 7.0
odradek_verification_time_ms_sum{broker="1"} 6.5
# TYPE python_info gauge
python_info 1.0
"""


def test_metrics_are_summed_over_the_brokers() -> None:
    assert {
        "purgatory_size": 5.0,
        "verifications_total": 7.0,
        "verification_time_ms_count": 7.0,
        "verification_time_ms_sum": 6.5,
    } == sums(PAGE)


def test_events_are_read_once_and_whole(tmp_path: Path) -> None:
    path = tmp_path / "events"
    tail = EventTail(path)
    assert [] == tail.read()
    path.write_bytes(b'{"kind":"a"}\n{"kind":"b"}\n{"ki')
    assert ["a", "b"] == [event["kind"] for event in tail.read()]
    assert [] == tail.read()
    with path.open("ab") as file:
        file.write(b'nd":"c"}\n')
    assert ["c"] == [event["kind"] for event in tail.read()]
