"""What the pages of the papers promise: every command, and the columns of every table.

A command is a line of a ``bash`` block, or a piece of code in a sentence or a row: ``train`` and
names of configs, ``study NAME``, ``figure NAME``, or a command in full.  A piece of a command
(``--cfg-options a=b``) stands in :data:`WHOLE` with the commands that it is a piece of.
"""

from __future__ import annotations

import re
import shlex
from fnmatch import fnmatch
from itertools import product
from typing import Iterator, NamedTuple

from children import ROOT, config_path
from mmvtr.studies.reading import Study

PAPERS = ('dvtr', 'ncl', 'uatvr', 'arl', 'causal')
#: Names options of other people's codes, none of ours.
VALUES = ROOT / 'docs/reproduce/values.md'
#: Name of a page -> its text.
PAGES = {
    path.relative_to(ROOT / 'docs').with_suffix('').as_posix(): path.read_text()
    for path in (
        ROOT / 'docs/papers.md',
        *sorted(set((ROOT / 'docs/reproduce').glob('*.md')) - {VALUES}),
        *(ROOT / f'docs/{name}.md' for name in PAPERS),
    )
}
#: Config of a section of papers.md that its figures are drawn of, and the one it is compared with.
DRAWN = {
    'DVTR': ('dvtr_c2v_planted_features', 'c2v_planted_features'),
    'NCL': ('ncl_clip4clip_msvd', 'clip4clip_msvd'),
    'UATVR': ('uatvr_planted_features', 'clip4clip_planted_features'),
    'ARL': ('arl_planted_features', None),
    'Frame length (causal intervention)': ('causal_hgr_epic', 'hgr_epic'),
}

#: By section or page, the config that a sentence about a training is of.
MAIN = {
    **dict.fromkeys(('papers', 'index', 'NCL', 'ncl'), 'ncl_clip4clip_activitynet'),
    **dict.fromkeys(('DVTR', 'dvtr'), 'dvtr_c2v_msrvtt'),
    **dict.fromkeys(('UATVR', 'uatvr'), 'uatvr_vitb16_msrvtt'),
    **dict.fromkeys(('ARL', 'arl'), 'arl_tvr_i3d_paper'),
    **dict.fromkeys(('Frame length (causal intervention)', 'causal'), 'causal_hgr_epic'),
}

#: Tools of the laboratory that pages promise as those in ``tools/``.
LAB, LAB_TOOLS = 'projects/lab/', ('cost', 'figures', 'preflight', 'token_attention')


#: A config's file, and its name.
CONFIG = re.compile(r'configs/(?:\w+/)?(\w+)\.py')


class Command(NamedTuple):
    """A command that a page promises.

    Attributes:
        page: where it stands.
        place: section and row of papers.md, ``'DVTR, Tab. III'``; else the page.
        words: of the command line, the program first.
    """

    page: str
    place: str
    words: tuple[str, ...]

    @property
    def line(self) -> str:
        return shlex.join(self.words)

    @property
    def tool(self) -> str:
        """``'analysis_tools/draw.py'``; '' where it runs none of the tools."""
        starts = ('tools/', *(f'{LAB}{name}.py' for name in LAB_TOOLS))
        found = [word for word in self.words[:3] if word.startswith(starts)]
        return found[0].removeprefix('tools/').removeprefix(LAB) if found else ''

    @property
    def configs(self) -> list[str]:
        """Names of the configs that it is given."""
        return [found[1] for found in map(CONFIG.fullmatch, self.words) if found]


