"""Subscriptions: who hears which news, and for how long."""

from __future__ import annotations

from gitkruise.kube.cache.subscriptions import RoundRequests, Subscriptions


def test_news_reaches_its_subscribers_and_those_of_all_news() -> None:
    hub: Subscriptions[str, [int]] = Subscriptions()
    received: list[tuple[str, int]] = []
    hub.join("a", lambda n: received.append(("a", n)), ["x", "y"])
    hub.join("b", lambda n: received.append(("b", n)))
    hub.listen(lambda n: received.append(("all", n)))
    hub.notify(["x", "y"], 1)  # one call, however many of its topics are concerned
    assert sorted(received) == [("a", 1), ("all", 1)]
    hub.notify_all(2)
    assert sorted(received[2:]) == [("a", 2), ("all", 2), ("b", 2)]


def test_topics_are_added_replaced_and_kept_for_who_joins_later() -> None:
    hub: Subscriptions[str, []] = Subscriptions()
    received: list[str] = []
    hub.watch("late", ["x"])
    hub.notify(["x"])
    assert not received
    hub.join("late", lambda: received.append("first"), ["y"])
    hub.join("late", lambda: received.append("second"))  # in place of the first, with its topics
    hub.notify(["x"])
    hub.notify(["y"])
    assert received == ["second", "second"]
    hub.watch("late", ["z"])
    hub.notify(["x", "y"])
    assert len(received) == 2
    assert not hub.calls(["z"], but="late")


def test_a_subscription_ends_also_from_within_a_call() -> None:
    hub: Subscriptions[str, []] = Subscriptions()
    received: list[str] = []
    end = hub.listen(lambda: received.append("all"))

    def once() -> None:
        received.append("once")
        hub.leave("once")
        hub.join("new", lambda: received.append("new"), ["x"])

    hub.join("once", once, ["x"])
    hub.notify(["x"])
    assert received == ["all", "once"]
    end()
    hub.notify(["x"])
    assert received[2:] == ["new"]
    assert hub.of("once") is None
    hub.leave("stranger")


def test_a_request_is_done_at_the_end_of_a_round_that_began_after_it() -> None:
    requests, done = RoundRequests(), list[str]()
    requests.began()
    requests.ask(lambda: done.append("during"))
    requests.ended()
    assert done == []
    requests.ask(lambda: done.append("before"))
    requests.began()
    assert done == []
    requests.began()  # the round before did not end
    requests.ended()
    requests.ended()
    assert done == ["during", "before"]
