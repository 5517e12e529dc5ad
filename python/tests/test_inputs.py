"""Encodings of the input: rows, sums, tables of other lengths."""

import tracemalloc

import bearing
import bearing.torch as bt
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from support import (
    BATCH,
    DIM,
    K_LEN,
    KINDS,
    ROUNDING,
    TYPES,
    as_kind,
    examples,
    golden,
    kind_of,
    names,
    to_numpy,
    type_of,
)
from torch.utils._python_dispatch import TorchDispatchMode


@pytest.mark.parametrize(
    "name, spec, first",
    [
        ("paper_interleaved_odd_n12_d9", dict(dim=9, layout="interleaved"), 0),
        ("whisper_n20_d16", dict(dim=16, layout="tensor2tensor"), 0),
        ("t2t_n8_d16_start100", dict(dim=16, layout="tensor2tensor"), 100),
        ("fairseq_n12_d8_padNone", dict(dim=8, layout="tensor2tensor"), 0),
    ],
)
def test_sinusoids_are_the_published_ones(name, spec, first):
    data = golden(f"sinusoidal/{name}.json")
    sinusoids = bearing.SinusoidalInputs(bearing.Sinusoidal(**spec))
    rows = bearing.inputs(sinusoids, first, data["n"], dtype="float64")
    # Angles of the published code in float64 are off by their rounding: 2^-52 of up to 108, and twice that.
    np.testing.assert_allclose(rows, data["table"], atol=2.0**-44)
    single = bearing.inputs(sinusoids, first, data["n"])
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, rows, atol=0.55 * 2.0**-23)


def test_cape_is_the_published_one():
    for case in golden("relative/cape.json")["cases_1d"]:
        spec = bearing.Cape(
            dim=case["d"],
            centre="mean" if case["normalize"] else "none",
            position_scale=case["pos_scale"],
            frequency_scale=case["freq_scale"],
        )
        at = bearing.cape_positions(spec, time=case["tokens"], batch=case["batch"])
        np.testing.assert_allclose(at, case["eval_positions"], atol=1e-12)
        rows = bearing.inputs(bearing.CapeInputs(spec), at, dtype="float64")
        np.testing.assert_allclose(rows, case["eval_embedding"], atol=1e-12)


def test_capes_training_moves_positions_and_its_seed_repeats_them():
    spec = bearing.Cape(dim=4, augmentation=bearing.CapeAugmentation(max_global_shift=5, max_local_shift=0.5))
    plain = bearing.cape_positions(spec, np.arange(6))
    moved = bearing.cape_positions(spec, np.arange(6), training=7)
    assert plain.shape == moved.shape == (6,)
    shift = moved - plain
    assert np.ptp(shift) > 0
    assert (abs(shift) <= 5.5).all() and np.ptp(shift) <= 1
    np.testing.assert_array_equal(bearing.cape_positions(spec, np.arange(6), training=7), moved)
    assert (bearing.cape_positions(spec, np.arange(6), training=8) != moved).all()
    several = bearing.cape_positions(spec, time=6, batch=2, training=7)
    np.testing.assert_array_equal(several[0], moved)
    assert (several[0] != several[1]).all()


def test_capes_grid_spans_the_image():
    spec = bearing.Cape2d(dim=4)
    at = bearing.cape_positions(spec, 3, 2, batch=2)
    assert at.shape == (2, 2, 6)
    np.testing.assert_array_equal(at[0, 1], [-1, -1, 0, 0, 1, 1])
    np.testing.assert_array_equal(at[1, 0], [-1, 1, -1, 1, -1, 1])
    assert bearing.inputs(bearing.Cape2dInputs(spec), at).shape == (2, 6, 4)


def test_a_grids_positions_serve_as_they_are():
    at = bearing.grid_positions(2, 3, first=1)
    np.testing.assert_array_equal(at[:, 0], [[1, 1, 1, 2, 2, 2], [1, 2, 3, 1, 2, 3]])
    rows = bearing.inputs(bearing.Sinusoidal2dInputs(bearing.Sinusoidal2d.detr(8)), at, dtype="float64")
    one = bearing.inputs(
        bearing.SinusoidalInputs(bearing.Sinusoidal(dim=4, layout="interleaved")), 1, 3, dtype="float64"
    )
    np.testing.assert_array_equal(rows[0, :3, 4:], one)
    np.testing.assert_array_equal(rows[0, ::3, :4], one[:2])


