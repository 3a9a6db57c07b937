# DVTR Tab. VI: ActivityNet.
paper, table, section = 'DVTR', 'Tab. VI', 'V-B'
about = 'ActivityNet'
metrics = {
    'retrieval/t2v_R1': 't2v R@1',
    'retrieval/t2v_R5': 't2v R@5',
    'retrieval/t2v_R50': 't2v R@50',
    'retrieval/t2v_MdR': 't2v MdR',
    'retrieval/v2t_R1': 'v2t R@1',
    'retrieval/v2t_R5': 'v2t R@5',
    'retrieval/v2t_R50': 'v2t R@50',
    'retrieval/v2t_MdR': 'v2t MdR',
}
rows = {
    'c2v_activitynet': dict(config='c2v_activitynet.py'),
    'dvtr_c2v_activitynet': dict(
        config='dvtr_c2v_activitynet.py', printed=[47.6, 77.8, 98.8, 2, 47.6, 78.3, 99, 2]
    ),
    'hit_activitynet': dict(config='hit_activitynet.py'),
    'dvtr_hit_activitynet': dict(
        config='dvtr_hit_activitynet.py', printed=[27.1, 59.3, 95, 3, 26.8, 59.7, 95.1, 3]
    ),
    'ssb_activitynet': dict(config='ssb_activitynet.py'),
    'mmt_activitynet': dict(
        config='mmt_activitynet.py', printed=[22.7, 54.2, 93.2, 5, 22.9, 54.8, 93.1, 4.3]
    ),
    'clip4clip_activitynet_5e': dict(
        config='clip4clip/clip4clip_activitynet_5e.py',
        printed=[40.5, 72.4, 98.2, 2, None, None, None, None],
    ),
}
