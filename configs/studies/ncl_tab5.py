# NCL Tab. 5: what the test-time normalisation reads.  The NCL rows are one training, whose test has
# all of them.
_base_ = ['../_base_/columns_both.py']

paper, table, section = 'NCL', 'Tab. 5', '4.2'
about = 'queries of the test-time normalisation, ActivityNet'
config = 'ncl_clip4clip_activitynet.py'
rows = {
    'none (CLIP4Clip)': dict(
        config='clip4clip_activitynet.py',
        printed=[40.5, 72.4, 83.8, 2, 7.4, 42.5, 74.1, 80.6, 2, 6.6],
    ),
    'NCL, raw scores': dict(),
    'train queries': dict(
        of='NCL, raw scores',
        prefix='sinkhorn/',
        printed=[45.9, 76.8, 86.5, 2, 6.7, 46.8, 76.5, 86.8, 2, 6.2],
    ),
    'test queries (oracle)': dict(
        of='NCL, raw scores',
        prefix='sinkhorn_oracle/',
        printed=[54.1, 80.7, 89.2, 1, 5.7, 54.2, 76.7, 89.4, 1, 5.1],
    ),
}
