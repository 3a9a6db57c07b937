"""A model's config, preprocessing and tokenizer from open_clip, without building the model."""

from __future__ import annotations

import copy
import difflib
import json
from pathlib import Path
from typing import Any, Callable, NamedTuple, Optional

from mmvtr.errors import refusing_code

#: Prefix of a model name that is a folder with ``open_clip_config.json``.
FOLDER = 'local-dir:'

#: open_clip's preprocessing of a model for which it has no weights: CLIP's mean and std.
_DEFAULT = dict(
    mean=(0.48145466, 0.4578275, 0.40821073),
    std=(0.26862954, 0.26130258, 0.27577711),
    interpolation='bicubic',
    resize_mode='shortest',
)


class Preprocessing(NamedTuple):
    """A model's preprocessing of frames.

    ``size`` is (height, width) in pixels; ``mean`` and ``std`` are of RGB in 0-1;
    ``interpolation`` is 'bicubic' or 'bilinear'; ``resize_mode`` is 'shortest' (the short side is
    scaled, then the centre is cut) or 'squash' (both sides are scaled).
    """

    size: tuple[int, int]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    interpolation: str
    resize_mode: str


def model_config(model: str | dict) -> dict[str, Any]:
    """Return open_clip's config of a model, as a copy that may be changed.

    Args:
        model: a name in ``open_clip.list_models()``, ``local-dir:FOLDER`` with an
            ``open_clip_config.json`` in it, or a config dict (``embed_dim``, ``vision_cfg``,
            ``text_cfg``, ``quick_gelu`` ...).

    Raises:
        ValueError: the name is unknown (the closest ones are listed), or the config is incomplete.
        FileNotFoundError: the folder has no config.
    """
    import open_clip  # takes seconds

    if not isinstance(model, str):
        config = {key: copy.deepcopy(value) for key, value in model.items()}
    elif model.startswith(FOLDER):
        config = _folder_config(model)['model_cfg']
    else:
        name = model.replace('/', '-')
        if name not in open_clip.list_models():
            close = difflib.get_close_matches(name, open_clip.list_models(), n=5, cutoff=0.4)
            raise ValueError(f'open_clip has no model {model!r}; close names: {close}')
        config = open_clip.get_model_config(name)
    missing = {'embed_dim', 'vision_cfg', 'text_cfg'} - set(config)
    if missing:
        raise ValueError(f'an open_clip config needs {sorted(missing)}, got {sorted(config)}')
    return config


def tag_config(model: str | dict, tag: str) -> dict[str, Any]:
    """Return open_clip's entry of a pretrained tag: where its weights are, and its preprocessing.

    Raises:
        ValueError: the model has no such tag (its tags are listed), or is not a name.
    """
    import open_clip  # takes seconds

    if not isinstance(model, str) or model.startswith(FOLDER):
        kind = 'a folder' if isinstance(model, str) else 'a config dict'
        raise ValueError(f'{tag!r}: {kind} has no tags, give a local file')
    name = model.replace('/', '-')
    entry = open_clip.get_pretrained_cfg(name, tag)
    if not entry:
        tags = open_clip.list_pretrained_tags_by_model(name)
        raise ValueError(f'open_clip model {model!r} has no tag {tag!r}; its tags: {tags}')
    return entry


def preprocessings(model: str | dict) -> dict[Preprocessing, list[str]]:
    """Return the preprocessings that a model's weights need, each with its tags.

    For a model without tags it is open_clip's default, CLIP's.

    Raises:
        ValueError, FileNotFoundError: see :func:`model_config`.
    """
    import open_clip  # takes seconds

    size = model_config(model)['vision_cfg'].get('image_size', 224)
    size = (size, size) if isinstance(size, int) else tuple(size)
    tags_of: dict[Preprocessing, list[str]] = {}
    if isinstance(model, str) and model.startswith(FOLDER):
        return {_preprocessing(size, _folder_config(model).get('preprocess_cfg', {})): []}
    if isinstance(model, str):
        for tag in open_clip.list_pretrained_tags_by_model(model.replace('/', '-')):
            tags_of.setdefault(_preprocessing(size, tag_config(model, tag)), []).append(tag)
    return tags_of or {_preprocessing(size, {}): []}