def test_columns_go_from_one_layout_to_another():
    order = bearing.sinusoidal_column_order("concatenated", "interleaved", 6)
    rows = {
        layout: bearing.inputs(bearing.SinusoidalInputs(bearing.Sinusoidal(dim=6, layout=layout)), 0, 5)
        for layout in ("concatenated", "interleaved")
    }
    np.testing.assert_array_equal(rows["concatenated"][:, order], rows["interleaved"])
    with pytest.raises(bearing.ShapeError):
        bearing.sinusoidal_column_order("tensor2tensor", "interleaved", 6)
    spec = bearing.Sinusoidal(dim=5, layout="cos_first")
    assert bearing.sinusoidal_columns(spec)[::2] == [(0, "cosine"), (0, "sine"), (0, "zero")]
    np.testing.assert_allclose(bearing.sinusoidal_frequencies(spec), [1, 0.01], rtol=1e-15)


def test_the_bases_gradient_is_that_of_differences():
    spec = bearing.Sinusoidal(dim=6, base=50, layout="interleaved")
    weights = np.array([0.3, -2.0, 5.0])
    up, down = ((bearing.sinusoidal_frequencies(spec.replace(base=50 + h)) * weights).sum() for h in (1e-4, -1e-4))
    # The third derivative over the step's square: 1e-9.
    assert bearing.sinusoidal_base_gradient(spec, weights) == pytest.approx((up - down) / 2e-4, rel=1e-8)


@pytest.mark.parametrize("name", names("inputs"))
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", TYPES)
def test_rows_are_added_in_every_kind_and_type(rng, name, kind, dtype):
    example = examples(rng)[name]
    arithmetic = np.float64 if dtype == "float64" else np.float32
    encoding = example.encoding.replace(
        **{key: value.astype(arithmetic) for key, value in example.encoding.parameters.items()}
    )
    exact = bearing.inputs(example.encoding, example.k_positions, K_LEN, dtype="float64")
    x = as_kind(kind, rng.standard_normal((BATCH, K_LEN, DIM)), dtype)
    kept = to_numpy(x)
    y = bearing.add(encoding, x, example.k_positions)
    assert (kind_of(y), y.dtype, tuple(y.shape)) == (kind, x.dtype, (BATCH, K_LEN, DIM))
    np.testing.assert_array_equal(to_numpy(x), kept)
    # Parameters of float32 are rounded to it, angles with their frequencies; the sum is rounded once more.
    wanted = kept + exact
    np.testing.assert_allclose(
        to_numpy(y), wanted, rtol=2 * ROUNDING[dtype], atol=32 * ROUNDING[str(np.dtype(arithmetic))]
    )
    if kind == "jax":
        with pytest.raises(TypeError, match=r"^\[add\] out: must be an array that may be written, got a JAX array"):
            bearing.add(encoding, x, example.k_positions, out=x)
    else:
        assert bearing.add(encoding, x, example.k_positions, out=x) is x
        np.testing.assert_array_equal(to_numpy(x), to_numpy(y))


def test_a_learned_row_is_its_tables(rng):
    table = rng.standard_normal((10, DIM))
    learned = bearing.LearnedInputs(bearing.Learned(length=8, dim=DIM, offset=2), table)
    np.testing.assert_array_equal(bearing.inputs(learned, [[0, 3], [7, 0]]), table[[[2, 5], [9, 2]]])
    for at in ([8], [-3]):
        with pytest.raises(bearing.RangeError, match=r"^\[inputs\] positions: "):
            bearing.inputs(learned, at)
    d_x = rng.standard_normal((3, DIM))
    gradient = bearing.add_backward(learned, d_x, [1, 1, 0])["table"]
    np.testing.assert_array_equal(gradient[3], d_x[0] + d_x[1])
    assert np.flatnonzero(gradient.any(axis=1)).tolist() == [2, 3]


