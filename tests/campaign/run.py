"""The campaign as one command, and the page that it makes.

    python tests/campaign/run.py [--kills 100] [--mutations 10000] ... [--out DIR] [--page FILE]

A part with a count is run and its result kept as ``DIR/PART.json``; parts without one keep the
result that is there.  ``--all`` gives every part the count of a whole campaign.  Exit status 1
where anything was lost, accepted silently or told badly.  The normal suite runs a small share of
each part.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

TESTS = Path(__file__).resolve().parents[1]
ROOT = TESTS.parent
# As pytest has it, whose needs include tomli where Python has no tomllib.
_toml = importlib.import_module('tomllib' if sys.version_info >= (3, 11) else 'tomli')
_settings = _toml.loads((ROOT / 'pyproject.toml').read_text(encoding='utf-8'))
sys.path[:0] = [str(ROOT / x) for x in _settings['tool']['pytest']['ini_options']['pythonpath']]

from campaign.trial import BAD, GOOD, Trial, count  # noqa: E402


class Part(NamedTuple):
    """A part of the campaign: how many trials are a whole one, and what it does in words."""

    whole: int
    what: str


#: By the module of this package whose ``run(count, seed, folder) -> list[Trial]`` does it.
PARTS = {
    'kills': Part(
        100,
        'A training is killed (SIGKILL) at a random moment, while its folder changes or while it '
        'validates, and resumed until it ends. After each kill every checkpoint is a whole '
        'archive; at the end last and best checkpoint, table and files are those of a run that '
        'nobody touched, bit for bit.',
    ),
    'starts': Part(
        20,
        'Two trainings in one folder, at once or a `--resume` beside a living run. One runs to its '
        'end, the other is refused with a sentence, nothing is lost.',
    ),
    'writes': Part(
        150,
        'A process that writes a file over and over is killed. Under its name is one of the '
        'contents that were written, whole.',
    ),
    'stores': Part(
        60,
        'A gallery is replaced and the process killed before any change of its folder: there is '
        'the old one or the new one. A command deletes and adds, and adding fails: all is as it '
        'was.',
    ),
    'joint': Part(
        120,
        'A refit of videos and their windows, or the undo of one, is killed before any change of a '
        'file. Both have the biases of before, or both the new ones, computed by numpy; so it is '
        'when they are opened for writing, and an undo takes the last refit of both back.',
    ),
    'flips': Part(
        300,
        'One bit of a checkpoint is flipped, anywhere, or one digit of its digest is another. The '
        'file is refused, or what is read is equal bit for bit.',
    ),
    'weights': Part(
        210,
        'Weights with keys lost, renamed, added or reshaped, as a checkpoint, a file of open_clip '
        'and a folder of transformers. Refused by name; whole ones are loaded bit for bit.',
    ),
    'pickles': Part(
        120,
        'A pickle that would run a command, wherever a file is read. It does not run, and the file '
        'is refused in words.',
    ),
    'mutations': Part(
        10_000,
        'Annotation files with bytes, text or values changed. Refused with the name of the file, '
        'or what is read is what a second reading of the same files finds, which uses the '
        'standard library alone: the same videos and texts in the same order, with their ids, '
        'words, times, classes and features.',
    ),
    'folders': Part(
        300,
        'Folders of videos with links, loops, hidden files and odd names. Each file is found once.',
    ),
    'formats': Part(2_000, 'Files of scores, vectors and stored frames changed alike.'),
    'videos': Part(
        400,
        'Videos cut, damaged, unfinished, renamed, and things that are no videos. Refused by name, '
        'or decoded to the frames that PyAV alone gives, none of which its decoder calls damaged.',
    ),
    'players': Part(
        400,
        'Videos of pictures that show their own number, half of them badly made: mirrored, with '
        'false key frames, shifted tracks, edits, gaps in the clock, cut groups, no times. Read '
        'whole, in part and one frame at a time: number, orientation and time of every frame are '
        'those that a player shows, known from how the file was made.',
    ),
    'faults': Part(
        60,
        'A full disk, a folder that cannot be written, wrong keys in a config. Told in words that '
        'name the path or the key.',
    ),
}


def main(argv: list[str] | None = None) -> int:
    args = parse_args(argv)
    args.out.mkdir(parents=True, exist_ok=True)
    for name, part in PARTS.items():
        number = part.whole if args.all else getattr(args, name)
        if number:
            result = run_part(name, number, args.seed)
            (args.out / f'{name}.json').write_text(json.dumps(result, indent=1) + '\n')
            print(f'{name}: {summary(result)}', flush=True)
            for line in result['bad']:
                print(f'  {line}', flush=True)
    results = stored(args.out)
    if args.page:
        args.page.write_text(page(results))
    return int(any(result['bad'] for result in results.values()))


def parse_args(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, part in PARTS.items():
        parser.add_argument(
            f'--{name}', type=int, default=0, metavar='N', help=f'trials; a whole one: {part.whole}'
        )
    parser.add_argument('--all', action='store_true', help='a whole campaign of every part')
    parser.add_argument('--seed', type=int, default=0)
    parser.add_argument(
        '--out', type=Path, default=ROOT / 'projects/lab/evidence/cells/reliability'
    )
    parser.add_argument('--page', type=Path, help='write the table of all results here')
    return parser.parse_args(argv)


def run_part(name: str, number: int, seed: int) -> dict[str, Any]:
    """The result of a part, as it is stored."""
    module = importlib.import_module(f'campaign.{name}')
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix=f'campaign_{name}') as folder:
        trials = module.run(number, seed, Path(folder))
    return dict(
        part=name,
        seed=seed,
        minutes=round((time.monotonic() - start) / 60, 1),
        table=count(trials),
        bad=[shown(trial) for trial in trials if trial.verdict in BAD],
    )


def shown(trial: Trial) -> str:
    return f'{trial.row}, {trial.verdict}: {trial.detail}'


def stored(folder: Path) -> dict[str, dict[str, Any]]:
    """The results that there are, in the order of the parts."""
    paths = {name: folder / f'{name}.json' for name in PARTS}
    return {name: json.loads(p.read_text()) for name, p in paths.items() if p.exists()}


def total(result: dict[str, Any]) -> dict[str, int]:
    """Over all rows."""
    return {
        verdict: sum(row[verdict] for row in result['table'].values()) for verdict in GOOD + BAD
    }


def summary(result: dict[str, Any]) -> str:
    counts = total(result)
    told = ', '.join(f'{number} {verdict}' for verdict, number in counts.items() if number)
    return f'{sum(counts.values())} trials in {result["minutes"]} min: {told}'


HEAD = """# Reliability

