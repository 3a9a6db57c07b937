"""Who names a transform outside of their table, and why: everything else looks it up."""

import ast

from children import ROOT
from mmvtr.functional.transforms.transform_table import TRANSFORMS

#: Files whose code has the name of a transform as a string, how often, and the reason.
NAMING = {
    'mmvtr/engine/hooks/score_transforms.py': (2, 'those whose hooks have further arguments'),
    'mmvtr/engine/hooks/agreement.py': (4, 'hooks that set options by a validation set'),
    'mmvtr/arrays/choice.py': (3, "what 'auto' chooses from"),
    'mmvtr/apis/inferencer/transforms.py': (1, 'the one that reads no bank'),
    'mmvtr/sentence_transformers/evaluator.py': (1, 'a default of its own'),
    'projects/gallery/mmvtr_gallery/store/fits.py': (2, 'stores that were written before names'),
    'tools/analysis_tools/eval_scores.py': (6, 'a short heading; whose file of a bank is whose'),
}


def named(path):
    """Strings of code that are a transform's name; docstrings are none."""
    constants = (x for x in ast.walk(ast.parse(path.read_text())) if isinstance(x, ast.Constant))
    return sum(isinstance(x.value, str) and x.value in TRANSFORMS for x in constants)


def test_few_places_decide_by_the_name_of_a_transform():
    found = {}
    for folder in ('mmvtr', 'projects/gallery/mmvtr_gallery', 'tools'):
        for path in sorted((ROOT / folder).rglob('*.py')):
            name = path.relative_to(ROOT).as_posix()
            if 'tools/benchmark' in name or name.endswith(('transform_table.py', '__init__.py')):
                continue
            exported = 'functional/' in name
            if not exported and (count := named(path)):  # __all__ of the functions themselves
                found[name] = count
    most = {name: count for name, (count, _) in NAMING.items()}
    beyond = {name: count for name, count in found.items() if count > most.get(name, 0)}
    assert not beyond, 'look it up in transform_table, or say the reason here'
    assert sorted(found) == sorted(NAMING), 'a reason that nobody needs any more'
