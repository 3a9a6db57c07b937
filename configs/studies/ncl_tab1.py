# NCL Tab. 1: ActivityNet.
paper, table, section = 'NCL', 'Tab. 1', '4.1'
about = 'ActivityNet'
metrics = {
    'retrieval/t2v_R1': 't2v R@1',
    'retrieval/t2v_R5': 't2v R@5',
    'retrieval/t2v_R50': 't2v R@50',
    'retrieval/t2v_MdR': 't2v MdR',
    'retrieval/t2v_MnR': 't2v MnR',
    'retrieval/v2t_R1': 'v2t R@1',
    'retrieval/v2t_R5': 'v2t R@5',
    'retrieval/v2t_R10': 'v2t R@10',
    'retrieval/v2t_MdR': 'v2t MdR',
    'retrieval/v2t_MnR': 'v2t MnR',
}
rows = {
    'clip4clip_activitynet': dict(
        config='clip4clip_activitynet.py',
        printed=[40.5, 72.4, 98.1, 2, 7.4, 42.5, 74.1, 80.6, 2, 6.6],
    ),
    'ncl_clip4clip_activitynet, raw': dict(config='ncl_clip4clip_activitynet.py'),
    'ncl_clip4clip_activitynet': dict(
        config='ncl_clip4clip_activitynet.py',
        of='ncl_clip4clip_activitynet, raw',
        prefix='sinkhorn/',
        printed=[45.9, 76.8, 98.3, 2, 6.7, 46.8, 76.5, 86.8, 2, 6.2],
    ),
    'clip4clip_activitynet_5e': dict(config='clip4clip/clip4clip_activitynet_5e.py'),
    'ssb_activitynet': dict(config='ssb_activitynet.py'),
    'mmt_activitynet': dict(config='mmt_activitynet.py'),
    'ce_activitynet': dict(config='ce_activitynet.py'),
    'teachtext_ce_activitynet': dict(config='teachtext_ce_activitynet.py'),
}
