# UATVR Tab. 5: number of frames.
_base_ = ['uatvr_tab1.py']

table, about = 'Tab. 5', 'number of frames, MSR-VTT 1k-A, ViT-B/16'
_counts = [
    (4, [44.9, 74.0, 82.2, 2.0, 15.1]),
    (8, [50.6, 76.0, 83.9, 1.0, 12.9]),
    (12, [50.8, 76.3, 85.5, 1.0, 12.4]),
    (16, [51.0, 76.4, 85.5, 1.0, 13.5]),
    (20, [50.8, 76.0, 84.9, 1.0, 13.4]),
]
rows = {'_delete_': True} | {
    f'{count} frames': dict(options={'num_frames': count}, printed=printed)
    for count, printed in _counts
}
