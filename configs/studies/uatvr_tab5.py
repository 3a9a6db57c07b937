# UATVR Tab. 5: number of frames.
paper, table, section = 'UATVR', 'Tab. 5', '4.2'
about = 'number of frames, MSR-VTT 1k-A, ViT-B/16'
config = 'uatvr_vitb16_msrvtt.py'
metrics = {
    'retrieval/t2v_R1': 't2v R@1',
    'retrieval/t2v_R5': 't2v R@5',
    'retrieval/t2v_R10': 't2v R@10',
    'retrieval/t2v_MdR': 't2v MdR',
    'retrieval/t2v_MnR': 't2v MnR',
}
_counts = [
    (4, [44.9, 74.0, 82.2, 2.0, 15.1]),
    (8, [50.6, 76.0, 83.9, 1.0, 12.9]),
    (12, [50.8, 76.3, 85.5, 1.0, 12.4]),
    (16, [51.0, 76.4, 85.5, 1.0, 13.5]),
    (20, [50.8, 76.0, 84.9, 1.0, 13.4]),
]
rows = {
    f'{count} frames': dict(options={'num_frames': count}, printed=printed)
    for count, printed in _counts
}
