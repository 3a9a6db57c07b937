# The mean of the frames in place of the best: what partial relevance costs a model that compares
# whole clips.
_base_ = ['maxframe_planted_features.py']

model = dict(similarity=dict(_delete_=True, type='CosineSimilarity', levels=('a', 'b')))
custom_hooks = []  # of no frame more than another
