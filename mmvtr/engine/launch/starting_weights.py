"""Start a training from the weights of a checkpoint: all of them, or the parts asked for."""

from __future__ import annotations

from typing import Sequence

from mmengine.config import Config
from mmengine.hooks import Hook
from mmengine.runner import Runner

from mmvtr.engine.loop.checkpoint import check_weights, local_file
from mmvtr.engine.loop.evaluation import bare
from mmvtr.storage.weights import read_checkpoint, unwrapped


def start_from(runner: Runner, cfg: Config) -> None:
    """Raise unless ``cfg.load_from`` fits the model, or the parts of it that are asked for.

    ``load_from_prefixes`` of the config names them: a list of beginnings of weight names, such as
    ``['encoder.frames.', 'encoder.text.']`` for the towers alone.  All weights of the model under
    them come from the checkpoint, all others keep their start.

    Raises:
        FileNotFoundError, RuntimeError: no such checkpoint, or a damaged one.
        SystemExit: one of another model (names what differs), or a prefix that fits no weight.
    """
    path, prefixes = cfg.load_from, cfg.get('load_from_prefixes')
    if prefixes is not None:
        prefixes = [prefixes] if isinstance(prefixes, str) else prefixes
        listed = isinstance(prefixes, (list, tuple)) and len(prefixes) > 0
        if not listed or not all(isinstance(prefix, str) and prefix for prefix in prefixes):
            raise SystemExit(
                'error: load_from_prefixes is a list of beginnings of weight names, such as '
                f"['encoder.frames.'], not {str(prefixes)[:80]}"
            )
    if path is None:
        if prefixes is not None:
            raise SystemExit('error: load_from_prefixes needs a load_from')
        return
    try:
        path = local_file(path)
    except (OSError, ValueError) as error:
        raise SystemExit(f'error: load_from: {error}') from error
    model = bare(runner.model)
    weights = read_checkpoint(path)['state_dict']
    weights = unwrapped(weights, model.state_dict().__contains__, path)
    counts = {
        prefix: sum(name.startswith(prefix) for name in weights) for prefix in prefixes or ['']
    }
    vain = [prefix for prefix, count in counts.items() if not count]
    if vain:
        raise SystemExit(
            f'error: {path} holds no weight {vain[0][:80]}*; its weights are '
            f'{", ".join(sorted({".".join(name.split(".")[:2]) for name in weights}))[:250]}'
        )
    try:
        check_weights(model, weights, path, list(counts))
    except RuntimeError as error:
        advice = '' if prefixes else '\nA part of it can be loaded: see load_from_prefixes'
        raise SystemExit(f'error: {error}{advice}') from error
    if prefixes:
        runner.register_hook(PartHook(list(counts)), 'HIGHEST')
        parts = ', '.join(f'{count} {prefix}*' for prefix, count in counts.items())
        runner.logger.info(f'From {path}: {parts}; all other weights keep their start')


class PartHook(Hook):
    """Keep only the weights with some prefixes of the checkpoint that a training starts from."""

    def __init__(self, prefixes: Sequence[str]) -> None:
        self.prefixes = tuple(prefixes)
        self.done = False

    def after_load_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        if self.done:  # the best one, which is tested in the end
            return
        weights = checkpoint['state_dict']
        kept = {name: x for name, x in weights.items() if name.startswith(self.prefixes)}
        checkpoint.clear()  # of queues, averages and the like as well
        checkpoint.update(state_dict=kept, prefixes=self.prefixes)
        self.done = True
