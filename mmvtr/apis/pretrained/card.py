"""Model card: what a retriever is, how to use it, and its results."""

from __future__ import annotations

import math
from importlib import import_module
from pathlib import Path
from typing import Any, Mapping, Optional, Sequence, Union

import yaml
from mmengine.config import Config

from mmvtr.datasets.annotation_files import read_json
from mmvtr.engine.loops.facts import Training, together, trainings_from
from mmvtr.evaluation.results import Results, results_from

#: Version of this package.
VERSION: str = import_module('mmvtr').__version__


_CARD = """---
{front}---

# {name}

A text-video retriever of mmvtr {version}: encoder `{encoder}`,
similarity `{similarity}`.

```python
from mmvtr.apis.inferencer import VideoRetrievalInferencer

inferencer = VideoRetrievalInferencer.from_pretrained('{source}', gallery='my_videos')
inferencer('a dog runs over a meadow', topk=5)
```

The weights are safetensors, the config is json, and loading runs no code of this repository.

## Training

{training}

## Data

{data}

## Limits

{limits}

## Results

{results}
"""
_READ_ALL = '/transductive'
_DATA = """| | set |
|---|---|
| trained on | {trained} |
| tested on | {tested} |

No video or caption is part of this folder. `docs/reproduce/sources.md` of mmvtr says where the
files of each set come from, and under which licence. Licence of these weights: {license}."""
_LIMITS = """- {reads}
- It ranks videos for texts and texts for videos of the kind that it was trained on. Other
  languages, kinds of video and lengths were not tested{without}.
- It answers every query, with whatever is nearest: a score is no probability of a match until one
  is fitted (`docs/arrays.md` of mmvtr).
- It repeats what its captions and its pretrained towers say of people. Do not use it to decide
  about people."""
_WITHOUT = 'None were given.'
_NO_PROTOCOL = (
    'Protocol: not stated. Without it (split, ids, ties, seed) these numbers cannot be '
    'compared with others.'
)


def read_results(
    results: Optional[Union[str, Path, Mapping[str, Any]]],
    protocol: Optional[str],
    trainings: Optional[Sequence[Training]] = None,
) -> Results:
    """Return numbers by key and their protocol, from a mapping or a json file.

    Args:
        results: as written by ``tools/test.py --out``, or only numbers.
        protocol: the protocol line for results that are only numbers.
        trainings: trainings of the model to which they should belong; None: unknown.

    Raises:
        FileNotFoundError: no such file.
        ValueError: a file that is not json, anything but finite numbers by key, a protocol without
            results or in addition to another one, results of another training.
    """
    if results is None:
        if protocol is not None:
            raise ValueError('a protocol was given, but not the results that it belongs to')
        return Results({})
    name = 'results'
    if isinstance(results, (str, Path)):
        name, path = str(results), Path(results)
        if not path.is_file():
            raise FileNotFoundError(f'results {path} do not exist')
        results = read_json(path, ())
    if not isinstance(results, Mapping) or not results:
        raise ValueError(f'{name}: expected numbers by key, found {str(results)[:80]}')
    parsed = results_from(results, name)
    for key, value in parsed.numbers.items():
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not isinstance(key, str) or not number or not math.isfinite(value):
            raise ValueError(
                f'{name}: expected a finite number for {str(key)[:80]!r}, found {str(value)[:80]!r}'
            )
    _refuse_other_training(parsed, trainings, name)
    if protocol is not None:
        if parsed.line not in (None, ' '.join(protocol.split())):
            raise ValueError(f'{name} has its own protocol: leave the other one out')
        parsed = parsed._replace(protocol={**(parsed.protocol or {}), 'line': protocol})
    return parsed._replace(numbers={key: float(value) for key, value in parsed.numbers.items()})


def _refuse_other_training(
    results: Results, trainings: Optional[Sequence[Training]], name: str
) -> None:
    if results.trainings is None or trainings is None:
        return
    stored = results.trainings
    theirs = trainings_from(stored, name) if stored else []
    if theirs == [*trainings]:
        return
    mine, other = together(trainings), together(theirs)
    differ = [
        f'{fact}: {mine.get(fact, "not known")} here, {other.get(fact, "not known")} there'
        for fact in dict.fromkeys([*mine, *other])
        if mine.get(fact) != other.get(fact)
    ]
    raise ValueError(f'{name} does not belong to this checkpoint: {"; ".join(differ[:3])[:600]}')


