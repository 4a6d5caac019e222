"""Events: repeats are counted, floods combined, talkers silenced, failures lose only events."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from gitkruise.errors import Forbidden
from gitkruise.kube.client.events import Correlator, Recorder, Subject
from gitkruise.model.planning.plan import Event
from gitkruise.wire.primitives.names import Obj, ObjectKey
from tests.clock import ManualClock
from tests.kube.toy import Fault, Toy

START = datetime(2026, 1, 1, tzinfo=UTC)
KEY = ObjectKey("apps.kruise.io", "CloneSet", "shop", "web")
WEB = Subject(key=KEY, version="v1beta1", uid="u1", resource_version="7")
MADE = Event("Normal", "SuccessfulCreate", "created pod web-a")


def stored(toy: Toy) -> list[Obj]:
    return [obj for (ref, _, _), obj in toy.objects.items() if ref.plural == "events"]


def recorded(toy: Toy, *events: tuple[float, Event]) -> Recorder:
    """Record events at seconds from the start, writing each before the next."""
    clock = ManualClock(START)
    recorder = Recorder(toy, clock)

    async def main() -> None:
        for seconds, event in events:
            await clock.sleep(seconds - clock.monotonic())
            recorder.record(WEB, event, "cloneset-controller")
            await recorder.flush()

    clock.run(main())
    return recorder


def test_an_event_as_kubectl_describe_reads_it() -> None:
    toy = Toy()
    recorded(toy, (0, MADE))
    (event,) = stored(toy)
    name = event["metadata"]["name"]
    assert name.startswith("web.")
    assert {k: v for k, v in event.items() if k != "metadata"} == {
        "apiVersion": "v1",
        "kind": "Event",
        "involvedObject": {
            "apiVersion": "apps.kruise.io/v1beta1",
            "kind": "CloneSet",
            "namespace": "shop",
            "name": "web",
            "uid": "u1",
            "resourceVersion": "7",
        },
        "type": "Normal",
        "reason": "SuccessfulCreate",
        "message": "created pod web-a",
        "source": {"component": "cloneset-controller"},
        "reportingComponent": "cloneset-controller",
        "reportingInstance": "",
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:00:00Z",
        "count": 1,
    }


def test_the_same_again_within_five_minutes_is_counted() -> None:
    toy = Toy()
    recorded(toy, (0, MADE), (299, MADE), (598, MADE), (899, MADE))
    first, second = stored(toy)
    assert (first["count"], first["lastTimestamp"]) == (3, "2026-01-01T00:09:58Z")
    assert second["count"] == 1


def test_an_event_that_expired_on_the_server_is_written_anew() -> None:
    toy = Toy()
    clock = ManualClock(START)
    recorder = Recorder(toy, clock)

    async def main() -> None:
        recorder.record(WEB, MADE, "c")
        await recorder.flush()
        toy.objects.clear()
        recorder.record(WEB, MADE, "c")
        await recorder.flush()

    clock.run(main())
    assert [event["count"] for event in stored(toy)] == [2]


def test_many_different_messages_of_one_reason_become_one_event() -> None:
    toy = Toy()
    events = [(n, Event("Normal", "SuccessfulCreate", f"created pod web-{n}")) for n in range(15)]
    recorded(toy, *events)
    messages = [event["message"] for event in stored(toy)]
    assert len(messages) == 11
    assert messages[-1] == "(combined from similar events): created pod web-14"
    assert stored(toy)[-1]["count"] == 5


def test_a_talker_is_silenced_until_its_allowance_refills() -> None:
    correlator, now = Correlator(), START

    def accepted(count: int, now: datetime) -> int:
        return sum(correlator.take(WEB, MADE, "c", now) is not None for _ in range(count))

    assert accepted(40, now) == 25
    assert accepted(40, now + timedelta(minutes=10)) == 2
    assert accepted(40, now - timedelta(hours=6)) == 0
    assert accepted(40, now - timedelta(hours=6, minutes=-5)) == 1  # the clock was set back


@pytest.mark.parametrize("error", [Forbidden("no events for you")])
def test_a_failure_loses_the_event_and_nothing_else(error: Forbidden) -> None:
    toy = Toy(faults=[Fault("create", error)])
    recorder = recorded(toy, (0, MADE), (1, MADE))
    assert recorder.dropped == 1
    assert [event["count"] for event in stored(toy)] == [2]


def test_what_waits_is_bounded() -> None:
    clock = ManualClock(START)
    recorder = Recorder(Toy(), clock)
    for n in range(1500):
        subject = Subject(key=KEY._replace(name=f"web-{n}"), version="v1beta1", uid=f"u{n}")
        recorder.record(subject, MADE, "c")
    assert (len(recorder._pending), recorder.dropped) == (1000, 500)


def test_long_messages_are_cut() -> None:
    toy = Toy()
    recorded(toy, (0, Event("Warning", "FailedCreate", "x" * 5000)))
    assert len(stored(toy)[0]["message"]) == 1024
