"""Old frames stay readable, new frames stay equal, and damaged ones are refused in fixed words."""

import hashlib
import json
import re
import tomllib
from pathlib import Path

import numpy as np
import pytest

import fewbits
from cases import CASES, naming
from fewbits import DecodeError, registry
from fewbits.backend import library as _native
from fewbits.wire import frame as wire
from golden import regenerate
from golden.regenerate import EARLIER, GOOD, Good
from native_tables import each_table

HERE = Path(__file__).parent
BAD = tomllib.loads((HERE / "bad" / "index.toml").read_text())
goods = pytest.mark.parametrize("case", GOOD, ids=lambda case: case.path)
bads = pytest.mark.parametrize("name", BAD)


def stored(case: Good) -> tuple[bytes, dict]:
    base = HERE / "good" / case.path
    return base.with_suffix(".bin").read_bytes(), json.loads(base.with_suffix(".json").read_text())


@goods
def test_compress_gives_the_stored_bytes(case: Good) -> None:
    """Or, if an earlier version wrote them, bytes of this one that say the same."""
    frame, _ = stored(case)
    for simd in each_table():
        with naming(simd):
            check_compressed(case, frame)


def check_compressed(case: Good, frame: bytes) -> None:
    now = case.compressed()
    if not case.earlier:
        assert now == frame
        return
    if case.path in regenerate.RESPELLED:
        assert (frame[4], len(now)) == (now[4], len(frame) - 7)
    else:
        assert (frame[4], now[4]) == (1, 2)
    assert len(now) <= len(frame) or "top-k" in case.spec  # its places take more
    assert fewbits.decompress(now).tobytes() == fewbits.decompress(frame).tobytes()


@goods
def test_decompress_gives_the_stored_values(case: Good) -> None:
    frame, about = stored(case)
    assert hashlib.sha256(frame).hexdigest() == about["frame_sha256"]
    info = fewbits.inspect(frame)
    assert list(info.shape) == about["shape"]
    assert info.dtype == about["dtype"]
    assert info.operator == about["spec"]
    for simd in each_table():
        y = fewbits.decompress(frame)
        assert list(y.shape) == about["shape"], simd
        assert regenerate.digest(regenerate.little_endian(y)) == about["values_sha256"], simd


@goods
def test_descriptions_say_how_the_frame_was_made(case: Good) -> None:
    frame, about = stored(case)
    assert about == regenerate.description(case, frame)
    assert len(frame) <= 2048


def refused(frame: bytes) -> bool:
    try:
        fewbits.decompress(frame, threads=1)
    except DecodeError:
        return True
    return False


@goods
def test_every_truncation_is_refused(case: Good) -> None:
    frame, _ = stored(case)
    assert not refused(frame)
    for size in range(len(frame)):
        assert refused(frame[:size]), size


@goods
def test_every_flipped_bit_is_refused(case: Good) -> None:
    """Every bit of header and checksum, and one of each byte between, in turn.

    `damage-python` of the soak flips all of them, and so does conformance in frames of 19 values.
    """
    damaged = bytearray(stored(case)[0])
    first, last = 64, len(damaged) - 4
    for place in range(8 * len(damaged)):
        if first <= place // 8 < last and place % 8 != place // 8 % 8:
            continue
        damaged[place // 8] ^= 1 << place % 8
        assert refused(bytes(damaged)), place
        damaged[place // 8] ^= 1 << place % 8
    assert not refused(bytes(damaged))


@bads
def test_bad_frames_are_refused_in_these_words(name: str) -> None:
    frame = (HERE / "bad" / f"{name}.bin").read_bytes()
    for simd in each_table():
        with naming(simd), pytest.raises(DecodeError) as caught:
            fewbits.decompress(frame)
        assert type(caught.value).__name__ == BAD[name]["error"], simd
        assert str(caught.value) == BAD[name]["text"], simd


@bads
def test_bad_frames_are_what_the_script_makes(name: str) -> None:
    made = regenerate.bad()[name]
    assert (HERE / "bad" / f"{name}.bin").read_bytes() == made.frame
    assert BAD[name] == {"error": made.error, "text": made.text}


def test_every_refusal_of_the_reader_has_a_bad_frame() -> None:
    texts = [entry["text"] for entry in BAD.values()]
    for status, template in wire._MESSAGES.items():
        pattern = re.sub(r"\\\{\d[^}]*\\\}", ".+", re.escape(template))
        assert any(re.fullmatch(pattern, text) for text in texts), (status, template)
    assert set(_native._REFUSED.values()) <= set(texts)


def test_the_list_of_files_is_complete_and_right() -> None:
    listed = dict(
        reversed(line.split("  ")) for line in (HERE / regenerate.SUMS).read_text().splitlines()
    )
    present = {
        path.relative_to(HERE).as_posix(): regenerate.digest(path.read_bytes())
        for folder in ("good", "bad")
        for path in (HERE / folder).rglob("*")
        if path.is_file()
    }
    assert present == listed
    expected = {f"good/{case.path}.{end}" for case in GOOD for end in ("bin", "json")}
    expected |= {f"bad/{name}.bin" for name in regenerate.bad()} | {"bad/index.toml"}
    assert set(present) == expected


def test_every_operator_and_dtype_has_a_golden_frame() -> None:
    covered = {(case.spec, case.dtype) for case in GOOD}
    assert {case.operator.spec for case in CASES} <= {spec for spec, _ in covered}
    for name in (*registry.catalogue().by_name, *registry.catalogue().stages):
        dtypes = {dtype for spec, dtype in covered if re.split("[:|]", spec)[0] == name}
        assert dtypes == {"float32", "float64", "float16", "bfloat16"}, name


def test_the_script_never_overwrites(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regenerate, "HERE", tmp_path)
    for path in (f"good/{earlier}.{end}" for earlier in EARLIER for end in ("bin", "json")):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes((HERE / path).read_bytes())
    regenerate.main()
    sums = (tmp_path / regenerate.SUMS).read_text()
    assert sums == (HERE / regenerate.SUMS).read_text()
    victim = tmp_path / "good" / f"{GOOD[0].path}.bin"
    victim.write_bytes(b"other")
    with pytest.raises(SystemExit, match="is not the file that SHA256SUMS lists"):
        regenerate.main()
    assert victim.read_bytes() == b"other"
    victim.unlink()
    regenerate.main()
    assert victim.read_bytes() == stored(GOOD[0])[0]
    assert (tmp_path / regenerate.SUMS).read_text() == sums


def test_recipes_reach_what_they_claim() -> None:
    kinds = {case.recipe.split()[0] for case in GOOD}
    assert kinds == {"words", "corners", "sparse", "scattered", "nonfinite", "far", "same"}
    for case in GOOD:
        x = case.vector().astype(np.float64)
        assert np.isfinite(x).all() == (not case.recipe.startswith("nonfinite"))
        assert fewbits.inspect(stored(case)[0]).finite == np.isfinite(x).all()
