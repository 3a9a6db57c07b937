"""Sharding of tower layers over processes, to save memory with large models.

The layers of a tower (the equal items of an ``nn.ModuleList`` or ``nn.Sequential``) hold nearly
all weights of a ViT-L or ViT-H.  torch's ``fully_shard`` (FSDP2) keeps a part of each on each
process, with its gradient and its optimizer state, and gathers a layer while it computes.
Everything else (embeddings, projections, heads, temperature, supervision) is replicated under
DistributedDataParallel, so code that reads it is unaffected.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Iterable, Iterator, Optional

import torch
import torch.distributed as dist
from mmengine.dist import all_gather_object
from mmengine.model import MMDistributedDataParallel
from mmengine.optim import OptimWrapper
from torch import Tensor, nn
from torch.optim import Optimizer

from mmvtr.registry import MODEL_WRAPPERS


@MODEL_WRAPPERS.register_module()
class FullyShardedRetriever(MMDistributedDataParallel):
    """Retriever whose layers are sharded over all processes: a ``model_wrapper_cfg``.

    Losses and gradients equal those of one process.  ``state_dict`` of the model and of its
    optimizer hold whole tensors (all processes call it together), so a checkpoint can be resumed
    with any number of processes.

    Args:
        module: the retriever.  Its weights become those of rank 0.
        min_parameters: layers with fewer parameters stay whole on each process.
        kwargs: as for MMDistributedDataParallel (``find_unused_parameters``).

    Raises:
        ValueError: no layer has that many parameters; a model with a teacher.
    """

    def __init__(self, module: nn.Module, min_parameters: int = 2**20, **kwargs: Any) -> None:
        from torch.distributed import fsdp
        from torch.distributed.device_mesh import init_device_mesh

        if getattr(module, 'teacher', None) is not None:
            raise ValueError(
                'FullyShardedRetriever: model.teacher copies the encoder, and shards cannot be '
                'copied: leave one of them out'
            )
        layers = layers_of(module, min_parameters)
        if not layers:
            raise ValueError(
                f'FullyShardedRetriever: no layer of an encoder of {type(module).__name__} has '
                f'min_parameters={min_parameters}: leave model_wrapper_cfg out'
            )
        if any(getattr(part, 'init_cfg', None) for part in module.modules()):
            module.init_weights()  # while the weights are whole
        for tensor in module.state_dict().values():
            dist.broadcast(tensor, src=0)
        device = next(module.parameters()).device
        mesh = init_device_mesh(device.type, (dist.get_world_size(),))
        for layer in layers:
            fsdp.fully_shard(layer, mesh=mesh, reshard_after_forward=True)
        if hasattr(fsdp, 'share_comm_ctx'):  # gather one layer while another computes
            fsdp.share_comm_ctx(layers)
        module.register_state_dict_post_hook(_make_whole)
        for part in (module, *getattr(module, 'members', ())):  # each may be loaded separately
            part.register_load_state_dict_pre_hook(_cut_weights)
        module._ddp_params_and_buffers_to_ignore = [
            name for name, weight in module.named_parameters() if is_sharded(weight)
        ]
        super().__init__(module=module, **{'broadcast_buffers': False, **kwargs})

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Return what the retriever returns.

        Raises:
            ValueError: processes would run a tower different numbers of times, and deadlock.
        """
        inputs, size = kwargs.get('inputs', {}), getattr(self.module, 'micro_batch', None)
        counts = [len(inputs.get(side, ())) for side in ('text', 'video')]
        parts = [-(-count // (size or max(count, 1))) for count in counts]
        every = all_gather_object(parts)
        if any(other != every[0] for other in every) or 0 in every[0]:
            raise ValueError(
                f'FullyShardedRetriever: processes encode their texts and videos in {every} parts,'
                ' and each has to take part in every one (videos that cannot be read are left out;'
                ' micro_batch cuts what remains)'
            )
        return super().forward(*args, **kwargs)


def layers_of(model: nn.Module, min_parameters: int) -> list[nn.Module]:
    """Return the layers of a model's encoders that can be sharded, outermost ones only.

    A layer is an item of an ``nn.ModuleList`` or ``nn.Sequential`` of several items of one class.

    Args:
        model: a retriever.
        min_parameters: minimum parameters of a layer.
    """
    layers: dict[str, nn.Module] = {}
    for name, stack in model.named_modules():
        items = dict(stack.named_children())
        inside = any(f'{name}.'.startswith(f'{outer}.') for outer in layers)
        alike = len(items) > 1 and len({type(item) for item in items.values()}) == 1
        if inside or not alike or not isinstance(stack, (nn.ModuleList, nn.Sequential)):
            continue
        if not any('encoder' in word for word in name.split('.')):
            continue
        for key, item in items.items():
            if sum(weight.numel() for weight in item.parameters()) >= min_parameters:
                layers[f'{name}.{key}'] = item
    return [*layers.values()]


@contextmanager
def whole_layers(model: nn.Module) -> Iterator[None]:
    """Keep all sharded layers whole on each process: each may then encode any number of times."""
    layers = []
    if isinstance(model, FullyShardedRetriever):
        layers = [layer for layer in model.modules() if hasattr(layer, 'unshard')]
    for layer in layers:
        layer.set_reshard_after_forward(False)
        layer.unshard()
    try:
        yield
    finally:
        for layer in layers:
            layer.set_reshard_after_forward(True)
            layer.reshard()


@contextmanager
def whole_states(model: nn.Module, wrapper: Optional[OptimWrapper]) -> Iterator[None]:
    """Let rank 0 read the states of a sharded model and optimizer, gathered by all processes.

    Args:
        model: any model; the context has no effect unless it is a :class:`FullyShardedRetriever`.
        wrapper: the optimizer's wrapper; None: without its state.
    """
    if not isinstance(model, FullyShardedRetriever):
        yield
        return
    stateful = [model.module, *([] if wrapper is None else [wrapper])]
    states = [source.state_dict() for source in stateful]
    for source, state in zip(stateful, states):
        source.state_dict = lambda *_, state=state, **__: state
    try:
        yield
    finally:
        for source in stateful:
            del source.state_dict


def is_sharded(x: Any) -> bool:
    """Return whether a value is a tensor that is sharded over processes."""
    return isinstance(x, Tensor) and hasattr(x, 'full_tensor')


def _make_whole(module: nn.Module, state: dict[str, Any], *_: Any) -> None:
    for name, x in state.items():
        if is_sharded(x):
            state[name] = x.full_tensor().cpu()


def _cut_weights(module: nn.Module, state: dict[str, Any], prefix: str, *_: Any) -> None:
    for name, weight in module.named_parameters():
        if prefix + name in state:
            state[prefix + name] = _cut_like(state[prefix + name], weight)


def _cut_like(x: Any, weight: Tensor) -> Any:
    """Return this process' shard of a whole tensor of a sharded weight, other values unchanged."""
    from torch.distributed.tensor import distribute_tensor

    if not is_sharded(weight) or not isinstance(x, Tensor) or is_sharded(x):
        return x
    if x.shape != weight.shape:
        return x
    return distribute_tensor(x.to(weight.device), weight.device_mesh, weight.placements)


def adapt_optimizer(wrapper: OptimWrapper) -> None:
    """Make an optimizer wrapper clip, save and load with partly sharded parameters.

    Raises:
        ValueError: float16, whose loss scaling does not support shards.
    """
    optimizer = wrapper.optimizer
    if not any(is_sharded(w) for group in optimizer.param_groups for w in group['params']):
        return
    if hasattr(wrapper, 'loss_scaler'):
        raise ValueError(
            'FullyShardedRetriever: loss scaling does not work on shards: take --amp bf16'
        )
    if getattr(wrapper, 'clip_func', None) is nn.utils.clip_grad_norm_:
        wrapper.clip_func = clip_grad_norm
    optimizer.register_state_dict_post_hook(_whole_state)
    optimizer.register_load_state_dict_post_hook(_cut_state)


def _whole_state(optimizer: Optimizer, state: dict[str, Any]) -> None:
    # Torch passes the optimizer's own dicts, which must keep their shards.
    state['state'] = {key: dict(values) for key, values in state['state'].items()}
    for values in state['state'].values():
        _make_whole(None, values)


def _cut_state(optimizer: Optimizer) -> None:
    for weight, values in optimizer.state.items():
        values.update({key: _cut_like(x, weight) for key, x in values.items()})


@torch.no_grad()
def clip_grad_norm(parameters: Iterable[Tensor], max_norm: float, norm_type: float = 2.0) -> Tensor:
    """Scale gradients, sharded ones among them, to a joint norm of at most ``max_norm``.

    Args:
        parameters: those without a gradient are ignored.
        max_norm, norm_type: see :func:`torch.nn.utils.clip_grad_norm_`.

    Returns:
        The norm before clipping, 0-dim.
    """
    grads = [weight.grad for weight in parameters if weight.grad is not None]
    norms = [torch.linalg.vector_norm(grad, norm_type) for grad in grads]
    norms = [norm.full_tensor() if is_sharded(norm) else norm for norm in norms]
    total = torch.linalg.vector_norm(torch.stack(norms), norm_type)
    factor = (max_norm / (total + 1e-6)).clamp(max=1.0)
    for grad in grads:
        (grad.to_local() if is_sharded(grad) else grad).mul_(factor)
    return total
