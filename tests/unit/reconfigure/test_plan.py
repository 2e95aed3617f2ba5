"""A dry run as a value: what it says, and how it travels through a file."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import reduce

import pytest

from rechannel import changes
from rechannel.errors import RefusedError, UnknownOperatorError
from rechannel.model.codec import encode
from rechannel.reconfigure import strategies
from rechannel.reconfigure.changes.together import Together
from rechannel.reconfigure.coordination import Coordination, Now
from rechannel.reconfigure.plan import FORMAT, Affected, Plan, plan
from rechannel.reconfigure.requests import Request, accept
from rechannel.reconfigure.steps import apply_step
from rechannel.reconfigure.stream_facts import StreamFacts
from tests.support.changing import Paper, configuration, keyed, program


def planned(change, strategy=None, paper: Paper | None = None, cost: float = 0.5) -> Plan:
    paper = paper or Paper()
    before = paper.state, paper.configuration
    made = plan(paper.state, change, strategy or strategies.all_at_once(), paper.now, cost)
    assert (paper.state, paper.configuration) == before
    return made


def test_a_plan_says_who_is_affected_how_long_it_takes_and_what_it_costs():
    made = planned(changes.move("counts", [0, 1, 2], 1), strategies.fluid(gap=2))
    assert made.affected == (Affected(operator="counts", tasks=(0, 1), bins=3, size=30.0),)
    assert (made.bins, made.size, len(made.steps)) == (3, 30.0, 3)
    assert made.timesteps == 3 + 2 * 2
    assert made.cost_ms == 5.0  # one bin of 10 bytes


def test_a_plan_of_several_operators_names_each():
    both = Together(
        changes=(changes.move("sums", 7, 0), changes.assign_resources("counts", cpus=2))
    )
    assert planned(both).affected == (
        Affected(operator="counts", tasks=(), bins=0, size=0),
        Affected(operator="sums", tasks=(0, 1), bins=1, size=10.0),
    )


def test_a_change_of_the_job_affects_no_operator():
    made = planned(changes.set_interval(50))
    assert (made.affected, made.timesteps, made.cost_ms) == ((), 1, 0.0)


def test_what_is_so_already_takes_no_timestep():
    made = planned(changes.move("counts", 0, 0), strategies.fluid(gap=5))
    assert (made.steps, made.affected, made.timesteps, made.cost_ms) == ((), (), 0, 0.0)


def test_a_plan_keeps_the_budget():
    made = planned(changes.move("counts", [0, 1, 2], 1), strategies.all_at_once())
    assert len(made.steps) == 1
    made = planned(changes.move("counts", [0, 1, 2], 1), strategies.batched(budget_bytes=20))
    assert [step.size for step in made.steps] == [20.0, 10.0]


def test_a_plan_is_made_from_where_the_changes_before_it_lead():
    paper = Paper()
    paper.ask(changes.rescale("counts", 4), strategies.fluid())
    assert planned(changes.move("counts", 0, 3), paper=paper).affected[0].tasks == (0, 3)


def test_a_bin_that_is_too_hot_for_any_task_is_told():
    paper = Paper()
    told = "'counts': bin 2 alone has more than a task's share .* split\\('counts', 2\\) cuts it; if a single key"
    heat = {"counts": (0.0, 0.0, 9.0, 0.0, 1.0, 1.0, 1.0, 1.0)}
    for combinable, then in ((frozenset({"counts"}), "combine"), (frozenset(), "no placement")):
        paper.facts = StreamFacts(loads=heat, combinable=combinable)
        made = planned(changes.rebalance("counts"), paper=paper)
        assert re.search(f"{told} .*{then}", str(made))
        assert Plan.from_json(made.to_json()) == made
    paper.ask(changes.rebalance("counts"))
    paper.step()
    assert re.match(f"nothing had to change; operator {told}", paper.state.find("r1").reason)
    paper.facts = StreamFacts(loads={"counts": (1.0,) * 8})
    assert planned(changes.rebalance("counts"), paper=paper).advice == ()
    paper.facts = StreamFacts(loads={"counts": (0.0, 5.0, 0.0, 0.0, 0.0, 0.0, 0.0, 5.0)})
    paper.configuration = configuration(counts=keyed(4, 8))
    made = planned(changes.rebalance("counts"), paper=paper)
    assert "bins [1, 7] each have more" in str(made)


def test_a_split_says_that_one_key_makes_the_bin_hot():
    paper = Paper()
    lo, hi = paper.configuration.operators["counts"].routing.span(2)
    loads = {"counts": (1.0, 1.0, 8.0, 1.0, 1.0, 1.0, 1.0, 1.0)}
    told = r"'counts': one key has 75% of the rows of bin 2, and splitting does not separate the rows of a key: .*"
    for combinable, then in ((frozenset({"counts"}), "combine"), (frozenset(), "no placement")):
        paper.facts = StreamFacts(
            loads=loads, hot={"counts": {lo: 6.0, hi: 9.0}}, combinable=combinable
        )
        made = planned(changes.split("counts", 2), paper=paper)
        assert re.search(told + then, str(made))
        assert planned(changes.split("counts", 1), paper=paper).advice == ()
    paper.ask(changes.split("counts", 2))
    paper.step()
    assert paper.state.find("r1").phase == "done"
    assert re.search(told, paper.state.find("r1").reason)
    for hot in ({}, {"counts": {lo: 3.0, lo + 1: 3.0}}, {"sums": {lo: 6.0}}):
        paper = Paper()
        paper.facts = StreamFacts(loads=loads, hot=hot)
        assert planned(changes.split("counts", 2), paper=paper).advice == ()


def test_what_would_be_refused_is_refused():
    with pytest.raises(RefusedError, match="rescale it first"):
        planned(changes.move("counts", 0, 3))
    with pytest.raises(UnknownOperatorError):
        planned(changes.move("nobody", 0, 1))


def test_a_plan_is_shown_in_a_few_lines():
    both = Together(
        changes=(changes.move("sums", [0, 1], 1), changes.assign_resources("counts", cpus=2))
    )
    assert str(planned(both, strategies.fluid())).splitlines() == [
        "move(operator='sums', bins=[0, 1], task=1), "
        "assign_resources(operator='counts', cpus=2, amounts={}) by fluid()",
        "  sums: 2 bins (20 bytes) move among tasks [0, 1]",
        "  counts: no state moves",
        "  2 steps in 2 timesteps, at most 5.0 ms more each",
        "  tasks of sums: 0-1 kept; state 0 -> 1 (2 bins, 20 bytes)",
        "  unaffected: all tasks of in, counts",
    ]
    assert str(planned(changes.set_interval(5))).endswith(
        "  1 step in 1 timestep, each of them longer by less than can be measured"
    )


def test_a_task_that_is_put_elsewhere_takes_its_state_along():
    paper = Paper(facts=StreamFacts(places={"counts": {0: "0", 1: "1"}}))
    made = planned(changes.place("counts", 0, "1"), paper=paper)
    assert made.affected == (
        Affected(operator="counts", tasks=(), bins=0, size=0, placed=(0,), carried=40.0),
    )
    assert made.cost_ms == 20.0
    assert "  counts: tasks [0] go to another executor with 40 bytes" in str(made).splitlines()
    assert Plan.from_json(json.loads(json.dumps(made.to_json()))) == made
    stays = planned(changes.place("counts", 0, "0"), paper=paper)
    assert (stays.affected[0].placed, stays.cost_ms) == ((), 0.0)
    assert "  counts: no state moves" in str(planned(changes.place("counts", 0, "1"))).splitlines()


@pytest.mark.parametrize(
    ("size", "told"),
    [(999, "999 bytes"), (1500, "1.5 KB"), (2.5e6, "2.5 MB"), (3e9, "3.0 GB"), (4e12, "4000.0 GB")],
)
def test_bytes_are_shown_in_units(size, told):
    assert f"1 bins ({told})" in str(planned(changes.move("counts", 0, 1), paper=Paper(size=size)))


def test_a_plan_is_read_from_its_file_as_it_was(tmp_path):
    made = planned(changes.rescale("counts", 4), strategies.optimized(2, gap=1, budget_ms=3))
    made.save(tmp_path / "plan.json")
    assert Plan.load(tmp_path / "plan.json") == made
    assert Plan.from_json(json.loads(json.dumps(made.to_json()))) == made


def test_a_plan_of_very_many_tasks_is_still_a_few_lines():
    paper = Paper(configuration=configuration(counts=keyed(4096, 8192)))
    made = planned(changes.rescale("counts", 6000), paper=paper)
    assert len(str(made)) < 700
    assert "move among" in str(made)
    assert Plan.from_json(json.loads(json.dumps(made.to_json()))) == made


def test_a_plan_of_an_earlier_version_is_read_and_has_no_picture():
    made = planned(changes.rescale("counts", 4))
    data = {name: value for name, value in made.to_json().items() if name != "topology"}
    early = Plan.from_json({**data, "format": 1})
    assert early == replace(made, topology=None)
    assert early.to_json() == {**data, "format": 1}
    assert "tasks of counts" not in str(early)
    with pytest.raises(RefusedError, match="without its topology; plan again"):
        early.svg()
    assert made.svg().startswith("<svg ")


def test_ranges_of_tasks_that_do_not_ascend_are_refused():
    data = planned(changes.rescale("counts", 4)).to_json()
    data["topology"]["operators"][1]["kept"] = [[3, 2]]
    with pytest.raises(RefusedError, match=r"topology.operators\[1\].kept: ranges of tasks must"):
        Plan.from_json(data)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"format": FORMAT + 1}, f"has format {FORMAT + 1}; this version reads up to {FORMAT}"),
        ({"format": "one"}, "not a valid plan"),
        ({"steps": None}, "not a valid plan"),
        ({"steps": [{}]}, "not a valid plan"),
        ({"steps": [{"first": [], "moves": [[1, 2]], "last": []}]}, "not a valid plan"),
        ({"change": {"kind": "rescale"}}, "rescale: operator: is missing"),
        ({"strategy": {"kind": "fluid", "bins": 0}}, "fluid: bins: expected int >= 1"),
        ({"affected": [{"operator": "counts"}]}, "not a valid plan"),
    ],
)
def test_what_is_no_plan_is_refused(changed, told):
    data = {**planned(changes.rescale("counts", 4)).to_json(), **changed}
    with pytest.raises(RefusedError, match=told):
        Plan.from_json(data)


@pytest.mark.parametrize(
    "size",
    [None, "x", True, -1, float("nan"), float("inf"), 10**400, {}],
    ids=lambda size: repr(size)[:9],
)
def test_bytes_of_a_move_that_are_none_are_refused_when_the_plan_is_read(size):
    data = planned(changes.rescale("counts", 4)).to_json()
    data["steps"][0]["moves"][0][-1] = size
    with pytest.raises(RefusedError, match="not a valid plan"):
        Plan.from_json(data)


def test_values_of_another_kind_are_refused_even_if_they_compare_alike():
    data = planned(changes.set_interval(5)).to_json()
    for value in (5.0, True, "5"):
        data["steps"][0]["first"] = [[None, "interval_ms", value]]
        with pytest.raises(RefusedError, match="not a valid plan"):
            Plan.from_json(data)


def test_plans_of_a_program_can_be_read():
    made = planned(program(logic={"counts": 2}, operators={"more": encode(keyed())}))
    assert Plan.from_json(json.loads(json.dumps(made.to_json()))) == made


def test_a_plan_with_many_wrong_values_names_the_first_one():
    data = planned(changes.rescale("counts", 4)).to_json()
    data["steps"] = [{"first": [], "moves": [[1]] * 30, "last": []}]
    with pytest.raises(RefusedError, match=r"steps\[0\].moves\[0\]: expected array of length 6"):
        Plan.from_json(data)


def test_a_file_that_cannot_be_read_is_refused_by_name(tmp_path):
    with pytest.raises(RefusedError, match=r"nowhere\.json.* cannot be read"):
        Plan.load(tmp_path / "nowhere.json")
    (tmp_path / "torn.json").write_text('{"format": 1, "ste')
    with pytest.raises(RefusedError, match=r"torn\.json.* cannot be read"):
        Plan.load(tmp_path / "torn.json")
    (tmp_path / "list.json").write_text("[]")
    with pytest.raises(RefusedError, match="not a valid plan"):
        Plan.load(tmp_path / "list.json")


def test_a_plan_of_a_rebalancing_leads_to_the_same_place_when_the_load_is_another():
    now = Now(
        timestep=1,
        time_ms=0,
        configuration=configuration(counts=keyed(bins=4, tasks=2)),
        facts=StreamFacts(loads={"counts": (9.0, 1.0, 0.0, 0.0)}),
    )
    made = plan(Coordination(), changes.rebalance("counts"), strategies.all_at_once(), now, 0.0)
    assert str(made.change) == "assign_workload(operator='counts', 4 bins at 2 tasks)"
    later = replace(now, facts=StreamFacts(loads={"counts": (0.0, 0.0, 5.0, 5.0)}))
    request = Request(change=made.change, strategy=made.strategy, steps=made.steps)
    assert accept(Coordination(), request, later).steps == tuple(map(encode, made.steps))


def test_what_is_written_anew_goes_by_hashes_whatever_becomes_of_the_bins():
    here = configuration(counts=keyed(bins=4, tasks=2))
    now = Now(timestep=1, time_ms=0, configuration=here)
    both = Together(changes=(changes.merge("counts", [1, 2]), changes.rewrite("counts")))
    made = plan(Coordination(), both, strategies.optimized(1), now, 0.0)
    after = reduce(apply_step, made.steps, here)
    assert after.operators["counts"].routing.bins == 3
    anew = [move for step in made.steps for move in step.moves if move.stays]
    assert len(anew) == 3