def test_a_paddings_row_gets_no_gradient(rng):
    spec = bearing.Learned(length=4, dim=2, offset=2, padding_row=1)
    learned = bearing.LearnedInputs(spec, rng.standard_normal((6, 2)))
    gradient = bearing.add_backward(learned, np.ones((2, 2)), [-1, 0])["table"]
    np.testing.assert_array_equal(gradient.any(axis=1), [False, False, True, False, False, False])


def test_fill_writes_what_inputs_gives():
    sinusoids = bearing.SinusoidalInputs(bearing.Sinusoidal(dim=DIM, layout="interleaved"))
    rows = np.full((BATCH, 2 * DIM, K_LEN), 7.0, np.float16)
    strided = rows[:, ::2].swapaxes(1, 2)
    bearing.fill(sinusoids, 3, strided)
    np.testing.assert_array_equal(strided[1], bearing.inputs(sinusoids, 3, K_LEN, dtype="float16"))
    assert (rows[:, 1::2] == 7).all()
    bearing.fill(sinusoids, None, torch.empty(K_LEN, DIM))
    with pytest.raises(TypeError, match=r"^\[fill\] rows: must be an array that may be written"):
        bearing.fill(sinusoids, None, jnp.zeros((K_LEN, DIM)))
    with pytest.raises(bearing.ShapeError, match=r"^\[fill\] "):
        bearing.fill(sinusoids, None, np.zeros((K_LEN, DIM + 1)))


def test_rows_that_are_not_side_by_side_are_added_to(rng):
    sinusoids = bearing.SinusoidalInputs(bearing.Sinusoidal(dim=DIM, layout="interleaved"))
    x = rng.standard_normal((2 * DIM, K_LEN)).T[:, ::2]
    wanted = x + bearing.inputs(sinusoids, 0, K_LEN, dtype="float64")
    np.testing.assert_array_equal(bearing.add(sinusoids, x), wanted)
    out = np.zeros((DIM, K_LEN)).T
    assert bearing.add(sinusoids, x, out=out) is out
    np.testing.assert_array_equal(out, wanted)
    with pytest.raises(bearing.ShapeError, match=r"^\[add\] out: must be of x's shape"):
        bearing.add(sinusoids, x, out=np.zeros((K_LEN + 1, DIM)))


def test_a_read_only_input_is_read():
    sinusoids = bearing.SinusoidalInputs(bearing.Sinusoidal(dim=DIM, layout="interleaved"))
    x = np.broadcast_to(np.float32(1), (K_LEN, DIM))
    np.testing.assert_array_equal(bearing.add(sinusoids, x), 1 + bearing.inputs(sinusoids, 0, K_LEN))
    with pytest.raises(TypeError, match=r"^\[add\] out: must be an array that may be written, got one that is read"):
        bearing.add(sinusoids, x, out=x)


def test_no_tokens_are_no_rows():
    sinusoids = bearing.SinusoidalInputs(bearing.Sinusoidal(dim=DIM, layout="interleaved"))
    assert bearing.inputs(sinusoids, 0, 0).shape == (0, DIM)
    assert bearing.inputs(sinusoids, np.zeros((2, 0), np.int64)).shape == (2, 0, DIM)
    assert bearing.add(sinusoids, np.zeros((2, 0, DIM))).shape == (2, 0, DIM)
    learned = bearing.LearnedInputs(bearing.Learned(length=2, dim=DIM), np.zeros((2, DIM)))
    assert not bearing.add_backward(learned, np.zeros((0, DIM)))["table"].any()


def test_a_length_must_be_given_where_positions_are_counted():
    sinusoids = bearing.SinusoidalInputs(bearing.Sinusoidal(dim=DIM, layout="interleaved"))
    with pytest.raises(TypeError, match=r"^\[inputs\] time: must be given, unless positions are an array, got None$"):
        bearing.inputs(sinusoids)


