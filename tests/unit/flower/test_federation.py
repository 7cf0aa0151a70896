"""What strategies and clients see, and what crosses the wire between them."""

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.clientapp.mod import LocalDpMod, fixedclipping_mod, message_size_mod
from flwr.serverapp.strategy import (
    DifferentialPrivacyClientSideFixedClipping,
    FedAdam,
    FedAvg,
    FedAvgM,
    FedProx,
    FedTrimmedAvg,
)

import fewbits
from fewbits.errors import DecodeError, MissingExtraError, SpecError
from fewbits.flower import CompressedGrid, client_mod
from fewbits.flower.arrays import STYPE
from fewbits.presets import PRESETS
from unit.flower.federation import (
    Client,
    InOrder,
    LocalGrid,
    arrays,
    clients,
    data_bytes,
    equal,
    model,
)

FRAMED = {"matrix", "half", "double"}
FEEDBACKS = [None, "ef14", "ef21", "diana", "ef-bv"]


def trained(grid: LocalGrid, used, rounds: int, strategy=None, first=None):
    strategy = strategy or InOrder(fraction_evaluate=0.0)
    return strategy.start(used, first or model(), num_rounds=rounds)


def test_the_first_broadcast_is_exact_and_later_ones_are_frames() -> None:
    local = LocalGrid(clients(3))
    trained(local, CompressedGrid(local, "natural", seed=2), 2)
    for client in local.clients.values():
        assert equal(client.received[0], model())
    first, second = local.down[0], local.down[3]
    assert {array.stype for array in first.content["arrays"].values()} == {"numpy.ndarray"}
    kinds = {name: array.stype for name, array in second.content["arrays"].items()}
    assert {name for name, kind in kinds.items() if kind == STYPE} == FRAMED
    for name in FRAMED:
        found = fewbits.inspect(second.content["arrays"][name].data)
        assert (found.operator, found.dtype) == ("natural", "float32")


@pytest.mark.parametrize("feedback", FEEDBACKS)
@pytest.mark.parametrize(
    "operator", ["natural", "natural:coder=rans", "rand-k:fraction=0.25|natural"]
)
def test_the_reference_is_what_every_client_received(operator: str, feedback: str | None) -> None:
    check_references(operator, feedback)


@pytest.mark.parametrize("preset", ["one-bit", "two-bit"])
def test_presets_without_memory_are_known(preset: str) -> None:
    local = check_references(preset, None)
    frames = [own.content["arrays"]["matrix"].data for own in (local.down[-1], local.up[-1])]
    assert {fewbits.inspect(frame).operator for frame in frames} == {PRESETS[preset].operator}


def test_a_preset_with_memory_is_refused_with_what_to_write() -> None:
    with pytest.raises(SpecError, match=r"name 'top-k.*natural' and feedback='ef14'"):
        client_mod("tiny")


def check_references(operator: str, feedback: str | None) -> LocalGrid:
    """Every client received the model that the server holds."""
    local = LocalGrid(clients(4, operator, feedback=feedback))
    grid = CompressedGrid(local, operator, feedback=feedback, seed=2)
    seen = []

    class Watching(InOrder):
        def aggregate_train(self, server_round, replies):
            seen.append(grid.reference["arrays"])
            return super().aggregate_train(server_round, replies)

    result = trained(local, grid, 4, Watching(fraction_evaluate=0.0))
    assert not grid.rejections
    for client in local.clients.values():
        assert all(equal(one, other) for one, other in zip(client.received, seen, strict=True))
    # Lossy: the weights of the strategy are not those of the clients.
    assert not equal(result.arrays, seen[-1])
    return local


