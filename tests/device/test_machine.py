"""The machine that runs compiled PTX: what it computes, and what it refuses."""

from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

from fewbits_lab.devices.equivalence import SAME_CODE, SAME_NUMBERS, proof
from fewbits_lab.devices.lint import faults
from fewbits_lab.devices.machine import PtxMachine
from fewbits_lab.devices.machine_code import measured
from fewbits_lab.devices.memory import GlobalMemory
from fewbits_lab.devices.mutation import mutants
from fewbits_lab.devices.ptx import PtxError, parse

THREADS = 64
HEAD = """
.version 8.7
.target sm_80
.extern .shared .align 16 .b8 global_smem[];
.visible .entry kernel(
	.param .u64 .ptr .global .align 1 kernel_param_0,
	.param .u64 .ptr .global .align 1 kernel_param_1
)
.reqntid 64
{
	.reg .pred 	%p<9>;
	.reg .b16 	%rs<9>;
	.reg .b32 	%r<99>;
	.reg .b64 	%rd<99>;
	ld.param.b64 	%rd1, [kernel_param_0];
	ld.param.b64 	%rd2, [kernel_param_1];
	mov.u32 	%r1, %tid.x;
	mov.u32 	%r2, %ctaid.x;
	mad.lo.s32 	%r3, %r2, 64, %r1;
	mul.wide.u32 	%rd3, %r3, 4;
	add.s64 	%rd4, %rd1, %rd3;
	add.s64 	%rd5, %rd2, %rd3;
	ld.global.b32 	%r4, [%rd4];
"""
END = """
	st.global.b32 	[%rd5], %r5;
	ret;
}
"""


EXCHANGE = (
    "shl.b32 %r6, %r1, 2; st.shared.b32 [%r6], %r4; bar.sync 0; xor.b32 %r7, %r6, 128; "
    "ld.shared.b32 %r5, [%r7];"
)


def run(body, values=None, *, blocks=1, end=END, limit=5000):
    """Every thread's word through `body`, from %r4 to %r5."""
    given = np.arange(blocks * THREADS, dtype=np.uint32) if values is None else values
    given = given.view(np.uint32)
    out = np.zeros(given.size, np.uint32)
    memory = GlobalMemory()
    arguments = [memory.add(given), memory.add(out)]
    PtxMachine(parse(HEAD + body + end), 1024).run((blocks, 1, 1), arguments, memory, limit)
    return out


def floats(*values):
    return np.resize(np.array(values, np.float32), THREADS).view(np.uint32)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("add.s32 %r5, %r4, -3;", lambda x: x - np.uint32(3)),
        ("mul.lo.s32 %r5, %r4, -1640531535;", lambda x: x * np.uint32(0x9E3779B1)),
        ("mul.hi.u32 %r5, %r4, -1;", lambda x: x.astype(np.uint64) * 0xFFFFFFFF >> 32),
        ("shr.s32 %r5, %r4, 40;", lambda x: (x.view(np.int32) >> 31).view(np.uint32)),
        ("shl.b32 %r5, %r4, 32;", lambda x: x * 0),
        ("bfe.u32 %r5, %r4, 3, 7;", lambda x: x >> 3 & 127),
        ("bfe.s32 %r5, %r4, 1, 2;", lambda x: (x.view(np.int32) << 29 >> 30).view(np.uint32)),
        ("prmt.b32 %r5, %r4, 0, 0x0123U;", lambda x: x.byteswap()),
        ("popc.b32 %r5, %r4;", np.bitwise_count),
        ("clz.b32 %r5, %r4;", lambda x: [32 - int(own).bit_length() for own in x]),
        ("setp.gt.u32 %p1, %r4, 9; selp.b32 %r5, 7, %r4, %p1;", lambda x: np.where(x > 9, 7, x)),
        ("cvt.u16.u32 %rs1, %r4; cvt.s32.s16 %r5, %rs1;", lambda x: x.astype(np.int16)),
        ("mov.b32 {%rs1, %rs2}, %r4; mov.b32 %r5, {%rs2, %rs1};", lambda x: x << 16 | x >> 16),
        ("shfl.sync.bfly.b32 %r5, %r4, 3, 31, -1;", lambda x: x.reshape(-1, 4)[:, ::-1]),
        ("redux.sync.xor.b32 %r5, %r4, -1;", lambda x: np.bitwise_xor.reduce(x[:32])),
        ("setp.eq.b32 %p1, %r4, 70001; not.pred %p2, %p1; selp.b32 %r5, 1, 0, %p2;", lambda x: 1),
    ],
)
def test_an_instruction_gives_these_bits(line, expected):
    x = np.arange(THREADS, dtype=np.uint32) * np.uint32(1 if "redux" in line else 0x01010101)
    wanted = np.broadcast_to(np.asarray(expected(x)).reshape(-1), THREADS)
    assert np.array_equal(run(line, x), wanted.astype(np.int64).astype(np.uint32))