def test_a_tensor_that_requires_a_gradient_is_refused():
    sinusoids = bearing.SinusoidalInputs(bearing.Sinusoidal(dim=DIM, layout="interleaved"))
    with pytest.raises(TypeError, match=r"^\[add\] x: must be a tensor without requires_grad"):
        bearing.add(sinusoids, torch.zeros(K_LEN, DIM, requires_grad=True))


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_is_resized_as_pytorch_does(rng, kind):
    table = rng.standard_normal((1 + 6, 3)).astype(np.float32)
    longer = bearing.resize(as_kind(kind, table, "float32"), 1 + 9, how="linear", prefix=1)
    assert (kind_of(longer), type_of(longer)) == (kind, "float32")
    wanted = torch.nn.functional.interpolate(
        torch.from_numpy(table[1:].T.copy())[None], size=9, mode="linear", align_corners=False
    )[0].T.numpy()
    np.testing.assert_array_equal(to_numpy(longer)[0], table[0])
    # Weights of PyTorch's are rounded to float32, as are its sums of two numbers.
    np.testing.assert_allclose(to_numpy(longer)[1:], wanted, atol=1e-6)


def test_a_grids_table_is_resized_as_pytorch_does(rng):
    table = rng.standard_normal((2 + 12, 3))
    larger = bearing.resize_grid(table, (3, 4), (5, 6), how="cubic", prefix=2)
    grid = torch.from_numpy(table[2:]).reshape(1, 3, 4, 3).permute(0, 3, 1, 2)
    wanted = torch.nn.functional.interpolate(grid, size=(5, 6), mode="bicubic", align_corners=False)
    np.testing.assert_array_equal(larger[:2], table[:2])
    np.testing.assert_allclose(larger[2:], wanted.permute(0, 2, 3, 1).reshape(30, 3).numpy(), atol=1e-13)
    with pytest.raises(bearing.ShapeError):
        bearing.resize_grid(table, (3, 3), (5, 6), how="cubic", prefix=2)
    with pytest.raises(ValueError, match="how: must be one of 'linear', 'cubic', got 'area'"):
        bearing.resize(table, 3, how="area")


WAYS = [{}, {"align_corners": True}, {"antialias": True}]


def interpolated(table: torch.Tensor, before, after, how: str, way: dict[str, bool]) -> torch.Tensor:
    grid = table.reshape(1, *before, table.shape[-1]).permute(0, 3, 1, 2)
    mode = {"linear": "bilinear", "cubic": "bicubic"}[how]
    larger = torch.nn.functional.interpolate(grid, size=after, mode=mode, **({"align_corners": False} | way))
    return larger.permute(0, 2, 3, 1).reshape(-1, table.shape[-1])


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("how", ["linear", "cubic"])
def test_a_grid_is_resized_in_each_way_of_pytorch(rng, how, way):
    for before, after in [((7, 7), (5, 9)), ((3, 4), (8, 1)), ((16, 16), (40, 3)), ((1, 5), (3, 2)), ((4, 4), (4, 4))]:
        rows = before[0] * before[1]
        table = rng.standard_normal((1 + rows + 2, 3))
        wanted = interpolated(torch.from_numpy(table[1:-2]), before, after, how, way).numpy()
        got = bearing.resize_grid(table, before, after, how=how, prefix=1, suffix=2, **way)
        np.testing.assert_array_equal(got[[0, -2, -1]], table[[0, -2, -1]])
        np.testing.assert_allclose(got[1:-2], wanted, atol=1e-12)
        if before[1] == 1 or after[1] == before[1]:
            continue
        line = bearing.resize(table[1 : 1 + before[1]], after[1], how=how, **way)
        one = interpolated(torch.from_numpy(table[1 : 1 + before[1]]), (1, before[1]), (1, after[1]), how, way)
        np.testing.assert_allclose(line, one.numpy(), atol=1e-12)


