"""Estimate the memory and FLOPs of a config's training step, on the CPU.

Nothing is trained and no data are read: the parts behind pretrained towers are run on a few
simulated items (:mod:`simulation.simulated`), the towers on noise, with random weights.
"""

from __future__ import annotations

import copy
import warnings
from typing import Any, Iterator, NamedTuple

import torch
from mmengine.config import Config
from mmengine.runner import Runner
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from mmvtr.registry import MODELS, bare_name, forget_pretrained
from simulation.simulated import simulate
from simulation.simulated_model import Size, retrievers

#: Number of items that are run.
FEW = 8
#: Bytes per trained parameter: weight, gradient and two moments, in fp32.
TRAINED = 16


class Need(NamedTuple):
    """Bytes kept for the backward pass, and FLOPs of a training step."""

    kept: Any
    flops: Any


class Growth(NamedTuple):
    """How a quantity grows with the batch: per item, and per pair."""

    items: float
    pairs: float

    def of(self, share: int, joint: int) -> float:
        """Return the amount on a GPU that scores its share against the joint batch."""
        return self.items * share + self.pairs * share * joint

    @classmethod
    def through(cls, of_few: float, of_twice: float) -> Growth:
        """Return the growth, given the amounts for :data:`FEW` items and for twice as many."""
        pairs = max((of_twice - 2 * of_few) / (2 * FEW**2), 0.0)
        return cls(max(of_few / FEW - pairs * FEW, 0.0), pairs)


def behind_towers(cfg: Config) -> tuple[Need, int, int]:
    """Measure the parts behind pretrained towers on a few simulated items.

    Returns:
        Its two numbers as :class:`Growth`, trained parameters, batches per epoch.
    """
    kept, flops = [], []
    for few in (FEW, 2 * FEW):
        small = simulate(cfg, Size(batch=few)).cfg
        torch.manual_seed(0)
        model = MODELS.build(small.model)
        loader = Runner.build_dataloader(small.train_dataloader, seed=0)
        data = model.data_preprocessor(next(iter(loader)), True)
        # oneDNN's recurrent layers are one operation, which the FLOP counter does not know.
        with warnings.catch_warnings():
            warnings.simplefilter('ignore')  # the flags also warn about Intel GPUs
            with torch.backends.mkldnn.flags(enabled=False):
                counter, saved = step_of(model, data)
        kept.append(saved.bytes)
        flops.append(counter.get_total_flops())
    need = Need(Growth.through(*kept), Growth.through(*flops))
    return need, numel(model, grad=True), len(loader)


def step_of(model: nn.Module, data: dict[str, Any]) -> tuple[FlopCounterMode, Kept]:
    """Return the FLOPs of forward and backward, and the bytes kept between them."""
    with FlopCounterMode(display=False) as counter:
        with Kept(model) as saved:
            losses, _ = model.parse_losses(model(**data, mode='loss'))
        losses.backward()
    return counter, saved


class Kept:
    """Context that counts the bytes that a forward pass keeps for backward, without parameters."""

    def __init__(self, model: nn.Module) -> None:
        self.own = {p.untyped_storage().data_ptr() for p in model.parameters()}
        self.sizes: dict[int, int] = {}
        self.hooks = torch.autograd.graph.saved_tensors_hooks(self._pack, lambda x: x)

    def _pack(self, x: Tensor) -> Tensor:
        storage = x.untyped_storage()
        if storage.data_ptr() not in self.own:
            self.sizes[storage.data_ptr()] = storage.nbytes()
        return x

    def __enter__(self) -> Kept:
        self.hooks.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self.hooks.__exit__(*error)

    @property
    def bytes(self) -> int:
        return sum(self.sizes.values())


def numel(model: nn.Module, *, grad: bool) -> int:
    return sum(p.numel() for p in model.parameters() if p.requires_grad == grad)


def encoder_of(cfg: Config) -> dict[str, Any]:
    """Return the encoder config of the retriever or its first member; {} without any."""
    return next(retrievers(cfg.model), {}).get('encoder') or {}


def open_clip_towers(cfg: Config, *, plain: bool = False) -> Iterator[tuple]:
    """Yield open_clip's towers with random weights, each built on demand and not kept.

    Args:
        cfg: the config.
        plain: disable checkpointing, whatever the config says.

    Yields:
        The tower, its inputs for one frame or text, the number of these per item, and whether the
        config uses gradient checkpointing.
    """
    for side, one_of in (('frames', one_frame), ('text', one_text)):
        kind = encoder_of(cfg).get(side)
        if kind and 'OpenCLIP' in bare_name(kind):
            kind = copy.deepcopy(kind)
            forget_pretrained(kind)
            checkpointing = kind.get('grad_checkpointing', False)
            kind.grad_checkpointing = checkpointing and not plain
            made = [MODELS.build(kind)]  # a generator keeps references, and a GPU has no room
            inputs = one_of(made[0], cfg)
            yield made.pop(), *inputs, checkpointing


