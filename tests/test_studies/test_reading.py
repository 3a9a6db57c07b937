"""Files of studies: what is read of them, and what is refused."""

from pathlib import Path

import pytest

from mmvtr.engine.rows import Row, reads
from mmvtr.errors import UserError
from mmvtr.studies.reading import check_study, needed_by, read_study, rows_of_seed

SMALL = """
config = 'c.py'
metrics = {'retrieval/rsum': 'rsum', 'semantic/t2v_mAP': 't2v mAP'}
before = dict(half=dict(options={'model.temperature.init': 0.06}, seed=5, export=True))
rows = {
    'tau .05': dict(options={'model.temperature.init': 0.05}, printed=[50.0, None]),
    'whole': dict(options={'load_from': '{half}/epoch_1.pth'}),
    'mined': dict(run=['mine_negatives', '{whole}/a.npy', '--out', '{mined}/n.csv']),
    'last': dict(options={'custom_keys': ['{mined}/n.csv', '{half}/b']}),
    'both': dict(of=['tau .05', 'whole']),
    'Sinkhorn': dict(of='whole', prefix='sinkhorn_oracle/'),
}
"""


GOOD = 'CosineSimilarity'


@pytest.fixture
def study(tmp_path):
    """A function that writes a study and reads it."""
    (tmp_path / 'c.py').write_text("_base_ = ['mmvtr::_base_/../c2v_planted.py']")

    def read(old='', new='', **how):
        assert old in SMALL
        (tmp_path / 's.py').write_text(SMALL.replace(old, new) if old else SMALL)
        return read_study(tmp_path / 's.py', **how)

    return read


def test_ten_lines_need_no_paper(tmp_path):
    (tmp_path / 'mine.py').write_text(
        "config = 'c2v_planted.py'\nrows = dict(a=dict(), b=dict())\n"
    )
    study = read_study(tmp_path / 'mine.py')
    assert study.metrics == {'retrieval/rsum': 'rsum'} and study.title == 'mine'
    assert study.rows[0] == Row('a', 'c2v_planted', Path('a'))


def test_rows_read_folders_of_their_own_seed(study, tmp_path):
    rows = rows_of_seed(study(), 3, Path('w'))
    assert rows['whole'].options == {'load_from': 'w/half_3/epoch_1.pth'}
    assert rows['last'].options == {'custom_keys': ['w/mined_3/n.csv', 'w/half_3/b']}
    assert rows['mined'].run[1::2] == ('w/whole_3/a.npy', 'w/mined_3/n.csv')
    assert rows['half'].seed == 8 and rows['half'].export and rows['whole'].seed == 3
    assert rows['tau .05'].folder == Path('w/tau_.05_3')
    assert rows['half'].config == str(tmp_path / 'c.py')


def test_rows_that_others_need_come_along(study):
    found = study()
    assert [row.name for row in needed_by(found, ['last'])] == ['half', 'whole', 'mined', 'last']
    assert [row.name for row in needed_by(found, ['Sinkhorn'])] == ['half', 'whole', 'Sinkhorn']
    with pytest.raises(ValueError, match="s has no row 'wholly'.*whole"):
        needed_by(found, ['wholly'])


def test_options_and_a_config_of_all_rows(study):
    found = study(config='dvtr_c2v_planted', options={'train_cfg.max_epochs': 2})
    assert {row.config for row in found.all_rows} == {'dvtr_c2v_planted'}
    kept = [row for row in found.all_rows if not row.run and row.name != 'Sinkhorn']
    assert all(row.options['train_cfg.max_epochs'] == 2 for row in kept)
    own = study(options={'model.temperature.init': 0.9}).rows[0]
    assert own.options == {'model.temperature.init': 0.05}


@pytest.mark.parametrize(
    ('old', 'new', 'message'),
    [
        ('metrics =', 'metric =', "unknown key 'metric'; did you mean metrics?"),
        ('before =', '_mine = 3\nbefore =', None),  # the file's own
        ("config = 'c.py'", '', r'before.half: dict\(config='),
        ('options={', 'option={', "before.half: unknown key 'option'; did you mean options?"),
        ("of='whole'", "of='hole'", "Sinkhorn: of='hole': no row before it has that name"),
        ("'both'", "'tau__05'", None),
        ("'both'", "'tau_.05'", 'a second row by that name'),
        ("of=['tau .05', 'whole']", "of=['tau .05', 'mined']", "'mined': that row trains nothing"),
        ('[50.0, None]', '[50.0]', 'one printed number per metric expected, 2 in all, got 1'),
        ('{whole}/a', '{last}/a', 'mined: no row before it has the name of {last}'),
        ("'load_from': '{half}", "'load_from': '{whole}", 'no row before it has the name of {wh'),
        ('seed=5', "seed='5'", "before.half.seed: int expected, got '5'"),
        ('seed=5', "folder='x'", "unknown key 'folder'"),
        ('run=[', "config='c.py', run=[", r'mined: dict\(config='),
        ("run=['mine_negatives'", 'run=[3', 'mined.run: words expected'),
        ('rows = {', 'rows = [{', r'rows: dicts by name expected, got \[\{'),
    ],
)
def test_what_is_refused(study, old, new, message):
    if 'rows = [' in new:
        with pytest.raises(ValueError, match='SyntaxError'):
            study(old, new)
        return
    if message is None:
        study(old, new)
        return
    with pytest.raises(ValueError, match=message) as raised:
        study(old, new)
    assert len(str(raised.value)) < 600


def test_no_such_study():
    with pytest.raises(ValueError, match="no study 'none'; there are arl_tab1, "):
        read_study('none')


@pytest.mark.parametrize('typo', ['model.temperature.innit', 'model.temperatur.init'])
def test_typos_of_wanted_rows_alone(study, typo):
    found = study(
        "'tau .05': dict(options={'model.temperature.init'", f"'tau .05': dict(options={{'{typo}'"
    )
    with pytest.raises(UserError, match=typo.rpartition('.')[0]):
        check_study(found)
    check_study(found, needed_by(found, ['whole']))


def test_a_type_that_one_of_several_rows_names_wrongly(study):
    found = study()
    row = next(row for row in found.rows if not row.run and not row.of)
    one, other = (row._replace(options={'model.similarity.type': x}) for x in (GOOD, GOOD[:-1]))
    check_study(found, [one])
    with pytest.raises(UserError, match=f'{GOOD[:-1]}.*did you mean {GOOD}'):
        check_study(found, [one, other])


def test_a_path_in_a_folder_and_one_that_begins_alike():
    assert reads({'a': [1, 'w/member1/best.pth']}, Path('w/member1'))
    assert reads('w/member1', Path('w/member1')) and not reads(['x/w/member1'], Path('w/member1'))
    assert not reads('w/member10/best.pth', Path('w/member1'))
