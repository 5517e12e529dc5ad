"""Tensors on the meta device, which have shapes and no numbers: all of a call's may lie there, and none beside others.

PyTorch asks an op's fake kernel what comes out as soon as one tensor is there, and would return memory that nobody filled.
"""

from __future__ import annotations

import bearing
import bearing.torch as bt
import bearing.torch.starting
import pytest
import torch

HEADS, TIME, DIM = 4, 6, 8
ROPE = bearing.Rope(head_dim=DIM, pairing="half")
SWIN = bearing.SwinV2(window=bearing.Swin(height=2, width=3), trained_height=2, trained_width=3)


def rows(*shape: int) -> torch.Tensor:
    return torch.randn(1, HEADS, *shape)


def on_meta(module: torch.nn.Module) -> torch.nn.Module:
    return module.to("meta")


def attention(**other):
    given = {"q": rows(TIME, DIM), "k": rows(TIME, DIM), "v": rows(TIME, DIM), "mask": "causal"}
    return lambda: bt.attention(**(given | other))


META = rows(TIME, DIM).to("meta")
TENSORS = {
    "k": (attention(k=META), r"\[attention\] k: .* got one on meta"),
    "v": (attention(v=META), r"\[attention\] v: .* got one on meta"),
    "q": (attention(q=META), r"\[attention\] k: must be on meta, as q is, got one on cpu"),
    "sinks": (attention(sinks=torch.zeros(HEADS, device="meta")), r"\[attention\] sinks: .* got one on meta"),
    "learned q": (attention(q=rows(TIME, DIM).requires_grad_(), k=META), r"\[attention\] k: .* got one on meta"),
    "slopes": (attention(encodings=on_meta(bt.Alibi(HEADS))), r"\[attention\] parameters of encodings: .*to_empty"),
    "bias_matrix": (
        lambda: bt.bias_matrix([on_meta(bt.Alibi(HEADS)), bt.Alibi(HEADS)], heads=HEADS, q_len=2, k_len=2),
        r"\[bias_matrix\] parameters of encodings: must be on one device, got meta and cpu",
    ),
    "add_scores": (
        lambda: bt.add_scores(on_meta(bt.Alibi(HEADS)), rows(TIME, TIME)),
        r"\[add_scores\] parameters of encodings: .* got one on meta",
    ),
    "add_values": (
        lambda: bt.add_values(on_meta(bt.Shaw(bearing.Shaw(clip=3), DIM)), rows(TIME, TIME), rows(TIME, DIM)),
        r"\[add_values\] parameters of encodings: .* got one on meta",
    ),
    "add": (
        lambda: bt.add(on_meta(bt.LearnedPositions(bearing.Learned(length=9, dim=DIM))), torch.zeros(1, TIME, DIM)),
        r"\[add\] parameters of encodings: .* got one on meta",
    ),
    "add_": (
        lambda: bt.add_(
            on_meta(bt.LearnedPositions(bearing.Learned(length=9, dim=DIM))).requires_grad_(False),
            torch.zeros(1, TIME, DIM),
        ),
        r"\[add_\] parameters of encodings: .* got one on meta",
    ),
    "turn": (
        lambda: bt.turn(on_meta(bt.Pope(bearing.Pope(head_dim=DIM), HEADS)), rows(TIME, DIM), side="key"),
        r"\[turn\] parameters of encodings: .* got one on meta",
    ),
    "rotate": (lambda: bt.rotate(rows(TIME, DIM), META, rope=ROPE), r"\[rotate\] xs: .* got cpu and meta"),
    "rotate_": (lambda: bt.rotate_(rows(TIME, DIM), META.clone(), rope=ROPE), r"\[rotate_\] xs: .* got cpu and meta"),
    "state": (
        lambda: bt.linear_attention(
            *(rows(TIME, DIM) for _ in "qkv"),
            mask="causal",
            state=(rows(DIM, DIM), torch.zeros(1, HEADS, DIM, device="meta")),
        ),
        r"\[linear_attention\] state: .* got one on meta",
    ),
    "rates": (
        lambda: bt.linear_attention(
            *(rows(TIME, DIM) for _ in "qkv"), on_meta(bt.GatedDecay(HEADS, DIM, 16)).encoding(torch.zeros(1, TIME, 16, device="meta")),
            mask="causal",
        ),
        r"\[linear_attention\] parameters of encodings: .* got one on meta",
    ),
    "merge": (
        lambda: bt.merge(rows(TIME, DIM), rows(TIME), META, rows(TIME)),
        r"\[merge\] out: .* got one on meta",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TENSORS)
def test_a_tensor_without_numbers_is_named_beside_others_with(name):
    call, text = TENSORS[name]
    with pytest.raises(TypeError, match=text):
        call()


def test_gradients_beside_tensors_without_numbers_are_refused():
    q = rows(TIME, DIM).requires_grad_()
    out = bt.attention(q, q, q, mask="causal")
    with pytest.raises((TypeError, RuntimeError), match="meta"):
        out.backward(torch.ones(out.shape, device="meta"))


def test_all_on_meta_gives_shapes():
    learned = on_meta(bt.TransformerXL(bearing.TransformerXL(), HEADS, DIM, 16, TIME))
    out = bt.attention(META, META, META, learned, mask="causal", sinks=torch.zeros(HEADS, device="meta"))
    assert out.device.type == "meta" and out.shape == META.shape
    assert bt.rotate(META, rope=ROPE, positions=torch.arange(TIME)).device.type == "meta"
    assert bt.bias_matrix(on_meta(bt.Alibi(HEADS)), heads=HEADS, q_len=2, k_len=3).device.type == "meta"


made_without_memory = pytest.mark.parametrize(
    "make",
    [
        lambda: bt.TransformerXL(bearing.TransformerXL(), HEADS, DIM, 16, TIME),
        lambda: bt.SwinV2(SWIN, HEADS),
        lambda: bt.MultiHeadAttention(
            HEADS * DIM, HEADS, bt.TransformerXL(bearing.TransformerXL(), HEADS, DIM, 16, TIME), mask="causal"
        ),
    ],
)


@made_without_memory
def test_a_module_made_without_memory_takes_a_state_as_it_is(make):
    """Also buffers that no state holds have their numbers then."""
    trained = make()
    with torch.device("meta"):
        module = make()
    module.load_state_dict(trained.state_dict(), assign=True)
    assert all(tensor.device.type == "cpu" for tensor in (*module.parameters(), *module.buffers()))
    for (name, one), other in zip(trained.named_buffers(), module.buffers(), strict=True):
        assert torch.equal(one, other), name


@pytest.mark.filterwarnings("ignore:.*which is a no-op:UserWarning")
@made_without_memory
def test_a_module_that_got_memory_has_its_numbers_with_a_state(make):
    """As large models are loaded: to_empty(), then a state, which lacks some of the buffers."""
    trained = make()
    with torch.device("meta"):
        module = make()
    module.load_state_dict(trained.state_dict())  # without memory nothing happens
    module.to_empty(device="cpu")
    for tensor in (*module.parameters(), *module.buffers()):
        tensor.detach().fill_(float("nan"))
    module.load_state_dict(trained.state_dict())
    for (name, one), other in zip(trained.named_buffers(), module.buffers(), strict=True):
        assert torch.equal(one, other), name


@made_without_memory
@pytest.mark.parametrize("assign", [False, True])
def test_a_state_is_taken_whatever_the_default_device_is(make, assign):
    """The numbers of buffers are computed on the CPU: the meta device has none, and a GPU has other bits."""
    trained, module = make(), make()
    for tensor in (*module.parameters(), *module.buffers()):
        tensor.detach().fill_(float("nan"))
    with torch.device("meta"):
        module.load_state_dict(trained.state_dict(), assign=assign)
    for (name, one), other in zip(trained.named_buffers(), module.buffers(), strict=True):
        assert torch.equal(one, other), name


@pytest.mark.parametrize("assign", [False, True])
def test_a_state_is_taken_by_a_class_of_ones_own_whose_buffer_is_none(assign):
    class Own(bt.SwinV2):
        def __init__(self):
            super().__init__(SWIN, HEADS)
            self.register_buffer("later", None, persistent=False)

    module = Own()
    module.displacements.fill_(float("nan"))
    module.load_state_dict(bt.SwinV2(SWIN, HEADS).state_dict(), assign=assign)
    assert module.later is None and module.displacements.isfinite().all()


def test_a_state_makes_no_shared_parameter_whole(monkeypatch):
    """Parameters of large models are DTensors as they do not fit one process."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import distribute_tensor

    module = bt.TransformerXL(bearing.TransformerXL(), HEADS, DIM, 16, TIME)
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        mesh = init_device_mesh("cpu", (1,))
        for name, parameter in list(module.named_parameters()):
            setattr(module, name, torch.nn.Parameter(distribute_tensor(parameter.detach(), mesh)))
        state = module.state_dict()
        wanted = module.sinusoids.clone()
        module.sinusoids.fill_(float("nan"))
        monkeypatch.setattr(bearing.torch.starting, "_empty_as", None)
        module.load_state_dict(state)
        assert torch.equal(module.sinusoids, wanted)
    finally:
        torch.distributed.destroy_process_group()