def model_card(
    name: str,
    cfg: Config,
    *,
    results: Results,
    trainings: Optional[Sequence[Training]] = None,
    license: Optional[str] = None,
) -> str:
    """Return the text of ``README.md``: YAML for the hub, and a page for people.

    Args:
        name: name of the model; that of a repository if it has a slash.
        cfg: its config.
        results: see :func:`read_results`.
        trainings: facts of the weights' trainings; None: unknown.
        license: license of the weights in the hub's spelling ('apache-2.0'); None: not stated.
    """
    model, dataset = cfg['model'], cfg['test_dataloader']['dataset']
    similarity, encoder = (_type_in(model, key) for key in ('similarity', 'encoder'))
    front: dict[str, Any] = dict(
        library_name='mmvtr',
        pipeline_tag='feature-extraction',  # the hub has no tag for retrieval
        tags=['text-video-retrieval', 'video-retrieval', 'mmengine', encoder],
    )
    if license:
        front['license'] = license
    numbers = results.numbers
    if numbers:
        shown = _tested_on(results, dataset)
        kind = shown.partition(' ')[0]
        measured = [dict(type=key, value=x, name=key) for key, x in _measured(numbers).items()]
        front['model-index'] = [
            dict(
                name=name,
                results=[
                    dict(
                        task=dict(type='text-video-retrieval', name='Text-video retrieval'),
                        dataset=dict(type=kind, name=shown),
                        metrics=measured,
                    )
                ],
            )
        ]
    return _CARD.format(
        front=yaml.safe_dump(front, sort_keys=False, allow_unicode=True),
        name=name,
        source=name if '/' in name else 'path/of/this/folder',
        version=VERSION,
        encoder=encoder,
        similarity=similarity,
        training=_training(trainings),
        data=_DATA.format(
            trained=_trained_on(trainings),
            tested=_tested_on(results, dataset) if numbers else 'no results were given',
            license=license or 'not stated',
        ),
        limits=_LIMITS.format(
            reads=_reads(dataset),
            without='' if numbers else ', and neither was any other set',
        ),
        results=_table(numbers, results.line) if numbers else _WITHOUT,
    )


def _tested_on(results: Results, dataset: Mapping[str, Any]) -> str:
    """Return the tested set: that of the protocol, or the config's test set."""
    if results.protocol and 'tested' in results.protocol:
        return str(results.protocol['tested'].get('set'))
    kind, split = str(dataset.get('type', 'unknown')).rpartition('.')[2], dataset.get('split')
    return ' '.join(filter(None, (kind, split)))


def _trained_on(trainings: Optional[Sequence[Training]]) -> str:
    """Return the training set of each member with its counts, or that it is unknown."""
    sets = [training.items().get('trained on') or 'unknown' for training in trainings or []]
    return '; '.join(dict.fromkeys(sets)) or 'unknown'


def _reads(dataset: Mapping[str, Any]) -> str:
    """Return the inputs that the model reads of a video and of a text, from the test pipelines."""
    frames = _first(dataset.get('video_pipeline'), ('num_frames',))
    tokens = _first(dataset.get('text_pipeline'), ('context_length', 'max_length', 'max_words'))
    video = f'{frames} frames' if frames else 'the frames that its pipeline takes'
    text = f'at most {tokens} tokens' if tokens else 'the tokens that its pipeline takes'
    return f'It reads {video} of a video and {text} of a text, and nothing in between or behind.'


def _first(pipeline: Any, keys: Sequence[str]) -> Optional[int]:
    """Return the first of these arguments that a pipeline step has."""
    return next((step[key] for step in pipeline or [] for key in keys if step.get(key)), None)


def _training(trainings: Optional[Sequence[Training]]) -> str:
    """Return a table of the facts, one row each."""
    if not trainings:
        return 'Unknown: these weights were given without a checkpoint.'
    cells = {name: str(value).replace('|', r'\|') for name, value in together(trainings).items()}
    rows = [f'| {name} | {value} |' for name, value in cells.items()]
    return '\n'.join(['| fact | |', '|---|---|', *rows])


def _type_in(model: Any, key: str) -> str:
    """Return the type of a retriever's part, or of its first member's."""
    while isinstance(model, dict) and key not in model:
        model = model.get('member') or next(iter(model.get('members') or []), None)
    return str(model[key]['type']).rpartition('.')[2] if isinstance(model, dict) else 'unknown'


def _measured(results: Mapping[str, float]) -> dict[str, float]:
    """Return the numbers without keys that state how they were measured."""
    return {key: x for key, x in results.items() if not key.endswith(_READ_ALL)}


def _table(results: Mapping[str, float], protocol: Optional[str]) -> str:
    rows = [f'| `{key}` | {value:.4g} |' for key, value in _measured(results).items()]
    lines = ['| metric | value |', '|---|---|', *rows, '']
    read_all = [
        key.removesuffix(_READ_ALL)
        for key, value in results.items()
        if key.endswith(_READ_ALL) and value
    ]
    if read_all:
        lines += [f'{", ".join(read_all)}: has read all test queries at once (transductive).', '']
    if protocol is None:
        return '\n'.join([*lines, _NO_PROTOCOL])
    return '\n'.join([*lines, '```', ' '.join(protocol.split()), '```'])