#: What no test runs, and why: patterns of command lines.
NOT_RUN = {
    r'(git|pip|wget|tar|unzip|mkdir|cd|find) ': 'fetches and places what is not here',
    r'python (tools|projects/lab)/[\w/]+\.py$': 'a tool that is named: nothing to work on',
    r'python tools/train\.py NAME$': 'what `train` stands for',
    r'python tools/study\.py NAME$': 'what `study` stands for',
    r'python projects/lab/figures\.py CONFIG .*NAME$': 'what `figure` stands for',
    r'(OMP_NUM_THREADS=1 )?python projects/lab/(?!cost\.|figures|preflight)': 'a study, too',
    r'.* --amp fp16$': 'needs a GPU',
    r'.*records\.half\.type=Halves': 'three in a row, which test_halves.py runs',
    r'python tools/model_converters/convert\.py uatvr$': 'weights that nobody has published',
}
_OPTION = '--cfg-options'


def _with(options: str, *names: str) -> list[str]:
    return [f'python tools/train.py {config_path(name)} {_OPTION} {options}' for name in names]


_GALLERY = 'mmvtr export_index CONFIG CHECKPOINT --out DIR --transform'
_EVAL = 'python tools/analysis_tools/eval_scores.py scores.npy'
#: A piece of a command -> the commands that it is a piece of.
WHOLE = {
    **{
        f'--amp {kind}': [f'python tools/train.py CONFIG --amp {kind}'] for kind in ('bf16', 'fp16')
    },
    '--resume': ['python tools/train.py CONFIG --resume'],
    '--best-on-test': ['python tools/train.py CONFIG --best-on-test'],
    f'{_OPTION} model.supervision.negatives_below=0.4': _with(
        'model.supervision.negatives_below=0.4', 'hgr_epic_ranp', 'hgr_msrvtt_ranp'
    )
    + _with('model.member.supervision.negatives_below=0.4', 'causal_hgr_epic_ranp'),
    f'{_OPTION} model.teacher.type=EarlyTeacher': _with(
        'model.teacher.type=EarlyTeacher', 'dvtr_hit_msvd'
    ),
    f'{_OPTION} model.supervision.floor=0.4': _with(
        'model.supervision.floor=0.4', 'dvtr_c2v_msrvtt', 'dvtr_hit_msvd'
    ),
    f'{_OPTION} model.objectives.dua.normalise=False model.objectives.dua.temperature=1': _with(
        'model.objectives.dua.normalise=False model.objectives.dua.temperature=1',
        'uatvr_vitb16_msrvtt',
    ),
    f'{_OPTION} custom_hooks.0.size=4096': _with('custom_hooks.0.size=4096', 'ncl_c2v_msrvtt'),
    f'{_OPTION} model.losses.triplet.negatives=hardest': _with(
        'model.losses.triplet.negatives=hardest', 'ssb_msvd'
    ),
    f'{_OPTION} model.similarity.weights=None model.heads.type=GaussianHead': _with(
        'model.similarity.weights=None model.heads.type=GaussianHead', 'uatvr_vitb16_msrvtt'
    ),
    f'{_OPTION} parts=3': _with('parts=3', 'causal_hgr_epic', 'causal_mmt_msrvtt'),
    'model.encoder.frames.pretrained=ViT-B-16.pt model.encoder.text.pretrained=ViT-B-16.pt': _with(
        'model.encoder.frames.pretrained=ViT-B-16.pt model.encoder.text.pretrained=ViT-B-16.pt',
        'uatvr_vitb16_msrvtt',
    ),
    'model.supervision.{rule=mean,cap=None,u_spread=0.0}': _with(
        ' '.join(f'model.supervision.{x}' for x in ('rule=mean', 'cap=None', 'u_spread=0.0')),
        'arl_tvr_i3d',
    ),
    f'{_OPTION} default_hooks.checkpoint.save_best=relevance/avg_nDCG': [
        f'python tools/train.py {config_path(name)} --best-on-test '
        f'{_OPTION} default_hooks.checkpoint.save_best=relevance/avg_nDCG'
        for name in ('mmt_msrvtt', 'causal_mmt_msrvtt', 'taco_youcook2', 'causal_taco_youcook2')
    ],
    'supervision.frame_negatives=hardest': _with(
        'model.supervision.frame_negatives=hardest', 'arl_tvr_i3d'
    ),
    'train_dataloader.dataset.records.environments.opposite=True': _with(
        'train_dataloader.dataset.records.environments.opposite=True', 'hgr_epic_rmv_one'
    ),
    'length_bias.py --equal-shares': [
        f'python tools/analysis_tools/length_bias.py configs/hgr_{name}.py --out DIR --equal-shares'
        for name in ('youcook2', 'msrvtt')
    ],
    'length_bias.py --action 0 54': [
        'python tools/analysis_tools/length_bias.py configs/hgr_epic.py --out DIR --action 0 54'
    ],
    'eval_scores.py --plot': [f'{_EVAL} --plot FILE.png'],
    '--query-source test': [f'{_EVAL} --transform sinkhorn --query-source test'],
    'mmvtr export_index CONFIG CHECKPOINT --out DIR --transform sinkhorn': [f'{_GALLERY} sinkhorn'],
    '--bank FILE': [f'{_GALLERY} sinkhorn --bank FILE.bank'],
    '--transform unbalanced_sinkhorn': [f'{_GALLERY} unbalanced_sinkhorn'],
    'mmvtr search DIR "text"': ['mmvtr search DIR "text"'],
    'mmvtr search DIR --add new.mp4': ['mmvtr search DIR --add new.mp4'],
    'tools/model_converters/convert.py uatvr': ['python tools/model_converters/convert.py uatvr'],
    'expert_pickles.py videos': [
        'python tools/dataset_converters/expert_pickles.py videos out.h5 s3d.pickle'
    ],
}
CODE = re.compile(r'^```([^\n]*)\n(.*?)^```|``(.+?)``|`([^`]+)`', flags=re.DOTALL | re.MULTILINE)
#: A piece of code that is a command or a piece of one: it must be understood.
LIKE_A_COMMAND = re.compile(
    r'(python|bash|mmvtr|train|test|study|figure|git|pip|OMP_NUM_THREADS=1) |.*(^|\s)--[a-z]|'
    r'\S+\.(py|sh) |model\.[\w.]+=|model\.[\w.]+\{|train_dataloader\.[\w.]+=|supervision\.[\w.]+='
)
_NAMES = re.compile(r'[\w{},*]+\.py')