def test_a_table_keeps_its_gradient_in_pytorch(rng):
    for how, way in [("linear", {}), ("cubic", {"antialias": True}), ("linear", {"align_corners": True})]:
        table = torch.from_numpy(rng.standard_normal((1 + 12 + 3, 2))).requires_grad_()
        got = bt.resize_grid(table, (3, 4), (5, 2), how=how, prefix=1, suffix=3, **way)
        plain = bearing.resize_grid(table.detach(), (3, 4), (5, 2), how=how, prefix=1, suffix=3, **way)
        torch.testing.assert_close(got.detach(), plain, atol=1e-13, rtol=0)
        weights = torch.from_numpy(rng.standard_normal(got.shape))
        (d_table,) = torch.autograd.grad((got * weights).sum(), table)
        own = torch.cat([table[:1], interpolated(table[1:13], (3, 4), (5, 2), how, way), table[13:]])
        (d_own,) = torch.autograd.grad((own * weights).sum(), table)
        torch.testing.assert_close(d_table, d_own, atol=1e-12, rtol=0)
        longer = bt.resize(table, 9, how=how, prefix=1, suffix=3, **way)
        kept = bearing.resize(table.detach(), 9, how=how, prefix=1, suffix=3, **way)
        torch.testing.assert_close(longer.detach(), kept, atol=1e-13, rtol=0)
    half = torch.randn(12, 2).to(torch.float16)
    wanted = bearing.resize_grid(half.double(), (3, 4), (5, 2), how="cubic").to(torch.float16)
    assert torch.equal(bt.resize_grid(half, (3, 4), (5, 2), how="cubic"), wanted)


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("how", ["linear", "cubic"])
def test_pytorch_resizes_by_the_rows_that_the_library_reaches(rng, how, way):
    for before, after in [(1, 5), (2, 7), (5, 1), (7, 7), (9, 4), (40, 3), (300, 7), (6, 50), (3, 0)]:
        table = rng.standard_normal((before, 2))
        for wild in (None, 0, before // 2, before - 1):
            if wild is not None:
                table[wild, 0] = np.inf
            wanted = bearing.resize(table, after, how=how, **way)
            got = bt.resize(torch.from_numpy(table), after, how=how, **way).numpy()
            finite = np.isfinite(wanted)
            np.testing.assert_array_equal(np.isfinite(got), finite)
            np.testing.assert_allclose(got[finite], wanted[finite], atol=1e-12)
    grid = rng.standard_normal((6 * 5, 2))
    grid[13] = np.inf
    wanted = bearing.resize_grid(grid, (6, 5), (4, 9), how=how, **way)
    got = bt.resize_grid(torch.from_numpy(grid), (6, 5), (4, 9), how=how, **way).numpy()
    finite = np.isfinite(wanted)
    assert finite.any() and not finite.all()
    np.testing.assert_array_equal(np.isfinite(got), finite)
    np.testing.assert_allclose(got[finite], wanted[finite], atol=1e-12)
    table = torch.from_numpy(rng.standard_normal((12, 2))).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: bt.resize(x, 7, how=how, **way), table)
    assert torch.autograd.gradcheck(lambda x: bt.resize_grid(x, (3, 4), (5, 2), how=how, **way), table)


class Largest(TorchDispatchMode):
    """Knows how many numbers the largest result of an op has."""

    numbers = 0

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        out = op(*args, **(kwargs or {}))
        if isinstance(out, torch.Tensor):
            self.numbers = max(self.numbers, out.numel())
        return out


def test_pytorch_resizes_in_memory_linear_in_the_table():
    with Largest() as largest:
        bt.resize_grid(torch.zeros(32 * 32, 3), (32, 32), (64, 64), how="cubic")
        assert bt.resize(torch.zeros(4000, 1), 4100, how="linear").shape == (4100, 1)
    assert largest.numbers <= 64 * 64 * 3
    tracemalloc.start()
    try:
        bt.resize(torch.zeros(4000, 1), 4100, how="linear")
        assert tracemalloc.get_traced_memory()[1] < 4000 * 1000  # bytes: 125 numbers for a row
    finally:
        tracemalloc.stop()


