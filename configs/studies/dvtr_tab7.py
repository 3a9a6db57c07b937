# DVTR Tab. VII: LSMDC.
_base_ = ['dvtr_tab3.py']

table, about = 'Tab. VII', 'LSMDC'
rows = {
    '_delete_': True,
    'c2v_lsmdc': dict(config='c2v_lsmdc.py'),
    'dvtr_c2v_lsmdc': dict(
        config='dvtr_c2v_lsmdc.py', printed=[25.2, 46.5, 54, None, 22.9, 44.3, 51.4, None, 244.2]
    ),
    'hit_lsmdc': dict(config='hit_lsmdc.py'),
    'dvtr_hit_lsmdc': dict(
        config='dvtr_hit_lsmdc.py', printed=[16.2, 34.2, 44, 15, 16, 34, 43.7, 15, 190.8]
    ),
    'ce_lsmdc': dict(
        config='ce_lsmdc.py', printed=[11.2, 26.9, 34.8, 25.3, None, None, None, None, None]
    ),
    'mmt_lsmdc': dict(
        config='mmt_lsmdc.py', printed=[13.2, 29.2, 38.8, 21, 12.1, 29.3, 37.9, 22.5, None]
    ),
    'xpool_lsmdc': dict(config='xpool_lsmdc.py'),
    'clip4clip_lsmdc_seqtransf': dict(config='clip4clip/clip4clip_lsmdc_seqtransf.py'),
}