def commands() -> list[Command]:
    """All commands of all pages, each once a place."""
    found = [command for page in PAGES for command in commands_of(page, PAGES[page])]
    return list(dict.fromkeys(found))


def commands_of(page: str, text: str) -> Iterator[Command]:
    """Of a page.

    Raises:
        ValueError: a piece of code that looks like a command and cannot be read.
    """
    for place, part in _places(page, text):
        yield from _Reader(page, place).read(part)


def _places(page: str, text: str) -> Iterator[tuple[str, str]]:
    """Section and row of papers.md, or the page as a whole."""
    if page != 'papers':
        yield page, text
        return
    for section in re.split(r'^## ', text, flags=re.MULTILINE):
        title = section.partition('\n')[0]
        rest = []
        for line in section.splitlines(keepends=True):
            if line.startswith('| ') and ' | ' in line:
                yield f'{title}, {line.strip("| ").partition(" |")[0]}', line
            else:
                rest.append(line)
        yield title if title in DRAWN else page, ''.join(rest)


class _Reader:
    """Reads one place: what a name of a config means depends on the words before it."""

    def __init__(self, page: str, place: str) -> None:
        self.page, self.place = page, place
        self.verb = ''

    def read(self, text: str) -> Iterator[Command]:
        end = 0
        for code in CODE.finditer(text):
            between = text[end : code.start()]
            end = code.end()
            if re.search(r'\n(- |\n)', between):
                self.verb = ''
            said = re.findall(r'\b(train|test)(?= $|\s+`?$|, |: )', between)
            self.verb = said[-1] if said else self.verb
            if code[2] is not None:
                if code[1] == 'bash':
                    yield from self.block(code[2])
                continue
            piece = ' '.join((code[3] or code[4]).split())
            yield from self.piece(piece, text[end:])

    def block(self, content: str) -> Iterator[Command]:
        for line in content.replace('\\\n', ' ').splitlines():
            line = line.replace('["a triangle" ...]', '"a triangle"')
            words = shlex.split(line, comments=True)
            while words:
                cut = words.index('&&') if '&&' in words else len(words)
                yield self.command(words[:cut])
                words = words[cut + 1 :]

    def piece(self, piece: str, after: str) -> Iterator[Command]:
        if piece in WHOLE:
            for line in WHOLE[piece]:
                yield self.command(shlex.split(line))
        elif piece.startswith('study '):
            yield self.command(['python', 'tools/study.py', *piece.split()[1:]])
        elif piece.startswith('figure '):
            yield from self.figure(piece, after)
        elif re.match(r'((OMP_NUM_THREADS=1 )?(python|bash) (tools|projects)/|mmvtr )', piece):
            yield self.command(shlex.split(piece))
        elif self.page == 'papers' and self.verb and _NAMES.fullmatch(piece) and '*' not in piece:
            for name in expand(piece.removesuffix('.py')):
                yield self.on(name)
        elif LIKE_A_COMMAND.match(piece) and piece not in ABOUT:
            raise ValueError(f'{self.place}: neither a command nor a piece of one: {piece!r}')

    def on(self, name: str) -> Command:
        return self.command(['python', f'tools/{self.verb}.py', config_path(name)])

    def figure(self, piece: str, after: str) -> Iterator[Command]:
        _, name, *more = piece.split()
        place = self.place.partition(', ')[0]
        config, other = DRAWN.get(place) or DRAWN[place.upper()]  # a section, or a page
        if re.match(r' with (`as-built`|the checkpoint of each)', after):
            built = after.startswith(' with `as-built`')
            weights = ['as-built', '--random-weights'] if built else ['epoch_1.pth', 'epoch_2.pth']
        else:
            weights = [f'{config}.pth']
        line = ['python', 'projects/lab/figures.py', config_path(config), *weights]
        line += ['--out', 'DIR', '--figure', name, *more]
        if more and more[-1] == '--against':
            line += [config_path(other), f'{other}.pth']
        if 'as-built' in more:
            line.append('--random-weights')
        yield self.command(line)

    def command(self, words: list[str]) -> Command:
        """With the page's own config in place of CONFIG, where a model is trained."""
        if words[0] == 'mmvtr':  # a command of the gallery
            words = ['python', f'tools/{words[1]}.py', *words[2:]]
        if words[1] == 'tools/train.py' and 'CONFIG' in words:
            name = MAIN[self.place.partition(', ')[0].removeprefix('reproduce/')]
            words = [config_path(name) if word == 'CONFIG' else word for word in words]
        return Command(self.page, self.place, tuple(words))