def preprocessing(model: str | dict, tag: Optional[str] = None) -> Preprocessing:
    """Return the preprocessing of a model's frames.

    Args:
        model: see :func:`model_config`.
        tag: tag of its weights; None if all of its tags need the same preprocessing.

    Raises:
        ValueError: no tag is given and the tags differ, or the tag is unknown.
        FileNotFoundError: see :func:`model_config`.
    """
    choices = preprocessings(model)
    if tag is not None:
        size = next(iter(choices)).size
        return _preprocessing(size, tag_config(model, tag))
    if len(choices) > 1:
        ways = ' or '.join(', '.join(tags[:2]) for tags in choices.values())
        raise ValueError(
            f'the weights of {model!r} need frames made in different ways: set tag={ways}'
        )
    return next(iter(choices))


def context_length(model: str | dict) -> int:
    """Return how many tokens a text may have, start and end tokens included."""
    import open_clip  # takes seconds

    return model_config(model)['text_cfg'].get(
        'context_length', open_clip.tokenizer.DEFAULT_CONTEXT_LENGTH
    )


def attends_to_padding(model: str | dict) -> bool:
    """Return whether the text tower attends to padding up to the context length.

    Causal towers that pool the end token never see the padding after it, and transformers' towers
    mask it.  Those of SigLIP, MobileCLIP, CLIPA and CoCa see it, as in their training.
    """
    text = model_config(model)['text_cfg']
    if text.get('hf_model_name'):
        return False
    hidden = not text.get('no_causal_mask', False) and not text.get('embed_cls', False)
    return not (hidden and text.get('pool_type', 'argmax') in ('argmax', 'eos'))


def tokenizer(model: str | dict) -> Callable[[list[str]], Any]:
    """Return the model's own tokenizer: T texts -> int64 [T, context length], padded.

    Raises:
        OSError: it cannot be downloaded from the hub.
        ValueError: it needs remote code; see also :func:`model_config`.
        FileNotFoundError: see there.
    """
    import open_clip  # takes seconds

    text = model_config(model)['text_cfg']
    theirs = text.get('hf_tokenizer_name')
    if isinstance(model, str):
        name = model if model.startswith(FOLDER) else model.replace('/', '-')
        if not theirs:
            return open_clip.get_tokenizer(name)
        with refusing_code(model):  # whatever the folder's config says
            return open_clip.get_tokenizer(name, trust_remote_code=False)
    settings = dict(text.get('tokenizer_kwargs') or {}, context_length=context_length(model))
    settings.pop('trust_remote_code', None)
    if theirs:
        settings['tokenizer_mode'] = text.get('tokenizer_mode')
        with refusing_code(theirs):
            return open_clip.tokenizer.HFTokenizer(theirs, trust_remote_code=False, **settings)
    return open_clip.SimpleTokenizer(**settings)


def _preprocessing(size: tuple[int, int], entry: dict[str, Any]) -> Preprocessing:
    merged = {**_DEFAULT, **{key: entry[key] for key in _DEFAULT.keys() & entry.keys()}}
    mean, std = tuple(merged['mean']), tuple(merged['std'])
    return Preprocessing(size, mean, std, merged['interpolation'], merged['resize_mode'])


def _folder_config(model: str) -> dict[str, Any]:
    path = Path(model.removeprefix(FOLDER), 'open_clip_config.json')
    if not path.is_file():
        raise FileNotFoundError(f'{model!r}: there is no {path}')
    try:
        config = json.loads(path.read_text(encoding='utf-8'))
    except (ValueError, RecursionError) as error:
        raise ValueError(f'{path} is not json: {str(error)[:80]}') from error
    if not isinstance(config, dict):
        raise ValueError(f'{path}: expected a config, found {str(config)[:80]}')
    return config if 'model_cfg' in config else dict(model_cfg=config)
