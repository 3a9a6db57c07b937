"""Evaluation of several retrievers as one: each member's numbers beside the fused ones."""

from __future__ import annotations

from typing import Optional, Sequence, Union

import numpy as np
from mmengine.config import Config
from mmengine.hooks import Hook
from mmengine.runner import Runner
from torch.nn.parallel import DistributedDataParallel

from mmvtr.engine.loops.evaluation import Evaluation, bare
from mmvtr.models.backdoor import BackdoorRetriever, check_fusion
from mmvtr.registry import HOOKS, bare_name
from mmvtr.storage.weights import check_weights, read_checkpoint
from mmvtr.structures import Directed

#: Hooks that do nothing in an evaluation but reject a model that they do not know.
TRAINING_ONLY = ('QueryQueueHook', 'AmbiguityHook')


@HOOKS.register_module()
class MembersHook(Hook):
    """Hook that reports each member of a BackdoorRetriever separately, beside the fused scores.

    All metrics that read scores are reported for ``member_0``, ``member_1`` ... (member k was
    trained on environment k), in the table of transforms and as ``member_0/retrieval/t2v_R1``.

    Args:
        origins: description of each member, such as its checkpoint; default: the items that it was
            trained on.
        init_from: checkpoint of one member trained as a plain model, from which all members start a
            training that is not resumed (the "failure method" of Satar et al., App. C.4).

    Raises:
        TypeError: (at evaluation) another model.
        ValueError: (before training) a distributed model that waits for gradients of all members,
            or a number of members other than that of the training set's environments.
        FileNotFoundError, RuntimeError: (before training) no such ``init_from``, or one that is
            damaged or does not fit a member (names what differs).
    """

    def __init__(
        self, *, origins: Optional[Sequence[str]] = None, init_from: Optional[str] = None
    ) -> None:
        self.origins = origins
        self.init_from = init_from
        #: Matrices that the evaluation loop keeps for this hook.
        self.reads: tuple[str, ...] = ()

    def before_val(self, runner: Runner) -> None:
        """Request the members' scores."""
        model = bare(runner.model)
        if not isinstance(model, BackdoorRetriever):
            raise TypeError(f'MembersHook: {type(model).__name__} has no members')
        self.reads = tuple(f'scores_{k}' for k in range(len(model.members)))
        if self.origins is not None:
            runner.message_hub.update_info('ensemble', list(self.origins))

    before_test = before_val

    def before_train(self, runner: Runner) -> None:
        model = runner.model
        if isinstance(model, DistributedDataParallel) and not model.find_unused_parameters:
            raise ValueError(
                'each step trains only one member, and the others get no gradients: set '
                '`find_unused_parameters = True` in the config for distributed training'
            )
        model = bare(model)
        if not isinstance(model, BackdoorRetriever):
            return
        dataset = runner.train_dataloader.dataset
        if hasattr(dataset, 'environments'):
            check_count(len(model.members), dataset.environments)
        if self.init_from is not None and runner.iter == 0:
            weights = read_checkpoint(self.init_from)['state_dict']
            for member in model.members:
                member.load_state_dict(check_weights(member, weights, self.init_from))
            runner.logger.info(f'all {len(model.members)} members start from {self.init_from}')

    def reported(self, keys: set[str], runner: Runner) -> set[str]:
        """Return the keys of its results, given those of metrics that read scores alone."""
        model = bare(runner.model)
        names = [f'member_{k}' for k in range(len(getattr(model, 'members', ())))]
        return {f'{name}/{key}' for name in names for key in (*keys, 'transductive')}

    def after_scoring(self, runner: Runner, evaluation: Evaluation) -> None:
        """Report each member's numbers; called on rank 0."""
        model = evaluation.model
        for k, weight in enumerate(model.weights):
            scores = evaluation.matrices[f'scores_{k}']
            evaluation.transformed[f'member_{k}'] = Directed(scores, scores)
            items = f'trained on {int(model.seen[k])} items of environment {k}'
            origin = items if self.origins is None else self.origins[k]
            evaluation.notes[f'member_{k}'] = f'alone, weight {weight:.4g}; {origin}'


def check_count(members: int, environments: Optional[np.ndarray]) -> None:
    """Raise ValueError unless there are as many members as environments."""
    numbers = [] if environments is None else np.unique(environments).tolist()
    if numbers != list(range(members)):
        raise ValueError(
            f'{members} members learn from the environments 0 to {members - 1}, but those of the '
            f'training set are {numbers}: model.copies (or the number of model.members) and '
            '`parts` of train_dataloader.dataset.records.environments must agree; where a config '
            'has the shortcut, --cfg-options parts=M sets both'
        )


def fuse_config(
    cfg: Config, origins: Sequence[str], fusion: Union[str, Sequence[float]] = 'sum'
) -> None:
    """Change a config's model to several copies of itself with separate weights.

    Args:
        cfg: its ``model`` and ``custom_hooks`` are changed.
        origins: description of each copy, such as its checkpoint.
        fusion: ``'sum'``, or one weight each; see BackdoorRetriever.

    Raises:
        ValueError: another fusion, or a hook that reads the queue of one training.
    """
    check_fusion(fusion, len(origins))
    hooks = [hook for hook in cfg.get('custom_hooks') or [] if bare_name(hook) not in TRAINING_ONLY]
    for hook in hooks:
        if 'train_queue' in (hook.get('queries'), hook.get('written')):
            raise ValueError(
                f'{hook["type"]} needs a train queue, which models from different trainings do not '
                'share: make a bank with tools/export_bank.py, or take the hook out'
            )
    members = [cfg.model] * len(origins)
    cfg.model = dict(type='mmvtr.BackdoorRetriever', members=members, fusion=fusion)
    hook = dict(type='mmvtr.MembersHook', origins=list(origins))
    cfg.custom_hooks = [*hooks, hook]