@pytest.mark.parametrize("feedback", FEEDBACKS)
def test_replies_are_rebuilt_as_the_received_weights_and_a_change(feedback: str | None) -> None:
    """Within what `natural` promises of one value: at most a factor of two either way.

    With a shift, which is zero at first, that holds of the first round only.
    """
    local = LocalGrid(clients(2, feedback=feedback))
    grid = CompressedGrid(local, "natural", feedback=feedback, seed=2)
    messages = [Message(RecordDict({"arrays": model()}), node, "train") for node in (1, 2)]
    replies = grid.send_and_receive(messages)
    known = arrays(model())
    factor = 8 / 9 if feedback == "ef-bv" else 1.0  # its scale for omega = 1/8
    for reply, client in zip(replies, local.clients.values(), strict=True):
        wanted, got = arrays(client.honest[0]), arrays(reply.content["arrays"])
        for name in known.keys() - FRAMED:
            assert got[name].tobytes() == wanted[name].tobytes()
            assert got[name].dtype == wanted[name].dtype
        change = (wanted["matrix"] - known["matrix"]).astype(np.float64)
        seen = (got["matrix"] - known["matrix"]).astype(np.float64) / factor
        slack = 1e-6  # of adding to and subtracting from weights of order one in float32
        assert np.all(np.abs(seen) <= 2 * np.abs(change) + slack)
        assert np.all(np.abs(seen) >= np.abs(change) / 2 - slack)
        error = np.sum((seen - change) ** 2) / np.sum(change**2)
        assert 0.04 < error < 0.125  # neither exact nor beyond omega; 0.08 for Gaussian changes
        assert reply.content["metrics"]["num-examples"] == 10 + client.node


def test_compression_is_unbiased_in_both_directions() -> None:
    """The mean error along the change, pooled over weights and draws: |z| < 6.

    Natural rounding of t between 2^k and 2^(k+1) has the variance (t - 2^k)(2^(k+1) - t).
    """
    draws, known = 60, model()["matrix"].numpy()
    new = known + np.random.default_rng(9).standard_normal(known.shape).astype("f4") / 3
    along = dict.fromkeys(("up", "down"), 0.0)
    variance = dict.fromkeys(("up", "down"), 0.0)

    def note(way: str, meant: np.ndarray, got: np.ndarray) -> None:
        size = np.abs(meant).astype(np.float64)
        floor = 2.0 ** np.floor(np.log2(np.maximum(size, 1e-30)))
        along[way] += float(np.sum((got - meant).astype(np.float64) * np.sign(meant)))
        variance[way] += float(np.sum((size - floor) * (2 * floor - size)))

    for seed in range(draws):
        client = Client(1, [client_mod("natural", seed=seed)])
        grid = CompressedGrid(LocalGrid([client]), "natural", seed=seed)
        for x in (known, new):
            record = RecordDict({"arrays": ArrayRecord({"matrix": Array(x)})})
            (reply,) = grid.send_and_receive([Message(record, 1, "train")])
        held = client.received[1]["matrix"].numpy()
        note("down", new - known, held - known)
        whole, honest = (
            reply.content["arrays"]["matrix"].numpy(),
            client.honest[1]["matrix"].numpy(),
        )
        note("up", honest - held, whole - held)
    for way, total in along.items():
        assert variance[way] > 100
        assert abs(total) < 6 * np.sqrt(variance[way]), way


def test_the_common_model_follows_the_weights() -> None:
    """Weights that stay are approached: each round leaves about omega of the error."""
    local = LocalGrid(clients(1))
    grid = CompressedGrid(local, "natural", seed=2)
    record = model()
    errors = []
    for turn in range(4):
        target = np.ones((96, 64), np.float32) * (1 + 1e-6 * turn)  # else nothing would be sent
        record = ArrayRecord({"matrix": Array(np.zeros_like(target) if turn == 0 else target)})
        grid.send_and_receive([Message(RecordDict({"arrays": record}), 1, "evaluate")])
        known = local.clients[1].received[-1]["matrix"].numpy()
        errors.append(float(np.sum((known - target) ** 2)))
    assert errors[1] < errors[0] / 4
    assert errors[3] < errors[1] / 4 or errors[1] == 0


def test_weights_that_did_not_change_are_not_sent_again() -> None:
    local = LocalGrid(clients(3))
    grid = CompressedGrid(local, "natural", seed=2)
    trained(local, grid, 2, InOrder())
    kinds = [(one.metadata.message_type, data_bytes(one)) for one in local.down[::3]]
    assert [kind for kind, _ in kinds] == ["train", "evaluate", "train", "evaluate"]
    assert kinds[1][1] > 0
    assert kinds[2][1] == 0  # the evaluation has brought them
    assert all(len(client.received) == 4 for client in local.clients.values())
    for client in local.clients.values():
        assert equal(client.received[1], client.received[2])