def test_floats_round_to_nearest_keep_subnormals_and_make_one_nan():
    x = floats(1.0, 3.0, 1e-40, -0.0, np.inf, -5.0)
    assert np.array_equal(
        run("div.rn.f32 %r5, %r4, 0f40400000;", x), (x.view("f4") / np.float32(3)).view(np.uint32)
    )
    assert np.array_equal(run("mul.rn.f32 %r5, %r4, 0f3F000000;", floats(1e-45, 3e-45)),
                          floats(0.0, 1e-45))  # fmt: skip
    nan = run("sub.rn.f32 %r5, %r4, %r4;", floats(np.inf))
    assert set(nan.tolist()) == {0x7FFFFFFF}


def test_a_float_that_does_not_fit_becomes_garbage():
    x = floats(7.9, 4294967296.0, -1.0, np.nan)
    assert set(run("cvt.rzi.u32.f32 %r5, %r4;", x).tolist()) == {7, 0xA5A5A5A5}


@pytest.mark.parametrize(("kind", "dtype"), [("f16", np.float16), ("bf16", ml_dtypes.bfloat16)])
def test_two_floats_become_a_pair_of_halves(kind, dtype):
    x = floats(1.0, 3.1415927, -65504.0, 1e-6)
    halves = x.view(np.float32).astype(dtype).view(np.uint16).astype(np.uint32)
    one = dtype(1).view(np.uint16).astype(np.uint32)
    assert np.array_equal(run(f"cvt.rn.{kind}x2.f32 %r5, 0f3F800000, %r4;", x), one << 16 | halves)


def test_a_pair_of_floats_is_two_floats():
    x = floats(1.5, -2.25)
    body = "mov.b64 %rd9, {%r4, %r4}; add.rn.f32x2 %rd10, %rd9, %rd9; mov.b64 {%r6, %r5}, %rd10;"
    assert np.array_equal(run(body, x), floats(3.0, -4.5))


def test_halves_of_a_word_are_added_apart():
    x = np.arange(THREADS, dtype=np.uint32) * np.uint32(0x01010101)
    low, high = x + np.uint32(0xFFFF), (x >> np.uint32(16)) + np.uint32(2)
    expected = (low & np.uint32(0xFFFF)) | high << np.uint32(16)
    assert np.array_equal(run("add.s16x2 %r5, %r4, 196607;", x), expected)


def test_a_permutation_may_take_along_what_nobody_has_written():
    """Bytes that are used are garbage then, and the register stays unwritten."""
    x = np.arange(THREADS, dtype=np.uint32)
    body = "prmt.b32 %r6, %r77, %r4, 0x0074U; and.b32 %r5, %r6, 65535;"
    assert np.array_equal(run(body, x), x)
    assert run("prmt.b32 %r5, %r77, %r4, 0x4440U;", x)[0] & 0xFF == 0xA5
    with pytest.raises(PtxError, match="never written"):
        run("prmt.b32 %r6, %r77, %r4, 0x0074U; add.s32 %r5, %r77, %r6;")


def test_blocks_that_take_different_ways_all_end():
    body = "setp.eq.b32 %p1, %r2, 1; mov.b32 %r5, 1; @%p1 bra $A; mov.b32 %r5, 2;\n$A:\n"
    assert run(body, blocks=3).reshape(3, -1)[:, 0].tolist() == [2, 1, 2]


