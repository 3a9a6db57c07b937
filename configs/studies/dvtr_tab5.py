# DVTR Tab. V: VATEX.
_base_ = ['dvtr_tab3.py']

table, about = 'Tab. V', 'VATEX'
rows = {
    '_delete_': True,
    'c2v_vatex': dict(config='c2v_vatex.py', printed=[57.3, 90, 95.5, 1, 76, 97.7, 99.9, 1, 516.4]),
    'dvtr_c2v_vatex': dict(
        config='dvtr_c2v_vatex.py', printed=[65.6, 92.8, 96.8, 1, 81.6, 98.9, 99.7, 1, 535.4]
    ),
    'hit_vatex': dict(config='hit_vatex.py'),
    'dvtr_hit_vatex': dict(
        config='dvtr_hit_vatex.py', printed=[47.2, 83.4, 90.3, 1, 63.2, 87, 94.3, 1, 465.4]
    ),
    'ssb_vatex': dict(
        config='ssb_vatex.py', printed=[44.6, 81.8, 89.5, 1, 58.1, 83.9, 90.9, 1, 448.8]
    ),
    'hgr_vatex': dict(
        config='hgr_vatex.py', printed=[35.1, 73.5, 83.5, 2, None, None, None, None, None]
    ),
    'clip4clip_seqtransf_vatex': dict(
        config='clip4clip_seqtransf_vatex.py',
        printed=[55.9, 89.2, 95, 1, 73.2, 97.1, 99.1, 1, 509.5],
    ),
    'c2v_vatex_vitb32_qbnorm, raw': dict(config='clip2video/c2v_vatex_vitb32_qbnorm.py'),
    'c2v_vatex_vitb32_qbnorm': dict(
        config='clip2video/c2v_vatex_vitb32_qbnorm.py',
        of='c2v_vatex_vitb32_qbnorm, raw',
        prefix='qb_norm/',
        printed=[58.8, 88.3, 93.8, 1, None, None, None, None, None],
    ),
}
