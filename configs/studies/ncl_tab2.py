# NCL Tab. 2: MSVD.
_base_ = ['../_base_/columns_both.py']

paper, table, section = 'NCL', 'Tab. 2', '4.1'
about = 'MSVD'
rows = {
    'clip4clip_msvd': dict(
        config='clip4clip_msvd.py', printed=[46.2, 76.1, 84.6, 2, 10, 56.6, 79.7, 84.3, 1, 7.6]
    ),
    'ncl_clip4clip_msvd, raw': dict(config='ncl_clip4clip_msvd.py'),
    'ncl_clip4clip_msvd': dict(
        config='ncl_clip4clip_msvd.py',
        of='ncl_clip4clip_msvd, raw',
        prefix='sinkhorn/',
        printed=[47.8, 77.5, 85.9, 2, 9.9, 69.6, 89.9, 95.4, 1, 3.3],
    ),
    'clip4clip_msvd_5e': dict(
        config='clip4clip/clip4clip_msvd_5e.py',
        printed=[46.2, 76.1, 84.6, 2, 10, 56.6, 79.7, 84.3, 1, 7.6],
    ),
    'ssb_msvd': dict(config='ssb_msvd.py'),
    'ce_msvd': dict(config='ce_msvd.py'),
    'teachtext_ce_plus_msvd': dict(
        config='teachtext_ce_plus_msvd.py',
        printed=[25.4, 56.9, 71.3, 4, None, 27.1, 55.3, 67.1, 4, None],
    ),
}