def test_late_joiners_and_returning_clients_get_the_common_model_whole() -> None:
    local = LocalGrid(clients(4))
    grid = CompressedGrid(local, "natural", seed=2)
    strategy = InOrder(fraction_evaluate=0.0)
    schedule = [(1, 2), (1, 2), (1, 2, 3), (2, 3), (1, 3, 4), (4,), (1, 2)]
    weights, frames = model(), []
    for nodes in schedule:
        strategy.nodes = nodes
        before = len(local.down)
        result = strategy.start(grid, weights, num_rounds=1)
        weights = result.arrays
        sent = {one.metadata.dst_node_id: one for one in local.down[before:]}
        assert tuple(sent) == nodes
        framed = {
            node: any(array.stype == STYPE for array in one.content["arrays"].values())
            for node, one in sent.items()
        }
        frames.append(framed)
        newest = [local.clients[node].received[-1] for node in nodes]
        assert all(equal(own, grid.reference["arrays"]) for own in newest)
    assert frames == [
        {1: False, 2: False},
        {1: True, 2: True},
        {1: True, 2: True, 3: False},
        {2: True, 3: True},
        {1: False, 3: True, 4: False},
        {4: True},
        {1: False, 2: False},
    ]
    # Nobody held the model in the last round: its weights went out exactly.
    assert equal(local.clients[1].received[-1], local.clients[2].received[-1])


def test_a_round_is_encoded_at_most_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    from fewbits.flower.server import downlink

    calls = []
    real = downlink.codec.compress
    monkeypatch.setattr(
        downlink.codec, "compress", lambda *a, **k: (calls.append(1), real(*a, **k))[1]
    )
    local = LocalGrid([Client(node, []) for node in range(1, 9)])
    # Only the server's encodings are counted: these clients hold versions but answer plainly.
    grid = CompressedGrid(local, "natural", seed=2)
    first, second = model(), model(1)
    grid.send_and_receive(
        [Message(RecordDict({"arrays": first}), node, "train") for node in range(1, 9)]
    )
    for node in range(1, 6):
        grid._nodes.seen(node).held = 1
    shared = RecordDict({"arrays": second, "config": ConfigRecord({"lr": 0.1})})
    tickets = grid._outbox.tickets([Message(shared, node, "train") for node in range(1, 9)])
    assert len(calls) == len(FRAMED)
    payloads = [ticket.message.content["arrays"] for ticket in tickets]
    assert len({id(one) for one in payloads}) == 2
    assert all(one is payloads[0] for one in payloads[:5])
    assert all(one is payloads[5] for one in payloads[5:])


def test_neither_side_touches_the_callers_records() -> None:
    local = LocalGrid(clients(2))
    grid = CompressedGrid(local, "natural", seed=2)
    weights, config = model(), ConfigRecord({"lr": 0.5})
    content = RecordDict({"arrays": weights, "config": config})
    for _ in range(2):
        before = {name: array.data for name, array in weights.items()}
        messages = [Message(content, node, "train") for node in (1, 2)]
        replies = grid.send_and_receive(messages)
        assert list(content) == ["arrays", "config"]
        assert all(message.content is content for message in messages)
        assert {name: array.data for name, array in weights.items()} == before
        assert all(list(reply.content) == ["arrays", "metrics"] for reply in replies)
        weights = replies[0].content["arrays"]
        content = RecordDict({"arrays": weights, "config": config})
    for client in local.clients.values():
        assert client.honest[0]["matrix"].stype == "numpy.ndarray"
        assert set(client.received[0]) == set(model())


def test_an_app_that_changes_its_message_does_not_change_what_is_held() -> None:
    (client,) = clients(1)
    original = client._train

    def careless(message: Message, context) -> Message:
        reply = original(message, context)
        message.content["arrays"]["matrix"] = Array(np.zeros((96, 64), np.float32))
        message.content["arrays"]["bias"].data = b""
        return reply

    client.app = type(client.app)(mods=[client_mod("natural", seed=1)])
    client.app.train()(careless)
    grid = CompressedGrid(LocalGrid([client]), "natural", seed=2)
    held = []
    for turn in range(3):
        message = Message(RecordDict({"arrays": model(turn)}), 1, "train")
        grid.send_and_receive([message])
        held.append(client.context.state["fewbits.model:arrays"])
        assert equal(held[-1], grid.reference["arrays"])
    assert not grid.rejections


