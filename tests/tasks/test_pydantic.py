"""Models of Pydantic as arguments and results of tasks."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from types import GenericAlias
from typing import Any

import pydantic
import pytest

from redisq_ops.tasks import BadArguments, JobFailed, Tasks
from redisq_ops.testing.tasks import at_once


class Named(pydantic.BaseModel):
    name: str = pydantic.Field(alias="fullName")
    since: int = pydantic.Field(default=1, serialization_alias="from")
    score: int = pydantic.Field(default=2, validation_alias="points")


class Strict(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True, extra="forbid")
    day: date
    file: Path | None = None

    @pydantic.computed_field  # type: ignore[prop-decorator]
    @property
    def year(self) -> int:
        return self.day.year


class Group(pydantic.BaseModel):
    members: dict[str, Named]


class Login(pydantic.BaseModel):
    password: pydantic.SecretStr


class Aliased(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(serialize_by_alias=True)
    name: str = pydantic.Field(serialization_alias="fullName")


class Hidden(pydantic.BaseModel):
    shown: int = 1
    hidden: int = pydantic.Field(default=2, exclude=True)


class Animal(pydantic.BaseModel):
    name: str


class Dog(Animal):
    breed: str


class Zoo(pydantic.BaseModel):
    animals: list[Animal]


class Loose(pydantic.BaseModel):
    value: Any
    share: float | None = None


ANN = Named.model_validate({"fullName": "Ann", "points": 7})


@pytest.mark.parametrize(
    "model",
    [
        ANN,
        Strict(day=date(2024, 2, 29), file=Path("a/b")),
        Group(members={"a": ANN}),
        Loose(value=[1]),
        Aliased(name="Ann"),
        Hidden(shown=3),
    ],
    ids=repr,
)
def test_a_model_arrives_and_comes_back_as_it_was(model: pydantic.BaseModel) -> None:
    jobs, seen = Tasks("jobs"), list[Any]()

    def echo(models):  # type: ignore[no-untyped-def]
        seen.extend(models)
        return models

    kind = GenericAlias(list, (type(model),))
    echo.__annotations__ = {"models": kind, "return": kind}
    task = jobs.task()(echo)
    with at_once(jobs):
        assert task.submit([model, model]).result() == [model, model] == seen


@pytest.mark.parametrize(
    "model",
    [
        Login(password=pydantic.SecretStr("1234")),
        Hidden(hidden=3),
        Zoo(animals=[Dog(name="Rex", breed="poodle")]),
        Loose(value=date(2024, 2, 29)),
        Loose(value=1, share=float("nan")),
    ],
    ids=repr,
)
def test_a_model_that_json_would_change_is_refused(model: pydantic.BaseModel) -> None:
    jobs = Tasks("jobs")

    @jobs.task()
    def read(models):  # type: ignore[no-untyped-def]
        raise AssertionError

    @jobs.task(retries=0)
    def give() -> Any:
        return model

    said = f"{type(model).__name__}: JSON doesn't keep all of its values"
    with at_once(jobs):
        with pytest.raises(BadArguments, match=said):
            read.submit([model])
        with pytest.raises(JobFailed, match=said):
            give.submit().result()
