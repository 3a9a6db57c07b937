"""Checks for config keys that nothing reads, and for hooks to remove that do not exist."""

from __future__ import annotations

import inspect
import re
from typing import Any, Iterable, Iterator, Mapping, Optional

from mmengine.config import Config
from mmengine.runner import Runner

from mmvtr.cli.hints import nearest

#: Top-level keys that are read by the Runner's constructor, by the Runner later, by mmengine's
#: config reader, or by our tools.
KNOWN = frozenset(inspect.signature(Runner.__init__).parameters) - {'self', 'cfg'} | {
    'activation_checkpointing', 'before', 'compile', 'custom_imports', 'custom_keys',
    'efficient_conv_bn_eval', 'find_unused_parameters', 'fit_warmup', 'load_from_prefixes',
    'made_by', 'model_wrapper_cfg', 'shortcuts', 'strategy', 'sync_bn', 'tta_model',
}  # fmt: skip


#: Default hooks of mmengine's Runner, whatever a config says; None removes one.
OF_MMENGINE = ('runtime_info', 'timer', 'sampler_seed', 'logger', 'param_scheduler', 'checkpoint')


def key_faults(cfg: Config, options: Iterable[str] = ()) -> Iterator[str]:
    """Yield top-level keys that nothing reads.

    A config file may hold helper variables: names that the file itself uses, or that resemble no
    known key.  A key of ``--cfg-options`` must be known, or a key of the file that is not a helper.
    Names that begin with an underscore and those in ``custom_keys`` are the user's own.

    Args:
        cfg: the merged config.
        options: keys of ``--cfg-options``, ``shortcuts`` among them.
    """
    user_keys = {name for key in ('custom_keys', 'shortcuts') for name in cfg.get(key) or ()}
    uses = _uses(cfg.text or '')
    free = KNOWN | user_keys
    set_by_options = list(dict.fromkeys(key.partition('.')[0] for key in options))
    for key in set_by_options:
        if key in free or key.startswith('_'):
            continue
        if key not in uses or not _is_set(key, cfg.text or ''):
            yield f'{key}: nothing reads this key{nearest(key, KNOWN)} ({_OWN})'
        elif uses[key] > 1:
            yield (
                f'{key}: a variable of the config file, which is read before --cfg-options: set '
                f'the keys that are made from it (tools/analysis_tools/print_config.py; {_OWN})'
            )
    for key in cfg:
        used = uses.get(key, 0) > 1
        if key in free or key in set_by_options or key.startswith('_') or used:
            continue
        alike = nearest(key, KNOWN)
        if alike:
            yield f'{key}: nothing reads this key{alike} ({_OWN})'


_OWN = 'a key of your own goes into the list custom_keys of the config'


def _is_set(key: str, text: str) -> bool:
    """Return whether a config's source assigns a top-level key, in Python, YAML or JSON."""
    return bool(re.search(rf'^(?:{key}\s*[=:]|\s*"{key}"\s*:)', text, re.MULTILINE))


def _uses(text: str) -> dict[str, int]:
    """Return how often each word occurs in the source of a config and its bases."""
    code = re.sub(r'#.*', '', text)
    uses: dict[str, int] = {}
    for word in re.findall(r'[A-Za-z_]\w*', code):
        uses[word] = uses.get(word, 0) + 1
    return uses


def hook_faults(cfg: Config, options: Iterable[str] = ()) -> Iterator[str]:
    """Yield the hooks that None should remove but that do not exist.

    A hook that an option removes must be in the config.  A config file may have been written by a
    run, without the removed hooks: there only a name that resembles another hook is a fault.

    Args:
        cfg: the merged config.
        options: keys of ``--cfg-options``, ``shortcuts`` among them.
    """
    hooks = cfg.get('default_hooks') or {}
    names = {name for name, hook in hooks.items() if hook is not None} | {*OF_MMENGINE}
    uses, set_by_options = _uses(cfg.text or ''), {*options}
    for name in sorted(hooks.keys() - names):
        key = f'default_hooks.{name}'
        was_there = uses.get(name, 0) > (key not in set_by_options)
        if not was_there and (key in set_by_options or nearest(name, names)):
            others = nearest(name, names, otherwise=names)
            yield f'{key}: there is no such hook to remove{others}'


def default_hooks(hooks: Optional[Mapping[str, Any]]) -> dict[str, Any]:
    """Return default hooks in mmengine's form: None removes one of mmengine's own."""
    return {
        name: hook
        for name, hook in (hooks or {}).items()
        if hook is not None or name in OF_MMENGINE
    }