@pytest.mark.parametrize(
    "make", [FedAvg, FedAvgM, FedAdam, FedTrimmedAvg, lambda **k: FedProx(proximal_mu=0.1, **k)]
)
def test_strategies_work_unchanged(make) -> None:
    """Close to the uncompressed run from the same clients: the changes are small."""
    results = []
    for compressed in (False, True):
        local = LocalGrid(clients(3) if compressed else [Client(node, []) for node in (1, 2, 3)])
        used = CompressedGrid(local, "natural", seed=2) if compressed else local
        first = ArrayRecord({"matrix": model()["matrix"], "bias": model()["bias"]})
        result = make(fraction_train=1.0).start(used, first, num_rounds=2)
        assert len(result.train_metrics_clientapp) == len(result.evaluate_metrics_clientapp) == 2
        results.append(arrays(result.arrays))
    plain, close = results
    moved = np.linalg.norm(plain["matrix"] - model()["matrix"].numpy())
    # Two rounds, both ways, errors of about 0.3 of changes that do not add up to more than moved.
    distance = np.linalg.norm(close["matrix"] - plain["matrix"])
    assert 0 < distance < moved
    assert close["matrix"].dtype == plain["matrix"].dtype
    # FedAdam makes float64 of its weights; what clients know stays what it was, and compressed.
    assert data_bytes(local.down[3]) < data_bytes(local.down[0]) / 3
    assert {one["matrix"].dtype for one in local.clients[1].received} == {"float32"}


def test_partial_participation_by_the_strategys_own_sampling() -> None:
    local = LocalGrid(clients(10))
    grid = CompressedGrid(local, "natural", seed=2)
    strategy = FedAvg(fraction_train=0.3, fraction_evaluate=0.2)
    strategy.start(grid, model(), num_rounds=6)
    assert not grid.rejections
    known = grid.reference["arrays"]
    holders = [node for node in local.clients if grid._nodes.held(node) is not None]
    assert holders
    last = {one.metadata.dst_node_id for one in local.down[-2:]}
    assert all(equal(local.clients[node].received[-1], known) for node in last)


def test_mods_in_the_documented_order(caplog: pytest.LogCaptureFixture) -> None:
    """Bytes are counted outside, privacy works inside on plain arrays."""
    import logging

    logging.getLogger("flwr").setLevel(logging.INFO)
    noisy = LocalDpMod(clipping_norm=1.0, sensitivity=1.0, epsilon=10.0, delta=1e-5)
    mods = [message_size_mod, client_mod("natural", seed=1), noisy]
    local = LocalGrid([Client(node, mods) for node in (1, 2)])
    grid = CompressedGrid(local, "natural", seed=2)
    first = ArrayRecord({"matrix": model()["matrix"]})
    trained(local, grid, 2, first=first)
    assert not grid.rejections
    sizes = [int(r.getMessage().split()[-2]) for r in caplog.records if "message size" in r.msg]
    whole = 4 * 96 * 64
    assert sizes[0] > whole  # exact at first
    assert all(size < whole / 2 for size in sizes[1:2] + sizes[4:])


def test_clipping_inside_bounds_what_the_server_rebuilds() -> None:
    mods = [client_mod("natural", seed=1), fixedclipping_mod]
    local = LocalGrid([Client(node, mods) for node in (1, 2)])
    grid = CompressedGrid(local, "natural", seed=2)
    first = ArrayRecord({"matrix": model()["matrix"]})
    inner = InOrder(fraction_evaluate=0.0)
    strategy = DifferentialPrivacyClientSideFixedClipping(
        inner, noise_multiplier=0.0001, clipping_norm=0.5, num_sampled_clients=2
    )
    strategy.start(grid, first, num_rounds=2)
    assert not grid.rejections
    for reply in local.up:
        frame = reply.content["arrays"]["matrix"].data
        # Natural compression changes a norm by less than a factor of two.
        assert 0.1 < np.linalg.norm(fewbits.decompress(frame)) < 1.0


