"""Options are declared once: what is shown, what still works, what is refused."""

import inspect
from dataclasses import MISSING, fields
from typing import Any, get_type_hints

import pytest

pytest.importorskip("torch")

from torch import nn

from fewbits import SpecError, ddp, fsdp, localsgd
from fewbits.localsgd.options import LocalOptions, RoundOptions
from fewbits.session.options import GradientOptions, Options, ShardOptions

FUNCTIONS = {
    ddp.attach: GradientOptions,
    ddp.Compression.__init__: GradientOptions,
    fsdp.attach: ShardOptions,
    fsdp.ShardedCompression.__init__: ShardOptions,
    localsgd.attach: RoundOptions,
    localsgd.LocalSGD.__init__: RoundOptions,
}
EVERY = pytest.mark.parametrize(("function", "options"), FUNCTIONS.items())


def test_the_dictionary_for_type_checkers_is_the_declaration() -> None:
    every = get_type_hints(GradientOptions) | get_type_hints(ShardOptions)
    assert every == get_type_hints(Options)
    local = get_type_hints(LocalOptions)
    assert get_type_hints(RoundOptions).items() <= local.items()
    assert local.keys() == every.keys() | get_type_hints(RoundOptions)


@EVERY
def test_help_shows_every_option_with_its_default_and_its_meaning(
    function: Any, options: type
) -> None:
    shown = inspect.signature(function).parameters
    declared = {each.name: each for each in fields(LocalOptions)}
    for name in get_type_hints(options):
        if declared[name].default is not MISSING:
            assert shown[name].default == declared[name].default
        assert shown[name].kind is inspect.Parameter.KEYWORD_ONLY
        assert f"`{name}`: {declared[name].metadata['help'].split()[0]}" in function.__doc__
    assert not any(each.kind is each.VAR_KEYWORD for each in shown.values())


@EVERY
def test_an_option_that_there_is_not_is_one_line(function: Any, options: type) -> None:
    with pytest.raises(TypeError, match=r"has no option 'sead': it has .*seed") as caught:
        function(None, "natural", sead=1)
    assert "\n" not in str(caught.value)


def test_old_names_work_and_warn_the_line_that_uses_them() -> None:
    with pytest.warns(DeprecationWarning, match="= is called") as caught:
        old = ddp.Compression(worker="natural", master="bfloat16", scheme="star")  # type: ignore[call-arg]
    assert {str(each.message) for each in caught} == {
        "worker= is called uplink= now",
        "master= is called downlink= now",
        "scheme= is called collective= now",
    }
    assert {each.filename for each in caught} == {__file__}
    new = ddp.Compression("natural", "bfloat16", collective="star")
    assert old.report() == new.report()
    with pytest.warns(DeprecationWarning, match="worker of a report is called uplink"):
        assert old.report().worker == "natural"


def test_both_names_of_one_option_are_refused() -> None:
    with pytest.raises(TypeError, match="got both 'master' and 'downlink'"):
        ddp.Compression("natural", downlink="natural", master="natural")  # type: ignore[call-arg]


def test_old_names_of_classes_warn() -> None:
    with pytest.warns(DeprecationWarning, match="ShardedCompression"):
        assert fsdp.Compression is fsdp.ShardedCompression


def test_a_warning_of_bias_points_at_the_line_that_asks_for_it() -> None:
    with pytest.warns(UserWarning, match="is biased") as caught:
        localsgd.LocalSGD(nn.Linear(3, 3), "sign", local_steps=2)
    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"collective": "ring"}, "collective must be sharded, star, gather, switch, got 'ring'"),
        ({"collective": "reduce-scatter"}, "fewbits.fsdp"),
        ({"nonfinite": "ignore"}, "propagate, skip or raise"),
        ({"timeout": 0}, "timeout"),
        ({"threads": 1.5}, "threads"),
        ({"seed": "7"}, "seed"),
        ({"policy": 3}, "policy"),
        ({"feedback": "ef15"}, "ef15"),
        ({"aggregators": ["here:1"]}, "has no aggregators"),
        ({"collective": "switch"}, "needs aggregators"),
    ],
)
def test_values_that_make_no_sense_are_refused_before_any_rank_is_met(
    options: dict[str, Any], words: str
) -> None:
    with pytest.raises(SpecError, match=words) as caught:
        ddp.Compression("natural", **options)
    assert "\n" not in str(caught.value)
