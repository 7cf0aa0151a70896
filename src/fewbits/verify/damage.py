"""A byte that is flipped on its way: the device must find it and name the message it was in."""

from typing import Any

import numpy as np

from fewbits.backend.boxes import (
    COUNTS_SIZE,
    FIELD_PLACES,
    HEADER,
    HEADER_SIZE,
    MET_SIZE,
    VERDICT_ITEM,
    Boxes,
    Wrong,
)
from fewbits.backend.buffers import CPU, Buffer
from fewbits.verify.places import DevicePlaces

BOX_LENGTHS = (1000, 17, 4096)
_FLIPS = 8


def injected(device: DevicePlaces) -> dict[str, Any]:
    """Seal three messages, compare them with the CPU's, then flip one byte after the other."""
    random = np.random.default_rng(7)
    payloads = [random.integers(0, 256, length, np.uint8) for length in BOX_LENGTHS]
    host, own = (_sealed(places, payloads) for places in (DevicePlaces(CPU), device))
    wrong = []
    if not np.array_equal(host, own):
        index = int(np.flatnonzero(host != own)[0])
        wrong.append(f"seal: byte {index} is {own[index]:#04x}, the CPU has {host[index]:#04x}")
    if any(_verdict(device, host)):
        wrong.append(f"judge: sound messages have the verdict {_verdict(device, host)}")
    flips = []
    for place in random.permutation(_places())[:_FLIPS].tolist():
        damaged = host.copy()
        damaged[place] ^= 1 << int(random.integers(8))
        box, what = _where(place)
        found = _verdict(device, damaged)
        expected = [0] * len(BOX_LENGTHS)
        expected[box] = int(Wrong.HEADER if what == "header" else Wrong.PAYLOAD)
        flips.append({"byte": place, "message": box, "part": what, "verdict": found})
        if found != expected:
            wrong.append(f"a byte of the {what} of message {box} was flipped: verdict {found}")
    return {"held": not wrong, "flipped": len(flips), "flips": flips, "differences": wrong}


def _template(length: int) -> bytes:
    fields = {"magic": b"FBTS", "text": b"", "length": length}
    return HEADER.pack(*(fields.get(name, 0) for name in FIELD_PLACES))


def _filled(places: DevicePlaces, content: list[np.ndarray[Any, Any]] | None) -> Boxes:
    boxes = Boxes(BOX_LENGTHS, CPU)
    for number, payload in enumerate(content or ()):
        boxes.payload(number).array()[:] = payload
    boxes.memory = places.filled(boxes.memory.array())
    return boxes


def _sealed(places: DevicePlaces, payloads: list[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    boxes = _filled(places, payloads)
    places.backend.fill(boxes, [_template(length) for length in BOX_LENGTHS])
    counts = places.filled(np.array([3, 0, 0, 0], np.int64))
    assert counts.size == COUNTS_SIZE
    places.backend.seal_boxes(boxes, counts)
    return places.read(boxes.memory)


def _verdict(places: DevicePlaces, content: np.ndarray[Any, Any]) -> list[int]:
    boxes = _filled(places, None)
    boxes.memory = places.filled(content)
    verdict: Buffer = places.filled(np.zeros(VERDICT_ITEM * len(BOX_LENGTHS), np.uint8))
    met = places.filled(np.zeros(MET_SIZE, np.uint8))
    places.backend.judge_boxes(boxes, [_template(length) for length in BOX_LENGTHS], verdict, met)
    return [int(own) for own in places.read(verdict).view(np.int32)]


def _places() -> list[int]:
    """All bytes of headers and payloads, not those between them."""
    starts = Boxes(BOX_LENGTHS, CPU).starts
    return [
        start + place
        for start, length in zip(starts, BOX_LENGTHS, strict=True)
        for place in range(HEADER_SIZE + length)
    ]


def _where(place: int) -> tuple[int, str]:
    starts = Boxes(BOX_LENGTHS, CPU).starts
    box = max(number for number, start in enumerate(starts) if start <= place)
    return box, "header" if place - starts[box] < HEADER_SIZE else "payload"