@pytest.mark.parametrize("feedback", FEEDBACKS)
def test_a_restarted_client_is_sent_the_whole_model_in_the_same_round(feedback) -> None:
    local = LocalGrid(clients(3, feedback=feedback))
    grid = CompressedGrid(local, "natural", feedback=feedback, seed=2)
    strategy = InOrder(fraction_evaluate=0.0)
    weights = strategy.start(grid, model(), num_rounds=2).arrays
    local.clients[2].restart()
    before = len(local.down)
    strategy.start(grid, weights, num_rounds=2)
    assert not grid.rejections
    whole = [data_bytes(message) > data_bytes(local.down[0]) / 2 for message in local.down[before:]]
    assert whole == [False, False, False, True, False, False, False]
    third = [client.received[2] for client in local.clients.values()]
    assert all(equal(one, third[0]) for one in third)
    assert [len(client.received) for client in local.clients.values()] == [4, 4, 4]
    assert all(equal(c.received[-1], grid.reference["arrays"]) for c in local.clients.values())


@pytest.mark.parametrize("feedback", ["ef21", "diana", "ef-bv"])
def test_a_lost_reply_leaves_no_trace(feedback: str | None) -> None:
    """What the server rebuilds is what the client's memory says, also after losses."""
    local = LocalGrid(clients(2, feedback=feedback))
    grid = CompressedGrid(local, "natural", feedback=feedback, seed=2)
    weights = ArrayRecord({"matrix": model()["matrix"]})
    for turn in range(8):
        local.lost = {2} if turn in (1, 2, 5) else set()
        messages = [Message(RecordDict({"arrays": weights}), node, "train") for node in (1, 2)]
        replies = grid.send_and_receive(messages)
        assert len(replies) == 2 - len(local.lost)
        weights = replies[0].content["arrays"]
        for node in (1, 2):
            assert shift(grid, node) == committed(local.clients[node], node in local.lost)
    assert not grid.rejections


def shift(grid: CompressedGrid, node: int) -> bytes:
    memories = grid._nodes.seen(node).memory.shifts
    found = memories.get("arrays", {}).get("matrix")
    return b"" if found is None else found.tobytes()


def committed(client: Client, lost: bool) -> bytes:
    """The client's shift as of its last reply that arrived."""
    prefix = "fewbits.memory:arrays" if lost else "fewbits.pending:arrays"
    record = client.context.state.get(prefix)
    if record is None:
        return b""
    return record["matrix"].numpy().tobytes()


def test_error_feedback_conserves_what_a_lost_reply_would_have_taken() -> None:
    """The sum of what arrived and what is remembered is the sum of what was meant to arrive."""
    operator = "top-k:fraction=0.1|natural"
    (client,) = clients(1, operator, feedback="ef14")
    local = LocalGrid([client])
    grid = CompressedGrid(local, operator, uplink=operator, feedback="ef14", seed=2)
    first = ArrayRecord({"matrix": Array(np.zeros((96, 64), np.float32))})
    arrived = meant = np.zeros((96, 64))
    for turn in range(12):
        local.lost = {1} if turn in (3, 7, 8) else set()
        replies = grid.send_and_receive([Message(RecordDict({"arrays": first}), 1, "train")])
        if replies:
            known = client.received[-1]["matrix"].numpy().astype(np.float64)
            meant = meant + client.honest[-1]["matrix"].numpy() - known
            arrived = arrived + replies[0].content["arrays"]["matrix"].numpy() - known
    left = client.context.state["fewbits.pending:arrays"]["matrix"].numpy()[0].reshape(96, 64)
    assert np.linalg.norm(meant - arrived - left) < 1e-5 * np.linalg.norm(meant)
    assert np.linalg.norm(left) > 0.1 * np.linalg.norm(meant)


def test_ef21_learns_an_update_that_repeats() -> None:
    """Top-k alone loses most of it every time; the shift makes the estimate converge to it."""
    operator, change = (
        "top-k:fraction=0.1|natural",
        np.random.default_rng(5).standard_normal((96, 64)),
    )
    errors = {}
    for feedback in ("ef21", "ef14"):
        (client,) = clients(1, operator, feedback=feedback)

        def same(message: Message, context, client=client) -> Message:
            x = message.content["arrays"]["matrix"].numpy()
            moved = ArrayRecord({"matrix": Array((x + change).astype(np.float32))})
            return Message(RecordDict({"arrays": moved}), reply_to=message)

        client.app = type(client.app)(mods=[client_mod(operator, feedback=feedback, seed=1)])
        client.app.train()(same)
        grid = CompressedGrid(LocalGrid([client]), "natural", uplink=operator, feedback=feedback)
        first = ArrayRecord({"matrix": Array(np.zeros((96, 64), np.float32))})
        for _ in range(40):
            (reply,) = grid.send_and_receive([Message(RecordDict({"arrays": first}), 1, "train")])
        got = reply.content["arrays"]["matrix"].numpy()
        errors[feedback] = np.linalg.norm(got - change) / np.linalg.norm(change)
    assert errors["ef21"] < 0.01
    assert errors["ef14"] > 0.1


