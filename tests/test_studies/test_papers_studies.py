"""The papers' ablations as studies: every option is read by something, every metric is reported."""

from pathlib import Path

import pytest
from mmengine.fileio import load

from mmvtr.cli.values import Written, read
from mmvtr.engine.before import words_of
from mmvtr.engine.rows import Row
from mmvtr.errors import UserError
from mmvtr.studies.reading import check_study, read_study, reads_results, source_of, study_names
from mmvtr.studies.running import Plan, commands, file_to_test, shared_out
from mmvtr.studies.tables import table
from mmvtr.utils import config_folder, load_config


@pytest.mark.parametrize('name', study_names())
def test_options_are_read(name):
    study = read_study(name)
    assert len(study.rows) > 2 and study.table and study.section
    check_study(study)
    assert '|---' in table(study, {})


#: How the metafiles call a paper, where they do not call it as studies do.
REPORTED = {'frame length': 'frame-length paper'}
#: Parts of a key of the results -> of a printed number in a metafile.
NUMBERS = {'epic_mAP': 'mAP', 'MdR': 'MedR', 'R1': 'R@1', 'R5': 'R@5'}
NUMBERS |= {'R10': 'R@10', 'R50': 'R@50', 'R100': 'R@100'}


@pytest.fixture(scope='module')
def reported():
    """Numbers in the metafiles by config, paper and table."""
    files = sorted(config_folder().glob('*/metafile.yml'))
    models = [model for file in files for model in load(file)['Models']]
    return {
        (model['Name'], label): numbers
        for model in models
        for label, numbers in model['Results'][0]['Metrics'].items()
    }


def test_printed_numbers_are_those_of_the_metafiles(reported):
    compared = 0
    for study in map(read_study, study_names()):
        label = f'{REPORTED.get(study.paper, study.paper)}, {study.table.replace("Tab.", "Table")}'
        for row in study.rows:
            trained = row if not row.of else source_of(study, row)
            said = reported.get((Path(trained.config).stem, f'reported ({label})'))
            if said is None or not row.printed or row.options or trained.options or row.seed:
                continue
            for key, printed in zip(study.metrics, row.printed):
                side, _, what = key.rpartition('/')[2].partition('_')
                words = [NUMBERS.get(what, what), side]
                name = ' '.join(words if key.startswith('relevance') else words[::-1]).strip()
                if name in said and row.prefix in ('', 'sinkhorn/', 'qb_norm/'):
                    assert printed == said[name], f'{study.name}: {row.name}: {key}'
                    compared += 1
    assert compared > 500


@pytest.mark.parametrize('name', study_names())
def test_every_row_that_is_made_is_a_command(name):
    """One for each row that is trained or tested, of two seeds, in a folder of its own."""
    study = read_study(name)
    lines = [*commands(study, study.rows, Plan(Path('w'), (0, 3)))]
    made = [row for row in study.rows if not reads_results(row)]
    folders = [words[words.index('--work-dir') + 1] for words in lines]
    assert folders == [f'w/{row.folder}_{seed}' for seed in (0, 3) for row in made]
    tools = [words[1].rpartition('/')[2] for words in lines]
    assert tools == 2 * [('test.py' if row.of else 'train.py') for row in made]


@pytest.mark.parametrize(
    ('config', 'name'),
    [
        ('hgr_epic', 'epoch_100.pth'),
        ('clip4clip_msvd', 'best.pth'),
        ('uatvr_vitb16_msrvtt', 'epoch_5.pth'),
        ('c2v_planted_features', 'best.pth'),
    ],
)
def test_the_checkpoint_that_a_training_leaves(config, name):
    row = Row('x', config, Path('x'))
    assert file_to_test(row, Plan(Path('w'), (0,))) == name
    assert file_to_test(row, Plan(Path('w'), (0,), best_on_test=True)) == 'best.pth'


@pytest.mark.parametrize('gpus', [2, 4, 8])
@pytest.mark.parametrize('name', ['uatvr_tab3', 'ncl_tab5', 'dvtr_tab13', 'causal_tab10_epic'])
def test_gpus_share_the_batch(name, gpus):
    row = next(row for row in reversed(read_study(name).rows) if not row.of)
    shared = shared_out(row, Plan(Path('w'), (0,), processes=gpus))
    cfg = load_config(row.config, row.options)
    share = shared.options['train_dataloader.batch_size']
    assert share * gpus == cfg.auto_scale_lr.base_batch_size
    assert shared_out(row, Plan(Path('w'), (0,))) == row


@pytest.mark.parametrize(
    ('name', 'key', 'wrong', 'near'),
    [
        ('causal_tab4_youcook2', 'relevance/avg_nDCG', 'relevance/avg_nDCG50', 'avg_nDCG'),
        ('ncl_tab5', 'retrieval/t2v_R1', 'retrieval/t2v_R01', 'mean retrieval/t2v_R1?'),
        ('arl_tab6', 'retrieval/t2v_SumR', 'retrieval/rsum', 't2v_SumR'),
        ('causal_tab10_epic', 'relevance/avg_nDCG', 'relevance/nDCG', '_nDCG?'),
    ],
)
def test_metrics_that_no_row_reports(name, key, wrong, near):
    """The error comes before any training."""
    study = read_study(name)
    heading = study.metrics[key]
    rows = [row for row in study.rows if row.prefix] or study.rows
    names = {row.name for row in rows} | {one for row in rows for one in row.of}
    few = tuple(row for row in study.rows if row.name in names)
    check_study(study._replace(metrics={key: heading}, rows=few))
    with pytest.raises(UserError) as raised:
        check_study(study._replace(metrics={wrong: heading}, rows=few))
    assert f'{wrong}' in str(raised.value) and near in str(raised.value)
    assert len(str(raised.value)) < 900


def test_an_option_that_one_row_has_no_place_for():
    study = read_study('arl_tab5', options={'model.supervision.warmup_epochs': 3})
    with pytest.raises(UserError, match='a: none'):
        check_study(study)
    check_study(study, [row for row in study.rows if row.name != 'a: none'])  # it is not wanted


def test_the_papers_rule_is_the_default():
    for number in (5, 6):
        paper, ours = read_study(f'arl_tab{number}'), read_study(f'arl_tab{number}_ours')
        assert [row.printed for row in paper.rows] == [row.printed for row in ours.rows]
        rules = []
        for study in (paper, ours):
            cfgs = [load_config(row.config, row.options).model.supervision for row in study.rows]
            rules.append({(one.get('rule'), one.cap) for one in cfgs if one})
        assert rules == [{('mean', None)}, {(None, 1)}]


@pytest.mark.parametrize('name', study_names())
def test_options_mean_the_same_on_a_command_line(name):
    for row in read_study(name).rows:
        typed = dict(word.split('=', 1) for word in words_of(row)[1:])
        given = load_config(row.config, row.options).to_dict()
        written = {key: Written(value) for key, value in typed.items()}
        assert load_config(row.config, written).to_dict() == given


def test_odd_options_on_a_command_line():
    words = ['My Clips', 'a,b', r'C:\new', '[x]', '2024']
    options = {'videos': 'a, b', 'test_dataloader.dataset.names': words}
    row = Row('odd', 'own_clip4clip', Path('x'), options)
    typed = dict(word.split('=', 1) for word in words_of(row)[1:])
    cfg = load_config(row.config, {key: Written(value) for key, value in typed.items()})
    assert cfg.test_dataloader.dataset.videos == 'a, b'
    assert read(typed['test_dataloader.dataset.names'], list[str]) == words
