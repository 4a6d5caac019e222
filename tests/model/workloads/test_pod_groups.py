"""The pods of an owner by standing: kept up to date, they are those one would find afresh."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gitkruise.model.workloads.pod import PodFacts
from gitkruise.model.workloads.pod_groups import PodGroup, PodGroupIndex, PodGroups, grouped

WEB = {"app": "web"}
NAMES = ("a", "b", "c", "d", "e")
facts = st.builds(
    lambda revision, app: {"revision": revision, "labels": {"app": app}},
    st.sampled_from(("one", "two")),
    st.sampled_from(("web", "other")),
)
steps = st.lists(st.dictionaries(st.sampled_from(NAMES), st.none() | facts), max_size=6)


def shown(pods: PodGroups) -> set[frozenset[tuple[str, int]]]:
    """Return the groups, each as the names and identities of its pods."""
    return {frozenset((pod.name, id(pod)) for pod in group) for group in pods.groups}


@given(steps)
def test_what_moves_is_found_where_it_belongs(
    rounds: list[dict[str, dict[str, object] | None]],
) -> None:
    there: dict[str, PodFacts] = {}
    roll = PodGroupIndex(())
    for changes in rounds:
        for name, fields in changes.items():
            there.pop(name, None)
            if fields is not None:
                there[name] = PodFacts(name=name, **fields)  # type: ignore[arg-type]  # drawn
            roll.changed.add(name)
        pods = roll.look({name: there[name] for name in changes if name in there})
        assert shown(pods) == shown(grouped(there.values()))
        assert [pod.name for pod in pods] == sorted(there)
        assert len(pods) == len(there)
        for group in pods.groups:
            assert group.without_labels(WEB) == PodGroup(group.by_name).without_labels(WEB)


def test_who_does_not_move_stays_in_the_same_lot() -> None:
    still, moved = PodFacts(name="a", revision="one"), PodFacts(name="b", revision="two")
    roll = PodGroupIndex((still, moved))
    (before,) = (group for group in roll.look({}).groups if group.first is still)
    roll.changed.add("b")
    after = roll.look({"b": PodFacts(name="b", revision="three")})
    assert before in after.groups
    assert len(after.groups) == 2


@given(
    st.lists(st.sampled_from(({}, {"app": "web"}, {"app": "other"})), min_size=1, max_size=5),
    st.lists(st.sampled_from(({}, {"app": "web"}, {"app": "web", "tier": "a"})), max_size=4),
)
def test_pods_without_the_labels_asked_for_are_named_for_each_question(
    labels: list[dict[str, str]], asked: list[dict[str, str]]
) -> None:
    pods = [PodFacts(name=str(at), labels=label) for at, label in enumerate(labels)]
    group = PodGroup({pod.name: pod for pod in pods})
    for pairs in asked:
        unlike = {pod.name for pod in pods if not pairs.items() <= pod.labels.items()}
        assert group.without_labels(pairs) == unlike