#: Pieces that look like commands and are the page's own words for them, or code.
ABOUT = {
    '--against [CONFIG] CHECKPOINT',
    '--method tsne',
    'projects/lab/rehearse.py CONFIG --cfg-options',
    'pip install scikit-learn',
}


def expand(name: str) -> list[str]:
    """``'{a,b}_c'`` -> ``['a_c', 'b_c']``."""
    parts = [part.split(',') for part in re.split(r'[{}]', name)]
    return [''.join(choice) for choice in product(*parts)]


def reason_not_run(command: Command) -> str:
    """Why no test runs it; '' where one does."""
    return next((why for what, why in NOT_RUN.items() if re.match(what, command.line)), '')


# -- the columns of tables -------------------------------------------------------------------------


class Columns(NamedTuple):
    """What a section of papers.md says of its tables.

    Attributes:
        of_table: ``'III'`` -> keys of the results.
        prefixes: pattern of a config's name -> what stands before all its keys.
    """

    of_table: dict[str, list[str]]
    prefixes: dict[str, str]

    def of(self, table: str, config: str) -> list[str]:
        """Keys of a config's row; none where the page says none of the table."""
        return [f'{self.prefix(config)}{key}' for key in self.of_table.get(table, ())]

    def prefix(self, config: str) -> str:
        return next((there for what, there in self.prefixes.items() if fnmatch(config, what)), '')


