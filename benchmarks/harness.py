"""The values of which every benchmark is made.

A *benchmark* compares *variants* (Rechannel, a peer, or Rechannel under another setting). A
variant is one function, run in a process of its own, that returns a *measurement* (plain JSON). The
benchmark folds the measurements of its variants into one `Result`: metrics, ratios and the curves
of a picture.

Ratios are the verdict, and always read the same way: larger is better for Rechannel. A ratio
against a peer says how many times better Rechannel does; a ratio named ``bound_...`` says by how
much a promised bound is kept, so that 1 or more means kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

Parameters: TypeAlias = Mapping[str, Any]
"""What a benchmark or a variant is run with: JSON values only."""

Measurement: TypeAlias = Mapping[str, Any]
"""What one run of a variant returns: JSON values only (shapes: `benchmarks.measurements`)."""


class UnknownNameError(LookupError):
    """A parameter or a variant is named that the benchmark does not have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One figure of one variant; `unit` is ``s``, ``ms``, ``rows/s``, ``MB`` or the like."""

    name: str
    value: float
    unit: str
    variant: str

    def __post_init__(self) -> None:
        if not math.isfinite(self.value):
            raise ValueError(f"metric {self.name!r} of {self.variant!r} is {self.value}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One curve of the picture: as many `x` as `y`."""

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y):
            raise ValueError(f"series {self.label!r} has {len(self.x)} x but {len(self.y)} y")


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """The curves of a result, and how to draw them.

    panels: each in axes of its own, all to one scale. below: more curves over the same x, in axes
    below these; not beside `panels`.
    """

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    log_x: bool = False
    log_y: bool = False
    panels: bool = False
    below: Picture | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One side of a comparison: `function` is ``"package.module:name"``, called with `parameters`.

    It runs in a fresh process, pinned to `cpus` (numbers of processors) if there are any.
    """

    name: str
    function: str
    parameters: Parameters
    cpus: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.function.count(":") != 1:
            raise ValueError(f"variant {self.name!r}: {self.function!r} is not 'module:name'")


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A variant that did not finish: the reason in a sentence, and the end of its error output."""

    variant: str
    reason: str
    stderr_tail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a benchmark found. Variants that failed have no metrics and appear in `failures`."""

    parameters: Parameters
    metrics: tuple[Metric, ...]
    ratios: Mapping[str, float]
    picture: Picture
    failures: tuple[Failure, ...] = ()

    def __post_init__(self) -> None:
        for name, value in self.ratios.items():
            if not math.isfinite(value):
                raise ValueError(f"ratio {name!r} is {value}")


class Progress(Protocol):
    """Tells a waiting human what is going on."""

    def step(self, text: str) -> None:
        """A new piece of work begins; always shown."""

    def detail(self, text: str) -> None:
        """Where the piece of work stands; shown when there is room."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workbench:
    """What a run is given beside its parameters.

    `scratch` is an empty directory on a real disk, removed by the caller. `only` names the variants
    to run; empty means all.
    """

    scratch: str
    progress: Progress
    only: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """One entry of the registry.

    `defaults` are all parameters, `quick` those that differ in the version that ends within a
    minute, `goals` the ratio below which Rechannel breaks its promise (at the default parameters).
    """

    name: str
    purpose: str
    defaults: Parameters
    quick: Parameters
    run: Callable[[Parameters, Workbench], Result]
    goals: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        unknown = sorted(set(self.quick) - set(self.defaults))
        if unknown:
            raise ValueError(f"benchmark {self.name!r}: quick sets unknown parameters {unknown}")

    def parameters(self, *, quick: bool, overrides: Parameters) -> dict[str, Any]:
        """The parameters of one run. ``a.b`` in `overrides` reaches into a nested mapping.

        Raises `UnknownNameError` for a parameter that the benchmark does not have.
        """
        chosen: dict[str, Any] = {**self.defaults, **(self.quick if quick else {})}
        for path, value in overrides.items():
            chosen = _replaced(chosen, tuple(path.split(".")), value, whole=path)
        return chosen


def _replaced(
    parameters: Parameters, path: tuple[str, ...], value: Any, *, whole: str
) -> dict[str, Any]:
    name, *rest = path
    if name not in parameters:
        raise UnknownNameError(f"no parameter {whole!r}; known here: {', '.join(parameters)}")
    if rest:
        value = _replaced(parameters[name], tuple(rest), value, whole=whole)
    return {**parameters, name: value}
