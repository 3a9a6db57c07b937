# NCL Tab. 4: SSB.
_base_ = ['ncl_tab2.py']

table, about = 'Tab. 4', 'SSB'
rows = {
    '_delete_': True,
    'ssb_activitynet': dict(
        config='ssb_activitynet.py', printed=[26.8, 58.1, None, 3, None, 25.5, 57.3, None, 3, None]
    ),
    'ssb_msvd': dict(
        config='ssb_msvd.py', printed=[23, 52.8, 65.8, 5, None, 27.3, 50.7, 60.8, 5, None]
    ),
    'ssb_msrvtt': dict(
        config='ssb_msrvtt.py', printed=[27.4, 56.3, 67.7, 3, None, 26.6, 55.1, 67.5, 3, None]
    ),
    'ncl_ssb_activitynet, raw': dict(config='ncl_ssb_activitynet.py'),
    'ncl_ssb_activitynet': dict(
        config='ncl_ssb_activitynet.py',
        of='ncl_ssb_activitynet, raw',
        prefix='sinkhorn/',
        printed=[32.8, 64.8, None, 2, 11.2, 33, 65, 76.2, 2, 11.4],
    ),
    'ncl_ssb_msvd, raw': dict(config='ncl_ssb_msvd.py'),
    'ncl_ssb_msvd': dict(
        config='ncl_ssb_msvd.py',
        of='ncl_ssb_msvd, raw',
        prefix='sinkhorn/',
        printed=[24.7, 55.3, 68.1, 3, 21.6, 29.3, 54, 64, 4, 45.2],
    ),
    'ncl_ssb_msrvtt, raw': dict(config='ncl_ssb_msrvtt.py'),
    'ncl_ssb_msrvtt': dict(
        config='ncl_ssb_msrvtt.py',
        of='ncl_ssb_msrvtt, raw',
        prefix='sinkhorn/',
        printed=[28.5, 57.8, 70.5, 3, 22.3, 28.5, 57.3, 69.4, 3, 22.8],
    ),
}
