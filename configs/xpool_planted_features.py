# X-Pool on planted clips of three moments, from cached features of 24 frames: a text tells of one
# moment, so that it has frames to choose.  Its control, the mean of the frames, is
# clip4clip_planted_untrimmed_features.py (projects/evidence/pages/planted.md).
_base_ = ['clip4clip_planted_untrimmed_features.py']

model = dict(similarity=dict(_delete_=True, type='XPoolSimilarity', dim=128, dropout=0.3))