def test_a_table_that_cannot_be_resized_is_refused():
    table = torch.zeros(12, 2)
    for module in (bearing, bt):
        with pytest.raises(
            bearing.ShapeError, match=r"^\[resize_grid\] align_corners, antialias: at most one may be True"
        ):
            module.resize_grid(table, (3, 4), (5, 2), how="cubic", align_corners=True, antialias=True)
        with pytest.raises(
            bearing.ShapeError, match=r"^\[resize_grid\] table: must be \[prefix \+ patches of from_grid \+"
        ):
            module.resize_grid(table, (3, 4), (5, 2), how="cubic", suffix=1)
        with pytest.raises(
            bearing.ShapeError, match=r"^\[resize\] rows: must be at least prefix \+ suffix = 3, got 2$"
        ):
            module.resize(table, 2, how="linear", prefix=1, suffix=2)
        with pytest.raises(ValueError, match="how: must be one of 'linear', 'cubic', got 'area'"):
            module.resize(table, 3, how="area")
    with pytest.raises(TypeError, match=r"^\[resize\] table: must be a PyTorch tensor, got list$"):
        bt.resize([[1.0]], 3, how="linear")
    with pytest.raises(bearing.ShapeError, match=r"^\[resize_grid\] table: must have 2 axes of floating-point numbers"):
        bt.resize_grid(table.int(), (3, 4), (5, 2), how="linear")


def test_a_grids_span_is_exact_or_detrs():
    at = bearing.grid_positions(3, 7, first=0.5, span=2) - 1
    np.testing.assert_array_equal(at[0, 0, ::7], (np.arange(3) + 0.5) / 3 * 2 - 1)
    np.testing.assert_array_equal(at[1, 0, :7], (np.arange(7) + 0.5) / 7 * 2 - 1)
    detr = bearing.grid_positions(3, 7, first=1, span=2 * np.pi, eps=1e-6)
    np.testing.assert_array_equal(detr[0, 0, ::7], np.arange(1, 4) / (3 + 1e-6) * (2 * np.pi))
    with pytest.raises(bearing.RangeError, match=r"^\[grid_positions\] eps: must be finite and at least 0, got -1$"):
        bearing.grid_positions(3, 7, span=1, eps=-1)


def test_a_window_that_cannot_be_is_refused():
    assert bt.window_positions(0, 3).shape == (2, 1, 0)
    with pytest.raises(
        bearing.RangeError, match=r"^\[window_positions\] height: must be a whole number from 0 on, got -1$"
    ):
        bt.window_positions(-1, 3)


def test_patches_have_a_position_on_each_axis(rng):
    """One number for both axes would put the patches of an image on its diagonal."""
    x = rng.standard_normal((1, 2, 6, 16))
    for rows in (
        bearing.RopeMixedRows(bearing.RopeMixed(head_dim=16, axes=2, pairing="half"), rng.standard_normal((2, 2, 8))),
        bearing.LieRopeRows(bearing.LieRope(head_dim=16, axes=2, block=8), rng.standard_normal((2, 2, 2, 28))),
        bearing.CirculantStringRows(bearing.CirculantString(head_dim=16, axes=2), rng.standard_normal((2, 2, 16))),
        bearing.ElementwiseRows(bearing.ElementwiseRope.vjepa2(16)),
    ):
        axes = 3 if isinstance(rows, bearing.ElementwiseRows) else 2
        for at in (None, 3, np.arange(6), np.arange(6)[None]):
            with pytest.raises(
                bearing.ShapeError, match=rf"^\[turn\] positions: must have {axes} axes, as \w+ has, got 1$"
            ):
                bearing.turn(rows, x, at, side="query")
            with pytest.raises(bearing.ShapeError, match=rf"^\[attention\] positions: must have {axes} axes"):
                bearing.attention(x, x, x, rows, mask="none", q_positions=at, k_positions=at)
        assert bearing.turn(rows, x, np.zeros((axes, 1, 6)), side="query").shape == x.shape


def test_a_table_whose_size_does_not_fit_64_bits_is_refused():
    """(2^61 + 1) rows of 8 are 8 numbers, counted in 64 bits."""
    with pytest.raises(MemoryError):
        bearing.resize(np.ones((4, 8)), 2**61 + 1, how="linear")
