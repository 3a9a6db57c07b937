"""mmengine's Runner as our tools run it: a short console log at the start, and warm-up fitting."""

from __future__ import annotations

import copy
import inspect
import logging
import platform
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any, Iterable, Optional, Sequence, Union

import torch
from mmengine.dist import is_main_process
from mmengine.logging import MMLogger
from mmengine.optim import OptimWrapper
from mmengine.runner import LogProcessor, Runner
from mmengine.runner.checkpoint import CheckpointLoader
from torch import nn

from mmvtr.engine.checks.key_checks import default_hooks
from mmvtr.engine.checks.schedule_checks import fit_warmup
from mmvtr.engine.checks.zero_shot import pretrained_options
from mmvtr.engine.hooks.console import RowsLogProcessor, consoles, file_only, raise_on_full_disk
from mmvtr.engine.launching import LOADERS, check_datasets
from mmvtr.engine.loops.evaluation import bare
from mmvtr.engine.loops.facts import Training
from mmvtr.engine.loops.resuming import options_of, rebuild_schedule
from mmvtr.engine.loops.sharded import FullyShardedRetriever, adapt_optimizer, whole_states
from mmvtr.engine.optim_wrappers import check_custom_keys, rates_of, wrappers_of
from mmvtr.errors import UserError
from mmvtr.evaluation.queries import write_queries
from mmvtr.evaluation.results import Results, write_results
from mmvtr.registry import bare_name
from mmvtr.storage.weights import unwrapped

#: Name of the file with a test's results, in the folder of its log.
RESULTS = 'results.json'
#: Name of the file with the values of single queries, beside it.
QUERIES = 'queries.npz'