def towers_of(cfg: Config, amp: bool) -> tuple[Need, float]:
    """Return an item's cost in open_clip's towers (all frames and a text), and their bytes."""
    need, fixed = Need(0.0, 0.0), 0.0
    for tower, one, times, checkpointing in open_clip_towers(cfg, plain=True):
        found = tried(tower, amp, *one)
        trained, frozen = numel(tower, grad=True), numel(tower, grad=False)
        fixed += TRAINED * trained + 4 * frozen + 2 * amp * (trained + frozen)
        kept = 0.0 if not trained else checkpointed(tower, found) if checkpointing else found.kept
        passes = 1 if not trained else 4 if checkpointing else 3
        need = Need(need.kept + times * kept, need.flops + times * passes * found.flops)
    return need, fixed


def peak_of_towers(cfg: Config, items: int, amp: bool, device: str = 'cuda') -> float:
    """Return the peak bytes of open_clip's towers in a training step, measured on a GPU.

    Weights are random, inputs are noise; checkpointing is as in the config.  The optimizer's two
    moments are added, as no step is made.

    Args:
        cfg: the config.
        items: number of items encoded at once.
        amp: whether to use bfloat16.
        device: device of the GPU.

    Returns:
        Infinity if it does not fit; 0 without such towers.
    """
    peak = 0.0
    for tower, one, times, _ in open_clip_towers(cfg):
        given = [torch.cat([x] * items * times).to(device) for x in one]
        torch.cuda.reset_peak_memory_stats()
        try:
            _one_pass(tower.to(device), given, amp, device)
        except torch.cuda.OutOfMemoryError:
            return float('inf')
        peak += torch.cuda.max_memory_allocated() + TRAINED / 2 * numel(tower, grad=True)
        del tower, given
        torch.cuda.empty_cache()
    return peak


def _one_pass(tower: nn.Module, given: list[Tensor], amp: bool, device: str) -> None:
    """Run forward, and backward if anything is trained."""
    with torch.autocast(device, torch.bfloat16, enabled=amp):
        out = tower(*given)
    total = sum(x.float().sum() for x in (out if isinstance(out, tuple) else (out,)))
    if total.requires_grad:
        total.backward()


def uncounted(cfg: Config) -> list[str]:
    """Return the towers that :func:`towers_of` skips because their networks are on the hub."""
    encoder = encoder_of(cfg)
    kinds = [bare_name(encoder[side]) for side in ('frames', 'text') if encoder.get(side)]
    return [kind for kind in kinds if kind.startswith(('Transformers', 'Torchvision'))]


def one_frame(tower: nn.Module, cfg: Config) -> tuple[tuple[Tensor, ...], int]:
    """Return one frame of noise, and the number of frames per item."""
    steps = cfg.train_dataloader.dataset.video_pipeline
    frames = [step.num_frames for step in steps if step.get('num_frames')]
    return (torch.randn(1, 3, *tower.image_size),), min(frames, default=12)


def one_text(tower: nn.Module, cfg: Config) -> tuple[tuple[Tensor, ...], int]:
    """Return one text of full length, and 1."""
    steps = cfg.train_dataloader.dataset.text_pipeline
    words = [step.context_length for step in steps if step.get('context_length')]
    # Towers that read their own padding need their whole context.
    length = getattr(tower, 'context_length', None) or min(words, default=77)
    ids = torch.ones(1, length, dtype=torch.long)
    ids[0, -1] = max(int(getattr(tower, 'eos_id', None) or 1), 1)
    return (ids, ids > 0), 1


def tried(tower: nn.Module, amp: bool, *inputs: Tensor) -> Need:
    """Return the bytes kept and the FLOPs per additional item of a forward pass."""
    kept, flops = [], []
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)  # the counter does not know this operation
    for few in (1, 2):
        given = [torch.cat([x] * few) for x in inputs]
        with FlopCounterMode(display=False) as counter, Kept(tower) as saved:
            with torch.autocast('cpu', torch.bfloat16, enabled=amp):
                tower(*given)
        kept.append(saved.bytes)
        flops.append(counter.get_total_flops())
    torch.backends.mha.set_fastpath_enabled(fast)
    # Bytes kept for one item as well as for two are weights in 16 bit.
    return Need(kept[1] - kept[0], flops[0])


def checkpointed(tower: nn.Module, need: Need) -> float:
    """Return the bytes kept with gradient checkpointing: one block, and each block's input."""
    lists = (nn.ModuleList, nn.Sequential)
    blocks = max((len(m) for m in tower.modules() if isinstance(m, lists)), default=1)
    # A transformer block keeps about 16 times its input.
    return need.kept / blocks * (1 + blocks / 16)
