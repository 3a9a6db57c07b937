"""Loading of transformers models, all of whose weights must come from their files.

transformers initialises missing weights randomly, and ignores unexpected ones; here both are errors
that name them.
"""

from __future__ import annotations

import copy
import logging
import re
import sys
from contextlib import contextmanager
from typing import Any, Callable, Iterable, Iterator, Sequence

import torch
from mmengine.logging import print_log
from torch import Tensor, nn

from mmvtr.errors import UserError, refusing_code
from mmvtr.storage.weights import first_of, refuse_not_finite, wrapper_before

#: Implementations of attention that are part of transformers or of a package that it names; it
#: also takes a repository of the hub, whose code it would run.
ATTENTION = (None, 'eager', 'sdpa', 'flash_attention_2', 'flash_attention_3', 'flex_attention')


def load_transformer(
    model: str | dict,
    kind: str = 'AutoModel',
    *,
    used: Callable[[nn.Module], Iterable[nn.Module]] = lambda whole: [whole],
) -> nn.Module:
    """Return a transformers model by name or from a config.

    Unexpected weights in the file may only belong to a head that transformers knows for this type
    of model (BERT's ``cls.predictions``), which is logged; so are wrapper prefixes of names
    (``module.``, ``0.auto_model.``), which are removed.

    Args:
        model: name on the hub, local folder, or a dict for ``AutoConfig.for_model``, which gives
            random weights.
        kind: transformers' auto class for it.
        used: parts of the built model that are read; nothing else has to be in the file.

    Raises:
        RuntimeError: the model is neither a local folder nor cached nor can it be downloaded, its
            files are damaged, or weights occur twice or are not finite.
        ValueError: weights are missing, unexpected or of another shape (names them).
    """
    import transformers  # takes seconds, and is imported only for configs with such a model

    auto = getattr(transformers, kind)
    if not isinstance(model, str):
        config = transformers.AutoConfig.for_model(**model)
        _check_attention(config, 'the model of a dict')
        with refusing_code('the model of a dict'):
            return auto.from_config(config, trust_remote_code=False)
    with _quiet():
        network, report = _read(auto, model)
        mapping = _renaming(network, report, model)
        if mapping:
            network, report = _read(auto, model, mapping)
        weights = network.state_dict(keep_vars=True)
        read = {id(x) for part in used(network) for x in part.state_dict(keep_vars=True).values()}
        weights = {name: x for name, x in weights.items() if id(x) in read}
        _refuse_lacking(network, report, weights, model)
        _refuse_unexpected(network, report['unexpected_keys'], model)
    refuse_not_finite(weights, model)
    return network


def _check_attention(config: Any, model: str) -> None:
    """Raise ValueError if a model's config names an implementation that is not in ATTENTION."""
    if config._attn_implementation not in ATTENTION:
        raise ValueError(
            f'{model} asks for the attention {str(config._attn_implementation)[:80]!r}, which is '
            f'code of somebody else: {", ".join(map(str, ATTENTION[1:]))} expected'
        )
    for name in config.sub_configs:
        if (part := getattr(config, name, None)) is not None:
            _check_attention(part, model)


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress transformers' own report of randomly initialised weights."""
    from transformers.utils import logging as theirs

    level = theirs.get_verbosity()
    theirs.set_verbosity_error()
    try:
        yield
    finally:
        theirs.set_verbosity(level)


def _read(
    auto: type, model: str, mapping: dict[str, str] | None = None
) -> tuple[nn.Module, dict[str, Any]]:
    """Return the model, and ``missing_keys``, ``unexpected_keys``, ``mismatched_keys`` by name."""
    from transformers import AutoConfig

    try:
        with refusing_code(model):
            config = AutoConfig.from_pretrained(model, trust_remote_code=False)
            _check_attention(config, model)
            return auto.from_pretrained(
                model,
                config=config,
                dtype=torch.float32,
                key_mapping=mapping,
                ignore_mismatched_sizes=True,  # refused below, by name
                output_loading_info=True,
                trust_remote_code=False,
            )
    except OSError as error:
        raise UserError(
            f'transformers cannot load {model!r} ({error}). It is neither a local folder nor '
            'in the Hugging Face cache, or the hub cannot be reached: give a local folder '
            "with config.json and weights, or a dict(model_type='bert', ...) for random "
            'weights'
        ) from error
    except Exception as error:  # a damaged file can raise anything
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise UserError(
            f'transformers cannot load {model!r}: {reason[:200]}; fetch or save its files again'
        ) from error


