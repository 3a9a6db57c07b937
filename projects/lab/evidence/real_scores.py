"""Transforms and ``transform='auto'`` on real scores: raw, from a bank, and transductive.

    python projects/lab/evidence/real_scores.py DATA [--vectors FOLDER] [--sets clap clotho ...]
    python projects/lab/evidence/real_scores.py --page
    python projects/lab/evidence/real_scores.py --own TEXTS VIDEOS [BANK_TEXTS [BANK_VIDEOS]]
    python projects/lab/evidence/real_scores.py --own MATRIX.npz

What was written down before: pages/real_scores_plan.md.  DATA has the folders real_scores/ and
human_judgments/; FOLDER has MiniLM's vectors of COCO's and Clotho's other captions, which
``--encode MODEL`` makes (a folder of sentence-transformers).  ``--page`` makes the page from the
cells.  ``--own`` takes .npy files of vectors and may be given several times: rows of TEXTS and
VIDEOS are pairs, a bank is of other pairs, and without one the pairs are halved.  MATRIX has
``scores`` [N, N] and, if there is one, ``bank_t2v`` [K, N] and ``bank_v2t`` [N, K].  Its figures
are printed, and written only with ``--out``.  Sets that are not asked for stay as they are.

Ten minutes on one core.  Writes cells/real_scores.json and pages/real_scores.md.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any, Callable, Iterator, Optional, Sequence

import numpy as np
import torch
from judging import real_page, real_sets
from judging.drawn import EVEN, ODD, WHOLE, draws, gain, measured
from judging.real_drift import drift
from judging.real_graded import calibration
from judging.real_sets import Case
from judging.real_transforms import RAW, SHOWN, SOURCES, Setting, auto, settings_for, transformed
from judging.transforms import score_gap
from judging.words import KINDS
from torch import Tensor

from mmvtr.functional import k_occurrence, skewness
from mmvtr.storage import write_atomically

HERE = Path(__file__).resolve().parent


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add('data', type=Path, nargs='?', metavar='DATA', help='folder of the sets')
    add('--vectors', type=Path, metavar='FOLDER', help='further vectors of MiniLM')
    add('--encode', metavar='MODEL', help='make these with this model, and end')
    add('--sets', nargs='+', choices=SETS, default=list(SETS))
    add('--own', nargs='+', action='append', type=Path, default=[], metavar='FILE')
    add('--out', type=Path, help='folder of cells/ and pages/ (default: this project, of DATA)')
    add('--page', action='store_true', help='the page from the cells')
    args = parser.parse_args()
    if not args.own and args.data is None and not args.page:
        parser.error('name DATA, or arrays of your own with --own')
    return args


def main() -> None:
    args = parse_args()
    if args.encode:
        encode(args.data, args.vectors, args.encode)
        return
    out = args.out or (None if args.own else HERE)
    path = None if out is None else out / 'cells/real_scores.json'
    found = json.loads(path.read_text()) if path and path.exists() else {}
    for name, cells in () if args.page else cells_of(args):
        if isinstance(cells, dict) and 'sets' in cells:
            found.setdefault('sets', {}).update(cells['sets'])
        else:
            found[name] = cells
        if path:
            save(path, json_of(found))
    if path:
        page = out / 'pages/real_scores.md'
        save(page, real_page.page(found))
        print(page)
    else:
        print(real_page.own_page(found))


def save(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, lambda file: file.write(text.encode()))


def cells_of(args: argparse.Namespace) -> Iterator[tuple[str, Any]]:
    """Of what is asked for, by name, as they are made."""
    start = time.process_time()
    if args.own:
        named = ((f'own {n}, {paths[0].stem}', paths) for n, paths in enumerate(args.own, 1))
        cases = (case for name, paths in named for case in real_sets.own_arrays(name, paths))
    else:
        cases = (case for name in args.sets if SETS[name] for case in SETS[name](args))
    for case in cases:
        yield case.name, dict(sets={case.name: figures(case)})
        print(f'{case.name}: {time.process_time() - start:.0f} s of CPU time', flush=True)
    if not args.own and 'drift' in args.sets:
        yield 'drift', drift(args.data / 'real_scores')
    if not args.own and 'cbvs' in args.sets:
        yield 'calibration', calibration(args.data / 'real_scores/cbvs')


def _minilm(args: argparse.Namespace) -> Path:
    return args.data / 'real_scores/minilm'


def _tau(args: argparse.Namespace) -> Iterator[Case]:
    paths = {x: _minilm(args) / f'clotho_{x}.npy' for x in ('evaluation', 'validation')}
    if args.vectors:
        paths['development'] = args.vectors / 'clotho_development.npy'
    return real_sets.tau(args.data / 'real_scores/tau_audio', paths)


def _cxc_minilm(args: argparse.Namespace) -> Iterator[Case]:
    if not args.vectors:
        return iter(())
    judged = args.data / 'human_judgments'
    vectors = args.vectors / 'coco_test_captions.npy'
    maker = real_sets.CocoVectors(judged / 'coco', vectors)
    return real_sets.cxc(judged, 'CxC MiniLM', 'MiniLM', maker)


#: From the arguments to the cases, by name; None = figures of another kind.
SETS: dict[str, Optional[Callable[[argparse.Namespace], Iterator[Case]]]] = dict(
    clap=lambda args: real_sets.clap(args.data / 'real_scores'),
    clotho=lambda args: real_sets.clotho(_minilm(args)),
    flickr8k=lambda args: real_sets.flickr8k_minilm(
        _minilm(args), args.data / 'human_judgments/flickr8k/CrowdFlowerAnnotations.txt'
    ),
    flickr8k_tfidf=lambda args: real_sets.flickr8k_tfidf(args.data / 'human_judgments/flickr8k'),
    cxc=_cxc_minilm,
    cxc_tfidf=lambda args: real_sets.cxc(
        args.data / 'human_judgments', 'CxC TF-IDF', 'TF-IDF', KINDS['tfidf']
    ),
    tau=_tau,
    drift=None,
    cbvs=None,
)


def figures(case: Case) -> dict[str, Any]:
    """All figures of a set in a direction."""
    drawn = draws(case.parts)
    raw = measured([part.scores for part in case.parts], case.parts, drawn)
    found: dict[str, Any] = dict(kind=case.kind, **facts(case))
    found['raw'] = {key: round(float(x[WHOLE]), 2) for key, x in raw.items()}
    for source in SOURCES:
        values = {}
        for one in settings_for(case.parts[0]):
            scores = [transformed(one, part, source) for part in case.parts]
            if all(x is not None for x in scores):
                some = drawn if one in SHOWN or one == RAW else drawn.fixed()
                values[one] = measured(scores, case.parts, some)
        if len(values) > 1:
            best = best_of(values)
            scores = [transformed(best, part, source) for part in case.parts]
            values[best] = measured(scores, case.parts, drawn)
            found[source] = about(values, raw, best)
    for name, pairs in (('auto', True), ('auto_texts', False)):
        made = [auto(part, pairs=pairs) for part in case.parts]
        if all(x is not None for x in made):
            own = measured([x.scores for x in made], case.parts, drawn)
            names = [x.transform and f'{x.transform} {x.options["score_gap"]:g}' for x in made]
            found[name] = dict(
                gains={key: gain(own[key], raw[key]) for key in raw},
                chosen={str(x): names.count(x) for x in dict.fromkeys(names)},
            )
    return found


def facts(case: Case) -> dict[str, Any]:
    """Of the scores as they are."""
    scores = [part.scores for part in case.parts]
    skews = [float(skewness(k_occurrence(x, k=10))) for x in scores]
    return dict(
        queries=len({int(q) for part in case.parts for q in part.queries}),
        gallery=round(float(np.mean([x.shape[1] for x in scores]))),
        score_gap=round(float(np.mean([score_gap(x) for x in scores])), 4),
        hubs=round(float(np.mean(skews)), 2),
    )


def best_of(values: dict, draw: int = WHOLE) -> Setting:
    """The setting, or raw, with the most R@1 (nDCG where people graded) of some queries."""
    main = 'nDCG' if 'nDCG' in values[RAW] else 'R1'
    return max(values, key=lambda x: float(values[x][main][draw]))


def about(values: dict, raw: dict[str, Tensor], best: Setting) -> dict[str, Any]:
    """Gains of all settings, and what choosing by one half of the queries gains on the other."""
    main = 'nDCG' if 'nDCG' in raw else 'R1'
    honest = []
    for chosen, asked in ((EVEN, ODD), (ODD, EVEN)):
        one = best_of(values, chosen)
        honest.append(float(values[one][main][asked] - raw[main][asked]))
    return dict(
        gains={
            str(one): {
                key: gain(x, raw[key])
                if one in SHOWN or one == best
                else round(float(x[WHOLE] - raw[key][WHOLE]), 2)
                for key, x in own.items()
            }
            for one, own in values.items()
            if one != RAW
        },
        best=str(best),
        honest=round(float(np.mean(honest)), 2),
    )


def json_of(found: dict[str, Any]) -> str:
    """With a line a setting."""
    text = json.dumps(found, indent=1)
    lines, held = [], ''
    for line in text.splitlines():
        stripped = line.strip()
        if held or stripped.endswith('['):
            held += stripped if held else line
            held += ' ' if stripped.endswith(',') else ''
            if stripped.startswith(']'):
                lines.append(held)
                held = ''
        else:
            lines.append(line)
    return '\n'.join(lines) + '\n'


def encode(data: Path, folder: Path, model: str) -> None:
    """Vectors of COCO's test captions and of Clotho's development captions, float16."""
    import csv

    from sentence_transformers import SentenceTransformer

    coco = data / 'human_judgments/coco/testall_caps.txt'
    clotho = data / 'real_scores/tau_audio/development_text.csv'
    texts = dict(
        coco_test_captions=coco.read_text(encoding='utf-8').splitlines(),
        clotho_development=[x['text'] for x in csv.DictReader(clotho.open(encoding='utf-8'))],
    )
    reader = SentenceTransformer(model, device='cpu')
    folder.mkdir(parents=True, exist_ok=True)
    for name, captions in texts.items():
        vectors: Sequence = reader.encode(captions, normalize_embeddings=True)
        np.save(folder / f'{name}.npy', np.asarray(vectors, dtype=np.float16))


if __name__ == '__main__':
    torch.set_num_threads(1)
    main()
