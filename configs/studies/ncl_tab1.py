# NCL Tab. 1: ActivityNet.
_base_ = ['../_base_/columns_both.py']

paper, table, section = 'NCL', 'Tab. 1', '4.1'
about = 'ActivityNet'
metrics = {'_delete_': True} | {  # t2v has R@50 in place of R@10
    key.replace('t2v_R10', 't2v_R50'): heading.replace('t2v R@10', 't2v R@50')
    for key, heading in _base_.metrics.items()
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