def test_atomics_of_all_threads_are_counted():
    body = "atom.global.gpu.acq_rel.add.u32 %r5, [ %rd2 + 0 ], 1;"
    end = "\n\tret;\n}\n"
    assert run(body, end=end)[0] == THREADS


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("ld.global.b32 %r5, [%rd4+2];", "misaligned"),
        ("ld.global.v4.b32 {%r5, %r6, %r7, %r8}, [%rd4];", "misaligned"),
        ("ld.global.b32 %r5, [%rd4+256];", "stray"),
        ("mov.b64 %rd9, 4096; ld.global.b32 %r5, [%rd9];", "stray"),
        ("div.full.f32 %r5, %r4, %r4;", "not exact"),
        ("ex2.approx.f32 %r5, %r4;", "not exact"),
        ("add.rn.ftz.f32 %r5, %r4, %r4;", "not exact"),
        ("fma.rn.f32 %r5, %r4, %r4, %r4;", "contracted"),
        ("setp.lt.u32 %p1, %r1, 7; @%p1 bra $A;\n$A:\nmov.b32 %r5, 0;", "part ways"),
        ("add.s32 %r5, %r4, %r77;", "never written"),
        ("st.global.b32 [%rd2], %r1; mov.b32 %r5, 0;", "different values at one address"),
        ("vote.sync.any.pred %p1, %p2, 15; mov.b32 %r5, 0;", "never written|not all threads"),
        ("$A:\nbra $A;", "no end"),
        ("tanh.f32 %r5, %r4;", "not known"),
        (EXCHANGE.replace("bar.sync 0;", ""), "no barrier"),
        ("shl.b32 %r6, %r1, 6; st.shared.b32 [%r6], %r4; mov.b32 %r5, 0;", "stray"),
        ("setp.lt.u32 %p1, %r1, 7; @%p1 bar.sync 0; mov.b32 %r5, 0;", "miss the barrier"),
    ],
)  # fmt: skip
def test_what_a_device_would_not_forgive_is_refused(body, says):
    with pytest.raises(PtxError, match=says):
        run(body)


def test_a_barrier_lets_warps_read_what_others_wrote():
    assert np.array_equal(run(EXCHANGE), np.arange(THREADS) ^ 32)


# Rows of 16 bytes, given by threads 0 to 7 of each warp: two warps have 128 bytes each. Each thread
# hands over the halfwords 2 t and 2 t + 1 of its warp's matrix.
MATRIX = (
    "and.b32 %r6, %r1, 31; shl.b32 %r7, %r6, 4; and.b32 %r7, %r7, 112; and.b32 %r8, %r1, 32; "
    "shl.b32 %r8, %r8, 2; add.s32 %r7, %r7, %r8; mad.lo.s32 %r9, %r1, 131072, 65536; "
    "mad.lo.s32 %r9, %r1, 2, %r9;"
)
STORED = "stmatrix.sync.aligned.m8n8.x1{}.shared.b16 [%r7], {{%r9}}; bar.sync 0;"
LOADED = "ldmatrix.sync.aligned.m8n8.x1{}.shared.b16 {{%r5}}, [%r7];"
READ = "shl.b32 %r10, %r1, 2; ld.shared.b32 %r5, [%r10];"
PAIRS = np.arange(2 * THREADS, dtype=np.uint16)


@pytest.mark.parametrize(
    ("body", "is_transposed"),
    [
        (STORED.format("") + READ, False),
        (STORED.format(".trans") + READ, True),
        (STORED.format("") + LOADED.format(""), False),
        (STORED.format("") + LOADED.format(".trans"), True),
        (STORED.format(".trans") + LOADED.format(".trans"), False),
    ],
)
def test_a_warp_moves_a_matrix_of_halfwords(body, is_transposed):
    """Thread t has two neighbours of row t / 4; transposed, of column t / 4."""
    matrices = PAIRS.reshape(2, 8, 8)
    wanted = matrices.transpose(0, 2, 1) if is_transposed else matrices
    assert np.array_equal(run(MATRIX + body).view(np.uint16), wanted.reshape(-1))


def test_the_threads_behind_give_the_rows_of_the_other_matrices():
    """Rows of the second matrix begin where threads 8 to 15 say, here 128 bytes further."""
    body = (
        MATRIX.replace("%r7, 112", "%r7, 240").replace("%r8, %r8, 2;", "%r8, %r8, 3;")
        + "xor.b32 %r11, %r9, -1; stmatrix.sync.aligned.m8n8.x2.shared.b16 [%r7], {%r9, %r11};"
        " bar.sync 0; shl.b32 %r10, %r6, 2; add.s32 %r10, %r10, %r8; ld.shared.b32 %r12, [%r10];"
        " ld.shared.b32 %r13, [%r10+128]; xor.b32 %r5, %r12, %r13;"
    )
    assert set(run(body).tolist()) == {0xFFFFFFFF}


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ("%r7, %r7, %r8;", "%r7, %r7, 2;", "misaligned"),
        ("%r8, %r8, 2;", "%r8, %r8, 9;", "stray"),
        ("%r8, %r8, 2;", "%r8, %r8, 2; and.b32 %r8, %r8, 0;", "different values"),
        (" bar.sync 0;", " xor.b32 %r7, %r7, 128;", "no barrier"),
        ("stmatrix", "setp.lt.u32 %p1, %r1, 7; @%p1 stmatrix", "not all threads"),
        ("m8n8", "m16n8", "not known"),
        (".x1", ".x2", "not known"),
        (".shared.b16 [", ".b16 [", "not known"),
    ],
)
def test_a_matrix_that_a_device_would_not_take_is_refused(before, after, says):
    body = MATRIX + STORED.format("") + LOADED.format("")
    assert before in body
    with pytest.raises(PtxError, match=says):
        run(body.replace(before, after, 1))