def test_messages_without_arrays_and_other_attributes_pass() -> None:
    local = LocalGrid(clients(2))
    grid = CompressedGrid(local, "natural")
    messages = [
        Message(RecordDict({"c": ConfigRecord({"a": 1})}), node, "query") for node in (1, 2)
    ]
    replies = grid.send_and_receive(messages)
    assert [reply.content["metrics"]["answer"] for reply in replies] == [42, 42]
    grid.set_run("told")
    assert (grid.run, local.told, list(grid.get_node_ids())) == ("the run", "told", [1, 2])
    assert [info.node_id for info in grid.get_nodes()] == [1, 2]
    assert grid.clients is local.clients
    assert grid.create_message(RecordDict(), 1, "query").metadata.dst_node_id == 1


def test_replies_that_are_files_may_have_lengths_of_their_own() -> None:
    """As the trees of FedXgbBagging have: bytes in a vector, longer with every client."""
    local = LocalGrid(clients(3))
    for client in local.clients.values():

        def grown(message: Message, context, client=client) -> Message:
            sent = message.content["arrays"]["0"].numpy()
            trees = ArrayRecord([np.frombuffer(bytes(sent) + b"tree" * client.node, np.uint8)])
            return Message(RecordDict({"arrays": trees}), reply_to=message)

        client.app = type(client.app)(mods=[client_mod("natural", seed=1)])
        client.app.train()(grown)
    grid = CompressedGrid(local, "natural", seed=2)
    for sent in (b"", b"treetreetree"):
        first = ArrayRecord([np.frombuffer(sent, np.uint8)])
        messages = [Message(RecordDict({"arrays": first}), node, "train") for node in (1, 2, 3)]
        replies = grid.send_and_receive(messages)
        found = [bytes(reply.content["arrays"]["0"].numpy()) for reply in replies]
        assert found == [sent + b"tree" * node for node in (1, 2, 3)]
    assert not grid.rejections


def test_push_and_pull() -> None:
    local = LocalGrid(clients(2))
    grid = CompressedGrid(local, "natural", seed=2)
    weights = model()
    for turn in range(3):
        messages = [Message(RecordDict({"arrays": weights}), node, "train") for node in (1, 2)]
        ids = grid.push_messages(messages)
        replies = [reply for one in reversed(ids) for reply in grid.pull_messages([one])]
        assert [reply.metadata.src_node_id for reply in replies] == [2, 1]
        assert (data_bytes(local.down[-1]) < data_bytes(messages[0]) / 2) == (turn > 0)
        weights = replies[0].content["arrays"]
    assert not grid.rejections
    assert not grid._pushed


def test_nodes_with_weights_of_their_own_get_them_exactly() -> None:
    local = LocalGrid(clients(3))
    grid = CompressedGrid(local, "natural", seed=2)
    for turn in range(2):
        contents = {1: model(turn), 2: model(turn), 3: model(50 + turn)}
        replies = grid.send_and_receive(
            [Message(RecordDict({"arrays": own}), node, "train") for node, own in contents.items()]
        )
        assert all(reply.has_content() for reply in replies)
        assert equal(local.clients[3].received[-1], model(50 + turn))
        assert equal(local.clients[1].received[-1], local.clients[2].received[-1])
        assert equal(local.clients[1].received[-1], model(turn)) == (turn == 0)
    assert not grid.rejections


def test_a_client_without_the_server_or_the_server_without_the_client_is_told() -> None:
    plain = LocalGrid(clients(1))
    (reply,) = plain.send_and_receive([Message(RecordDict({"arrays": model()}), 1, "train")])
    assert equal(reply.content["arrays"], plain.clients[1].honest[0])
    local = LocalGrid([Client(1, [])])
    grid = CompressedGrid(local, "natural")
    (reply,) = grid.send_and_receive([Message(RecordDict({"arrays": model()}), 1, "train")])
    assert "client_mod" in reply.error.reason
    assert [(one.node, one.exchange) for one in grid.rejections] == [(1, 1)]


