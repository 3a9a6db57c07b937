"""Check before a start that a dataset's experts are those of the encoder.

Rows carry the number of their expert, by name in alphabetical order: as many experts with other
names would train without an error, with each expert's weights on another one's rows.
"""

from __future__ import annotations

from typing import Any, Iterator, Mapping

from mmengine.config import Config


def expert_faults(cfg: Config) -> Iterator[str]:
    """Yield the pipelines of ``train``, ``val`` and ``test`` whose experts are not the encoder's.

    Args:
        cfg: the merged config.  A pipeline step with a dict ``experts`` of dicts with ``dim``
            (``LoadExperts``) is compared with the dict ``experts`` of widths of each encoder of the
            model; configs without either are accepted.
    """
    for split in ('train', 'val', 'test'):
        dataset = (cfg.get(f'{split}_dataloader') or {}).get('dataset')
        steps = dataset.get('video_pipeline') if isinstance(dataset, Mapping) else None
        for i, step in enumerate(steps if isinstance(steps, (list, tuple)) else ()):
            read = _widths(step.get('experts')) if isinstance(step, Mapping) else {}
            for key, widths in _encoders(cfg.get('model'), 'model') if read else ():
                fault = difference(read, widths)
                if fault:
                    yield (
                        f'{split}_dataloader.dataset.video_pipeline.{i}.experts: not those of '
                        f'{key}.experts: {fault}'
                    )


def difference(read: Mapping[str, int], encoder_widths: Mapping[str, int]) -> str:
    """Return the mismatch of the experts ``read`` and ``encoder_widths``, or ''."""
    parts = []
    for names, words in (
        (encoder_widths.keys() - read.keys(), 'the encoder waits for'),
        (read.keys() - encoder_widths.keys(), 'the encoder does not know'),
    ):
        if names:
            parts.append(f'{words} {str(sorted(names))[:120]}')
    wide = {
        name: (read[name], encoder_widths[name]) for name in read.keys() & encoder_widths.keys()
    }
    for name, (ours, other) in sorted(wide.items()):
        if ours != other:
            parts.append(f'{name!r} is {ours} wide, the encoder takes {other}')
            break
    return '; '.join(parts)


def _widths(experts: Any) -> dict[str, int]:
    """Return the experts of a pipeline step; {} if it reads none."""
    if not isinstance(experts, Mapping):
        return {}
    dims = [
        expert.get('dim') if isinstance(expert, Mapping) else None for expert in experts.values()
    ]
    return {} if None in dims else dict(zip(experts, dims))


def _encoders(model: Any, key: str) -> Iterator[tuple[str, Mapping[str, int]]]:
    """Yield keys of the encoders that state experts, and the experts' widths."""
    if isinstance(model, (list, tuple)):
        for i, part in enumerate(model):
            yield from _encoders(part, f'{key}.{i}')
    elif isinstance(model, Mapping):
        experts = model.get('experts')
        if isinstance(experts, Mapping) and all(isinstance(w, int) for w in experts.values()):
            yield key, experts
        for name in ('encoder', 'member', 'members'):
            yield from _encoders(model.get(name), f'{key}.{name}')
