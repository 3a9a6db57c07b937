"""The messages that docs/troubleshooting.md quotes are still there."""

import ast
import re

import pytest

from children import ROOT

PAGE = (ROOT / 'docs/troubleshooting.md').read_text()
MESSAGES = re.findall(r'^\| `([^`]+)` \|', PAGE, flags=re.MULTILINE)


def strings():
    """All constant strings of the package; what an f-string inserts is a gap."""
    packages = ROOT / 'mmvtr', ROOT / 'projects/gallery/mmvtr_gallery'
    for path in (path for package in packages for path in package.rglob('*.py')):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                parts = [x.value if isinstance(x, ast.Constant) else '\0' for x in node.values]
                yield ''.join(map(str, parts))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


@pytest.fixture(scope='module')
def known():
    return '\n'.join(strings())


@pytest.mark.parametrize('message', MESSAGES)
def test_the_message_exists(message, known):
    assert message in known


def test_what_is_not_there_is_found(known):
    assert len(MESSAGES) >= 10 and 'no such message exists here' not in known