class ToolRunner(Runner):
    """mmengine's Runner with a short console log; the log file has all messages.

    Environment, merged config, list of hooks and options of each parameter go only to the file,
    whose path the console shows.  A log file that cannot be written is an error.  A ``LoggerHook``
    becomes a :class:`~mmvtr.engine.hooks.console.TimedLoggerHook`.

    With ``fit_warmup = True`` in the config, a warm-up as long as the training or longer is
    shortened (:func:`~mmvtr.engine.checks.schedule_checks.fit_warmup`).

    The datasets of the loaders :attr:`reads` are built before the model, and once.

    Attributes:
        reads: names of the loaders that a run needs; data of the others may be missing.
        datasets: datasets by the name of their loader.
        trained_before: facts of the training that is resumed, from its checkpoint; None: a new
            training.
        rescale: whether a resumed training takes rates and schedule from its config, not from the
            checkpoint.

    Raises:
        OSError: the log cannot be written; names the file.
    """

    reads: Sequence[str] = LOADERS
    trained_before: Optional[Training] = None
    rescale: bool = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for handler in consoles(self.logger):
            handler.removeFilter(_not_of_mmengine)
        name = Path(self.cfg.filename).name if self.cfg.filename else f'{self.timestamp}.py'
        logs = Path(self._log_dir, f'{self.timestamp}.log')
        self.logger.info(f'log, environment and hooks: {logs}')
        self.logger.info(f'merged config: {Path(self.work_dir, name)}')
        self.logger.info(f'{machine()}, seed {self.seed}')

    def build_logger(self, *args: Any, **kwargs: Any) -> MMLogger:
        """Build mmengine's logger, silent on the console until the Runner is built."""
        logger = super().build_logger(*args, **kwargs)
        raise_on_full_disk(logger)
        logger.addFilter(_not_of_lost_gradients)
        for handler in consoles(logger):
            handler.addFilter(_not_of_mmengine)
            handler.addFilter(_not_of_file_client)
        return logger

    def build_log_processor(self, log_processor: Any) -> LogProcessor:
        """Build mmengine's log processor with our order of values; keep one of another type."""
        if isinstance(log_processor, dict) and bare_name(log_processor) in ('', 'LogProcessor'):
            options = {name: value for name, value in log_processor.items() if name != 'type'}
            return RowsLogProcessor(**options)
        return super().build_log_processor(log_processor)

    def register_default_hooks(self, hooks: Optional[dict[str, Any]] = None) -> None:
        """Register mmengine's default hooks, with a logger hook that regularly writes a line.

        None also removes a hook that is not mmengine's, or that does not exist
        (:func:`~mmvtr.engine.checks.key_checks.hook_faults` rejects misspelt names).
        """
        hooks = default_hooks(hooks)
        logger = hooks.get('logger', dict(type='LoggerHook'))
        if isinstance(logger, dict) and bare_name(logger) == 'LoggerHook':
            hooks['logger'] = dict(logger, type='mmvtr.TimedLoggerHook')
        super().register_default_hooks(hooks)

    def build_model(self, model: Union[nn.Module, dict[str, Any]]) -> nn.Module:
        """Build the datasets and the model; unreadable data end the tool with one sentence.

        Raises:
            UserError: a dataset or the model cannot be built (with the reason).
        """
        self.datasets = check_datasets(self.cfg, self.reads)
        for loader, dataset in self.datasets.items():
            loader_cfg = _WithDataset(getattr(self, f'_{loader}'), dataset=dataset)
            setattr(self, f'_{loader}', loader_cfg)
        try:
            return super().build_model(model)
        except (OSError, RuntimeError, ValueError) as error:
            reason = str(error)
            if 'pretrained=' in reason:  # add the command line's syntax
                reason += f' (here: --cfg-options {pretrained_options(self.cfg)})'
            name = self.cfg.filename or 'the config'
            raise UserError(f'the model of {name} cannot be built: {reason}') from error

    def _init_model_weights(self) -> None:
        if not isinstance(self.model, FullyShardedRetriever):  # it initialises before sharding
            super()._init_model_weights()

    def build_optim_wrapper(self, optim_wrapper: Any) -> OptimWrapper:
        """Build mmengine's optimizer wrapper; details of each parameter go to the log file."""
        if isinstance(optim_wrapper, OptimWrapper):
            return optim_wrapper
        check_custom_keys(optim_wrapper.get('paramwise_cfg'), bare(self.model))
        with file_only(self.logger):
            built = super().build_optim_wrapper(optim_wrapper)
        for wrapper in wrappers_of(built):
            adapt_optimizer(wrapper)
        if not (self.auto_scale_lr or {}).get('enable'):
            self._log_rates(built)
        return built

    def scale_lr(self, optim_wrapper: OptimWrapper, auto_scale_lr: Optional[dict] = None) -> None:
        """Scale the learning rates, and the logged base rate, as mmengine does; log all rates."""
        if not (auto_scale_lr or {}).get('enable'):
            return
        before = [rate for rate, _ in rates_of(wrappers_of(optim_wrapper))]
        super().scale_lr(optim_wrapper, auto_scale_lr)
        after = [rate for rate, _ in rates_of(wrappers_of(optim_wrapper))]
        ratio = next((new / old for old, new in zip(before, after) if old), 1.0)
        for wrapper in wrappers_of(optim_wrapper):
            if 'lr' in (wrapper.base_param_settings or {}):
                wrapper.base_param_settings['lr'] *= ratio
        self._log_rates(optim_wrapper)

    def _log_rates(self, optim_wrapper: Any) -> None:
        for wrapper in wrappers_of(optim_wrapper):
            kind = type(wrapper.optimizer).__name__
            names = {id(weight): name for name, weight in bare(self.model).named_parameters()}
            self.logger.info(f'{kind} for {"; ".join(groups_in_words(wrapper, names))}')

    def train(self) -> nn.Module:
        """Train as mmengine does, then end the persistent workers of its loaders.

        Otherwise, with pinned memory, torch waits 5 s for each of them at exit.  The log file gets
        the traceback of an error that ends a training, of which a tool may print a sentence.
        """
        try:
            return super().train()
        except Exception:
            with file_only(self.logger), suppress(OSError):  # a full disk is told by itself
                self.logger.info('the training was ended by an error', exc_info=True)
            raise
        finally:
            for loop in (self._train_loop, self._val_loop):
                _end_workers(getattr(loop, 'dataloader', None))

    def test(self) -> dict[str, float]:
        """Test as mmengine does; write ``results.json`` with the protocol, and ``queries.npz`` with
        the values of single queries, beside the log."""
        try:
            numbers = super().test()
        finally:
            _end_workers(getattr(self._test_loop, 'dataloader', None))
        if is_main_process():
            protocol = getattr(self.test_loop, 'protocol', None)
            write_results(Results(numbers, protocol), Path(self._log_dir, RESULTS))
            queries = getattr(self.test_loop, 'queries', None)
            if queries is not None:
                write_queries(Path(self._log_dir, QUERIES), queries)
        return numbers

    def resume(self, *args: Any, **kwargs: Any) -> None:
        """Resume as mmengine does; take rates and schedule from the config if :attr:`rescale`."""
        options = options_of(self)
        super().resume(*args, **kwargs)
        if self.rescale:
            self.logger.info(rebuild_schedule(self, options))

    def save_checkpoint(
        self, out_dir: str, filename: str, *, save_optimizer: bool = True, **kwargs: Any
    ) -> None:
        """Save a checkpoint with whole tensors, even of shards; all processes call it."""
        with whole_states(self.model, self.optim_wrapper if save_optimizer else None):
            super().save_checkpoint(out_dir, filename, save_optimizer=save_optimizer, **kwargs)

    def load_checkpoint(
        self,
        filename: str,
        map_location: Any = 'cpu',
        strict: bool = False,
        revise_keys: Sequence[tuple[str, str]] = (),
    ) -> dict[str, Any]:
        """Load a checkpoint as mmengine does, but only one that fits exactly.

        A hook that keeps only a part of a checkpoint sets the checkpoint's ``prefixes``.

        Args:
            filename, map_location: as in mmengine.
            strict, revise_keys: mmengine's, ignored: the names must be the model's, after a prefix
                of wrappers (:func:`~mmvtr.storage.weights.unwrapped`).

        Raises:
            RuntimeError: weights of another model, after hooks have seen the checkpoint.
        """
        checkpoint = CheckpointLoader.load_checkpoint(filename, map_location, self.logger)
        model = bare(self.model)
        is_weight = model.state_dict().__contains__
        checkpoint['state_dict'] = unwrapped(checkpoint['state_dict'], is_weight, filename)
        self.call_hook('after_load_checkpoint', checkpoint=checkpoint)
        model.load_state_dict(checkpoint['state_dict'], strict='prefixes' not in checkpoint)
        self._has_loaded = True
        self.logger.info(f'Load checkpoint from {filename}')
        return checkpoint

    def _build_param_scheduler(self, scheduler: Any, optim_wrapper: OptimWrapper) -> list:
        if self.cfg.get('fit_warmup'):
            steps = len(self.train_dataloader)
            scheduler, message = fit_warmup(scheduler, epochs=self.max_epochs, steps=steps)
            if message:
                self.logger.info(message)
        return super()._build_param_scheduler(scheduler, optim_wrapper)


