"""Each command of ours in a block of README or of a page is taken by its tool, with its configs.

test_promises.py reads the pages of papers further: sentences, tables, and what a command gives.
"""

from __future__ import annotations

import argparse
import re
import runpy
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from string import Template
from typing import Any, Optional

import pytest
from test_docs import PAGES

from children import ROOT, tool_file
from mmvtr.cli import Parser
from mmvtr.utils import named_config

BLOCK = re.compile(r'^```(?:ba)?sh\n(.*?)^```', flags=re.DOTALL | re.MULTILINE)
ANY_BLOCK = re.compile(r'^```\w*\n(.*?)^```', flags=re.DOTALL | re.MULTILINE)
#: How a command of ours begins a line.
STARTS = re.compile(
    r'^(?:(?:python|bash) (?:tools/|projects/lab/(?!evidence))|(?:python -m )?mmvtr ).*',
    re.MULTILINE,
)
#: What ends a command in a line, or precedes the name of a file.
ENDS = ('&&', '|', '&', ';', '>', '>>', '<', '(', ')')
#: Studies of the laboratory are run by tests of their own.
STUDIES = 'projects/lab/evidence/'


#: What tools read their command lines with.
PARSERS = (
    (Parser, 'parse_args'),
    (Parser, 'parse_one_checkpoint'),
    (argparse.ArgumentParser, 'parse_args'),
)


class Parsed(BaseException):
    """The tool has read its command line: no more is asked of it."""


def commands(text: str) -> Iterator[list[str]]:
    """Words of each command in the blocks of a page, variables of the page replaced."""
    known: dict[str, str] = {}
    for line in ''.join(BLOCK.findall(text)).replace('\\\n', ' ').splitlines():
        lexer = shlex.shlex(Template(line).safe_substitute(known), True, True, '&|;<>()')
        lexer.whitespace_split = True
        words: list[str] = []
        for word in [*lexer, ';']:
            if word not in ENDS:
                words.append(word)
                continue
            while words and (found := re.fullmatch(r'(\w+)=(.*)', words[0])):
                known[found[1]] = found[2]
                del words[0]
            if words:
                yield words
            words = []


def ours(words: list[str]) -> Optional[tuple[Path, list[str]]]:
    """The file of a tool and its arguments; None for a command that is not ours."""
    if words[0] == 'torchrun':  # --nproc_per_node N [-m] ...
        words = [word for word in words[3:] if word != '-m']
    elif words[:2] == ['python', '-m']:
        words = words[2:]
    elif words[0] in ('python', 'bash'):
        words = words[1:]
    name, rest = words[0], words[1:]
    if name == 'mmvtr':
        (file,) = [*ROOT.glob(f'tools/**/{rest[0]}.py')] or [tool_file(f'{rest[0]}.py')]
        return file, rest[1:]
    if name == 'tools/dist_train.sh':  # CONFIG PROCESSES ...
        return ROOT / 'tools/train.py', [rest[0], *rest[2:]]
    if name == 'tools/slurm_train.sh':  # PARTITION JOB CONFIG ...
        return ROOT / 'tools/train.py', rest[2:]
    if name.startswith(('tools/', 'projects/')) and not name.startswith(STUDIES):
        return ROOT / name, rest
    return None


def lacking(config: str, page: str) -> bool:
    """Whether a config is none of the project, of what the page writes, and of placeholders."""
    written = re.search(rf'^# {re.escape(config)}$|> {re.escape(config)}\b', page, re.MULTILINE)
    if written or re.fullmatch('[A-Z_/]+(.py)?', config) or (ROOT / config).is_file():
        return False
    if Path(config).name != config:
        return True
    try:
        return not named_config(config)
    except ValueError:
        return True


def parsed(file: Path, arguments: list[str]) -> argparse.Namespace:
    """What a tool reads of its command line, before it does anything.

    Raises:
        SystemExit: it does not take it.
    """

    def ended(read: Callable[..., argparse.Namespace]) -> Callable[..., None]:
        def parse(*given: Any, **more: Any) -> None:
            raise Parsed(read(*given, **more))

        return parse

    with pytest.MonkeyPatch.context() as patch, pytest.raises(Parsed) as found:
        for kind, name in PARSERS:
            patch.setattr(kind, name, ended(getattr(kind, name)))
        patch.setattr(sys, 'argv', [str(file), *arguments])
        patch.syspath_prepend(str(file.parent))  # as Python does for a script
        patch.setenv('LOCAL_RANK', '0')  # or the tool sets it for all that follow
        runpy.run_path(str(file), run_name='__main__')
    return found.value.args[0]


def refused(page: str) -> list[str]:
    """The commands of a page that are not taken, with the reason."""
    wrong = []
    for words in commands(page):
        if (tool := ours(words)) is None:
            continue
        try:
            args = parsed(*tool)
        except (SystemExit, FileNotFoundError) as error:
            wrong.append(f'{shlex.join(words)}: {error}')
            continue
        config = getattr(args, 'config', None)
        if isinstance(config, str) and lacking(config, page):
            wrong.append(f'{shlex.join(words)}: there is no {config}')
    return wrong


@pytest.mark.parametrize('page', PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_tools_take_the_commands_of_a_page(page):
    assert refused(page.read_text()) == []


def test_commands_are_found():
    """Those that begin a line of any block stand in blocks of bash, which are read here."""
    texts = {page: page.read_text() for page in PAGES}
    for page, text in texts.items():
        others = ''.join(ANY_BLOCK.findall(BLOCK.sub('', text)))
        assert not STARTS.findall(others), page
    assert sum(ours(words) is not None for x in texts.values() for words in commands(x)) > 200
    assert any(ours(words) for words in commands((ROOT / 'README.md').read_text()))


@pytest.mark.parametrize(
    'line, reason',
    [
        ('python tools/train.py configs/c2v_planted.py --fast', '2'),
        ('mmvtr train c2v_plantde', 'there is no c2v_plantde'),
        ('python tools/test.py configs/none.py', 'there is no configs/none.py'),
        ('cd a && python -m mmvtr serve --port http > log &', '2'),
        ('torchrun --nproc_per_node 8 mmvtr nothing CONFIG', 'No such file'),
        ('k="--k many"\nmmvtr search DIR "a dog" $k', '2'),
    ],
)
def test_a_command_that_is_not_taken_is_found(line, reason):
    (said,) = refused(f'```bash\n{line}\n```\n')
    assert reason in said