What happens to a run, a file or a config when something goes wrong.
`python tests/campaign/run.py --all --page projects/lab/evidence/pages/reliability.md` makes it;
each trial is a function of the seed, and the normal suite runs a small share of every part. A
nightly test plants faults in a copy of the code, one at a time, and each one must show here.

*right*: there was nothing to refuse, and the result is that of a reference which shares no code
with what is tested: an uninterrupted run, a second reading of the files, or pictures whose content
is known from how they were made; *refused*: an error in words that names the file or key. The rest
must be zero: *lost or silent* (a result or checkpoint is gone or differs from the reference, or
nonsense was accepted), *badly told* (a traceback, an error without the name of the file, too long
an error) and *hung*.

| part | trials | right | refused | lost or silent | badly told | hung | minutes |
|---|---|---|---|---|---|---|---|
"""


def page(results: dict[str, dict[str, Any]]) -> str:
    """The page: a table of parts, then one of rows for each part."""
    text = HEAD
    for name, result in results.items():
        text += f'| [{name}](#{name}) | {columns(total(result))} | {result["minutes"]} |\n'
    for name, result in results.items():
        text += f'\n## {name}\n\n{PARTS[name].what} Seed {result["seed"]}.\n\n'
        text += '| | trials | right | refused | lost or silent | badly told | hung |\n'
        text += '|---|---|---|---|---|---|---|\n'
        for row, counts in sorted(result['table'].items()):
            text += f'| {row} | {columns(counts)} |\n'
    return text


def columns(counts: dict[str, int]) -> str:
    worse = (('lost', 'silent'), ('raw', 'nameless', 'long'), ('hang',))
    numbers = [sum(counts.values()), *(counts[verdict] for verdict in GOOD[::-1])]
    numbers += [sum(counts[verdict] for verdict in group) for group in worse]
    return ' | '.join(f'{number:,}' for number in numbers)


if __name__ == '__main__':
    sys.exit(main())
