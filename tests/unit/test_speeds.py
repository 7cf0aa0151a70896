"""Speeds are measured once for a machine and a version, and a spoilt file is no harm."""

import json
from pathlib import Path

import pytest

from fewbits.bench import speeds
from fewbits.errors import SpecError
from fewbits.theory.cost import Codec

NINE = {"bits_per_value": 9, "encode_values_per_second": 1e9, "decode_values_per_second": 2e9}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def test_a_measurement_has_the_frames_bits_and_plausible_speeds() -> None:
    own = speeds.measured("natural")
    assert 9 < own.bits_per_value < 9.01
    for speed in (own.encode_values_per_second, own.decode_values_per_second):
        assert 1e5 < speed < 1e12


def test_what_is_kept_is_not_measured_again(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def fake(spec: str) -> Codec:
        calls.append(spec)
        return Codec(9.0, 1e9, float(len(calls)))

    monkeypatch.setattr(speeds, "measured", fake)
    first = speeds.kept(["natural", "sign"])
    assert speeds.kept(["sign", "natural"]) == first
    assert calls == ["natural", "sign"]
    assert speeds.kept(["identity", "sign"])["sign"] == first["sign"]
    assert speeds.kept(["sign"], again=True) != {"sign": first["sign"]}
    assert calls == ["natural", "sign", "identity", "sign"]
    assert speeds.kept(["natural"]) == {"natural": first["natural"]}  # others are left alone
    assert calls[4:] == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"machine": "another", "speeds": {}}',
        '{"speeds": 3}',
        '{"machine": null}',
        "\x00",
    ],
)
def test_a_file_of_another_machine_or_none_at_all_is_replaced(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(speeds, "measured", lambda spec: Codec(1.0, 2.0, 3.0))
    path = speeds.cache_path()
    path.parent.mkdir(parents=True)
    path.write_text(text)
    assert speeds.kept(["sign"]) == {"sign": Codec(1.0, 2.0, 3.0)}
    assert json.loads(path.read_text())["speeds"]["sign"]["bits_per_value"] == 1.0
    assert [child.name for child in path.parent.iterdir()] == ["speeds.json"]


def test_a_folder_that_cannot_be_made_is_no_error(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(speeds, "measured", lambda spec: Codec(1.0, 2.0, 3.0))
    (folder / "fewbits").write_text("a file in the way")
    assert speeds.kept(["sign"]) == {"sign": Codec(1.0, 2.0, 3.0)}


def test_speeds_can_be_given(folder: Path) -> None:
    path = folder / "own.json"
    path.write_text(json.dumps({"natural:rounding=stochastic": NINE}))
    assert speeds.given(path, ["natural"]) == {"natural": Codec(9.0, 1e9, 2e9)}
    with pytest.raises(SpecError, match="says nothing about sign"):
        speeds.given(path, ["sign"])


@pytest.mark.parametrize(
    "content", ["{", "[]", '{"natural": 3}', '{"natural": {}}', '{"naturel": {}}', '{"sign": null}']
)
def test_a_given_file_that_makes_no_sense_is_refused(folder: Path, content: str) -> None:
    path = folder / "own.json"
    path.write_text(content)
    with pytest.raises(SpecError, match="must map specs to bits_per_value"):
        speeds.given(path, [])