def test_mutants_of_a_matrix_are_seen():
    """Another register or row leaves other halfwords, or is refused."""
    lines = f"{MATRIX} {STORED.format('')} {READ}".split("; ")
    text = "".join(f"\t{own.strip('; ')};\n" for own in lines)
    before, seen = run(text), []
    made = [own for own in mutants(HEAD + text + END, 200) if "matrix" in own.line]
    for own in made:
        try:
            seen.append(not np.array_equal(run(own.text.split(HEAD)[-1], end=""), before))
        except PtxError:
            seen.append(True)
    assert made
    assert all(seen)


@pytest.mark.parametrize(
    "line",
    ["div.full.f32 %r5, %r4, %r4;", "fma.rn.f32 %r5, %r4, %r4, %r4;", "add.ftz.f32 %r5, %r4, %r4;",
     "rcp.approx.f32 %r5, %r4;", "ld.b32 %r5, [%rd4];", "mul.rz.f32 %r5, %r4, %r4;"],
)  # fmt: skip
def test_the_lint_names_what_gives_other_bits(line):
    assert faults(f"{HEAD}\t{line}\n{END}")
    assert not faults(HEAD + "\tdiv.rn.f32 %r5, %r4, %r4;\n" + END)


def test_the_lint_knows_amds_division():
    division = "v_fma_f32 v1, v2, v3, v4\n" * 6 + "v_div_fixup_f32 v1, v2, v3, v4\n"
    assert not faults(division)
    assert faults(division + "v_fma_f32 v1, v2, v3, v4\n" * 3)


def test_a_jump_back_to_a_block_out_of_order_is_no_loop():
    """As AMD's compiler writes it: only labels of loops say so."""
    work = "\tv_add_u32 v1, v2, v3\n"
    text = (
        f".LBB0_1:\n{9 * work}\ts_branch .LBB0_3\n"
        ".LBB0_2: ; %body\n ; =>This Inner Loop Header: Depth=1\n"
        f"{4 * work}\ts_cbranch_scc1 .LBB0_2\n.LBB0_3:\n\ts_cbranch_scc0 .LBB0_1\n"
    )
    compiled = SimpleNamespace(asm={"amdgcn": text}, metadata=SimpleNamespace(shared=0))
    assert measured(compiled).instructions == 13
    assert measured(compiled).loops == (4,)


def test_mutants_change_one_line_each_and_are_always_the_same():
    text = HEAD + "\tadd.s32 %r6, %r4, 3;\n\txor.b32 %r5, %r6, %r1;\n" + END
    made = list(mutants(text, 50))
    assert [own.text for own in made] == [own.text for own in mutants(text, 50)]
    for own in made:
        pairs = zip(text.splitlines(), own.text.splitlines(), strict=True)
        assert sum(a != b for a, b in pairs) == 1


@pytest.mark.parametrize(
    ("line", "becomes", "why"),
    [
        ("and.b32 %r5, %r4, %r4;", "or.b32 %r5, %r4, %r4;", SAME_CODE),
        ("xor.b32 %r6, %r1, 64; or.b32 %r5, %r6, 64;", "or.b32 %r5, %r1, 64;", SAME_NUMBERS),
        ("add.s32 %r5, %r4, 3;", "add.s32 %r5, %r4, 2;", None),
        ("xor.b32 %r6, %r1, 32; or.b32 %r5, %r6, 64;", "or.b32 %r5, %r1, 64;", None),
        ("or.b32 %r5, %r2, 0;", "or.b32 %r5, %r1, 0;", None),
    ],
)
def test_the_same_program_is_proved_and_no_other(line, becomes, why):
    *before, last = line.split("; ")
    text = HEAD.replace(".target sm_80", ".target sm_80\n.address_size 64") + "; ".join(before)
    text += ";\n$begin:\n" if before else ""
    assert proof(text + last + END, text + becomes + END, "sm_80") == why
