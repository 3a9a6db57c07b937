# DVTR Tab. IV: MSVD.
_base_ = ['dvtr_tab3.py']

table, about = 'Tab. IV', 'MSVD'
rows = {
    '_delete_': True,
    'c2v_msvd': dict(config='c2v_msvd.py', printed=[47, 76.8, 85.9, 2, 58.7, 85.6, 91.6, 1, 445.6]),
    'dvtr_c2v_msvd': dict(
        config='dvtr_c2v_msvd.py', printed=[50.7, 80.8, 87.9, 1, 70.4, 92.4, 96.9, 1, 479.1]
    ),
    'hit_msvd': dict(config='hit_msvd.py'),
    'dvtr_hit_msvd': dict(
        config='dvtr_hit_msvd.py', printed=[26.2, 58.5, 71.4, 4, 35.4, 61.5, 70, 3, 323]
    ),
    'ssb_msvd': dict(config='ssb_msvd.py'),
    'ce_msvd': dict(config='ce_msvd.py', printed=[19.8, 49, 63.8, 6, None, None, None, None, None]),
    'xpool_msvd': dict(config='xpool_msvd.py'),
    'clip4clip_msvd_5e_seqtransf': dict(
        config='clip4clip/clip4clip_msvd_5e_seqtransf.py',
        printed=[45.2, 75.5, 84.3, 2, 62, 87.3, 92.6, 1, 446.9],
    ),
    'c2v_msvd_vitb32_qbnorm, raw': dict(config='clip2video/c2v_msvd_vitb32_qbnorm.py'),
    'c2v_msvd_vitb32_qbnorm': dict(
        config='clip2video/c2v_msvd_vitb32_qbnorm.py',
        of='c2v_msvd_vitb32_qbnorm, raw',
        prefix='qb_norm/',
        printed=[47.6, 77.6, 86.1, 2, None, None, None, None, None],
    ),
}
