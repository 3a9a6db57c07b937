# Frame-length paper, Tab. 4, MSR-VTT 1k-A: parts of the training set.
paper, table, section = 'frame length', 'Tab. 4', '4.2'
about = 'how the training set is split, MSR-VTT 1k-A'
config = 'causal_hgr_msrvtt.py'
metrics = {
    'relevance/avg_nDCG': 'nDCG',
    'retrieval/t2v_R10': 't2v R@10',
    'retrieval/t2v_MnR': 't2v MnR',
}
_equal = {
    'train_dataloader.dataset.records.environments.rule': 'equal',
    'train_dataloader.dataset.records.environments.share': None,
}
rows = {
    'baseline': dict(config='hgr_msrvtt.py', printed=[60.3, 59.92, 41.1]),
    'equal, 2': dict(options=_equal, printed=[62.18, 66.98, 26.65]),
    'adjusted, 2': dict(printed=[62.5, 66.09, 26.26]),
    'adjusted, 3': dict(options={'parts': 3}, printed=[62.48, 64.56, 30.54]),
    'adjusted, 4': dict(options={'parts': 4}, printed=[62.23, 61.93, 33.74]),
    'first split only': dict(
        of='adjusted, 2',
        prefix='member_0/',
        printed=[61.02, 52.79, 50.71],
    ),
    'second split only': dict(
        of='adjusted, 2',
        prefix='member_1/',
        printed=[59.75, 53.72, 50.17],
    ),
}
