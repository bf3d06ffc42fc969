"""The models must notice: each mutant of our own queues' Lua is caught by a story.

A mutant that lives means that the model looks away there, or that the line does nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from ..mutants import Mutant, by_turns, looked_up, mutants, planted
from .carmine_shards import ShardedCarmineModel
from .carmines import CarmineModel
from .circle_shards import ShardedCircleModel
from .circles import CircleModel
from .delay_shards import ShardedDelayModel
from .delays import DelayModel
from .fair_shards import ShardedFairModel
from .fairs import FairModel
from .jobs import JobModel, ResqueModel, SidekiqModel
from .model import Model
from .requests import RequestModel
from .spoiling import noticed

Models = tuple[type[Model | JobModel], ...]
REQUESTS, DELAYS, FAIRS = (RequestModel,), (DelayModel,), (FairModel,)
BOTH = (RequestModel, DelayModel)
DELAY_SHARDS, CIRCLE_SHARDS = (ShardedDelayModel,), (ShardedCircleModel,)
CARMINE_SHARDS, FAIR_SHARDS = (ShardedCarmineModel,), (ShardedFairModel,)
CARRIED = (*DELAY_SHARDS, *CIRCLE_SHARDS, *CARMINE_SHARDS)
SIDEKIQ = (SidekiqModel,)
JOBS = (SidekiqModel, ResqueModel)
ALL = (RequestModel, DelayModel, CircleModel, CarmineModel, FairModel)
STORIES: Mapping[str, Models] = {
    "engine": ALL,
    "engine/no guard against re-sending": (*ALL, *JOBS),
    "engine/extend of what is over": JOBS,
    "engine/order lost with a lease": (DelayModel, CarmineModel),
    # `conform` finds them.
    "engine/score ignored": (),
    "engine/undo forgets the score": (),
    "engine/due_entries": (DelayModel, CarmineModel),
    "engine/edit": BOTH,
    "engine/undo_edit": BOTH,
    "engine/records of an edit that was undone": DELAYS,
    "engine/move_range": BOTH,
    "engine/undo of what was taken": REQUESTS,
    "engine/nobody learns that an undo put anything back": BOTH,
    "engine/bulk_write": FAIRS,
    "engine/results": (DelayModel, FairModel),
    "engine/number_words": FAIRS,
    # What goes from shard to shard; from queue to queue: `test_model_moves`.
    "engine/transfer_accept": CARRIED,
    "engine/transfer_drop": CARRIED,
    "engine/transfer_enter": CARRIED,
    "engine/moved and in no list": (*CIRCLE_SHARDS, *CARMINE_SHARDS),
    "engine/equal ones let in where it arrives": CARMINE_SHARDS,
    "engine/attempts forgotten on the way": CARMINE_SHARDS,
    "engine/transfer_hold": CARRIED,
    "engine/departed and in sight": (*CIRCLE_SHARDS, *CARMINE_SHARDS),
    "engine/what is done is guarded at its old home alone": CARMINE_SHARDS,
    "engine/transfer_memory": (),
    "engine/what arrives is never known": CARRIED,
    "engine/transfer_names": (),
    "engine/transfer_restore": (),
    "engine/transfer_revert": (),
    "engine/reject_stale_layout": (*CARRIED, *FAIR_SHARDS),
    "engine/retire_shard": (*CARRIED, *FAIR_SHARDS),
    "queues.request": REQUESTS,
    "queues.delay": DELAYS,
    "queues.delay/what arrived is known for ever": DELAY_SHARDS,
    "queues.delay/scheduled between two shards": DELAY_SHARDS,
    "queues.delay/scheduled by an old layout": DELAY_SHARDS,
    "queues.circular": (CircleModel,),
    "queues.circular/what arrived is known for ever": CIRCLE_SHARDS,
    "queues.circular/pushed between two shards": CIRCLE_SHARDS,
    "queues.circular/pushed by an old layout": CIRCLE_SHARDS,
    "queues.carmine": (CarmineModel,),
    "queues.carmine/what arrived is known for ever": CARMINE_SHARDS,
    "queues.carmine/message_facts": CARMINE_SHARDS,
    "queues.carmine/to be queued again, forgotten on the way": CARMINE_SHARDS,
    "queues.carmine/done, and gone from there": CARMINE_SHARDS,
    "queues.carmine/done, and out of sight where it arrives": CARMINE_SHARDS,
    "queues.fair": FAIRS,
    "queues.fair/an old layout is good enough": FAIR_SHARDS,
    "queues.fair/known clients keep their rules in a shard that is given up": FAIR_SHARDS,
    "queues.fair/new clients get no rules in a shard that lives": FAIR_SHARDS,
    "queues.fair/new clients get no rules in a shard that isn't empty yet": FAIR_SHARDS,
    # Our workers behind the layouts of others; other changes of these layouts: `conform`.
    "foreign.ruby_jobs": JOBS,
    "foreign.ruby_jobs/job_lists": (),
    "foreign.ruby_jobs/moves": (),
    "foreign.ruby_jobs/requeued to the end": JOBS,
    "foreign.ruby_jobs/undone but not what was seen": JOBS,
    "foreign.ruby_jobs/moved and still there": SIDEKIQ,
    "foreign.ruby_jobs/an older change undone over a newer one": SIDEKIQ,
    "foreign.sidekiq/promote": SIDEKIQ,
    "foreign/marks left behind": JOBS,
    "foreign/trash let go too early": JOBS,
    "foreign/undone in disorder": SIDEKIQ,
}
"""whose stories notice the mutants of a folder; of a file there; and one alone"""
EDITED = ("edit", "undo", "submit", "schedule", "take", "settle")
RESIZED = ("resize", "stop_a_mover")
RATED = ("set_client_rule", "submit", "take")
OFTEN: Mapping[str, tuple[str, ...]] = {
    "engine/dead one failure late": ("submit", "schedule", "take", "settle"),
    "engine/edit": ("edit",),
    "engine/undo_edit": EDITED,
    "engine/move_range": ("move_whole", "undo"),
    "engine/undo of what was taken": ("move_whole", "undo", "take", "settle"),
    "engine/nobody learns that an undo put anything back": ("move_whole", "undo"),
    "engine/arrived by an old layout": (*RESIZED, "move"),
    "engine/departed by an old layout": RESIZED,
    "engine/what arrives is never known": RESIZED,
    "engine/reject_stale_layout": RESIZED,
    "engine/take_rate": ("set_rate", "pass_time", "take", "submit", "schedule", "push", "enqueue"),
    "engine/retire_shard": ("resize",),
    "queues.request/a cancelled request half gone reopens": ("control", "pass_time"),
    "queues.request/a paused request goes on": ("control", "take", "submit"),
    "queues.request/edits outlive their entries": ("edit", "submit", "take", "settle"),
    "queues.request/moved when purged for good": ("move", "submit"),
    "queues.request/range": ("move_whole",),
    "queues.request/requests retired with dead letters": ("pass_an_hour",),
    "queues.request/what was edited is delivered as it was": ("edit", "move"),
    "queues.delay/a whole state emptied, and its payloads kept": ("move_whole",),
    "queues.delay/scheduled between two shards": RESIZED,
    "queues.delay/scheduled by an old layout": ("schedule", "resize"),
    "queues.circular/pushed between two shards": RESIZED,
    "queues.circular/pushed by an old layout": ("push", "resize"),
    "queues.carmine/enqueued by an old layout": ("enqueue", "resize"),
    "queues.carmine/refused as dead between two shards": RESIZED,
    "queues.fair/an old layout is good enough": ("submit", "resize"),
    "queues.fair/set_client_rule": ("set_client_rule",),
    "queues.fair/client_rates": RATED,
    "queues.fair/resting ones served": RATED,
    "queues.fair/a rate within a batch": RATED,
    "queues.fair/a rate goes with the last entry": RATED,
    "queues.fair/who came back rests again": RATED,
    "queues.fair/a new rate counts from the next entry on": RATED,
}
"""the rules of the model that stories about them are made of"""
CASES = [
    pytest.param(mutant, model, id=f"{mutant.name}-{model.__name__}")
    for mutant in mutants()
    for model in by_turns(mutant, looked_up(STORIES, mutant) or ())
]


def test_every_rule_that_a_mutant_needs_often_is_a_rule_of_its_models() -> None:
    models = {
        key: {model for m in mutants() if key in m.keys for model in looked_up(STORIES, m) or ()}
        for key in OFTEN
    }
    unknown = [
        (key, rule)
        for key, rules in OFTEN.items()
        for rule in rules
        if not any(hasattr(model, rule) for model in models[key])
    ]
    assert unknown == []


@pytest.mark.slow
@pytest.mark.parametrize(("mutant", "model"), CASES)
def test_a_spoilt_line_is_noticed(
    valkey_url: str, mutant: Mutant, model: type[Model | JobModel]
) -> None:
    with planted(mutant):
        said = noticed(valkey_url, model, looked_up(OFTEN, mutant) or ())
    assert said, "it did all that was asked of it"
