"""A retriever as a folder of safetensors and json that is portable and runs no code."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any, Mapping, NamedTuple, Optional, Union

from mmengine.config import Config
from torch import nn

from mmvtr.apis.plain_config import FILES, as_data, from_data
from mmvtr.apis.pretrained.card import VERSION, model_card, read_results
from mmvtr.datasets.annotation_files import read_json
from mmvtr.datasets.annotation_values import name_of
from mmvtr.errors import UserError
from mmvtr.storage import file_digest, write_tensors, write_text

CONFIG, WEIGHTS, ABOUT, CARD = 'config.json', 'model.safetensors', 'retriever.json', 'README.md'
#: Version of the folder's format; increased by changes that older versions could not read.
FORMAT = 1


class Saved(NamedTuple):
    """A saved folder that was checked to be complete.

    Attributes:
        config: config of the retriever.
        weights: file of the weights.
        files: relative paths of all its files.
    """

    config: Config
    weights: Path
    files: list[str]


def save_pretrained(
    model: nn.Module,
    cfg: Config,
    folder: Union[str, Path],
    *,
    results: Optional[Union[str, Path, Mapping[str, Any]]] = None,
    protocol: Optional[str] = None,
    name: Optional[str] = None,
    license: Optional[str] = None,
) -> Path:
    """Write a retriever in the format of ``from_pretrained``: complete, without pickle or code.

    ``model.safetensors`` has the weights, ``config.json`` the config as data, ``files/`` further
    files that the config names (a vocabulary), ``README.md`` a model card, and ``retriever.json``,
    which is written last, the version and the SHA-256 of the weights.  Weights and card contain the
    facts of the training.

    Args:
        model: a retriever; its attribute ``trainings``, which ``load_retriever`` sets, are the
            facts of its trainings.
        cfg: its config.
        folder: created if missing.
        results: test results: numbers by key, or the json file that ``tools/test.py --out`` wrote,
            which has their protocol.
        protocol: the protocol line for results without one.
        name: name in the model card; default that of the config's file, or of the folder.
        license: license of the weights, for the model card; None: not stated.

    Returns:
        ``folder``.

    Raises:
        FileNotFoundError: a file that the config or ``results`` names is missing.
        ValueError: a config that cannot be data (see :mod:`mmvtr.apis.plain_config`), results that
            are not numbers or of another training, or a protocol without results or in addition to
            their own.
    """
    folder, trainings = Path(folder), getattr(model, 'trainings', None)
    results = read_results(results, protocol, trainings)
    data, files = as_data(cfg)
    for place, source in files.items():
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        if source.resolve() != (folder / place).resolve():
            shutil.copyfile(source, folder / place)
    (folder / ABOUT).unlink(missing_ok=True)  # removed until the new folder is complete
    meta = dict(members=[training.as_dict() for training in trainings]) if trainings else {}
    write_tensors(model.state_dict(), folder / WEIGHTS, meta=meta)
    write_text(folder / CONFIG, json.dumps(data, indent=1, ensure_ascii=False))
    name = name or (Path(cfg.filename).stem if cfg.filename else folder.name)
    card = model_card(name, cfg, results=results, trainings=trainings, license=license)
    write_text(folder / CARD, card)
    about = dict(
        format=FORMAT,
        version=VERSION,
        weights=dict(file=WEIGHTS, sha256=file_digest(folder / WEIGHTS)),
        files=[WEIGHTS, CONFIG, CARD, *files],
    )
    write_text(folder / ABOUT, json.dumps(about, indent=1))
    return folder


def read_saved(folder: Union[str, Path]) -> Saved:
    """Return a saved folder after checks (complete, this version, no code); builds nothing.

    Raises:
        FileNotFoundError, RuntimeError, ValueError: see ``from_pretrained``.
    """
    folder = Path(folder)
    if not (folder / ABOUT).is_file():
        there = sorted(path.name for path in folder.iterdir())[:5] if folder.is_dir() else []
        raise FileNotFoundError(
            f'{name_of(folder)} holds no retriever: {ABOUT} is missing, which save_pretrained '
            f'writes last; it has {str(there)[:80] if there else "nothing"}'
        )
    _refuse_links_outward(folder)
    about = _read_json(folder / ABOUT)
    _check_about(about, folder / ABOUT)
    path = folder / CONFIG
    try:
        config = from_data(_read_json(path), folder, name=name_of(path))
    except RecursionError as error:
        raise ValueError(f'{name_of(path)} is damaged: too many brackets') from error
    weights = folder / WEIGHTS
    if not weights.is_file():
        raise FileNotFoundError(f'{name_of(weights)} is missing: fetch or save the folder again')
    if file_digest(weights) != about['weights']['sha256']:
        raise UserError(
            f'{name_of(weights)} is damaged, or of another model: its SHA-256 is not the one that '
            f'{ABOUT} was written with; fetch or save the folder again'
        )
    return Saved(config, weights, [*about['files'], ABOUT])


def _refuse_links_outward(folder: Path) -> None:
    """Raise for links that leave the folder, except into the blobs of the hub's cache.

    In a cache of the hub a folder is ``snapshots/REVISION``, whose files are links into ``blobs``.
    """
    home = folder.resolve()
    homes = [home, *([home.parents[1] / 'blobs'] if home.parent.name == 'snapshots' else [])]
    names = (ABOUT, CONFIG, WEIGHTS, CARD, FILES)
    for path in [*(folder / name for name in names), *folder.glob(f'{FILES}/*')]:
        target = path.resolve()
        if not any(target.is_relative_to(place) for place in homes):
            raise ValueError(
                f'{name_of(path)} is a link to a file outside of the folder ({name_of(target)}): '
                'copy that file in its place, if it is meant'
            )


def _check_about(about: Any, path: Path) -> None:
    """Raise unless the description has this format and is complete."""
    has_format = isinstance(about, dict) and isinstance(about.get('format'), int)
    if not has_format:
        raise ValueError(
            f"{name_of(path)}: expected an object with 'format', found {str(about)[:80]}"
        )
    if about['format'] != FORMAT:
        raise UserError(
            f'{name_of(path)} was written by mmvtr {str(about.get("version"))[:20]} in format '
            f'{about["format"]}; this is mmvtr {VERSION}, which reads format {FORMAT}: install '
            'that version, or save the folder again with this one'
        )
    weights, files = about.get('weights'), about.get('files')
    has_digest = isinstance(weights, dict) and isinstance(weights.get('sha256'), str)
    if not has_digest or not isinstance(files, list) or not all(isinstance(x, str) for x in files):
        raise ValueError(
            f"{name_of(path)}: expected 'weights' with a 'sha256' and a list 'files', found "
            f'{str(about)[:80]}'
        )
    standard = (WEIGHTS, CONFIG, CARD)
    strange = [
        x for x in files if x not in standard and not re.fullmatch(rf'{FILES}/[a-zA-Z0-9_.-]+', x)
    ]
    if strange:
        raise ValueError(
            f'{name_of(path)}: expected {", ".join(standard)} and texts in {FILES}/, found '
            f'{strange[0][:80]!r}'
        )


def _read_json(path: Path) -> Any:
    if not path.is_file():
        raise FileNotFoundError(f'{name_of(path)} is missing: fetch or save the folder again')
    return read_json(path, ())