def columns(section: str) -> Columns:
    """Of a section of papers.md.

    Raises:
        ValueError: it says none.
    """
    text = PAGES['papers'].partition(f'\n## {section}\n')[2].partition('\n## ')[0]
    found = re.search(r'\*\*Columns\*\*,(.*?)(?=\n\n|\n- |\Z)', text, flags=re.DOTALL)
    if found is None:
        raise ValueError(f'papers.md: {section} says no columns')
    said = ' '.join(found[1].split())
    of_table = {
        table: [key for piece in re.findall(r'`([^`]+)`', keys) for key in expand(piece)]
        for tables, keys in re.findall(r'Tab\. ([\w, ]+): (`[^`]+`(?:, `[^`]+`)*)', said)
        for table in tables.split(', ')
    }
    return Columns(of_table, dict(re.findall(r'`([\w*+]+)` with the prefix `(\w+/)`', said)))


def table_of(command: Command) -> tuple[str, str]:
    """Section and number of the table in whose row a command stands; '' and '' elsewhere."""
    section, _, row = command.place.partition(', Tab. ')
    return (section, row) if row else ('', '')


# -- what the papers print -------------------------------------------------------------------------

_RECALLS, _RANKS = 'R@1 R@5 R@10', 'R@1 R@5 R@10 MdR MnR'
#: By section, headings of the printed tables: to the left text to video where there are two.
HEADINGS = {
    'DVTR': {
        'III IV V VII': f'{_RECALLS} MdR {_RECALLS} MdR rsum',
        'VI': 'R@1 R@5 R@50 MdR R@1 R@5 R@50 MdR',  # and their sum
        'VIII IX X': f'{_RECALLS} MdR',
        'XI': 'gmean',
        'XII XIII': 'rsum',
    },
    'NCL': {
        '1': f'R@1 R@5 R@50 MdR MnR {_RANKS}',
        '2 3 4 5': f'{_RANKS} {_RANKS}',
    },
    'UATVR': {'1 3 4 5 7 8 9': _RANKS, '6': f'{_RANKS} {_RANKS}'},
    'ARL': {'1 2 5 6': 'R@1 R@5 R@10 R@100 SumR'},
    'Frame length (causal intervention)': {
        '1': 'nDCG nDCG nDCG mAP mAP mAP',
        '2 6': 'nDCG mAP',
        '3 9': f'{_RANKS} nDCG nDCG nDCG',  # and the sum of the recalls
        '4 epic': 'nDCG mAP',
        '4 youcook2 4 msrvtt': 'nDCG R@10 MnR',
        '7 10': 'nDCG',
    },
}
#: How studies call the papers of the sections.
SECTIONS = {'frame length': 'Frame length (causal intervention)'}


def heading(key: str) -> str:
    """'retrieval/t2v_R10' -> 'R@10'."""
    name = key.rpartition('/')[2].rpartition('_')[2]
    return re.sub(r'^R(\d+)$', r'R@\1', name)


def headings(section: str, table: str) -> str:
    """Of a printed table; of one that is on several sets, ``'4 epic'``."""
    known = {
        name: said
        for names, said in HEADINGS[section].items()
        for name in re.findall(r'\w+(?: (?=[a-z])\w+)?', names)
    }
    return known[table]


def table_of_study(study: Study) -> tuple[str, str]:
    """Section and number of the table that a study makes, as :func:`headings` knows it; the number
    is '' of a figure's."""
    section = SECTIONS.get(study.paper, study.paper)
    if not study.table.startswith('Tab. '):
        return section, ''
    table = study.table.removeprefix('Tab. ')
    own = f'{table} {study.name.rpartition("_")[2]}'  # a part of the columns is of this set
    known = ' '.join(HEADINGS[section])
    return section, own if own in known else table