def _renaming(network: nn.Module, report: dict[str, Any], model: str) -> dict[str, str]:
    """Return patterns of wrapper prefixes to remove from names; mostly none."""
    weights = network.state_dict(keep_vars=True)
    base = '' if hasattr(network, network.base_model_prefix) else f'{network.base_model_prefix}.'
    lacking = {id(weights[name]) for name in _lacking(report) if name in weights}
    loaded = [name for name, x in weights.items() if id(x) not in lacking]
    start = wrapper_before(
        [*loaded, *sorted(report['unexpected_keys'])],
        lambda name: name in weights or name.removeprefix(base) in weights,
        model,
    )
    # A head's base first: only the first matching pattern applies.
    return {f'^{re.escape(start + b)}': '' for b in dict.fromkeys((base, ''))} if start else {}


def _lacking(report: dict[str, Any]) -> list[str]:
    """Return the names of weights that transformers initialised randomly."""
    # Since transformers 5 with their shapes.
    shapes = [x if isinstance(x, str) else x[0] for x in report['mismatched_keys']]
    return sorted([*report['missing_keys'], *shapes])


def _refuse_lacking(
    network: nn.Module, report: dict[str, Any], weights: dict[str, Tensor], model: str
) -> None:
    missing, lacking = set(report['missing_keys']), set(_lacking(report))
    # Report tied weights once, by their first name.
    first = {id(x): name for name, x in reversed(weights.items()) if name in lacking}
    names = sorted(first.values())
    if names:
        kinds = {
            'missing': [name for name in names if name in missing],
            'of another shape': [name for name in names if name not in missing],
        }
        lines = ', '.join(f'{kind} ({len(n)}): {first_of(n)}' for kind, n in kinds.items() if n)
        raise ValueError(
            f'{model} does not hold all weights of its {type(network).__name__}, {lines}: they '
            'would be random; give a folder of the whole model, as its save_pretrained writes it'
        )


def _refuse_unexpected(network: nn.Module, names: Iterable[str], model: str) -> None:
    # Position ids 0, 1, 2 ... that older versions stored.
    left = sorted(name for name in names if not name.endswith('position_ids'))
    strange = _of_no_head(network, left)
    if strange:
        raise ValueError(
            f'{model} holds weights that are none of its {type(network).__name__}, unexpected '
            f'({len(strange)}): {first_of(strange)}: its config.json is of another model, or they '
            "are to be left out, as that class's from_pretrained and save_pretrained do"
        )
    if left:
        message = f'{model}: {len(left)} weights of heads are not read: {first_of(left)}'
        print_log(message, 'current', logging.INFO)


def _of_no_head(network: nn.Module, names: Sequence[str]) -> list[str]:
    """Return the names that no transformers model with the same config has."""
    from transformers import PreTrainedModel

    base = f'{network.base_model_prefix}.'
    left = list(names)
    for kind in list(vars(sys.modules[type(network).__module__]).values()):
        if not left:
            break
        if not (isinstance(kind, type) and issubclass(kind, PreTrainedModel)):
            continue
        if kind is type(network) or kind.config_class is not type(network.config):
            continue
        try:
            with torch.device('meta'):
                other = kind(copy.deepcopy(network.config))
        except Exception:  # not every head can be built from every config: skip it
            continue
        keys = other.state_dict().keys()
        left = [name for name in left if not {_renamed(name), base + _renamed(name)} & keys]
    return left


def _renamed(name: str) -> str:
    """Return a name with TensorFlow's LayerNorm terms, as in older files, replaced."""
    return re.sub(r'\.gamma$', '.weight', re.sub(r'\.beta$', '.bias', name))