class ToolTestRunner(ToolRunner):
    """Runner of a test, for which the training data may be missing."""

    reads = ('test_dataloader',)


class _WithDataset(dict):
    """A dataloader's config with a built dataset, which copies of the config share."""

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[str, Any]:
        memo[id(self['dataset'])] = self['dataset']
        return copy.deepcopy(dict(self), memo)


def _end_workers(loader: Any) -> None:
    loader = getattr(loader, 'dataloader', loader)  # AlternatingTrainLoop's passes wrap it
    for part in getattr(loader, 'loaders', [loader]):
        iterator = getattr(part, '_iterator', None)
        if iterator is not None:
            iterator._shutdown_workers()
            part._iterator = None


def _not_of_mmengine(record: logging.LogRecord) -> bool:
    """Return whether the console shows a message while the Runner is built."""
    return record.levelno > logging.INFO or record.pathname != inspect.getfile(Runner)


def _not_of_file_client(record: logging.LogRecord) -> bool:
    """Return False for mmengine's warnings about its own old file client.

    A config cannot avoid them, and they appear at every start and first save.
    """
    return not record.getMessage().startswith(('"FileClient" will', '"HardDiskBackend" is'))


def _not_of_lost_gradients(record: logging.LogRecord) -> bool:
    """Return False for mmengine's warning of lost gradients: each epoch ends with a step."""
    return not record.getMessage().startswith('Resumed iteration number is not divisible by')


def machine() -> str:
    """Return versions and devices in a few words."""
    count = torch.cuda.device_count()
    device = f'{count} x {torch.cuda.get_device_name()}' if count else 'CPU'
    threads = torch.get_num_threads()
    return (
        f'Python {platform.python_version()}, torch {torch.__version__}, {device}, '
        f'{threads} thread{"s" * (threads > 1)}'
    )


def groups_in_words(wrapper: OptimWrapper, names: Optional[dict[int, str]] = None) -> list[str]:
    """Return lines like '12 parameters (heads, losses): lr 0.001', one per set of equal options.

    They come from the optimizer's own groups: the wrapper's include an artificial one of mmengine.

    Args:
        wrapper: wrapper of the optimizer.
        names: names of parameters by ``id``; None: omit the parts of the model.
    """
    counts: Counter = Counter()
    parts: dict[str, dict[str, None]] = {}
    for group in wrapper.optimizer.param_groups:
        options = ', '.join(
            f'{key} {group[key]:g}' for key in ('lr', 'weight_decay') if key in group
        )
        for parameter in group['params']:
            words = options if parameter.requires_grad else 'fixed'
            counts[words] += 1
            path = (names or {}).get(id(parameter), '').split('.')
            part = '.'.join(path[: 2 if path[0] == 'encoder' and len(path) > 2 else 1])
            parts.setdefault(words, {})[part] = None
    return [
        f'{count} parameters{_in_brackets(parts[words])}: {words}'
        for words, count in counts.most_common()
    ]


def _in_brackets(parts: Iterable[str]) -> str:
    named = [part for part in parts if part]
    more = f' and {len(named) - 4} more' if len(named) > 4 else ''
    return f' ({", ".join(named[:4])}{more})' if named else ''