def test_a_client_that_diverged_is_an_error_and_not_a_rejection() -> None:
    (client,) = clients(1)
    client._step = np.inf
    grid = CompressedGrid(LocalGrid([client]), "natural")
    with np.errstate(all="ignore"):
        (reply,) = grid.send_and_receive([Message(RecordDict({"arrays": model()}), 1, "train")])
    assert reply.has_error()
    assert "diverged" in reply.error.reason


def test_exact_names_and_policies() -> None:
    policy = {"matrix": "exact", "half": "natural:coder=rans"}
    local = LocalGrid(clients(1, policy=policy))
    grid = CompressedGrid(local, "natural", policy=policy, seed=2)
    trained(
        local, grid, 2, InOrder(fraction_evaluate=0.0, min_train_nodes=1, min_available_nodes=1)
    )
    assert not grid.rejections
    for message in (local.down[1], local.up[1]):
        record = message.content["arrays"]
        assert record["matrix"].stype == "numpy.ndarray"
        assert fewbits.inspect(record["half"].data).operator == "natural:coder=rans"
        assert fewbits.inspect(record["double"].data).operator == "natural"


@pytest.mark.parametrize(
    ("given", "up", "down"),
    [
        (("natural",), "natural", "natural"),
        (("natural", {"uplink": "sign"}), "sign", "natural"),
        (("natural", {"downlink": "sign"}), "natural", "sign"),
        (
            (None, {"uplink": "natural:coder=rans", "downlink": "sign"}),
            "natural:coder=rans",
            "sign",
        ),
        (("natural", {"downlink": "identity"}), "natural", None),
    ],
)
def test_each_way_may_have_an_operator_of_its_own(given, up: str, down: str | None) -> None:
    first, named = given[0], dict(*given[1:])
    local = LocalGrid(clients(2, up, feedback="ef14"))
    grid = CompressedGrid(local, first, feedback="ef14", **named)
    trained(local, grid, 2)
    assert not grid.rejections
    for messages, spec in ((local.up, up), (local.down, down)):
        array = messages[-1].content["arrays"]["matrix"]
        assert (fewbits.inspect(array.data).operator if array.stype == STYPE else None) == spec


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: client_mod("naturel"), "naturel"),
        (lambda: client_mod("natural", feedback="ef99"), "ef99"),
        (lambda: client_mod("natural", feedback="ef14:momentum=0.9"), "momentum"),
        (lambda: client_mod("natural", policy=3), "policy must be"),
        (lambda: CompressedGrid(object(), "natural"), "got object"),
        (lambda: CompressedGrid(LocalGrid([])), "both uplink= and downlink="),
        (lambda: CompressedGrid(LocalGrid([]), uplink="natural"), "both uplink= and downlink="),
        (lambda: CompressedGrid(LocalGrid([]), "natural", max_weight=-1), "max_weight"),
    ],
)
def test_nonsense_is_refused(call, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        call()


def test_an_operator_that_no_model_can_follow_is_refused_at_once() -> None:
    grid = CompressedGrid(LocalGrid(clients(1)), "sparse-dithering:nu=2", uplink="natural")
    with pytest.raises(SpecError, match=r"arrays/matrix.*contracts"):
        grid.send_and_receive([Message(RecordDict({"arrays": model()}), 1, "train")])


def test_bias_without_feedback_is_warned_of() -> None:
    with pytest.warns(UserWarning, match="biased and nothing corrects it"):
        client_mod("top-k:fraction=0.1|natural")
    client_mod("top-k:fraction=0.1|natural", feedback="ef14")


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib
    import sys

    monkeypatch.setitem(sys.modules, "flwr", None)
    monkeypatch.delitem(sys.modules, "fewbits.flower")
    with pytest.raises(MissingExtraError, match=r"fewbits\[flower\]"):
        importlib.import_module("fewbits.flower")


def test_the_client_refuses_a_message_of_another_protocol() -> None:
    (client,) = clients(1)
    grid = CompressedGrid(LocalGrid([client]), "natural")
    (ticket,) = grid._outbox.tickets([Message(RecordDict({"arrays": model()}), 1, "train")])
    ticket.message.content["fewbits"]["protocol"] = 2
    with pytest.raises(DecodeError, match="protocol 2"):
        client.app(ticket.message, client.context)
